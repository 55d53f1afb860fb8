#include <sys/socket.h>

#include <algorithm>
#include <string>
#include <vector>

#include "src/io/socket_name.h"
#include "src/stats/sections.h"

namespace server {
namespace {

struct Socket {
  int fd;
  std::string peer;  // empty: it listens
  std::string local;
  std::string_view state;
  uint32_t last_command;
};

int FamilyOf(int fd) {
  int family = AF_UNSPEC;
  socklen_t length = sizeof(family);
  (void)getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &length);
  return family;
}

std::string Prefixed(int family, const std::string& name) {
  return (family == AF_UNIX ? "unix:" : family == AF_INET6 ? "tcp6:" : "tcp:") + name;
}

Socket SocketOf(const ConnectionInfo& connection) {
  const int fd = connection.fd;
  const int family = FamilyOf(fd);
  // Clients of a unix socket have no address; this is what memcached makes of them.
  const std::string peer = family == AF_UNIX ? "?:<AF 0>" : Prefixed(family, PeerName(fd));
  return {fd, peer, Prefixed(family, LocalName(fd)), NameOf(connection.state),
          connection.last_command};
}

}  // namespace

void WriteConnections(const ServerView& server, StatsSink* out) {
  std::vector<Socket> sockets;
  for (const int fd : server.listen_fds) {
    sockets.push_back(
        {fd, "", Prefixed(FamilyOf(fd), LocalName(fd)), "conn_listening", server.clock.start()});
  }
  // The names are read during the visit: afterwards a descriptor may belong to another socket.
  for (const WorkerView* worker : server.workers) {
    worker->VisitConnections(
        [&sockets](const ConnectionInfo& info) { sockets.push_back(SocketOf(info)); });
  }
  std::ranges::sort(sockets, {}, &Socket::fd);
  const uint32_t now = server.clock.Now();
  for (const Socket& one : sockets) {
    const std::string prefix = std::to_string(one.fd) + ":";
    out->Add(prefix + "addr", one.peer.empty() ? one.local : one.peer);
    if (!one.peer.empty()) out->Add(prefix + "listen_addr", one.local);
    out->Add(prefix + "state", one.state);
    out->Add(prefix + "secs_since_last_cmd", now - std::min(now, one.last_command));
  }
}

}  // namespace server
