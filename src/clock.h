// Clock counts the seconds since shortly before the server started, and turns the expiry times of
// clients into seconds of its own.
//
// Promises:  never goes back, whatever happens to the time of day; starts at kStart, so that 0
// (never)
//            and 1 (always expired) are no times.
// Costs:     one clock_gettime of the coarse clock, some 10 ns.
#pragma once

#include <cstdint>

namespace server {

class Clock {
 public:
  static constexpr uint32_t kStart = 2;
  // Expiry times up to this are relative, later ones are Unix time: memcached's rule.
  static constexpr int64_t kRelativeMax = 60 * 60 * 24 * 30;

  Clock();
  uint32_t Now() const;
  // 0 stays 0, never; what has passed becomes kbf::kExpiredAlways.
  uint32_t Expiry(int64_t exptime, uint32_t now) const;
  // Unix time of a time of this clock.
  int64_t UnixTime(uint32_t time) const { return started_unix_ + time; }

 private:
  int64_t started_monotonic_;
  int64_t started_unix_;
};

}  // namespace server
