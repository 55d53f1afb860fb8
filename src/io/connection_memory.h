// ConnectionMemory counts what all connections together hold: unfinished requests, unsent replies,
// and items that were removed from the store but are still being sent.
//
// Promises:  requests larger than a read buffer reserve their whole size before more of them is
//            read, and only if that fits the limit; otherwise they wait. So two requests can never
//            wait for each other with half of their memory each. Replies and short unfinished
//            requests are counted when a turn ends, and can exceed the limit until the next round
//            of the Shedder, which closes the connections that hold most with least progress.
// Requires:  thread-safe. Each connection subtracts what it has added.
// Costs:     one atomic addition whenever a connection holds more or less than before.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "storage/shared_bytes.h"

namespace server {

class ConnectionMemory {
 public:
  explicit ConnectionMemory(uint64_t limit) : limit_(limit) {}

  void Add(uint64_t bytes) { held_.fetch_add(bytes, std::memory_order_relaxed); }
  void Subtract(uint64_t bytes) { held_.fetch_sub(bytes, std::memory_order_relaxed); }

  // Adds the bytes of a large request. False: they do not fit now, or other requests wait already;
  // nothing was added. `waiting`: the caller is between BeginWait and EndWait.
  [[nodiscard]] bool Reserve(uint64_t bytes, bool waiting) {
    Add(bytes);
    if (limit_ == 0) return true;
    if (this->bytes() <= limit_ && (waiting || num_waiting() == 0)) return true;
    Subtract(bytes);
    NoteWanted(bytes);
    return false;
  }
  // What Reserve would still give to a request that waits.
  uint64_t Room() const {
    if (limit_ == 0) return UINT64_MAX;
    return limit_ - std::min(limit_, bytes());
  }
  void BeginWait() { num_waiting_.fetch_add(1, std::memory_order_relaxed); }
  void EndWait() { num_waiting_.fetch_sub(1, std::memory_order_relaxed); }

  uint64_t limit() const { return limit_; }  // 0: none
  uint64_t buffer_bytes() const { return held_.load(std::memory_order_relaxed); }
  uint64_t bytes() const { return buffer_bytes() + kbf::DetachedBytes(); }
  uint64_t num_waiting() const { return num_waiting_.load(std::memory_order_relaxed); }
  bool IsOverMark() const { return limit_ != 0 && bytes() > Mark(); }
  bool IsShort() const { return IsOverMark() || (limit_ != 0 && num_waiting() > 0); }
  bool IsOverLimit() const { return limit_ != 0 && bytes() > limit_; }
  // How much must be given back before memory is not short, `sixteenths` of the limit more are
  // free, and the largest waiting request fits.
  uint64_t Excess(unsigned sixteenths = 0) const {
    if (limit_ == 0) return 0;
    const uint64_t now = bytes();
    const uint64_t wanted = num_waiting() == 0 ? 0 : wanted_.load(std::memory_order_relaxed);
    const uint64_t target = std::min(Mark() - std::min(Mark(), limit_ / 16 * sixteenths),
                                     limit_ - std::min(limit_, wanted));
    return now > target ? now - target : 0;
  }
  // The size of the largest waiting request is determined again, as they try again.
  void ForgetWanted() { wanted_.store(0, std::memory_order_relaxed); }
  void NoteWanted(uint64_t bytes) {
    uint64_t wanted = wanted_.load(std::memory_order_relaxed);
    while (wanted < bytes &&
           !wanted_.compare_exchange_weak(wanted, bytes, std::memory_order_relaxed)) {
    }
  }

 private:
  // Above this, memory is short. The last quarter is for what arrives while connections are closed.
  uint64_t Mark() const { return limit_ / 4 * 3; }

  const uint64_t limit_;
  std::atomic<uint64_t> held_{0};
  std::atomic<uint64_t> num_waiting_{0};
  std::atomic<uint64_t> wanted_{0};
};

}  // namespace server
