#include "src/clock.h"

#include <time.h>

#include <algorithm>
#include <limits>

#include "storage/slab.h"

namespace server {
namespace {

int64_t Seconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return time.tv_sec;
}

}  // namespace

Clock::Clock()
    : started_monotonic_(Seconds(CLOCK_MONOTONIC_COARSE) - kStart),
      started_unix_(Seconds(CLOCK_REALTIME) - kStart) {}

uint32_t Clock::Now() const {
  return static_cast<uint32_t>(Seconds(CLOCK_MONOTONIC_COARSE) - started_monotonic_);
}

uint32_t Clock::Expiry(int64_t exptime, uint32_t now) const {
  if (exptime == 0) return 0;
  const int64_t at = exptime < 0               ? 0
                     : exptime <= kRelativeMax ? now + exptime
                                               : exptime - started_unix_;
  constexpr int64_t kLatest = std::numeric_limits<uint32_t>::max();
  return static_cast<uint32_t>(std::clamp<int64_t>(at, kbf::kExpiredAlways, kLatest));
}

}  // namespace server
