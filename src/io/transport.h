// Transport moves the bytes of one connection: the seam between the connection and its socket.
// PlainTransport stands behind it for TCP and unix sockets, TlsTransport for encrypted TCP.
//
// Promises:  no call blocks. What cannot be done now says which event of the socket to wait for,
//            which need not be the obvious one: an encrypted write may have to read first.
// Requires:  one thread; `Handshake (Read | Write)* Shutdown Read*`, each call repeated after the
//            wanted event until it does not want one any more. Write is repeated with the same
//            bytes in front. The owner watches fd(), which the transport opens and closes.
// Costs:     one virtual call per system call; what is allocated is counted in held_bytes().
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace server {

enum class IoStatus : uint8_t {
  kOk,
  kWantsRead,   // call again when the socket is readable
  kWantsWrite,  // call again when the socket is writable
  kEnd,         // Read: the peer sends no more
  kBroken,      // the connection is of no use any more
};

struct IoResult {
  IoStatus status = IoStatus::kOk;
  size_t bytes = 0;  // with kOk, at least 1
};

class Transport {
 public:
  explicit Transport(int fd) : fd_(fd) {}
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // Before the first Read or Write. Never kEnd.
  virtual IoStatus Handshake() = 0;
  // REQUIRES: into is not empty.
  virtual IoResult Read(std::span<char> into) = 0;
  // Sends what is taken at once, in the order of the pieces. Never kEnd. REQUIRES: there are
  // pieces, none is empty.
  virtual IoResult Write(std::span<const iovec> pieces) = 0;
  // Of transports that take part in the rounds of their worker (see round.h); others need not do
  // anything. ReadAhead: the round may read for them, as for its member with this number, and the
  // next Read is in that member's turn. Defer: the round sends all pieces later; false: not these.
  virtual void ReadAhead(size_t /*member*/) {}
  [[nodiscard]] virtual bool Defer(std::span<const iovec> /*pieces*/) { return false; }
  // There are received bytes that no event of the socket announces.
  virtual bool HasPending() const = 0;
  // There are received bytes that nothing can be read from before more arrive.
  virtual bool HoldsPart() const { return false; }
  // Tells the peer that no more is sent, so that it can tell a complete reply from a broken one.
  // Never kEnd; afterwards only Read is allowed.
  virtual IoStatus Shutdown() = 0;

  int fd() const { return fd_; }
  // Memory of this connection's own, which the transport counts in ConnectionMemory by itself.
  uint32_t held_bytes() const { return held_bytes_; }

 protected:
  void set_held_bytes(uint32_t bytes) { held_bytes_ = bytes; }

 private:
  const int fd_;
  uint32_t held_bytes_ = 0;
};

}  // namespace server
