#include "src/cluster/router.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "protocol/binary.h"
#include "protocol/meta.h"
#include "protocol/request_parser.h"
#include "protocol/text.h"
#include "protocol/tokens.h"
#include "src/dispatch/stats_command.h"

namespace server {
namespace {

using protocol::Op;
using protocol::Request;
using protocol::Response;
using protocol::Wire;

constexpr timeval kTimerInterval = {0, 5'000};
constexpr uint16_t kBinaryTemporaryFailure = 0x86;
constexpr std::string_view kOutOfReach = "SERVER_ERROR the node of this key is out of reach\r\n";
constexpr uint8_t kBinaryDelete = 0x04;

bool HasKey(Op op) {
  switch (op) {
    case Op::kGet:
    case Op::kTouch:
    case Op::kArithmetic:
    case Op::kDelete:
    case Op::kDebug:
      return true;
    default:
      return protocol::IsWrite(op);
  }
}

bool Changes(const Request& request) {
  if (request.op == Op::kDebug) return false;
  return request.op != Op::kGet || request.exptime || request.vivify_exptime ||
         request.recache_exptime;
}

// Whoever asks for a key that cannot be reached has a miss; whoever changes it is told so.
std::string FailureReply(Request request) {
  std::array<char, protocol::kHeadBytesMax> out;
  if (request.op == Op::kGet || request.op == Op::kDebug) {
    if (request.wire == Wire::kText && request.op == Op::kGet) return {};
    Response response;
    response.status = protocol::Status::kNotFound;
    response.key = request.key;
    const protocol::Head head = request.wire == Wire::kBinary
                                    ? FormatBinary(request, response, out.data())
                                    : FormatMeta(request, response, out.data());
    return {out.data(), head.bytes};
  }
  if (request.wire == Wire::kBinary) {
    request.op = Op::kAnswer;
    request.binary_status = kBinaryTemporaryFailure;
    return {out.data(), FormatBinary(request, {}, out.data()).bytes};
  }
  if (request.wire == Wire::kText && request.quiet) return {};
  return std::string(kOutOfReach);
}

// The value that a refused write would have replaced is deleted, as on one node.
std::string BinaryDelete(std::string_view key) {
  std::string raw(protocol::kBinaryHeaderBytes, '\0');
  raw[0] = static_cast<char>(protocol::kBinaryRequestMagic);
  raw[1] = static_cast<char>(kBinaryDelete);
  raw[3] = raw[11] = static_cast<char>(key.size());
  return raw.append(key);
}

std::string TextGet(const Request& request, std::string_view key) {
  std::string raw = request.exptime ? (request.with_cas ? "gats " : "gat ")
                                    : (request.with_cas ? "gets " : "get ");
  if (request.exptime) raw.append(std::to_string(*request.exptime)).append(" ");
  return raw.append(key).append("\r\n");
}

}  // namespace

Router::Router(Node& node, State& state, WorkerCounters& counters, event_base* base,
               const protocol::Limits& limits)
    : node_(node),
      state_(state),
      base_(base),
      limits_(limits),
      executor_(state, counters),
      timer_(event_new(base, -1, 0, OnTimer, this)) {
  if (timer_ == nullptr) throw std::bad_alloc();
}

Router::~Router() {
  // Breaking a link reports what is lost.
  links_.clear();
  event_free(timer_);
}

void Router::BeforeParse(std::span<const char> bytes) {
  // Only keys of meta commands are decoded.
  line_bytes_ = bytes.empty() || bytes[0] != 'm' ? 0 : std::min(bytes.size(), line_.size());
  std::memcpy(line_.data(), bytes.data(), line_bytes_);
}

void Router::Restore(std::span<char> raw) const {
  std::memcpy(raw.data(), line_.data(), std::min(raw.size(), line_bytes_));
}

// ---- requests of this worker's clients ----------------------------------------------------------

Router::Next Router::Submit(const std::shared_ptr<ReplySlots>& slots, Request* request,
                            std::span<char> raw, bool whole, uint32_t now) {
  now_ = now;
  FollowRoutes();
  if (!HasKey(request->op)) {
    return slots->empty() ? SubmitOther(slots, *request, raw) : Next::kWait;
  }
  if (request->op == Op::kGet && request->wire == Wire::kText) return SubmitKeys(slots, request);
  const unsigned slab = node_.store().SlabOfKey(request->key);
  if (slots->full() || slots->MustWait(slab, Changes(*request))) return Next::kWait;
  std::string sent(raw.data(), raw.size());
  std::memcpy(sent.data(), line_.data(), std::min(sent.size(), line_bytes_));
  SubmitKey(slots, *request, slab, std::move(sent), whole);
  return Next::kTaken;
}

Router::Next Router::SubmitKeys(const std::shared_ptr<ReplySlots>& slots, Request* request) {
  for (;;) {
    const std::string_view before = request->keys;
    const std::string_view key = protocol::NextToken(&request->keys);
    if (key.empty()) break;
    const unsigned slab = node_.store().SlabOfKey(key);
    if (slots->full() || slots->MustWait(slab, request->exptime.has_value())) {
      request->keys = before;
      return Next::kWait;
    }
    Request one = *request;
    one.key = one.keys = key;
    one.more_keys = true;  // the end of the line is a reply of its own
    SubmitKey(slots, one, slab, {}, true);
  }
  if (!request->more_keys) slots->AddDone("END\r\n");
  return Next::kTaken;
}

void Router::SubmitKey(const std::shared_ptr<ReplySlots>& slots, const Request& request,
                       unsigned slab, std::string raw, bool whole) {
  const bool changes = Changes(request);
  std::string reply;
  const Ownership::Entry entry = ExecuteHere(request, slab, changes, &reply);
  if (entry == Ownership::Entry::kEntered) return slots->AddDone(std::move(reply));
  if (entry == Ownership::Entry::kNoRight) return slots->AddDone(FailureReply(request));
  ForwardedRequest forwarded;
  forwarded.slots = slots;
  forwarded.slab = static_cast<uint16_t>(slab);
  forwarded.wire = static_cast<uint8_t>(request.wire);
  forwarded.changes = changes;
  if (request.too_large || !whole) {
    // The owner would have to be sent a value that it refuses.
    forwarded.instead.emplace();
    if (!executor_.Execute(request, now_, &*forwarded.instead)) *forwarded.instead = kOutOfReach;
    forwarded.wire = static_cast<uint8_t>(Wire::kBinary);
    raw = BinaryDelete(request.key);
  } else if (request.wire == Wire::kText && request.op == Op::kGet) {
    raw = TextGet(request, request.key);
  }
  forwarded.raw = std::move(raw);
  forwarded.slot = slots->AddPending(slab, changes, forwarded.raw.size());
  entry == Ownership::Entry::kHeld ? Hold(std::move(forwarded)) : Forward(std::move(forwarded));
}

Ownership::Entry Router::ExecuteHere(const Request& request, unsigned slab, bool changes,
                                     std::string* reply) {
  Ownership& ownership = node_.ownership();
  const Ownership::Entry entry = ownership.Enter(slab);
  if (entry != Ownership::Entry::kEntered) return entry;
  bool answered = executor_.Execute(request, now_, reply);
  if (changes && ownership.IsLogged(slab)) ownership.NoteChange(slab, &request.key);
  ownership.Leave(slab);
  // The process may have stood still since the gate.
  if (!answered || !ownership.RightLasts()) *reply = FailureReply(request);
  return entry;
}

Router::Next Router::SubmitOther(const std::shared_ptr<ReplySlots>& slots, const Request& request,
                                 std::span<const char> raw) {
  const std::string_view line(raw.data(), raw.size());
  if (request.op == Op::kFlushAll && request.reply.empty() && !state_.options.disable_flush) {
    const int64_t delay = request.exptime.value_or(0);
    const uint32_t at = delay <= 0 ? 0 : state_.clock.Expiry(delay, now_);
    ForwardedRequest waiting;
    waiting.slots = slots;
    waiting.slot = slots->AddPending(0, true, 0);
    waiting.raw.assign(line);
    waiting.wire = static_cast<uint8_t>(request.wire);
    waiting.instead.emplace();
    Request done = request;
    std::array<char, protocol::kHeadBytesMax> out;
    const protocol::Head head = request.wire == Wire::kBinary ? FormatBinary(done, {}, out.data())
                                                              : FormatText(done, {}, out.data());
    waiting.instead->assign(out.data(), head.bytes);
    flushes_.push_back(
        {node_.RequestFlush(at == 0 ? 0 : state_.clock.UnixTime(at)), std::move(waiting)});
    StartTimer();
    return Next::kTaken;
  }
  std::string_view what = request.arguments;
  if (request.op == Op::kStats && protocol::NextToken(&what) == "cluster") {
    const bool slabs = protocol::NextToken(&what) == "slabs";
    slots->AddDone(AnswerLines(request, slabs ? node_.SlabLines() : node_.StatsLines()));
    return Next::kTaken;
  }
  if (request.op == Op::kAnswer && request.wire == Wire::kText &&
      line.starts_with("config get cluster")) {
    const std::string addresses = node_.ClientAddresses();
    slots->AddDone("CONFIG cluster 0 " + std::to_string(addresses.size()) + "\r\n" + addresses +
                   "\r\nEND\r\n");
    return Next::kTaken;
  }
  return Next::kLocal;
}

// ---- requests that other nodes carry out --------------------------------------------------------

void Router::FollowRoutes() {
  if (routes_ != nullptr && routes_->version == node_.routes_version()) return;
  routes_ = node_.routes();
  std::vector<std::unique_ptr<PeerLink>> links(routes_->peers.size());
  for (size_t i = 0; i < links.size(); ++i) {
    for (std::unique_ptr<PeerLink>& link : links_) {
      if (link != nullptr && link->IsTo(routes_->peers[i])) links[i] = std::move(link);
    }
  }
  // What is left over belongs to nodes that are gone: their requests are lost.
  links_.swap(links);
}

PeerLink* Router::LinkTo(unsigned slab) {
  const uint16_t owner = routes_->owner[slab];
  if (owner == Routes::kNobody || routes_->peers[owner].id == state_.options.cluster.node) {
    return nullptr;
  }
  std::unique_ptr<PeerLink>& link = links_[owner];
  if (link == nullptr) {
    link = std::make_unique<PeerLink>(base_, *this, routes_->peers[owner], node_.secret());
  }
  return link.get();
}

void Router::Forward(ForwardedRequest&& request) {
  PeerLink* const link = LinkTo(request.slab);
  if (link == nullptr || !link->Send(&request, BootTimeMs())) return Fail(std::move(request));
  ++forwarded_;
  StartTimer();
}

void Router::Hold(ForwardedRequest&& request) {
  const uint64_t now_ms = BootTimeMs();
  if (request.give_up_ms == 0) request.give_up_ms = now_ms + kHeldMs;
  if (now_ms >= request.give_up_ms) return Fail(std::move(request));
  held_.push_back(std::move(request));
  StartTimer();
}

void Router::StartTimer() {
  if (!event_pending(timer_, EV_TIMEOUT, nullptr)) event_add(timer_, &kTimerInterval);
}

void Router::Complete(ForwardedRequest&& request, std::string reply) {
  if (request.instead) reply = std::move(*request.instead);
  request.slots->Complete(request.slot, std::move(reply));
}

void Router::Fail(ForwardedRequest&& request) {
  std::string reply;
  if (!request.instead) {
    protocol::RequestParser parser(static_cast<Wire>(request.wire) == Wire::kBinary
                                       ? protocol::WireChoice::kBinary
                                       : protocol::WireChoice::kText);
    Request parsed;
    if (parser.Parse(request.raw, limits_, &parsed).status == protocol::ParseStatus::kOk) {
      reply = FailureReply(parsed);
    }
  }
  Complete(std::move(request), std::move(reply));
}

void Router::OnAnswer(ForwardedRequest&& request, cluster::FrameKind kind,
                      std::string_view payload) {
  if (kind == cluster::FrameKind::kRetry) return Hold(std::move(request));
  if (kind == cluster::FrameKind::kRefused) return Fail(std::move(request));
  // A text get was sent with one key, and is answered as a part of a line.
  if (static_cast<Wire>(request.wire) == Wire::kText && request.raw.starts_with("g") &&
      payload.ends_with("END\r\n")) {
    payload.remove_suffix(5);
  }
  Complete(std::move(request), std::string(payload));
}

// It may have been carried out.
void Router::OnLost(ForwardedRequest&& request) noexcept {
  const std::shared_ptr<ReplySlots> slots = request.slots;
  try {
    Fail(std::move(request));
  } catch (const std::bad_alloc&) {
    slots->Break();
  }
}

void Router::RetryHeld() {
  std::vector<ForwardedRequest> held;
  held.swap(held_);
  for (ForwardedRequest& request : held) {
    std::string copy = request.raw;
    protocol::RequestParser parser(static_cast<Wire>(request.wire) == Wire::kBinary
                                       ? protocol::WireChoice::kBinary
                                       : protocol::WireChoice::kText);
    Request parsed;
    if (parser.Parse(copy, limits_, &parsed).status != protocol::ParseStatus::kOk) {
      Fail(std::move(request));
      continue;
    }
    const bool text_get = parsed.op == Op::kGet && parsed.wire == Wire::kText;
    if (text_get) parsed.more_keys = true;
    std::string reply;
    switch (ExecuteHere(parsed, request.slab, request.changes, &reply)) {
      case Ownership::Entry::kEntered:
        Complete(std::move(request), std::move(reply));
        break;
      case Ownership::Entry::kForeign:
        if (BootTimeMs() >= request.give_up_ms) {
          Fail(std::move(request));
        } else if (LinkTo(request.slab) != nullptr) {
          Forward(std::move(request));
        } else {
          Hold(std::move(request));
        }
        break;
      case Ownership::Entry::kHeld:
        Hold(std::move(request));
        break;
      case Ownership::Entry::kNoRight:
        Fail(std::move(request));
        break;
    }
  }
}

void Router::OnTimer(evutil_socket_t, short, void* router) noexcept {
  auto* const self = static_cast<Router*>(router);
  try {
    self->now_ = self->state_.clock.Now();
    self->FollowRoutes();
    self->RetryHeld();
    const uint64_t now_ms = BootTimeMs();
    bool busy = !self->held_.empty();
    for (size_t i = 0; i < self->links_.size(); ++i) {
      if (self->links_[i] == nullptr) continue;
      self->links_[i]->CheckSilence(now_ms);
      busy = busy || !self->links_[i]->idle();
    }
    std::vector<Flush> flushes;
    flushes.swap(self->flushes_);
    for (Flush& flush : flushes) {
      const FlushTicket::State state = flush.ticket->state.load(std::memory_order_acquire);
      if (state == FlushTicket::State::kPending) {
        self->flushes_.push_back(std::move(flush));
        continue;
      }
      if (state == FlushTicket::State::kFailed) flush.request.instead.reset();
      state == FlushTicket::State::kDone ? self->Complete(std::move(flush.request), {})
                                         : self->Fail(std::move(flush.request));
    }
    if (busy || !self->flushes_.empty()) self->StartTimer();
  } catch (const std::bad_alloc&) {
    self->StartTimer();
  }
}

// ---- requests of other nodes --------------------------------------------------------------------

cluster::FrameKind Router::Answer(std::span<char> raw, protocol::WireChoice wire,
                                  std::string* reply) {
  using cluster::FrameKind;
  now_ = state_.clock.Now();
  protocol::RequestParser parser(wire);
  Request request;
  if (raw.empty()) return FrameKind::kRefused;
  const protocol::ParseResult result = parser.Parse(raw, limits_, &request);
  if (result.status != protocol::ParseStatus::kOk || result.consumed != raw.size() ||
      !HasKey(request.op)) {
    return FrameKind::kRefused;
  }
  const bool text_get = request.op == Op::kGet && request.wire == Wire::kText;
  std::string_view keys = request.keys;
  const std::string_view key = text_get ? protocol::NextToken(&keys) : request.key;
  request.key = key;
  const unsigned slab = node_.store().SlabOfKey(key);
  switch (ExecuteHere(request, slab, Changes(request), reply)) {
    case Ownership::Entry::kEntered:
      return FrameKind::kReply;
    case Ownership::Entry::kForeign:
    case Ownership::Entry::kHeld:
      return FrameKind::kRetry;
    case Ownership::Entry::kNoRight:
      break;
  }
  return FrameKind::kRefused;
}

}  // namespace server
