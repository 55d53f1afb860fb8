#include "src/cluster/peer_link.h"

#include <utility>

#include "src/cluster/ownership.h"

namespace server {
namespace {

constexpr uint64_t kRetryMs = 100;

}  // namespace

bool PeerLink::Send(ForwardedRequest* request, uint64_t now_ms) {
  if (!link_.is_open()) {
    if (now_ms < retry_ms_) return false;
    retry_ms_ = now_ms + kRetryMs;
    if (!link_.Connect(peer_)) return false;
  }
  cluster::FrameHeader header;
  header.wire = request->wire;
  header.slab = request->slab;
  header.id = next_id_;
  if (!link_.Send(header, request->raw)) return false;
  ++next_id_;
  request->sent_ms = now_ms;
  in_flight_.push_back(std::move(*request));
  return true;
}

void PeerLink::CheckSilence(uint64_t now_ms) {
  if (in_flight_.empty() || now_ms <= in_flight_.front().sent_ms + kSilenceMs) return;
  link_.Close();
  OnClosed();
}

void PeerLink::LoseAll() {
  std::deque<ForwardedRequest> lost;
  lost.swap(in_flight_);
  for (ForwardedRequest& request : lost) owner_.OnLost(std::move(request));
}

void PeerLink::OnClosed() {
  retry_ms_ = BootTimeMs() + kRetryMs;
  LoseAll();
}

bool PeerLink::OnFrame(const cluster::FrameHeader& header, std::string_view payload) {
  using cluster::FrameKind;
  const bool is_answer = header.kind == FrameKind::kReply || header.kind == FrameKind::kRetry ||
                         header.kind == FrameKind::kRefused;
  if (!is_answer || in_flight_.empty() || header.id != next_id_ - in_flight_.size()) return false;
  ForwardedRequest request = std::move(in_flight_.front());
  in_flight_.pop_front();
  owner_.OnAnswer(std::move(request), header.kind, payload);
  return true;
}

}  // namespace server
