// PeerLink is one worker's connection to another node: requests go out one behind the other without
// waiting, answers come back in the same order.
//
// Promises:  every request sent ends in one call of the owner: OnAnswer, or OnLost if the link
// broke
//            or the node was silent for kSilenceMs. None is called within Send.
// Requires:  the worker's thread.
// Costs:     a copy of each request until it is answered.
#pragma once

#include <event2/event.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "src/cluster/inner_link.h"
#include "src/cluster/reply_slots.h"
#include "src/cluster/routes.h"
#include "tools/cluster/frame.h"

namespace server {

// One request that is carried out by another node, or waits for that.
struct ForwardedRequest {
  std::shared_ptr<ReplySlots> slots;
  uint64_t slot = 0;
  uint16_t slab = 0;
  uint8_t wire = 0;
  bool changes = false;
  std::string raw;                     // as the client sent it
  std::optional<std::string> instead;  // the reply, whatever the other node says
  uint64_t sent_ms = 0;
  uint64_t give_up_ms = 0;  // 0: it was never held
};

class PeerLinkOwner {
 public:
  virtual void OnAnswer(ForwardedRequest&& request, cluster::FrameKind kind,
                        std::string_view payload) = 0;
  virtual void OnLost(ForwardedRequest&& request) noexcept = 0;

 protected:
  ~PeerLinkOwner() = default;
};

class PeerLink final : private InnerLinkOwner {
 public:
  static constexpr uint64_t kSilenceMs = 1000;

  PeerLink(event_base* base, PeerLinkOwner& owner, const Routes::Peer& peer,
           const std::string& secret)
      : owner_(owner), peer_(peer), link_(base, *this, secret) {}
  ~PeerLink() { LoseAll(); }

  // False: the node cannot be reached at present.
  [[nodiscard]] bool Send(ForwardedRequest* request, uint64_t now_ms);
  // Called now and then.
  void CheckSilence(uint64_t now_ms);
  bool idle() const { return in_flight_.empty(); }
  bool IsTo(const Routes::Peer& peer) const {
    return peer_.id == peer.id && peer_.incarnation == peer.incarnation;
  }

 private:
  void LoseAll();
  bool OnFrame(const cluster::FrameHeader& header, std::string_view payload) override;
  void OnClosed() override;

  PeerLinkOwner& owner_;
  const Routes::Peer peer_;
  InnerLink link_;
  uint64_t retry_ms_ = 0;  // no connection is tried before
  uint64_t next_id_ = 1;
  std::deque<ForwardedRequest> in_flight_;
};

}  // namespace server
