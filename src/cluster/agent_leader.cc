// What the agent does while its node is the leader.
#include <algorithm>
#include <utility>

#include "src/cluster/agent.h"
#include "src/log.h"

namespace server {
namespace {

using cluster::EtcdReply;
using cluster::KeyValue;
using cluster::LeaderChange;

constexpr unsigned kCallMs = 1500;
// A lease may be lost by mistake: its node comes back with the same life.
constexpr uint64_t kGraceMs = 1000;
// A new cluster waits so long for its nodes before the slabs are shared out.
constexpr uint64_t kGatherMs = 1500;
// Etcd takes 128 operations in a transaction.
constexpr size_t kChangesMax = 32;

}  // namespace

void Agent::Lead(const std::vector<KeyValue>& leader, const std::vector<KeyValue>& drains) {
  const std::string name = me_.id + " " + me_.incarnation;
  if (leader.empty()) {
    cluster::Txn txn;
    txn.IfCreateRevision(keys_.leader(), 0).Put(keys_.leader(), name, lease_);
    etcd_->Call("/kv/txn", txn.body(), kCallMs, [](const EtcdReply&) {});
    return;
  }
  const bool leads = leader[0].value == name;
  if (leads && leader_revision_ == 0) Log(kLogAlways, "cluster: this node leads");
  leader_revision_ = leads ? leader[0].create_revision : 0;
  cluster::LeaderView view;
  {
    const std::lock_guard lock(mutex_);
    figures_.leads = leads;
    if (!leads || leading_) return;
    const uint64_t now_ms = BootTimeMs();
    std::map<ServerNumber, unsigned> owned;
    bool has_map = false;
    for (const cluster::SlabRecord& record : map_) {
      has_map = has_map || record.epoch != 0;
      ++owned[record.owner];
      for (const ServerNumber number : {record.owner, record.target}) {
        if (number == 0) continue;
        const cluster::NodeLife& life = servers_[number - 1];
        const auto node = nodes_.find(life.id);
        const bool lives = node != nodes_.end() && node->second.incarnation == life.incarnation;
        if (lives) {
          missing_since_ms_.erase(number);
          continue;
        }
        const uint64_t since = missing_since_ms_.try_emplace(number, now_ms).first->second;
        // Another life of the same node: this one is over.
        if (node != nodes_.end() || now_ms >= since + kGraceMs) view.dead.insert(number);
      }
    }
    if (!has_map && now_ms < nodes_changed_ms_ + kGatherMs) return;
    const size_t share = map_.size() / std::max<size_t>(1, nodes_.size());
    for (const auto& [id, node] : nodes_) {
      const ServerNumber number = NumberOf({id, node.incarnation});
      if (has_map && owned[number] == 0) filling_.insert(id);
      if (owned[number] >= share) filling_.erase(id);
      const bool drained = std::ranges::any_of(
          drains, [&](const KeyValue& drain) { return drain.key == keys_.drain(id); });
      view.nodes.push_back({number, drained, filling_.contains(id)});
    }
    view.map = map_;
  }
  std::vector<LeaderChange> changes = cluster::Lead(view);
  if (changes.empty()) return;
  leading_ = true;
  WriteChanges(std::move(changes));
}

void Agent::WriteChanges(std::vector<LeaderChange> changes) {
  cluster::Txn txn;
  txn.IfCreateRevision(keys_.leader(), leader_revision_);
  const size_t count = std::min(changes.size(), kChangesMax);
  {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < count; ++i) {
      const LeaderChange& change = changes[i];
      txn.IfModRevision(keys_.slab(change.slab), change.epoch)
          .Put(keys_.slab(change.slab), cluster::FormatMap(WithNames(change.record)));
    }
  }
  changes.erase(changes.begin(), changes.begin() + static_cast<ptrdiff_t>(count));
  etcd_->Call("/kv/txn", txn.body(), kCallMs,
              [this, changes = std::move(changes)](const EtcdReply& reply) {
                const bool done = reply.ok() && reply.body["succeeded"].True();
                if (done && !changes.empty()) return WriteChanges(changes);
                leading_ = false;
                Poll();
              });
}

}  // namespace server
