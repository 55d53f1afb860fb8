// Routes is what the workers know of the other nodes: who owns each slab, and where they listen. A
// new one takes the place of the old one when something has changed.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

namespace server {

struct Routes {
  struct Peer {
    std::string id;                 // its address for clients
    std::string incarnation;        // of this life
    sockaddr_storage address = {};  // for other nodes
    socklen_t address_bytes = 0;    // 0: it could not be found
  };
  static constexpr uint16_t kNobody = UINT16_MAX;

  uint64_t version = 0;
  std::vector<Peer> peers;      // that live, this node included
  std::vector<uint16_t> owner;  // by slab: index in peers, or kNobody
};

}  // namespace server
