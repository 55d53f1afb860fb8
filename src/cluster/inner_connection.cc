#include "src/cluster/inner_connection.h"

#include <event2/buffer.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <new>
#include <utility>

#include "src/log.h"
#include "tools/cluster/handshake.h"

namespace server {

namespace {

constexpr size_t kHandshakeBytesMax = 4096;

}  // namespace

using cluster::FrameHeader;
using cluster::FrameKind;

InnerConnection::InnerConnection(event_base* base, int fd, Router& router,
                                 std::function<void(InnerConnection*)> ended)
    : router_(router), ended_(std::move(ended)) {
  events_ = bufferevent_socket_new(base, fd, BEV_OPT_CLOSE_ON_FREE);
  if (events_ == nullptr) {
    close(fd);
    throw std::bad_alloc();
  }
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  const timeval limit = {kHandshakeSeconds, 0};
  bufferevent_set_timeouts(events_, &limit, nullptr);
  bufferevent_setcb(events_, OnRead, nullptr, OnEvent, this);
  // Who has not proved anything yet gets no memory.
  bufferevent_setwatermark(events_, EV_READ, 0, kHandshakeBytesMax);
  bufferevent_enable(events_, EV_READ);
}

InnerConnection::~InnerConnection() {
  for (const auto& [slab, epoch] : copies_) router_.node().LoseCopy(slab, epoch);
  bufferevent_free(events_);
}

bool InnerConnection::ReadHello() {
  evbuffer* const input = bufferevent_get_input(events_);
  std::string hello(cluster::kHelloBytes, '\0');
  if (evbuffer_get_length(input) < hello.size()) return true;
  evbuffer_remove(input, hello.data(), hello.size());
  if (!hello.starts_with(cluster::kHello)) return false;
  client_nonce_ = hello.substr(cluster::kHello.size());
  server_nonce_ = cluster::RandomNonce();
  const std::string answer = server_nonce_ + cluster::Proof(router_.node().secret(), "server",
                                                            client_nonce_, server_nonce_);
  phase_ = Phase::kProof;
  return answer.size() == cluster::kNonceBytes + cluster::kProofBytes &&
         bufferevent_write(events_, answer.data(), answer.size()) == 0;
}

bool InnerConnection::ReadProof() {
  evbuffer* const input = bufferevent_get_input(events_);
  std::string proof(cluster::kProofBytes, '\0');
  if (evbuffer_get_length(input) < proof.size()) return true;
  evbuffer_remove(input, proof.data(), proof.size());
  const std::string expected =
      cluster::Proof(router_.node().secret(), "client", client_nonce_, server_nonce_);
  if (!cluster::SameProof(proof, expected)) {
    Log(kLogAlways, "cluster: refused an inner connection: it does not know the secret");
    return false;
  }
  bufferevent_set_timeouts(events_, nullptr, nullptr);
  bufferevent_setwatermark(events_, EV_READ, 0, 0);
  phase_ = Phase::kOpen;
  return true;
}

bool InnerConnection::Send(FrameHeader header, std::string_view payload) {
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  return bufferevent_write(events_, &header, sizeof(header)) == 0 &&
         bufferevent_write(events_, payload.data(), payload.size()) == 0;
}

bool InnerConnection::ReadFrames() {
  evbuffer* const input = bufferevent_get_input(events_);
  FrameHeader header;
  while (evbuffer_copyout(input, &header, sizeof(header)) == sizeof(header)) {
    const uint64_t most = uint64_t{1} << 30;
    if (!header.valid() || header.payload_bytes > most) return false;
    const size_t whole = sizeof(header) + header.payload_bytes;
    if (evbuffer_get_length(input) < whole) return true;
    unsigned char* const bytes = evbuffer_pullup(input, static_cast<ev_ssize_t>(whole));
    if (bytes == nullptr) return false;
    const std::span<char> payload(reinterpret_cast<char*>(bytes) + sizeof(header),
                                  header.payload_bytes);
    if (!Take(header, payload)) return false;
    evbuffer_drain(input, whole);
  }
  return true;
}

bool InnerConnection::Take(const FrameHeader& header, std::span<char> payload) {
  if (header.kind != FrameKind::kRequest) {
    return TakeCopy(header, {payload.data(), payload.size()});
  }
  std::string reply;
  const bool binary = static_cast<protocol::Wire>(header.wire) == protocol::Wire::kBinary;
  FrameHeader answer;
  answer.kind = router_.Answer(
      payload, binary ? protocol::WireChoice::kBinary : protocol::WireChoice::kText, &reply);
  answer.id = header.id;
  answer.slab = header.slab;
  if (answer.kind != FrameKind::kReply) reply.clear();
  return Send(answer, reply);
}

bool InnerConnection::TakeCopy(const FrameHeader& header, std::string_view payload) {
  Node& node = router_.node();
  const unsigned slab = header.slab;
  if (slab >= node.ownership().slabs()) return false;
  bool wanted = false;
  FrameHeader answer;
  answer.slab = header.slab;
  answer.epoch = header.epoch;
  switch (header.kind) {
    case FrameKind::kBegin:
      wanted = node.BeginCopy(slab, header.epoch, header.number);
      if (wanted) copies_[slab] = header.epoch;
      break;
    case FrameKind::kItems:
      wanted = node.AddItems(slab, header.epoch, payload);
      break;
    case FrameKind::kClear:
      wanted = node.ClearCopy(slab, header.epoch);
      break;
    case FrameKind::kEnd:
      copies_.erase(slab);
      answer.kind = FrameKind::kReady;
      if (node.EndCopy(slab, header.epoch)) return Send(answer, {});
      break;
    default:
      return false;
  }
  if (wanted) return true;
  answer.kind = FrameKind::kRefused;
  return Send(answer, {});
}

void InnerConnection::End() {
  bufferevent_disable(events_, EV_READ | EV_WRITE);
  if (!std::exchange(ended_already_, true)) ended_(this);
}

void InnerConnection::OnRead(bufferevent*, void* connection) noexcept {
  auto* const self = static_cast<InnerConnection*>(connection);
  bool good = true;
  try {
    if (self->phase_ == Phase::kHello) good = self->ReadHello();
    if (good && self->phase_ == Phase::kProof) good = self->ReadProof();
    if (good && self->phase_ == Phase::kOpen) good = self->ReadFrames();
  } catch (const std::bad_alloc&) {
    good = false;
  }
  if (!good) self->End();
}

void InnerConnection::OnEvent(bufferevent*, short what, void* connection) noexcept {
  auto* const self = static_cast<InnerConnection*>(connection);
  if ((what & (BEV_EVENT_EOF | BEV_EVENT_ERROR | BEV_EVENT_TIMEOUT)) != 0) self->End();
}

}  // namespace server
