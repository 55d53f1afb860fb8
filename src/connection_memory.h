// ConnectionMemory counts what all connections together hold: unfinished requests, unsent replies,
// and items that have left the store and live only because a reply is still being sent.
//
// Promises:  bytes() never exceeds the limit by more than the replies of the turn that crossed it;
//            from three quarters of the limit on IsShort() says so, and workers close those that
//            hold most without progress (Worker::Shed).
// Requires:  nothing; thread-safe. What was added is taken off again by the same connection.
// Costs:     one atomic addition when a connection begins or ends to hold something.
#pragma once

#include <atomic>
#include <cstdint>

#include "storage/shared_bytes.h"

namespace server {

class ConnectionMemory {
 public:
  explicit ConnectionMemory(uint64_t limit) : limit_(limit) {}

  void Add(uint64_t bytes) { held_.fetch_add(bytes, std::memory_order_relaxed); }
  // False: that would be over the limit; nothing was added.
  [[nodiscard]] bool TryAdd(uint64_t bytes) {
    Add(bytes);
    if (limit_ == 0 || this->bytes() <= limit_) return true;
    Subtract(bytes);
    return false;
  }
  void Subtract(uint64_t bytes) { held_.fetch_sub(bytes, std::memory_order_relaxed); }

  uint64_t limit() const { return limit_; }  // 0: none
  uint64_t buffer_bytes() const { return held_.load(std::memory_order_relaxed); }
  uint64_t bytes() const { return buffer_bytes() + kbf::DetachedBytes(); }
  bool IsShort() const { return limit_ != 0 && bytes() > limit_ / 4 * 3; }
  // True once in kShedIntervalMs at most: the caller asks the workers to close connections.
  bool ShouldShed(uint64_t now_ms) {
    if (!IsShort()) return false;
    uint64_t last = last_shed_ms_.load(std::memory_order_relaxed);
    return now_ms - last >= kShedIntervalMs &&
           last_shed_ms_.compare_exchange_strong(last, now_ms, std::memory_order_relaxed);
  }

 private:
  static constexpr uint64_t kShedIntervalMs = 5;

  const uint64_t limit_;
  std::atomic<uint64_t> held_{0};
  std::atomic<uint64_t> last_shed_ms_{0};
};

}  // namespace server
