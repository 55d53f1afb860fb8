// The server under test, seen from outside: its address, sockets to it, its statistics, its memory.
//
// Promises:  every failure is a ServerError with one sentence that names the address. Statistics
//            that a server does not have are absent, not zero.
// Requires:  calls block, up to the timeout given; not for the hot path.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "protocol/client.h"
#include "tools/kbfload/tls.h"

namespace load {

// The server refused, died, stalled or answered garbage.
struct ServerError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Address {
  std::string host;  // empty: a unix socket
  std::string port;
  std::string path;
  bool tls = false;

  bool is_unix() const { return host.empty(); }
  std::string Name() const;
};

// "host", "host:port", "[v6]:port", each also after "tls:", "unix:/path" or "/path"; the port is
// 11211 unless given. Throws std::invalid_argument.
Address ParseAddress(const std::string& text);

// A connected stream, perhaps under TLS, that closes itself.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), tls_(std::move(other.tls_)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(tls_, other.tls_);
    return *this;
  }
  ~Socket();
  int fd() const { return fd_; }

  // Empty, or why TLS cannot be spoken on it. Blocks, up to the timeout.
  std::string BeginTls(double timeout_s);
  // As send and recv without waiting, with errno.
  ssize_t Send(const char* bytes, size_t size);
  ssize_t Receive(char* bytes, size_t room);
  // Received bytes that no event announces.
  bool HasPending() const { return tls_ != nullptr && tls_->HasPending(); }

 private:
  int fd_ = -1;
  std::unique_ptr<TlsClient> tls_;
};

// Connected and non-blocking, without Nagle's delay.
Socket Connect(const Address& address, double timeout_s);

// A blocking conversation of single requests, for what is asked beside the load.
//
//   (Send Receive+)*      Receive once per reply: `stats` has many, a get in text has an END
class Dialogue {
 public:
  // Meta is spoken as text: no request here needs it.
  Dialogue(const Address& address, protocol::Wire wire, double timeout_s);

  // `request` without its sizes; they are taken from key and value.
  void Send(protocol::ClientRequest request, std::string_view key, std::string_view value);
  // Its views are good until the next call.
  protocol::Reply Receive();
  protocol::Wire wire() const { return wire_; }

 private:
  Address address_;
  protocol::Wire wire_;
  double timeout_s_;
  Socket socket_;
  std::string what_;     // the request that is waited for, for messages
  std::string bytes_;    // received, from the last reply on
  size_t consumed_ = 0;  // of them: the last reply
};

// What a server says of itself at one moment.
struct ServerState {
  std::map<std::string, std::string> stats;
  std::optional<uint64_t> rss_bytes;  // where the server is a process of this machine

  std::optional<double> Number(const std::string& name) const;
  std::optional<double> cpu_seconds() const;  // user and system
  std::optional<uint64_t> items() const;
  std::string version() const;
};

// Asks on a connection of its own. Text and meta servers are asked in text.
ServerState AskServer(const Address& address, protocol::Wire wire, double timeout_s);

}  // namespace load
