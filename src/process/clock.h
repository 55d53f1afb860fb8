// Clock counts the seconds since shortly before the server started, and turns the expiry times of
// clients into seconds of its own.
//
// Promises:  starts at kStart, or where the clock of a snapshot has come to, and never goes back,
//            whatever the system's clock does: if that goes back, Now() repeats its last result
//            until the system's clock has caught up. Times are never 0 or 1, because those mean
//            "never" and "always expired".
// Requires:  thread-safe. A ManualTime outlives the clock that reads it.
// Costs:     one read of the system's coarse clock, about 10 ns, and a write once a second.
#pragma once

#include <atomic>
#include <cstdint>

namespace server {

// The time of a test, which sets it by hand.
struct ManualTime {
  std::atomic<int64_t> monotonic_s{0};
  std::atomic<int64_t> unix_s{0};  // read when a Clock is made
};

class Clock {
 public:
  static constexpr uint32_t kStart = 2;
  // Expiry times up to this are relative, later ones are Unix time: memcached's rule.
  static constexpr int64_t kRelativeMax = 60 * 60 * 24 * 30;

  Clock() : Clock(nullptr) {}
  // Reads `time` instead of the system's clocks; nullptr: the system's. `start`: the first result
  // of Now, where the store was there before. REQUIRES: start >= kStart
  explicit Clock(const ManualTime* time, uint32_t start = kStart);
  uint32_t Now() const;
  uint32_t start() const { return start_; }
  // When an item with a client's `exptime` expires: 0 stays 0 (never), times that have passed
  // become kbf::kExpiredAlways.
  uint32_t Expiry(int64_t exptime, uint32_t now) const;
  // Unix time of a time of this clock.
  int64_t UnixTime(uint32_t time) const { return started_unix_ + time; }

 private:
  int64_t Monotonic() const;

  // Constant after construction.
  const ManualTime* const manual_;
  const uint32_t start_;
  const int64_t started_monotonic_;
  const int64_t started_unix_;
  mutable std::atomic<uint32_t> latest_;  // the last result of Now
};

}  // namespace server
