#include "src/io/round.h"

#include <errno.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

namespace server {
namespace {

bool WouldBlock(int result) { return result == -EAGAIN || result == -EWOULDBLOCK; }

}  // namespace

Round::Round(std::unique_ptr<SocketCalls> calls)
    : calls_(std::move(calls)),
      slices_(new char[kMembersMax * kSliceBytes]),
      deferred_(new char[kSendBytes]) {}

void Round::Begin(size_t num_members) {
  assert(num_members <= kMembersMax && num_deferred_ == 0);
  num_members_ = num_members;
  turn_ = num_members;
  std::fill_n(members_.begin(), num_members, Member{});
}

void Round::Ask(size_t member, int fd) { members_[member].fd = fd; }

void Round::Receive() {
  size_t count = 0;
  for (size_t i = 0; i < num_members_; ++i) {
    if (members_[i].fd != kNoFd) receives_[count++] = {members_[i].fd, kSliceBytes, SliceOf(i)};
  }
  if (count > 0) calls_->Receive({receives_.data(), count});
  count = 0;
  for (size_t i = 0; i < num_members_; ++i) {
    if (members_[i].fd != kNoFd) members_[i].received = receives_[count++].result;
  }
}

std::span<char> Round::Received(size_t member) const {
  const Member& m = members_[member];
  if (m.fd == kNoFd || m.received <= 0) return {};
  return {SliceOf(member), static_cast<size_t>(m.received)};
}

std::optional<IoResult> Round::TakeReceived(int fd, std::span<char> into) {
  if (turn_ >= num_members_ || members_[turn_].fd != fd) return std::nullopt;
  const int received = std::exchange(members_[turn_], Member{}).received;
  if (received == 0) return IoResult{IoStatus::kEnd};
  if (received < 0) {
    return IoResult{WouldBlock(received) ? IoStatus::kWantsRead : IoStatus::kBroken};
  }
  const auto size = static_cast<size_t>(received);
  assert(size <= into.size());
  memcpy(into.data(), SliceOf(turn_), size);
  return IoResult{IoStatus::kOk, size};
}

bool Round::Defer(int fd, std::span<const iovec> pieces) {
  if (turn_ >= num_members_ || num_deferred_ == kMembersMax) return false;
  size_t size = 0;
  for (const iovec& piece : pieces) size += piece.iov_len;
  if (size > std::min(kDeferBytesMax, kSendBytes - deferred_bytes_)) return false;
  char* const begin = deferred_.get() + deferred_bytes_;
  for (const iovec& piece : pieces) {
    memcpy(deferred_.get() + deferred_bytes_, piece.iov_base, piece.iov_len);
    deferred_bytes_ += piece.iov_len;
  }
  sent_[num_deferred_] = {.member = turn_};
  sends_[num_deferred_++] = {fd, static_cast<uint32_t>(size), begin};
  return true;
}

std::span<const Round::Sent> Round::Send() {
  if (num_deferred_ == 0) return {};
  calls_->Send({sends_.data(), num_deferred_});
  for (size_t i = 0; i < num_deferred_; ++i) {
    const SocketCall& call = sends_[i];
    Sent& sent = sent_[i];
    if (call.result < 0 && !WouldBlock(call.result)) {
      sent.status = IoStatus::kBroken;
      continue;
    }
    sent.bytes = static_cast<size_t>(std::max(call.result, 0));
    sent.rest = {call.data + sent.bytes, call.size - sent.bytes};
    if (!sent.rest.empty()) sent.status = IoStatus::kWantsWrite;
  }
  deferred_bytes_ = 0;
  return {sent_.data(), std::exchange(num_deferred_, 0)};
}

void Round::Drop(int fd) {
  for (size_t i = 0; i < num_members_; ++i) {
    if (members_[i].fd == fd) members_[i] = {};
  }
  for (size_t i = 0; i < num_deferred_; ++i) {
    if (sends_[i].fd != fd) continue;
    --num_deferred_;
    sends_[i] = sends_[num_deferred_];
    sent_[i] = sent_[num_deferred_];
    return;
  }
}

}  // namespace server
