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

namespace server {

class ReplyWaiter {
 public:
  // All replies are there.
  virtual void OnReplies() = 0;

 protected:
  ~ReplyWaiter() = default;
};

class ReplySlots {
 public:
  static constexpr size_t kSlotsMax = 64;
  static constexpr size_t kBytesMax = 1 << 20;

  explicit ReplySlots(ReplyWaiter* waiter) : waiter_(waiter) {}

  // The connection ends.
  void Detach() { waiter_ = nullptr; }
  ReplyWaiter* waiter() const { return waiter_; }

  bool empty() const { return slots_.empty(); }
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
    bytes_ += reply.size();
    slots_.push_back({true, false, 0, std::move(reply)});
  }
  // Returns what Complete needs.
  uint64_t AddPending(unsigned slab, bool changes) {
    slots_.push_back({false, changes, slab, {}});
    ++pending_;
    return first_ + slots_.size() - 1;
  }
  // True: that was the last one.
  bool Complete(uint64_t slot, std::string reply) {
    Slot& at = slots_[slot - first_];
    bytes_ += reply.size();
    at.reply = std::move(reply);
    at.done = true;
    return --pending_ == 0;
  }
  // The next reply, if it is there.
  const std::string* Front() const {
    return slots_.empty() || !slots_.front().done ? nullptr : &slots_.front().reply;
  }
  void Pop() {
    bytes_ -= slots_.front().reply.size();
    slots_.pop_front();
    ++first_;
  }

 private:
  struct Slot {
    bool done = false;
    bool changes = false;
    unsigned slab = 0;
    std::string reply;
  };

  ReplyWaiter* waiter_;
  std::deque<Slot> slots_;
  uint64_t first_ = 0;
  size_t pending_ = 0;
  size_t bytes_ = 0;
};

}  // namespace server
