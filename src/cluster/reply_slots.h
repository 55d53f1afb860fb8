// ReplySlots keeps the replies of one connection in the order of its requests while some of them
// are still to come from other nodes.
//
// Requires:  the worker's thread. Whoever has to complete a slot shares the ownership, because the
//            connection may end before.
// Costs:     about 100 bytes per slot besides the reply; none between two requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>

#include "src/io/connection_memory.h"

namespace server {

class ReplyWaiter {
 public:
  // All replies are there, or some cannot be had: then broken(), and the connection must end.
  virtual void OnReplies() = 0;

 protected:
  ~ReplyWaiter() = default;
};

class ReplySlots {
 public:
  static constexpr size_t kSlotsMax = 64;
  static constexpr size_t kBytesMax = 1 << 20;

  ReplySlots(ReplyWaiter* waiter, ConnectionMemory& memory) : waiter_(waiter), memory_(memory) {}
  ~ReplySlots() { memory_.Subtract(bytes_); }
  ReplySlots(const ReplySlots&) = delete;
  ReplySlots& operator=(const ReplySlots&) = delete;

  // The connection ends.
  void Detach() { waiter_ = nullptr; }

  bool empty() const { return slots_.empty(); }
  // Of replies, and of requests that wait for theirs; counted in ConnectionMemory.
  uint64_t bytes() const { return bytes_; }
  bool broken() const { return broken_; }
  bool full() const { return slots_.size() >= kSlotsMax || bytes_ >= kBytesMax; }
  bool all_done() const { return pending_ == 0; }
  // A request to the slab is under way, and one of the two changes something: the order of both
  // must stay what it is.
  bool MustWait(unsigned slab, bool changes) const {
    for (const Slot& slot : slots_) {
      if (!slot.done && slot.slab == slab && (changes || slot.changes)) return true;
    }
    return false;
  }

  void AddDone(std::string reply) {
    Count(reply.size());
    slots_.push_back({true, false, 0, 0, std::move(reply)});
  }
  // Returns what Complete needs. `request_bytes` are held until then.
  uint64_t AddPending(unsigned slab, bool changes, size_t request_bytes) {
    slots_.push_back({false, changes, slab, request_bytes, {}});
    Count(request_bytes);
    ++pending_;
    return first_ + slots_.size() - 1;
  }
  void Complete(uint64_t slot, std::string reply) {
    Slot& at = slots_[slot - first_];
    Uncount(at.request_bytes);
    Count(reply.size());
    at.reply = std::move(reply);
    at.done = true;
    if (--pending_ == 0) Wake();
  }
  // There is no memory for a reply.
  void Break() {
    broken_ = true;
    Wake();
  }
  // The next reply, if it is there.
  const std::string* Front() const {
    return slots_.empty() || !slots_.front().done ? nullptr : &slots_.front().reply;
  }
  void Pop() {
    Uncount(slots_.front().reply.size());
    slots_.pop_front();
    ++first_;
  }

 private:
  struct Slot {
    bool done = false;
    bool changes = false;
    unsigned slab = 0;
    size_t request_bytes = 0;
    std::string reply;
  };

  void Count(size_t bytes) {
    bytes_ += bytes;
    memory_.Add(bytes);
  }
  void Uncount(size_t bytes) {
    bytes_ -= bytes;
    memory_.Subtract(bytes);
  }
  void Wake() {
    if (waiter_ != nullptr) waiter_->OnReplies();
  }

  ReplyWaiter* waiter_;
  ConnectionMemory& memory_;
  std::deque<Slot> slots_;
  uint64_t first_ = 0;
  size_t pending_ = 0;
  uint64_t bytes_ = 0;
  bool broken_ = false;
};

}  // namespace server
