// The leader's decisions: which slabs get or change their owner. Pure: it sees what was read from
// etcd, and says which records to write, each only if it is still the one that was seen.
//
//   no record             shared out among the nodes
//   its owner is dead     to the node that it was moving to, else to the node with the fewest slabs
//   its owner is drained  moves to the node with the fewest slabs
//   a node has too few    a node that came lately gets slabs from those with the most
//   its target is dead    stays
//
// Promises:  never more than kMovesMax moves under way at a time, and only one from or to a node.
//            A node that is drained gets nothing, unless all are.
// Requires:  `dead` is not said lightly: a node may still serve for SlabRole::kRightMs.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tools/cluster/slab_role.h"

namespace cluster {

struct LeaderView {
  struct Node {
    ServerNumber number = 0;
    bool drained = false;
    bool filling = false;  // it came lately, and has not yet had its share
  };
  std::vector<Node> nodes;  // that live
  // By slab; epoch 0: there is none. An owner that is not in `nodes` may live: see `dead`.
  std::vector<SlabRecord> map;
  std::set<ServerNumber> dead;
};

struct LeaderChange {
  unsigned slab = 0;
  uint64_t epoch = 0;  // of the record that it replaces
  SlabRecord record;
};

inline constexpr unsigned kMovesMax = 4;

std::vector<LeaderChange> Lead(const LeaderView& view);

}  // namespace cluster
