#include "tools/cluster/leader.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <vector>

namespace {

using cluster::Lead;
using cluster::LeaderChange;
using cluster::LeaderView;
using cluster::ServerNumber;
using cluster::SlabRecord;

LeaderView Nodes(std::vector<LeaderView::Node> nodes, size_t slabs) {
  LeaderView view;
  view.nodes = std::move(nodes);
  view.map.resize(slabs);
  return view;
}

// As etcd and the nodes would: the changes are written, and moves end.
void Apply(const std::vector<LeaderChange>& changes, bool finish_moves, LeaderView* view) {
  for (const LeaderChange& change : changes) {
    SlabRecord& record = view->map[change.slab];
    REQUIRE(record.epoch == change.epoch);
    const uint64_t epoch = record.epoch + 1;
    record = change.record;
    record.epoch = epoch;
    if (!finish_moves || record.target == 0) continue;
    record = cluster::Moved(record);
    record.epoch = epoch + 1;
  }
}

std::map<ServerNumber, unsigned> Counts(const LeaderView& view) {
  std::map<ServerNumber, unsigned> counts;
  for (const SlabRecord& record : view.map) ++counts[record.owner];
  return counts;
}

}  // namespace

TEST_SUITE("cluster") {
  TEST_CASE("a new cluster's slabs are shared out evenly, once") {
    LeaderView view = Nodes({{1}, {2}, {3}}, 64);
    Apply(Lead(view), true, &view);
    const auto counts = Counts(view);
    REQUIRE(counts.size() == 3);
    for (const auto& [node, count] : counts) CHECK((count == 21 || count == 22));
    CHECK(Lead(view).empty());
  }

  TEST_CASE("slabs of a dead node go to the target of their move, or to the emptiest node") {
    LeaderView view = Nodes({{1}, {2}, {3}}, 9);
    Apply(Lead(view), true, &view);
    const auto moving = std::ranges::find(view.map, ServerNumber{1}, &SlabRecord::owner);
    moving->target = 3;
    view.nodes.erase(view.nodes.begin());
    // Not said to be dead: perhaps its lease was lost by mistake.
    CHECK(Lead(view).empty());
    view.dead = {1};
    const uint64_t epoch = moving->epoch;
    Apply(Lead(view), false, &view);
    CHECK(moving->owner == 3);
    CHECK(moving->copied_in == epoch);
    const auto counts = Counts(view);
    REQUIRE(counts.size() == 2);
    CHECK(counts.at(2) + counts.at(3) == 9);
    CHECK(std::max(counts.at(2), counts.at(3)) == 5);
    for (const SlabRecord& record : view.map) CHECK((&record == &*moving || record.copied_in == 0));
  }

  TEST_CASE("a move to a dead node is taken back") {
    LeaderView view = Nodes({{1}}, 2);
    Apply(Lead(view), true, &view);
    view.map[0].target = 2;
    view.dead = {2};
    Apply(Lead(view), false, &view);
    CHECK(view.map[0].target == 0);
    CHECK(view.map[0].owner == 1);
  }

  TEST_CASE("a drained node is emptied, a few slabs at a time, and gets nothing") {
    LeaderView view = Nodes({{1}, {2}, {3}}, 12);
    Apply(Lead(view), true, &view);
    view.nodes[0].drained = true;
    unsigned rounds = 0;
    for (std::vector<LeaderChange> changes; !(changes = Lead(view)).empty(); ++rounds) {
      CHECK(changes.size() <= cluster::kMovesMax);
      Apply(changes, true, &view);
    }
    CHECK(rounds >= 4);
    const auto counts = Counts(view);
    CHECK(counts.size() == 2);
    CHECK(counts.at(2) == 6);
    // Where all are drained, slabs without an owner must go somewhere.
    LeaderView last = Nodes({{1, true}}, 1);
    CHECK(Lead(last).size() == 1);
  }

  TEST_CASE("a node that came lately gets its share, one slab after the other") {
    LeaderView view = Nodes({{1}, {2}}, 30);
    Apply(Lead(view), true, &view);
    view.nodes.push_back({3, false, true});
    unsigned moves = 0;
    for (std::vector<LeaderChange> changes; !(changes = Lead(view)).empty() && moves < 100;) {
      moves += static_cast<unsigned>(changes.size());
      // While a move is under way, its nodes begin no other.
      LeaderView moving = view;
      Apply(changes, false, &moving);
      for (const LeaderChange& change : Lead(moving)) {
        CHECK(change.record.target == 0);
      }
      Apply(changes, true, &view);
    }
    // 15 and 15 become 10, 10 and 10.
    CHECK(moves == 10);
    for (const auto& [number, slabs] : Counts(view)) CHECK(slabs == 10);
  }
}
