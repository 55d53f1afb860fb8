#include "src/net/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include "src/io/socket_name.h"
#include "src/log.h"
#include "src/net/worker.h"
#include "src/process/startup_error.h"

namespace server {
namespace {

constexpr std::string_view kTooMany = "ERROR Too many open connections\r\n";
constexpr timeval kRetryInterval = {0, 10'000};

void Set(int fd, int level, int option) {
  const int on = 1;
  (void)setsockopt(fd, level, option, &on, sizeof(on));
}

// Reads what the client has sent already: otherwise closing would reset the connection, and the
// reset could overtake the error line.
void Refuse(int client) {
  (void)!send(client, kTooMany.data(), kTooMany.size(), MSG_NOSIGNAL);
  shutdown(client, SHUT_WR);
  char discard_buffer[2048];
  (void)!recv(client, discard_buffer, sizeof(discard_buffer), 0);
  close(client);
}

// Without -l: loopback, as Debian's memcached.
std::vector<ListenAddress> AddressesOf(const Options& options) {
  if (!options.wants_tcp()) return {};
  if (options.listen_given) return options.listen;
  const auto port = static_cast<uint16_t>(options.port == kAnyPort ? 0 : options.port);
  if (port == 0) return {{"127.0.0.1", 0}};
  return {{"127.0.0.1", port}, {"::1", port}};
}

bool IsLoopbackOnly(const std::vector<ListenAddress>& addresses) {
  for (const ListenAddress& address : addresses) {
    if (address.host != "127.0.0.1" && address.host != "::1" && address.host != "localhost") {
      return false;
    }
  }
  return true;
}

// Removes a socket on which no server listens any more from `path`. Any other file is an error.
void ClearUnixPath(const std::string& path, const sockaddr_un& address) {
  const std::string failure = "cannot listen on " + path + ": ";
  struct stat before {};
  if (lstat(path.c_str(), &before) != 0) return;  // free, or bind will fail with the reason
  if (!S_ISSOCK(before.st_mode)) {
    throw StartupError(failure + "there is a file that is not a socket; choose a path with -s");
  }
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) throw StartupError(std::string("cannot make a unix socket: ") + strerror(errno));
  const bool connected =
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  const int error = connected ? 0 : errno;
  close(fd);
  // EAGAIN: the backlog of a server is full. EPROTOTYPE: the socket is one for datagrams.
  if (connected || error == EAGAIN || error == EPROTOTYPE) {
    throw StartupError(failure + "another server is using it; choose a path with -s");
  }
  if (error == ENOENT) return;
  if (error != ECONNREFUSED) {
    throw StartupError(failure + "cannot tell whether a server is using it: " + strerror(error));
  }
  unlink(path.c_str());
}

}  // namespace

ListenSockets::ListenSockets(const Options& options) : backlog_(options.backlog) {
  try {
    Open(options);
  } catch (...) {
    Close();  // the destructor does not run when the constructor throws
    throw;
  }
}

void ListenSockets::Open(const Options& options) {
  if (!options.unix_path.empty()) OpenUnix(options.unix_path, options.unix_mask);
  const std::vector<ListenAddress> addresses = AddressesOf(options);
  for (size_t i = 0; i < addresses.size(); ++i) {
    // The default adds ::1, which not every machine has.
    OpenTcp(addresses[i], options.tls.enabled && !addresses[i].no_tls,
            options.listen_given || i == 0);
  }
  if (fds_.empty()) throw StartupError("nothing to listen on: give -p, -l or -s");
  if (options.auth_file.empty() && !IsLoopbackOnly(addresses)) {
    Log(kLogAlways,
        "warning: listening beyond this machine without authentication; keep the port firewalled");
  }
}

ListenSockets::~ListenSockets() { Close(); }

void ListenSockets::Close() {
  for (const int fd : fds_) close(fd);
  fds_.clear();
  UnlinkUnix();
}

void ListenSockets::UnlinkUnix() {
  struct stat now {};
  // The path may have been removed and bound by another server meanwhile.
  if (!unix_path_.empty() && lstat(unix_path_.c_str(), &now) == 0 && now.st_dev == unix_device_ &&
      now.st_ino == unix_inode_) {
    unlink(unix_path_.c_str());
  }
  unix_path_.clear();
}

void ListenSockets::OpenTcp(const ListenAddress& address, bool tls, bool must) {
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  const std::string port = std::to_string(address.port);
  const std::string name = address.host + ":" + port;
  addrinfo* found = nullptr;
  const char* host = address.host.empty() || address.host == "*" ? nullptr : address.host.c_str();
  if (const int code = getaddrinfo(host, port.c_str(), &hints, &found); code != 0) {
    if (!must) return;
    throw StartupError("cannot listen on " + name + ": " + gai_strerror(code) +
                       "; -l takes an address or a name of this machine, such as 127.0.0.1");
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  int error = 0;
  size_t opened = 0;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    const int fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
      error = errno;
      continue;
    }
    Set(fd, SOL_SOCKET, SO_REUSEADDR);
    if (at->ai_family == AF_INET6) Set(fd, IPPROTO_IPV6, IPV6_V6ONLY);
    if (bind(fd, at->ai_addr, at->ai_addrlen) != 0) {
      error = errno;
      close(fd);
      continue;
    }
    fds_.push_back(fd);
    if (tls) tls_fds_.push_back(fd);
    ++opened;
  }
  if (opened == 0 && must) {
    throw StartupError(
        "cannot listen on " + name + ": " + strerror(error) +
        (error == EADDRINUSE ? "; another server is there, choose a port with -p" : ""));
  }
}

void ListenSockets::OpenUnix(const std::string& path, unsigned mask) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    throw StartupError("unix socket path is longer than 107 bytes: " + path);
  }
  memcpy(address.sun_path, path.c_str(), path.size() + 1);
  ClearUnixPath(path, address);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) throw StartupError(std::string("cannot make a unix socket: ") + strerror(errno));
  fds_.push_back(fd);
  const mode_t saved = umask(static_cast<mode_t>(~mask & 0777));
  const int bound = bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  const int error = errno;
  umask(saved);
  struct stat made {};
  if (bound != 0 || lstat(path.c_str(), &made) != 0) {
    throw StartupError("cannot listen on " + path + ": " + strerror(bound != 0 ? error : errno));
  }
  std::error_code ignored;
  unix_path_ = std::filesystem::absolute(path, ignored).string();
  unix_device_ = made.st_dev;
  unix_inode_ = made.st_ino;
  // This socket listens now, before everything is ready: a server that starts meanwhile would take
  // a bound socket that does not listen for an unused one. Early clients wait in the backlog.
  if (::listen(fd, backlog_) != 0) {
    throw StartupError("cannot listen on " + path + ": " + strerror(errno));
  }
}

void ListenSockets::Listen() {
  for (const int fd : fds_) {
    if (::listen(fd, backlog_) == 0) continue;
    throw StartupError("cannot listen on " + LocalName(fd) + ": " + strerror(errno));
  }
  WritePortFile();
}

std::vector<std::string> ListenSockets::names() const {
  std::vector<std::string> names;
  for (const int fd : fds_) names.push_back(LocalName(fd));
  return names;
}

// Test suites for memcached read from this file which port "-p -1" got.
void ListenSockets::WritePortFile() const {
  const char* path = getenv("MEMCACHED_PORT_FILENAME");
  if (path == nullptr) return;
  const std::string temporary = std::string(path) + ".lck";
  std::FILE* file = std::fopen(temporary.c_str(), "a");
  if (file == nullptr) throw StartupError("cannot write " + temporary + ": " + strerror(errno));
  for (const int fd : fds_) {
    sockaddr_storage address{};
    socklen_t length = sizeof(address);
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) continue;
    if (address.ss_family == AF_INET) {
      std::fprintf(file, "TCP INET: %u\n",
                   ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port));
    } else if (address.ss_family == AF_INET6) {
      std::fprintf(file, "TCP INET6: %u\n",
                   ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port));
    }
  }
  std::fclose(file);
  if (rename(temporary.c_str(), path) != 0) {
    throw StartupError(std::string("cannot write ") + path + ": " + strerror(errno));
  }
}

// ---- accepting ----------------------------------------------------------------------------------

Listener::Listener(State& state, std::vector<Worker*> workers, event_base* base)
    : state_(state), workers_(std::move(workers)), retry_(event_new(base, -1, 0, OnRetry, this)) {
  for (const int fd : state.listen_fds) {
    events_.push_back(event_new(base, fd, EV_READ | EV_PERSIST, OnAccept, this));
    if (event_add(events_.back(), nullptr) != 0) throw StartupError("cannot watch a socket");
  }
}

Listener::~Listener() {
  for (event* each : events_) event_free(each);
  event_free(retry_);
}

void Listener::OnAccept(evutil_socket_t fd, short, void* listener) noexcept {
  // A limited number at a time, so that signals are handled in between.
  for (int i = 0; i < 64; ++i) {
    if (!static_cast<Listener*>(listener)->AcceptOne(fd)) return;
  }
}

bool Listener::AcceptOne(int fd) {
  const Options& options = state_.options;
  const bool full =
      state_.connections.current.load(std::memory_order_relaxed) >= options.connections_max;
  if (full && !options.maxconns_fast) {
    Pause();
    return false;
  }
  sockaddr_storage peer;
  socklen_t length = sizeof(peer);
  const int client =
      accept4(fd, reinterpret_cast<sockaddr*>(&peer), &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (client < 0) {
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      Log(kLogErrors, "cannot accept: %s", strerror(errno));
      Pause();
    }
    return errno == ECONNABORTED || errno == EINTR;
  }
  if (full) {
    state_.connections.rejected.fetch_add(1, std::memory_order_relaxed);
    Refuse(client);
    return true;
  }
  if (peer.ss_family != AF_UNIX) {
    Set(client, IPPROTO_TCP, TCP_NODELAY);
    Set(client, SOL_SOCKET, SO_KEEPALIVE);
  }
  state_.connections.current.fetch_add(1, std::memory_order_relaxed);
  state_.connections.total.fetch_add(1, std::memory_order_relaxed);
  workers_[next_worker_++ % workers_.size()]->Adopt(
      client, std::ranges::count(state_.tls_listen_fds, fd) != 0);
  return true;
}

void Listener::Pause() {
  if (!state_.connections.accepting.exchange(false)) return;
  state_.connections.listen_disabled.fetch_add(1, std::memory_order_relaxed);
  for (event* each : events_) event_del(each);
  event_add(retry_, &kRetryInterval);
}

void Listener::OnRetry(evutil_socket_t, short, void* listener) noexcept {
  auto* self = static_cast<Listener*>(listener);
  const State& state = self->state_;
  if (state.connections.current.load(std::memory_order_relaxed) >= state.options.connections_max) {
    event_add(self->retry_, &kRetryInterval);
    return;
  }
  self->state_.connections.accepting = true;
  for (event* each : self->events_) event_add(each, nullptr);
}

}  // namespace server
