#include "src/stats/totals.h"

#include <algorithm>
#include <bit>
#include <type_traits>
#include <utility>

#include "src/net/worker.h"
#include "src/state.h"

namespace server {
namespace {

constexpr std::array<WorkerCounter, kNumWorkerCounters> kWorkerCounters = {
    &WorkerCounters::cmd_get,          &WorkerCounters::cmd_set,
    &WorkerCounters::cmd_flush,        &WorkerCounters::cmd_touch,
    &WorkerCounters::cmd_meta,         &WorkerCounters::get_hits,
    &WorkerCounters::get_misses,       &WorkerCounters::touch_hits,
    &WorkerCounters::touch_misses,     &WorkerCounters::delete_hits,
    &WorkerCounters::delete_misses,    &WorkerCounters::incr_hits,
    &WorkerCounters::incr_misses,      &WorkerCounters::decr_hits,
    &WorkerCounters::decr_misses,      &WorkerCounters::cas_hits,
    &WorkerCounters::cas_misses,       &WorkerCounters::cas_badval,
    &WorkerCounters::store_too_large,  &WorkerCounters::store_no_memory,
    &WorkerCounters::bytes_read,       &WorkerCounters::bytes_written,
    &WorkerCounters::conn_yields,      &WorkerCounters::idle_kicks,
    &WorkerCounters::connections_shed,
};
// A new counter must be listed above.
static_assert(kWorkerCounters.back() != nullptr);

Totals CountAll(const State& state) {
  Totals totals;
  for (const auto& worker : state.workers) {
    const WorkerCounters& counters = std::as_const(*worker).counters();
    for (size_t i = 0; i < kNumWorkerCounters; ++i) {
      totals.workers[i] += (counters.*kWorkerCounters[i]).value();
    }
  }
  totals.connections = state.total_connections.load(std::memory_order_relaxed);
  totals.rejected_connections = state.rejected_connections.load(std::memory_order_relaxed);
  totals.listen_disabled = state.listen_disabled.load(std::memory_order_relaxed);
  totals.slabs = state.store->Counters();
  totals.chain = state.store->ChainEvents();
  totals.dictionary = state.store->DictionaryEvents();
  return totals;
}

Totals Difference(const Totals& now, const Totals& then) {
  using Words = std::array<uint64_t, sizeof(Totals) / sizeof(uint64_t)>;
  static_assert(std::has_unique_object_representations_v<Totals> &&
                sizeof(Words) == sizeof(Totals));
  auto words = std::bit_cast<Words>(now);
  const auto before = std::bit_cast<Words>(then);
  for (size_t i = 0; i < words.size(); ++i) words[i] -= before[i];
  return std::bit_cast<Totals>(words);
}

}  // namespace

uint64_t Totals::of(WorkerCounter counter) const {
  return workers[std::ranges::find(kWorkerCounters, counter) - kWorkerCounters.begin()];
}

Totals StatsBaseline::Since(const State& state) const {
  const std::lock_guard lock(mutex_);
  return Difference(CountAll(state), then_);
}

void StatsBaseline::Reset(const State& state) {
  const std::lock_guard lock(mutex_);
  then_ = CountAll(state);
}

}  // namespace server
