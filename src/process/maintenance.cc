#include "src/process/maintenance.h"

#include <algorithm>
#include <chrono>

#include "src/process/thread.h"

namespace server {
namespace {

constexpr std::chrono::milliseconds kIdle{20};
constexpr std::chrono::milliseconds kBusy{1};
constexpr unsigned kStepsPerLook = 16;
// Lookups per second, over all slabs: 1,024 sampled keys and as many absent keys. A false positive
// rate of 2e-5 shows within minutes at this pace, which costs about 2 ms of CPU per second.
constexpr unsigned kProbesPerSecond = 1024;

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
  }
}

}  // namespace server
