#include "tools/cluster/leader.h"

#include <algorithm>
#include <map>

namespace cluster {
namespace {

class Decider {
 public:
  explicit Decider(const LeaderView& view) : view_(view) {
    for (const LeaderView::Node& node : view.nodes) {
      counts_[node.number] = 0;
      all_drained_ = all_drained_ && node.drained;
    }
    for (const SlabRecord& record : view.map) {
      if (record.epoch == 0) continue;
      const ServerNumber to = record.target != 0 ? record.target : record.owner;
      if (const auto at = counts_.find(to); at != counts_.end()) ++at->second;
      if (record.target == 0 || view.dead.contains(record.owner)) continue;
      ++moves_;
      busy_.insert({record.owner, record.target});
    }
  }

  std::vector<LeaderChange> Decide() {
    for (unsigned slab = 0; slab < view_.map.size(); ++slab) Repair(slab);
    for (unsigned slab = 0; slab < view_.map.size(); ++slab) Drain(slab);
    Fill();
    return std::move(changes_);
  }

 private:
  bool Lives(ServerNumber number) const { return counts_.contains(number); }
  bool IsDrained(ServerNumber number) const {
    return std::ranges::any_of(view_.nodes, [&](const LeaderView::Node& node) {
      return node.number == number && node.drained;
    });
  }

  // The node with the fewest slabs that may get one. 0: none.
  ServerNumber Emptiest() const {
    ServerNumber best = 0;
    for (const LeaderView::Node& node : view_.nodes) {
      if (node.drained && !all_drained_) continue;
      if (best == 0 || counts_.at(node.number) < counts_.at(best)) best = node.number;
    }
    return best;
  }

  void Change(unsigned slab, const SlabRecord& record) {
    changes_.push_back({slab, view_.map[slab].epoch, record});
  }

  // What has no owner gets one.
  void Repair(unsigned slab) {
    const SlabRecord& record = view_.map[slab];
    if (record.epoch == 0) {
      const ServerNumber owner = Emptiest();
      if (owner == 0) return;
      ++counts_[owner];
      return Change(slab, {0, 1, owner, 0, 0});
    }
    if (view_.dead.contains(record.owner)) {
      // It may have the whole copy; if not, it begins empty.
      if (Lives(record.target)) return Change(slab, Moved(record));
      const ServerNumber owner = Emptiest();
      if (owner == 0) return;
      ++counts_[owner];
      return Change(slab, TakenOver(record, owner));
    }
    if (record.target != 0 && view_.dead.contains(record.target)) {
      Change(slab, WithoutTarget(record));
    }
  }

  bool MayMove(ServerNumber from, ServerNumber to) const {
    return moves_ < kMovesMax && to != 0 && from != to && !busy_.contains(from) &&
           !busy_.contains(to);
  }

  void Move(unsigned slab, ServerNumber to) {
    const SlabRecord& record = view_.map[slab];
    ++moves_;
    busy_.insert({record.owner, to});
    --counts_[record.owner];
    ++counts_[to];
    Change(slab, WithTarget(record, to));
  }

  void Drain(unsigned slab) {
    const SlabRecord& record = view_.map[slab];
    if (all_drained_ || record.epoch == 0 || record.target != 0 || !Lives(record.owner)) return;
    if (!IsDrained(record.owner)) return;
    const ServerNumber to = Emptiest();
    if (MayMove(record.owner, to)) Move(slab, to);
  }

  void Fill() {
    for (const LeaderView::Node& node : view_.nodes) {
      if (!node.filling || node.drained) continue;
      // From the node with the most.
      const auto fullest = std::ranges::max_element(
          counts_, [](const auto& a, const auto& b) { return a.second < b.second; });
      if (fullest->second < counts_[node.number] + 2) continue;
      if (!MayMove(fullest->first, node.number)) continue;
      for (unsigned slab = 0; slab < view_.map.size(); ++slab) {
        const SlabRecord& record = view_.map[slab];
        if (record.owner != fullest->first || record.target != 0) continue;
        Move(slab, node.number);
        break;
      }
    }
  }

  const LeaderView& view_;
  std::map<ServerNumber, unsigned> counts_;  // slabs, as if all moves had ended
  std::set<ServerNumber> busy_;
  unsigned moves_ = 0;
  bool all_drained_ = true;
  std::vector<LeaderChange> changes_;
};

}  // namespace

std::vector<LeaderChange> Lead(const LeaderView& view) { return Decider(view).Decide(); }

}  // namespace cluster
