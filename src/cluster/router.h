// Router decides for each request of a worker's connections who carries it out: this node, if it
// owns the key's slab, or the node that does. Replies come through the connection's ReplySlots.
//
// Promises:  the reply is byte for byte what the owner sends. A request is carried out at most
//            once, but for gets. If its owner is out of reach, a get is a miss, and anything else
//            is answered with a server error: it may have been carried out. What is refused
//            because its slab is being handed over is tried again for kHeldMs.
// Requires:  the worker's thread.
// Departs:   the keys of a text get go to their owners one by one, in one batch of frames.
#pragma once

#include <event2/event.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/request.h"
#include "src/cluster/executor.h"
#include "src/cluster/node.h"
#include "src/cluster/peer_link.h"
#include "src/cluster/reply_slots.h"
#include "src/state.h"
#include "src/stats/counters.h"

namespace server {

class Router final : public PeerLinkOwner {
 public:
  enum class Next : uint8_t {
    kLocal,  // no key: carry it out as ever
    kTaken,  // its reply is in the slots, or will be
    kWait,   // when all replies are there, submit what is left: of a get in text the keys that
             // request->keys has now, of any other request all of it
  };
  static constexpr uint64_t kHeldMs = 200;

  Router(Node& node, State& state, WorkerCounters& counters, event_base* base,
         const protocol::Limits& limits);
  ~Router();

  // The next request begins here. Parsing may decode its key in place: what goes to another node
  // is what was sent.
  void BeforeParse(std::span<const char> bytes);
  // `raw`: the request's bytes, as many as have arrived; `whole`: that is all of them.
  Next Submit(const std::shared_ptr<ReplySlots>& slots, protocol::Request* request,
              std::span<char> raw, bool whole, uint32_t now);
  // After kWait: the bytes as they were before they were parsed.
  void Restore(std::span<char> raw) const;

  // A request from another node: the answer's kind, and its reply.
  cluster::FrameKind Answer(std::span<char> raw, protocol::WireChoice wire, std::string* reply);

  Node& node() { return node_; }
  uint64_t forwarded() const { return forwarded_; }

 private:
  Next SubmitKeys(const std::shared_ptr<ReplySlots>& slots, protocol::Request* request);
  void SubmitKey(const std::shared_ptr<ReplySlots>& slots, const protocol::Request& request,
                 unsigned slab, std::string raw, bool whole);
  Next SubmitOther(const std::shared_ptr<ReplySlots>& slots, const protocol::Request& request,
                   std::span<const char> raw);
  // Carries it out here if the gate is open.
  Ownership::Entry ExecuteHere(const protocol::Request& request, unsigned slab, bool changes,
                               std::string* reply);
  void Forward(ForwardedRequest&& request);
  void Hold(ForwardedRequest&& request);
  void RetryHeld();
  void Fail(ForwardedRequest&& request);
  void Complete(ForwardedRequest&& request, std::string reply);
  PeerLink* LinkTo(unsigned slab);
  void FollowRoutes();
  void StartTimer();

  void OnAnswer(ForwardedRequest&& request, cluster::FrameKind kind,
                std::string_view payload) override;
  void OnLost(ForwardedRequest&& request) noexcept override;
  static void OnTimer(evutil_socket_t fd, short what, void* router) noexcept;

  Node& node_;
  State& state_;
  event_base* const base_;
  const protocol::Limits limits_;
  Executor executor_;
  uint32_t now_ = 0;
  std::array<char, 512> line_;  // the beginning of the next request
  size_t line_bytes_ = 0;
  uint64_t forwarded_ = 0;
  std::shared_ptr<const Routes> routes_;
  std::vector<std::unique_ptr<PeerLink>> links_;  // as routes_->peers; null: none yet
  std::vector<ForwardedRequest> held_;
  struct Flush {
    std::shared_ptr<FlushTicket> ticket;
    ForwardedRequest request;
  };
  std::vector<Flush> flushes_;
  event* timer_;
};

}  // namespace server
