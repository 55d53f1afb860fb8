#include "src/process/maintenance.h"

#include <algorithm>
#include <chrono>

namespace server {
namespace {

constexpr std::chrono::milliseconds kIdle{20};
constexpr std::chrono::milliseconds kBusy{1};
constexpr unsigned kStepsPerLook = 16;
// Lookups a second, over all slabs: 1,024 keys of the sample and as many strangers. That is a
// promise of 2e-5 seen at work within minutes, for some 2 ms of CPU a second.
constexpr unsigned kProbesPerSecond = 1024;

}  // namespace

Maintenance::Maintenance(State& state) : state_(state), thread_([this] { Run(); }) {}

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
  kbf::Store& store = *state_.store;
  const unsigned probes = std::max(1u, kProbesPerSecond / store.num_slabs());
  uint32_t measured = state_.clock.Now();
  bool busy = false;
  while (Sleep(busy)) {
    const uint32_t now = state_.clock.Now();
    busy = store.Maintain(kStepsPerLook, now) > 0;
    if (now == measured) continue;
    measured = now;
    store.MeasureErrors(probes, probes, now);
  }
}

}  // namespace server
