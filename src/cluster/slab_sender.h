// SlabSender sends one slab to another node: first all items of its front, then what has changed
// since, until nearly nothing is left. Then the slab is closed, the rest follows, and the other
// node says that it has everything.
//
// Promises:  the other node gets the last state of every key that was changed after Open(logged),
//            and of every item of the front.
// Requires:  the cluster's thread.
// Departs:   keys that live in the chain cannot be listed and do not move, unless they are changed
//            during the copy: they are misses afterwards.
#pragma once

#include <event2/event.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "src/cluster/inner_link.h"
#include "src/cluster/ownership.h"
#include "src/process/clock.h"
#include "storage/store.h"

namespace server {

class SlabSenderOwner {
 public:
  virtual void OnNearlyAllSent(unsigned slab, uint64_t epoch) = 0;
  virtual void OnTargetReady(unsigned slab, uint64_t epoch) = 0;
  virtual void OnSendFailed(unsigned slab, uint64_t epoch) = 0;

 protected:
  ~SlabSenderOwner() = default;
};

class SlabSender final : private InnerLinkOwner {
 public:
  SlabSender(event_base* base, SlabSenderOwner& owner, kbf::Store& store, const Clock& clock,
             Ownership& ownership, const std::string& secret, unsigned slab, uint64_t epoch,
             const Routes::Peer& target);

  // Called every few milliseconds.
  void Step();
  // The slab is closed: what is left, and the end.
  void SendRest();
  uint64_t epoch() const { return epoch_; }
  uint64_t items_sent() const { return items_sent_; }

 private:
  void Begin();
  void SendKey(std::string_view key);
  void SendChanges();
  void List();
  void FlushItems();
  void Fail();
  cluster::FrameHeader Header(cluster::FrameKind kind) const;
  bool OnFrame(const cluster::FrameHeader& header, std::string_view payload) override;
  void OnClosed() override { Fail(); }

  SlabSenderOwner& owner_;
  kbf::Store& store_;
  const Clock& clock_;
  Ownership& ownership_;
  const unsigned slab_;
  const uint64_t epoch_;
  InnerLink link_;
  kbf::ListPosition position_;
  bool listed_ = false;
  bool ended_ = false;  // the end was sent
  bool failed_ = false;
  uint64_t ended_ms_ = 0;
  uint64_t items_sent_ = 0;
  std::string items_;  // of the next frame
};

}  // namespace server
