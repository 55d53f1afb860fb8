// The ends of a socket as text: "127.0.0.1:11211", "[::1]:11211", "/run/kbfcached.sock".
#pragma once

#include <string>

namespace server {

// Empty if there is no name.
std::string LocalName(int fd);
std::string PeerName(int fd);

}  // namespace server
