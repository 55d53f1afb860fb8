// The server under test, seen from outside: its address, sockets to it, its statistics, its memory.
//
// Promises:  every failure is a ServerError with one sentence that names the address. Statistics
//            that a server does not have are absent, not zero.
// Requires:  calls block, up to the timeout given; not for the hot path.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "protocol/client.h"

namespace load {

// The server refused, died, stalled or answered garbage.
struct ServerError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Address {
  std::string host;  // empty: a unix socket
  std::string port;
  std::string path;

  bool is_unix() const { return host.empty(); }
  std::string Name() const;
};

// "host", "host:port", "[v6]:port", "unix:/path" or "/path"; the port is 11211 unless given. Throws
// std::invalid_argument.
Address ParseAddress(const std::string& text);

// A file descriptor that closes itself.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket();
  int fd() const { return fd_; }

 private:
  int fd_ = -1;
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
