// What a cluster keeps in etcd, under /kbf/<cluster>/, and its form as text.
//
//   config        how many slabs, the hash secret, what all nodes must agree on; created once
//   nodes/<id>    leased: a node that runs, its addresses and its incarnation
//   map/<slab>    owner, and where it is to move
//   leader        leased: who gives away the slabs of dead nodes
//   flush         the last flush_all
//   drain/<id>    the node is to be emptied, and gets nothing
//
// An id is the node's address for clients, "host:port".
//
// Promises:  what a Format… function writes the matching Parse… function reads; what cannot be read
//            gives nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cluster {

inline constexpr size_t kHashSecretBytes = 192;
inline constexpr unsigned kSlabsMax = 4096;

// A name or an id may stand in a key of etcd and in a line of a protocol.
bool IsClusterName(std::string_view name);

class Keys {
 public:
  explicit Keys(std::string_view cluster) : root_("/kbf/" + std::string(cluster) + "/") {}
  const std::string& root() const { return root_; }
  std::string config() const { return root_ + "config"; }
  std::string nodes() const { return root_ + "nodes/"; }
  std::string node(std::string_view id) const { return nodes() + std::string(id); }
  std::string map() const { return root_ + "map/"; }
  std::string slab(unsigned slab) const;
  std::string leader() const { return root_ + "leader"; }
  std::string flush() const { return root_ + "flush"; }
  std::string drains() const { return root_ + "drain/"; }
  std::string drain(std::string_view id) const { return drains() + std::string(id); }

 private:
  std::string root_;
};

struct ClusterConfig {
  unsigned slabs = 0;
  std::array<std::byte, kHashSecretBytes> hash_secret = {};
  std::string agreed;        // what every node must have alike: "item_size_max=1048576 ..."
  std::string secret_check;  // from the secret of the inner connections, see handshake.h
};
std::string FormatConfig(const ClusterConfig& config);
std::optional<ClusterConfig> ParseConfig(std::string_view text);

struct NodeRecord {
  std::string incarnation;  // of this life
  std::string inner;        // "host:port" for other nodes
};
std::string FormatNode(const NodeRecord& node);
std::optional<NodeRecord> ParseNode(std::string_view text);

// One life of a node, by name.
struct NodeLife {
  std::string id;
  std::string incarnation;
  bool empty() const { return id.empty(); }
  friend bool operator==(const NodeLife&, const NodeLife&) = default;
};
// See SlabRecord, which has numbers in place of names.
struct MapRecord {
  uint64_t term = 0;
  NodeLife owner;
  NodeLife target;
  uint64_t copied_in = 0;
};
std::string FormatMap(const MapRecord& record);
std::optional<MapRecord> ParseMap(std::string_view text);

// flush_all: at Unix time `at_unix`, or at once if that is 0.
std::string FormatFlush(int64_t at_unix);
std::optional<int64_t> ParseFlush(std::string_view text);

}  // namespace cluster
