#include "src/process/clock.h"

#include <time.h>

#include <algorithm>
#include <limits>

#include "storage/store_types.h"

namespace server {
namespace {

int64_t Seconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return time.tv_sec;
}

}  // namespace

Clock::Clock(const ManualTime* time, uint32_t start)
    : manual_(time),
      start_(start),
      started_monotonic_(Monotonic() - start),
      started_unix_((time != nullptr ? time->unix_s.load() : Seconds(CLOCK_REALTIME)) - start),
      latest_(start) {}

int64_t Clock::Monotonic() const {
  return manual_ != nullptr ? manual_->monotonic_s.load(std::memory_order_relaxed)
                            : Seconds(CLOCK_MONOTONIC_COARSE);
}

uint32_t Clock::Now() const {
  constexpr int64_t kLatest = std::numeric_limits<uint32_t>::max();
  const int64_t elapsed = std::min(Monotonic() - started_monotonic_, kLatest);
  uint32_t latest = latest_.load(std::memory_order_relaxed);
  // If another thread has set a later time meanwhile, that one is returned.
  while (elapsed > latest) {
    const auto now = static_cast<uint32_t>(elapsed);
    if (latest_.compare_exchange_weak(latest, now, std::memory_order_relaxed)) return now;
  }
  return latest;
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
