// What the network side counts: WorkerCounters is what one worker has done, ConnectionCounters what
// the listener has seen, both under memcached's names. The list of a worker's counters stands here
// once; totals and output follow from it.
//
// Requires:  WorkerCounters: one writer, the worker; any thread may read. Each number is one of a
//            moment ago; two of them need not be of the same moment.
// Costs:     an addition to memory that no other thread writes.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

namespace server {

class Counter {
 public:
  void Add(uint64_t n = 1) {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

// In the order of `stats`. connections_shed: closed because all together held too much memory.
// io_uring_rounds: times that ready connections were served together through io_uring.
#define KBF_WORKER_COUNTERS(COUNTER) \
  COUNTER(cmd_get)                   \
  COUNTER(cmd_set)                   \
  COUNTER(cmd_flush)                 \
  COUNTER(cmd_touch)                 \
  COUNTER(cmd_meta)                  \
  COUNTER(get_hits)                  \
  COUNTER(get_misses)                \
  COUNTER(delete_misses)             \
  COUNTER(delete_hits)               \
  COUNTER(incr_misses)               \
  COUNTER(incr_hits)                 \
  COUNTER(decr_misses)               \
  COUNTER(decr_hits)                 \
  COUNTER(cas_misses)                \
  COUNTER(cas_hits)                  \
  COUNTER(cas_badval)                \
  COUNTER(touch_hits)                \
  COUNTER(touch_misses)              \
  COUNTER(store_too_large)           \
  COUNTER(store_no_memory)           \
  COUNTER(auth_cmds)                 \
  COUNTER(auth_errors)               \
  COUNTER(idle_kicks)                \
  COUNTER(bytes_read)                \
  COUNTER(bytes_written)             \
  COUNTER(conn_yields)               \
  COUNTER(connections_shed)          \
  COUNTER(io_uring_rounds)

struct WorkerCounters {
#define KBF_COUNTER(name) Counter name;
  KBF_WORKER_COUNTERS(KBF_COUNTER)
#undef KBF_COUNTER
};

// Sums over workers, plain numbers.
struct WorkerTotals {
#define KBF_COUNTER(name) uint64_t name = 0;
  KBF_WORKER_COUNTERS(KBF_COUNTER)
#undef KBF_COUNTER

  void Add(const WorkerCounters& counters) {
#define KBF_COUNTER(name) name += counters.name.value();
    KBF_WORKER_COUNTERS(KBF_COUNTER)
#undef KBF_COUNTER
  }
};

// A line of a table of counters.
template <class Struct, class Field = uint64_t>
struct NamedCounter {
  std::string_view name;
  Field Struct::*field;
};

inline constexpr NamedCounter<WorkerTotals> kWorkerTotals[] = {
#define KBF_COUNTER(name) {#name, &WorkerTotals::name},
    KBF_WORKER_COUNTERS(KBF_COUNTER)
#undef KBF_COUNTER
};
inline constexpr NamedCounter<WorkerCounters, Counter> kWorkerCounters[] = {
#define KBF_COUNTER(name) {#name, &WorkerCounters::name},
    KBF_WORKER_COUNTERS(KBF_COUNTER)
#undef KBF_COUNTER
};
#undef KBF_WORKER_COUNTERS

// Any thread.
struct ConnectionCounters {
  std::atomic<bool> accepting{true};
  std::atomic<uint64_t> current{0};
  std::atomic<uint64_t> total{0};
  std::atomic<uint64_t> rejected{0};
  std::atomic<uint64_t> listen_disabled{0};
};

}  // namespace server
