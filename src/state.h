// State is what all threads of the server share.
//
// Requires:  it outlives every thread. Members are constant once the workers run, or atomic, or
//            thread-safe on their own.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "src/config/options.h"
#include "src/io/connection_memory.h"
#include "src/io/output.h"
#include "src/io/shedder.h"
#include "src/process/clock.h"
#include "src/stats/prefix_stats.h"
#include "src/stats/totals.h"
#include "storage/store.h"

namespace server {

class Worker;

struct State {
  // Without a `time` the system's counts.
  State(Options options, std::unique_ptr<kbf::Store> store, const ManualTime* time = nullptr);
  ~State();

  const Options options;
  const Clock clock;
  const std::unique_ptr<kbf::Store> store;
  std::vector<int> listen_fds;  // for `stats conns`

  // Asks every worker to take the next step of the shedder.
  void RequestShed();

  OutputLimits output_limits;  // of workers that are made later
  ConnectionMemory connection_memory;
  Shedder shedder{connection_memory};
  std::atomic<bool> accepting{true};
  std::atomic<uint64_t> curr_connections{0};
  std::atomic<uint64_t> total_connections{0};
  std::atomic<uint64_t> rejected_connections{0};
  std::atomic<uint64_t> listen_disabled{0};
  StatsBaseline stats_baseline;
  PrefixStats prefix_stats;

  std::vector<std::unique_ptr<Worker>> workers;  // last: they use what stands above to the end
};

}  // namespace server
