// WorkerCounters is what one worker has done, counted under memcached's names.
//
// Requires:  one writer, the worker; anybody may read. A number read is a true one of a moment ago;
//            two of them need not be of the same moment.
// Costs:     an addition to memory that no other thread writes.
#pragma once

#include <atomic>
#include <cstdint>

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

struct WorkerCounters {
  Counter cmd_get, cmd_set, cmd_flush, cmd_touch, cmd_meta;
  Counter get_hits, get_misses;
  Counter touch_hits, touch_misses;
  Counter delete_hits, delete_misses;
  Counter incr_hits, incr_misses;
  Counter decr_hits, decr_misses;
  Counter cas_hits, cas_misses, cas_badval;
  Counter store_too_large, store_no_memory;
  Counter bytes_read, bytes_written;
  Counter conn_yields, idle_kicks;
  Counter connections_shed;  // closed because all together held too much
};

}  // namespace server
