#include "src/process/maintenance.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "src/log.h"
#include "src/process/thread.h"

namespace server {
namespace {

constexpr std::chrono::milliseconds kIdle{20};
constexpr std::chrono::milliseconds kBusy{1};
constexpr unsigned kStepsPerLook = 16;
// Lookups per second, over all slabs: 1,024 sampled keys and as many absent keys. A false positive
// rate of 2e-5 shows within minutes at this pace, which costs about 2 ms of CPU per second.
constexpr unsigned kProbesPerSecond = 1024;
// Refusals of values: how often their counter is looked at, and how often they are logged.
constexpr uint32_t kSecondsPerLook = 10;
constexpr uint32_t kSecondsPerReport = 600;

}  // namespace

Maintenance::Maintenance(kbf::Store& store, const Clock& clock)
    : store_(store), clock_(clock), thread_(StartThread([this] { Run(); })) {}

Maintenance::~Maintenance() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

// False: stop.
bool Maintenance::Sleep(bool busy) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, busy ? kBusy : kIdle, [this] { return stop_; });
}

void Maintenance::Run() {
  const unsigned probes = std::max(1u, kProbesPerSecond / store_.num_slabs());
  uint32_t measured = clock_.Now();
  bool busy = false;
  while (Sleep(busy)) {
    const uint32_t now = clock_.Now();
    busy = store_.Maintain(kStepsPerLook, now) > 0;
    if (now == measured) continue;
    measured = now;
    store_.MeasureErrors(probes, probes, now);
    ReportRefusals(now);
  }
}

void Maintenance::ReportRefusals(uint32_t now) {
  if (now - refusals_looked_ < kSecondsPerLook) return;
  refusals_looked_ = now;
  if (refusals_reported_ != 0 && now - refusals_reported_ < kSecondsPerReport) return;
  const uint64_t refusals = store_.ValueEvents().refused_full;
  if (refusals == std::exchange(refusals_, refusals)) return;
  refusals_reported_ = now;
  Log(kLogAlways,
      "values that repeat found no room in the chain, and their keys stay exact (%llu times so "
      "far; values_refused_full in stats kbf): raise -m%s",
      static_cast<unsigned long long>(refusals),
      store_.config().distinct_values != 0 ? ", or set --distinct-values auto" : "");
}

}  // namespace server
