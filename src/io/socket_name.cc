#include "src/io/socket_name.h"

#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>

namespace server {
namespace {

std::string Name(const sockaddr_storage& address, socklen_t length) {
  if (address.ss_family == AF_UNIX) {
    // The kernel need not end a path of full length with a zero.
    const auto& unix_address = reinterpret_cast<const sockaddr_un&>(address);
    const size_t head = offsetof(sockaddr_un, sun_path);
    if (length <= head) return {};
    return std::string(unix_address.sun_path, strnlen(unix_address.sun_path, length - head));
  }
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  if (getnameinfo(reinterpret_cast<const sockaddr*>(&address), length, host, sizeof(host), port,
                  sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return {};
  }
  const bool six = address.ss_family == AF_INET6;
  return (six ? "[" : "") + std::string(host) + (six ? "]:" : ":") + port;
}

template <class Ask>
std::string NameBy(Ask ask, int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (ask(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) return {};
  return Name(address, length);
}

}  // namespace

std::string LocalName(int fd) { return NameBy(getsockname, fd); }
std::string PeerName(int fd) { return NameBy(getpeername, fd); }

}  // namespace server
