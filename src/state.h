// State is what all threads of the server share.
//
// Requires:  it outlives every thread. Members are constant once the workers run, or atomic, or
//            thread-safe on their own.
#pragma once

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "src/config/options.h"
#include "src/dispatch/authenticator.h"
#include "src/io/connection_memory.h"
#include "src/io/output.h"
#include "src/io/shedder.h"
#include "src/io/tls_context.h"
#include "src/process/clock.h"
#include "src/snapshot/snapshot.h"
#include "src/stats/counters.h"
#include "src/stats/prefix_stats.h"
#include "src/stats/server_view.h"
#include "src/stats/totals.h"
#include "src/warm/warming.h"
#include "storage/store.h"

namespace server {

struct State {
  // Without a `time` the system's clocks are read.
  State(Options o, std::unique_ptr<kbf::Store> s, const ManualTime* time = nullptr,
        uint32_t clock_start = Clock::kStart)
      : prefix_stats(o.prefix_delimiter, o.stats_detail),
        options(std::move(o)),
        clock(time, clock_start),
        store(std::move(s)),
        connection_memory(options.read_buffer_bytes_max) {}

  // For statistics.
  ServerView View() const {
    return {options,        clock,      *store,  connection_memory, connections,    prefix_stats,
            stats_baseline, listen_fds, workers, tls.get(),         snapshot.get(), warming.get()};
  }

  PrefixStats prefix_stats;  // first, because it begins with a cache line
  const Options options;
  const Clock clock;
  const std::unique_ptr<kbf::Store> store;
  std::vector<int> listen_fds;                   // for `stats conns`
  std::vector<int> tls_listen_fds;               // those of them that speak TLS
  std::unique_ptr<TlsContext> tls;               // null: no TLS
  std::unique_ptr<Authenticator> authenticator;  // null: everybody may do everything

  std::unique_ptr<Snapshot> snapshot;  // null: none
  std::unique_ptr<Warming> warming;    // null: none

  OutputLimits output_limits;  // of workers that are made later
  ConnectionMemory connection_memory;
  Shedder shedder{connection_memory};
  ConnectionCounters connections;
  StatsBaseline stats_baseline;
  std::atomic<bool> io_uring_refused{false};  // and that was said
  std::vector<const WorkerView*> workers;     // each adds itself before any of them runs
};

}  // namespace server
