// Totals is everything that the server counts, added up over its workers and slabs; StatsBaseline
// is what `stats reset` remembers of it, because a counter with one writer cannot be set to 0 by
// another thread.
//
// Promises:  a total is a number of events since the start or the last reset, and never wraps
//            below 0: counting and resetting exclude each other.
// Requires:  any thread. Lock order: the baseline's, then a slab's.
// Costs:     every slab's lock, one after the other.
#pragma once

#include <cstdint>
#include <mutex>

#include "src/stats/counters.h"
#include "src/stats/server_view.h"
#include "storage/store.h"

namespace server {

// Only uint64_t: differences treat it as an array of those.
struct Totals {
  WorkerTotals workers;
  uint64_t connections = 0;
  uint64_t rejected_connections = 0;
  uint64_t listen_disabled = 0;
  uint64_t tls_new_sessions = 0;
  uint64_t tls_handshake_errors = 0;
  kbf::SlabCounters slabs;
  kbf::ChainCounters chain;
  kbf::DictionaryCounters dictionary;
};

class StatsBaseline {
 public:
  Totals Since(const ServerView& server) const;
  void Reset(const ServerView& server);

 private:
  mutable std::mutex mutex_;
  Totals then_;  // guarded by mutex_
};

}  // namespace server
