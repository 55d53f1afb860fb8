// The addresses of -l, as text and in parts. Nothing is looked up here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace server {

struct ListenAddress {
  std::string host;     // a name or an address, IPv6 without its brackets
  uint16_t port = 0;    // 0: the kernel chooses
  bool no_tls = false;  // "notls:": unencrypted, whatever -Z says
  bool operator==(const ListenAddress&) const = default;
};

// The parts of a list, split where memcached splits it; at least one. Throws StartupError.
std::vector<std::string> AddressesIn(std::string_view list);

// "host", "host:port", "::1", "[::1]:port", each also after "notls:". Throws StartupError.
ListenAddress ParseAddress(std::string_view text, uint16_t default_port);

}  // namespace server
