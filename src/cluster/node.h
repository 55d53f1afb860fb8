// Node makes this server one of a cluster: it keeps in touch with etcd, knows which slabs are its
// own and where the others are, moves slabs, and, as the leader, gives away those of dead nodes. It
// has a thread with an event loop of its own.
//
// Promises:  a slab is served only within the rules of SlabRole (tools/cluster/slab_role.h). If
// etcd is
//            out of reach, the node stops serving SlabRole::kRightMs after its last read.
// Requires:  `Join SetStore Start Stop` by the main thread; the accessors by any thread.
// Costs:     one read of etcd per second; etcd is written to only when something changes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "src/cluster/flush_ticket.h"
#include "src/cluster/ownership.h"
#include "src/cluster/routes.h"
#include "src/config/options.h"
#include "src/process/clock.h"
#include "storage/hash.h"
#include "storage/store.h"
#include "tools/cluster/records.h"

namespace server {

class Agent;

class Node {
 public:
  // Reads or makes the configuration of the cluster. Throws StartupError: etcd is out of reach, or
  // this node does not fit.
  static std::unique_ptr<Node> Join(const Options& options);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  const cluster::ClusterConfig& config() const { return config_; }
  kbf::HashSecret hash_secret() const { return kbf::HashSecret(config_.hash_secret); }
  // REQUIRES: made with hash_secret() and config().slabs
  void SetStore(kbf::Store* store, const Clock* clock);
  // Registers the node, after which it is given slabs. Throws StartupError.
  void Start();
  // Gives up all slabs and leaves.
  void Stop();

  kbf::Store& store() const { return *store_; }
  const Clock& clock() const { return *clock_; }
  Ownership& ownership() { return *ownership_; }
  const std::string& secret() const { return secret_; }
  uint64_t routes_version() const { return routes_version_.load(std::memory_order_acquire); }
  std::shared_ptr<const Routes> routes() const;

  // Everything stored before Unix time `at_unix`, 0: now, is to go from all nodes.
  std::shared_ptr<FlushTicket> RequestFlush(int64_t at_unix);

  // ---- a copy of a slab that arrives; by the worker of its connection
  bool BeginCopy(unsigned slab, uint64_t epoch, uint64_t latest_cas);
  // False: the copy is not wanted any more.
  bool AddItems(unsigned slab, uint64_t epoch, std::string_view items);
  bool ClearCopy(unsigned slab, uint64_t epoch);
  bool EndCopy(unsigned slab, uint64_t epoch);
  void LoseCopy(unsigned slab, uint64_t epoch);

  // For `stats cluster`, `stats cluster slabs` and `config get cluster`: "name value" lines.
  std::string StatsLines() const;
  std::string SlabLines() const;
  std::string ClientAddresses() const;

 private:
  explicit Node(const Options& options);

  const Options& options_;
  cluster::ClusterConfig config_;
  std::string secret_;
  kbf::Store* store_ = nullptr;
  const Clock* clock_ = nullptr;
  std::unique_ptr<Ownership> ownership_;
  mutable std::mutex routes_mutex_;
  std::shared_ptr<const Routes> routes_;
  std::atomic<uint64_t> routes_version_{0};
  std::unique_ptr<Agent> agent_;
};

}  // namespace server
