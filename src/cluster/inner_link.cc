#include "src/cluster/inner_link.h"

#include <event2/buffer.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <new>
#include <utility>

#include "tools/cluster/handshake.h"

namespace server {
namespace {

// A reply is one value and its head at most.
constexpr uint32_t kPayloadBytesMax = (uint32_t{1} << 30) + 4096;

}  // namespace

bool InnerLink::Connect(const Routes::Peer& peer) {
  Close();
  if (peer.address_bytes == 0) return false;
  nonce_ = cluster::RandomNonce();
  events_ = bufferevent_socket_new(base_, -1, BEV_OPT_CLOSE_ON_FREE);
  if (events_ == nullptr) return false;
  bufferevent_setcb(events_, OnRead, nullptr, OnEvent, this);
  const auto* address = reinterpret_cast<const sockaddr*>(&peer.address);
  const std::string hello = std::string(cluster::kHello) + nonce_;
  if (nonce_.empty() || bufferevent_enable(events_, EV_READ) != 0 ||
      bufferevent_write(events_, hello.data(), hello.size()) != 0 ||
      bufferevent_socket_connect(events_, address, static_cast<int>(peer.address_bytes)) != 0) {
    Close();
    return false;
  }
  const int on = 1;
  setsockopt(bufferevent_getfd(events_), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return true;
}

void InnerLink::Close() {
  if (events_ != nullptr) bufferevent_free(std::exchange(events_, nullptr));
  ready_ = false;
  waiting_.clear();
}

bool InnerLink::Send(cluster::FrameHeader header, std::string_view payload) {
  if (events_ == nullptr) return false;
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  const std::string_view head(reinterpret_cast<const char*>(&header), sizeof(header));
  if (!ready_) {
    waiting_.append(head).append(payload);
    return true;
  }
  return bufferevent_write(events_, head.data(), head.size()) == 0 &&
         bufferevent_write(events_, payload.data(), payload.size()) == 0;
}

size_t InnerLink::UnsentBytes() const {
  if (events_ == nullptr) return 0;
  return waiting_.size() + evbuffer_get_length(bufferevent_get_output(events_));
}

bool InnerLink::ReadHandshake() {
  evbuffer* const input = bufferevent_get_input(events_);
  if (evbuffer_get_length(input) < cluster::kNonceBytes + cluster::kProofBytes) return true;
  std::string theirs(cluster::kNonceBytes, '\0');
  std::string proof(cluster::kProofBytes, '\0');
  evbuffer_remove(input, theirs.data(), theirs.size());
  evbuffer_remove(input, proof.data(), proof.size());
  if (!cluster::SameProof(proof, cluster::Proof(secret_, "server", nonce_, theirs))) return false;
  const std::string mine = cluster::Proof(secret_, "client", nonce_, theirs);
  if (mine.empty() || bufferevent_write(events_, mine.data(), mine.size()) != 0 ||
      bufferevent_write(events_, waiting_.data(), waiting_.size()) != 0) {
    return false;
  }
  ready_ = true;
  waiting_ = {};
  return true;
}

bool InnerLink::ReadFrames() {
  cluster::FrameHeader header;
  while (events_ != nullptr) {
    evbuffer* const input = bufferevent_get_input(events_);
    if (evbuffer_copyout(input, &header, sizeof(header)) != sizeof(header)) return true;
    if (!header.valid() || header.payload_bytes > kPayloadBytesMax) return false;
    const size_t whole = sizeof(header) + header.payload_bytes;
    if (evbuffer_get_length(input) < whole) return true;
    const unsigned char* const bytes = evbuffer_pullup(input, static_cast<ev_ssize_t>(whole));
    if (bytes == nullptr) return false;
    const std::string_view payload(reinterpret_cast<const char*>(bytes) + sizeof(header),
                                   header.payload_bytes);
    if (!owner_.OnFrame(header, payload)) return false;
    if (events_ != nullptr) evbuffer_drain(input, whole);
  }
  return true;
}

void InnerLink::OnRead(bufferevent*, void* link) noexcept {
  auto* const self = static_cast<InnerLink*>(link);
  bool good = false;
  try {
    good = self->ready_ || self->ReadHandshake();
    if (good && self->ready_) good = self->ReadFrames();
  } catch (const std::bad_alloc&) {
    good = false;
  }
  if (good) return;
  self->Close();
  self->owner_.OnClosed();
}

void InnerLink::OnEvent(bufferevent*, short what, void* link) noexcept {
  auto* const self = static_cast<InnerLink*>(link);
  if ((what & (BEV_EVENT_EOF | BEV_EVENT_ERROR | BEV_EVENT_TIMEOUT)) == 0) return;
  self->Close();
  self->owner_.OnClosed();
}

}  // namespace server
