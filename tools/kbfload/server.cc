#include "tools/kbfload/server.h"

#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <fstream>
#include <memory>

namespace load {
namespace {

[[noreturn]] void Fail(const Address& address, const std::string& what) {
  throw ServerError(address.Name() + " " + what);
}

// poll() for one socket; false when the time is over.
bool WaitFor(int fd, short events, double timeout_s) {
  pollfd wait{fd, events, 0};
  return poll(&wait, 1, static_cast<int>(timeout_s * 1000)) > 0;
}

Socket ConnectTo(const Address& address, const sockaddr* name, socklen_t bytes, int family,
                 double timeout_s, std::string* error) {
  Socket socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket.fd() < 0) Fail(address, std::string("gets no socket: ") + std::strerror(errno));
  int code = 0;
  if (connect(socket.fd(), name, bytes) != 0) code = errno;
  // A unix socket whose backlog is full says EAGAIN: wait a little, as a blocking connect would.
  for (int i = 0; code == EAGAIN && i < timeout_s * 1000; ++i) {
    usleep(1000);
    code = connect(socket.fd(), name, bytes) == 0 ? 0 : errno;
  }
  if (code == EINPROGRESS) {
    socklen_t length = sizeof code;
    code = ETIMEDOUT;
    if (WaitFor(socket.fd(), POLLOUT, timeout_s)) {
      getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &code, &length);
    }
  }
  if (code == 0) return socket;
  *error = std::strerror(code);
  return Socket();
}

Socket ConnectUnix(const Address& address, double timeout_s, std::string* error) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, address.path.data(), address.path.size());
  return ConnectTo(address, reinterpret_cast<sockaddr*>(&name), sizeof name, AF_UNIX, timeout_s,
                   error);
}

Socket ConnectTcp(const Address& address, double timeout_s, std::string* error) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(address.host.c_str(), address.port.c_str(), &hints, &found);
  if (code != 0) Fail(address, std::string("cannot be found: ") + gai_strerror(code));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    Socket socket =
        ConnectTo(address, at->ai_addr, at->ai_addrlen, at->ai_family, timeout_s, error);
    if (socket.fd() < 0) continue;
    const int on = 1;
    setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return socket;
  }
  return Socket();
}

bool IsLocal(const Address& address) {
  return address.is_unix() || address.host == "localhost" || address.host == "::1" ||
         address.host.starts_with("127.");
}

// VmRSS of a process; absent where there is none that may be looked at.
std::optional<uint64_t> RssOf(const std::string& pid) {
  std::ifstream status("/proc/" + pid + "/status");
  for (std::string word; status >> word;) {
    uint64_t kib = 0;
    if (word == "VmRSS:" && status >> kib) return kib * 1024;
  }
  return std::nullopt;
}

bool IsAllDigits(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::string Address::Name() const {
  if (is_unix()) return "unix:" + path;
  return (tls ? "tls:" : "") + (host.find(':') == std::string::npos ? host : "[" + host + "]") +
         ":" + port;
}

namespace {

bool IsPort(const std::string& text) {
  unsigned port = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, port);
  return code == std::errc() && stop == end && port > 0 && port <= 65535;
}

[[noreturn]] void Refuse(const std::string& given, const std::string& why) {
  throw std::invalid_argument("'" + given + "' is not a server: " + why);
}

std::string ParsePath(const std::string& given, const std::string& text) {
  std::string path = text.substr(text.starts_with("/") ? 0 : 5);
  if (path.empty() || path.size() >= sizeof(sockaddr_un::sun_path)) {
    Refuse(given, "the path of a unix socket has 1 to 107 bytes");
  }
  return path;
}

void ParseHostAndPort(const std::string& given, const std::string& text, Address* address) {
  const size_t bracket = text.starts_with("[") ? text.find(']') : 0;
  if (bracket == std::string::npos) Refuse(given, "']' is missing");
  const size_t colon = text.find(':', bracket);
  address->host = bracket > 0 ? text.substr(1, bracket - 1) : text.substr(0, colon);
  address->port = colon == std::string::npos ? "11211" : text.substr(colon + 1);
  if (address->host.empty()) Refuse(given, "give host:port, [v6]:port or unix:/path");
  if (colon == std::string::npos && IsAllDigits(text)) {
    Refuse(given, "a port stands behind its host, as in 127.0.0.1:" + text);
  }
  if (!IsPort(address->port)) Refuse(given, "the port is a number from 1 to 65535");
}

}  // namespace

Address ParseAddress(const std::string& given) {
  Address address;
  address.tls = given.starts_with("tls:");
  const std::string text = given.substr(address.tls ? 4 : 0);
  if (text.starts_with("unix:") || text.starts_with("/")) {
    if (address.tls) Refuse(given, "TLS is for TCP");
    address.path = ParsePath(given, text);
  } else {
    ParseHostAndPort(given, text, &address);
  }
  return address;
}

std::string Socket::BeginTls(double timeout_s) {
  tls_ = std::make_unique<TlsClient>(fd_);
  return tls_->Handshake(timeout_s);
}

ssize_t Socket::Send(const char* bytes, size_t size) {
  if (tls_ != nullptr) return tls_->Send(bytes, size);
  return send(fd_, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
}

ssize_t Socket::Receive(char* bytes, size_t room) {
  if (tls_ != nullptr) return tls_->Receive(bytes, room);
  return recv(fd_, bytes, room, MSG_DONTWAIT);
}

Socket::~Socket() {
  tls_.reset();
  if (fd_ >= 0) close(fd_);
}

Socket Connect(const Address& address, double timeout_s) {
  std::string error = "no address";
  Socket socket = address.is_unix() ? ConnectUnix(address, timeout_s, &error)
                                    : ConnectTcp(address, timeout_s, &error);
  if (socket.fd() < 0)
    Fail(address, "refuses the connection: " + error + "; is a server running there?");
  if (!address.tls) return socket;
  if (const std::string fault = socket.BeginTls(timeout_s); !fault.empty()) {
    Fail(address, "speaks no TLS: " + fault);
  }
  return socket;
}

Dialogue::Dialogue(const Address& address, protocol::Wire wire, double timeout_s)
    : address_(address),
      wire_(wire == protocol::Wire::kBinary ? wire : protocol::Wire::kText),
      timeout_s_(timeout_s),
      socket_(Connect(address, timeout_s)) {}

void Dialogue::Send(protocol::ClientRequest request, std::string_view key, std::string_view value) {
  request.key_bytes = key.size();
  request.value_bytes = value.size();
  std::string out(protocol::kFrameBytesMax + key.size() + value.size(), '\0');
  const protocol::RequestFrame frame = protocol::FrameRequest(wire_, request, out.data());
  key.copy(frame.key, key.size());
  value.copy(frame.value, value.size());
  what_ = request.op == protocol::Op::kStats ? "'stats'" : "the request for " + std::string(key);
  // A single request fits into the socket's buffer, so it is sent as a whole or not at all.
  const auto bytes = static_cast<size_t>(frame.end - out.data());
  if (socket_.Send(out.data(), bytes) != static_cast<ssize_t>(bytes)) {
    Fail(address_, "takes no request: " + std::string(std::strerror(errno)));
  }
}

protocol::Reply Dialogue::Receive() {
  bytes_.erase(0, std::exchange(consumed_, 0));
  for (;;) {
    protocol::Reply reply;
    const protocol::ReplyResult result = protocol::ParseReply(wire_, bytes_, &reply);
    if (result.status == protocol::ReplyStatus::kBroken) {
      Fail(address_, "answers garbage to " + what_);
    }
    if (result.status == protocol::ReplyStatus::kOk) {
      consumed_ = result.consumed;
      return reply;
    }
    char buffer[16384];
    if (!socket_.HasPending() && !WaitFor(socket_.fd(), POLLIN, timeout_s_)) {
      Fail(address_, "does not answer " + what_);
    }
    const ssize_t got = socket_.Receive(buffer, sizeof buffer);
    if (got < 0 && errno == EAGAIN) continue;
    if (got <= 0) Fail(address_, "hangs up instead of answering " + what_);
    bytes_.append(buffer, static_cast<size_t>(got));
  }
}

std::optional<double> ServerState::Number(const std::string& name) const {
  const auto found = stats.find(name);
  if (found == stats.end()) return std::nullopt;
  double number = 0;
  const std::string& text = found->second;
  const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<double> ServerState::cpu_seconds() const {
  const auto user = Number("rusage_user");
  const auto system = Number("rusage_system");
  if (!user || !system) return std::nullopt;
  return *user + *system;
}

std::optional<uint64_t> ServerState::items() const {
  const auto number = Number("curr_items");
  return number ? std::optional(static_cast<uint64_t>(*number)) : std::nullopt;
}

std::string ServerState::version() const {
  const auto found = stats.find("version");
  return found == stats.end() ? "" : found->second;
}

ServerState AskServer(const Address& address, protocol::Wire wire, double timeout_s) {
  ServerState state;
  Dialogue dialogue(address, wire, timeout_s);
  dialogue.Send({.op = protocol::Op::kStats}, "", "");
  for (;;) {
    const protocol::Reply reply = dialogue.Receive();
    if (reply.kind != protocol::ReplyKind::kStat) break;  // the end, or no statistics here
    state.stats[std::string(reply.key)] = reply.value;
  }
  if (const auto pid = state.stats.find("pid"); pid != state.stats.end() && IsLocal(address)) {
    state.rss_bytes = RssOf(pid->second);
  }
  return state;
}

}  // namespace load
