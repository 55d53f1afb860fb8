// Totals is everything that the server counts, added up over its workers and slabs; StatsBaseline
// is what `stats reset` remembers of it, because counters with one writer cannot be set to 0 by
// somebody else.
//
// Promises:  a total is a number of events since the start or the last reset, and never wraps
//            below 0: counting and resetting exclude each other.
// Requires:  any thread. Lock order: the baseline's, then a slab's.
// Costs:     every slab's lock, one after the other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "src/stats/counters.h"
#include "storage/store.h"

namespace server {

struct State;

using WorkerCounter = Counter WorkerCounters::*;
inline constexpr size_t kNumWorkerCounters = sizeof(WorkerCounters) / sizeof(Counter);

// Nothing but uint64_t: they are subtracted as an array of those.
struct Totals {
  std::array<uint64_t, kNumWorkerCounters> workers{};
  uint64_t connections = 0;
  uint64_t rejected_connections = 0;
  uint64_t listen_disabled = 0;
  kbf::SlabCounters slabs;
  kbf::ChainCounters chain;
  kbf::DictionaryCounters dictionary;

  // The sum of one counter of the workers.
  uint64_t of(WorkerCounter counter) const;
};

class StatsBaseline {
 public:
  Totals Since(const State& state) const;
  void Reset(const State& state);

 private:
  mutable std::mutex mutex_;
  Totals then_;  // guarded by mutex_
};

}  // namespace server
