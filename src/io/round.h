// Round lets connections that are ready at the same time share their system calls: it reads ahead
// for all of them, they are served one after the other, and it sends what they answer together.
//
// Promises:  the bytes of a socket keep their order, and none is lost: what does not fit a slice is
//            read by another call, and what could not be sent is given back.
// Requires:  the worker's thread; `Begin Ask* Receive (Turn (TakeReceived | Defer)* Send?)* Send
//            End`. In its turn a member takes what was read ahead for it before anything else, and
//            defers once. Who closes a socket calls Drop first.
// Costs:     193 KB a worker; a member's received and deferred bytes are copied once.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "src/io/socket_calls.h"
#include "src/io/transport.h"

namespace server {

class Round {
 public:
  static constexpr size_t kMembersMax = SocketCalls::kCallsMax;
  // Read ahead of one member: a get, or a set of a short value.
  static constexpr size_t kSliceBytes = 2048;
  // Deferred by one member, and by all of them.
  static constexpr size_t kDeferBytesMax = 4096;
  static constexpr size_t kSendBytes = 64 << 10;

  // What came of the bytes that a member deferred.
  struct Sent {
    size_t member = 0;
    IoStatus status = IoStatus::kOk;  // kOk, kWantsWrite or kBroken
    size_t bytes = 0;                 // that were sent
    std::string_view rest = {};       // that were not
  };

  explicit Round(std::unique_ptr<SocketCalls> calls);

  // Between two rounds.
  void UseCalls(std::unique_ptr<SocketCalls> calls) { calls_ = std::move(calls); }
  bool uses_ring() const { return calls_->uses_ring(); }

  // REQUIRES: num_members <= kMembersMax
  void Begin(size_t num_members);
  // The socket of this member is to be read.
  void Ask(size_t member, int fd);
  void Receive();
  // What was read ahead for it, and not taken yet.
  std::span<char> Received(size_t member) const;

  // This member is served now.
  void Turn(size_t member) {
    turn_ = member;
    long_turn_ = false;
  }
  // Of the member whose turn it is: what Transport::Read would have given. Nothing if its socket
  // was not read, or that was taken.
  std::optional<IoResult> TakeReceived(int fd, std::span<char> into);
  // False: there is no room, or no round; the pieces are to be written now.
  [[nodiscard]] bool Defer(int fd, std::span<const iovec> pieces);
  // The member whose turn it is had to write by itself, so its turn was a long one: after it, what
  // others have deferred should not wait any longer.
  void NoteLongTurn() { long_turn_ = true; }
  bool long_turn() const { return long_turn_; }
  // Sends what is deferred. The answer is good until the next Defer.
  std::span<const Sent> Send();
  void End() { num_members_ = 0; }

  void Drop(int fd);

 private:
  static constexpr int kNoFd = -1;

  struct Member {
    int fd = kNoFd;    // to be read, or read
    int received = 0;  // bytes, or -errno
  };
  char* SliceOf(size_t member) const { return slices_.get() + member * kSliceBytes; }

  std::unique_ptr<SocketCalls> calls_;
  const std::unique_ptr<char[]> slices_;
  const std::unique_ptr<char[]> deferred_;
  size_t deferred_bytes_ = 0;
  size_t num_deferred_ = 0;
  size_t num_members_ = 0;  // 0: no round
  size_t turn_ = 0;
  bool long_turn_ = false;
  std::array<Member, kMembersMax> members_;
  std::array<SocketCall, kMembersMax> receives_;
  std::array<SocketCall, kMembersMax> sends_;  // deferred ones
  std::array<Sent, kMembersMax> sent_;         // with their members
};

}  // namespace server
