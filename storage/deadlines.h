// Deadlines: how keys with different expiry times share the parts of a chain.
//
// A part has one deadline for all its keys. A key that expires at E, R seconds from now, may go
// into any part with a deadline in [E - R/4, E]: early by at most a quarter of what remained, never
// late, and no bits per key. New deadlines are multiples of the largest power of two <= R/4, so
// that different TTLs meet in the same parts. A key that leaves the chain keeps the deadline as its
// expiry, and may come back; that does not add up, because an expiry that is such a multiple itself
// is not rounded: R is smaller then than it was for the key that the part was opened for, so the
// power of two divides the deadline still.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace kbf {

// Of a new part for keys that expire then. 0 is never.
inline uint32_t DeadlineFor(uint32_t expires, uint32_t now) {
  if (expires == 0) return 0;
  const uint32_t remaining = expires > now ? expires - now : 0;
  const uint32_t step = std::bit_floor(std::max(1u, remaining / 4));
  return expires / step * step;
}

inline uint32_t EarliestDeadlineFor(uint32_t expires, uint32_t now) {
  return DeadlineFor(expires, now) == expires ? expires : expires - (expires - now) / 4;
}

// Not after the expiry, and early by at most a quarter of what remains; exactly the expiry where
// that is a deadline already.
inline bool DeadlineFits(uint32_t deadline, uint32_t expires, uint32_t now) {
  return EarliestDeadlineFor(expires, now) <= deadline && deadline <= expires;
}

}  // namespace kbf
