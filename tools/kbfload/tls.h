// TlsClient is a client's side of TLS on a connected socket, for load: the server's certificate is
// not verified.
//
// Requires:  one thread; a non-blocking socket that outlives it. `Handshake (Send | Receive)*`.
// Costs:     about 15 KB a connection.
#pragma once

#include <openssl/types.h>
#include <sys/types.h>

#include <cstddef>
#include <string>

namespace load {

class TlsClient {
 public:
  explicit TlsClient(int fd);
  ~TlsClient();
  TlsClient(const TlsClient&) = delete;
  TlsClient& operator=(const TlsClient&) = delete;

  // Blocks, up to the timeout. Empty, or what went wrong.
  std::string Handshake(double timeout_s);
  // As send and recv, with errno: EAGAIN where it would block.
  ssize_t Send(const char* bytes, size_t size);
  ssize_t Receive(char* bytes, size_t room);
  // Received bytes that no event announces.
  bool HasPending() const;

 private:
  ssize_t Fault(int code);

  const int fd_;
  SSL* const ssl_;
};

}  // namespace load
