// TlsTransport is a TCP connection under TLS, the server's side, by OpenSSL.
//
// Promises:  what Transport does. A failure within OpenSSL, lack of memory included, breaks this
//            connection and no other. close_notify goes out before the socket is closed, wherever
//            the connection is not broken.
// Requires:  a non-blocking socket, which it takes over. SIGPIPE is ignored.
// Costs:     15 KB for an idle connection (kTlsIdleBytes has some more), 20 KB more while half of a
//            record is there to be read or sent, and up to 64 KB within the handshake; nothing
//            before the client's first byte. All of it is counted in ConnectionMemory and in
//            held_bytes(). Short pieces of a reply are copied once, so that they share a record.
#pragma once

#include <openssl/types.h>

#include <cstdint>

#include "src/io/connection_memory.h"
#include "src/io/round.h"
#include "src/io/tls_context.h"
#include "src/io/transport.h"

namespace server {

class TlsTransport final : public Transport {
 public:
  // All of them outlive it.
  TlsTransport(int fd, TlsContext& context, ConnectionMemory& memory, Round& round);
  ~TlsTransport() override;

  IoStatus Handshake() override;
  IoResult Read(std::span<char> into) override;
  IoResult Write(std::span<const iovec> pieces) override;
  bool HasPending() const override;
  bool HoldsPart() const override;
  IoStatus Shutdown() override;

 private:
  class Meter;

  bool Begin();
  IoResult ReadRecord(std::span<char> into);
  // What a call that returned `code` has come to.
  IoStatus StatusOf(int code, const char* what);
  void CountMemory(int64_t delta);

  TlsContext& context_;
  SSL* ssl_ = nullptr;  // null: nothing has arrived yet, or there was no memory for it
  ConnectionMemory& memory_;
  Round& round_;
  bool announced_ = false;  // bytes of the client have been waited for
  bool established_ = false;
  bool broken_ = false;
  bool drained_ = true;       // nothing whole is left of what was received
  bool close_sent_ = false;   // close_notify
  uint32_t retry_bytes_ = 0;  // of a record that was not taken: the next write begins with them
  int64_t memory_bytes_ = 0;
};

}  // namespace server
