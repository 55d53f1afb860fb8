#include "src/net/worker_context.h"

#include <time.h>

namespace server {
namespace {

event_base* MakeBase() {
  event_config* config = event_config_new();
  if (config == nullptr) return nullptr;
  // Only one thread uses the base, so it needs no locks. Wake-ups come through a descriptor.
  event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
  event_base* const base = event_base_new_with_config(config);
  event_config_free(config);
  return base;
}

}  // namespace

WorkerContext::WorkerContext(State& shared)
    : state(shared),
      limits{.value_bytes_max = shared.options.store.item_bytes_max, .sasl = shared.options.sasl},
      base(MakeBase()),
      input(shared.connection_memory),
      output(shared.output_limits),
      dispatcher(shared, counters, output) {
  Tick();
}

WorkerContext::~WorkerContext() {
  if (base != nullptr) event_base_free(base);
}

void WorkerContext::Tick() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  now_ms =
      static_cast<uint64_t>(time.tv_sec) * 1000 + static_cast<uint64_t>(time.tv_nsec) / 1000000;
  now = state.clock.Now();
}

}  // namespace server
