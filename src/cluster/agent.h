// Agent is the cluster's thread at one node: it reads etcd once a second and when the watch says
// that something has changed, drives the SlabRole of every slab, sends slabs away, and, while the
// node is the leader, decides for all.
//
// Promises:  see node.h.
// Requires:  `Register Run Stop` by one thread; the methods of copies and RequestFlush by any. Lock
//            order: mutex_ -> a slab of the store; a worker holds mutex_ only inside these methods.
#pragma once

#include <event2/event.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "src/cluster/flush_ticket.h"
#include "src/cluster/ownership.h"
#include "src/cluster/routes.h"
#include "src/cluster/slab_sender.h"
#include "src/config/options.h"
#include "tools/cluster/etcd_client.h"
#include "tools/cluster/leader.h"
#include "tools/cluster/records.h"
#include "tools/cluster/slab_role.h"

namespace server {

struct AgentContext {
  const ClusterOptions& options;
  const std::string& secret;
  kbf::Store& store;
  const Clock& clock;
  Ownership& ownership;
  std::function<void(std::shared_ptr<const Routes>)> publish;
};

class Agent final : public SlabSenderOwner {
 public:
  explicit Agent(const AgentContext& context);
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  // Throws StartupError: another server runs as this node, or etcd is out of reach.
  void Register();
  void Run();
  void Stop();

  std::shared_ptr<FlushTicket> RequestFlush(int64_t at_unix);
  bool BeginCopy(unsigned slab, uint64_t epoch, uint64_t latest_cas);
  bool AddItems(unsigned slab, uint64_t epoch, std::string_view items);
  bool ClearCopy(unsigned slab, uint64_t epoch);
  bool EndCopy(unsigned slab, uint64_t epoch);
  void LoseCopy(unsigned slab, uint64_t epoch);

  struct Figures {
    bool leads = false;
    uint64_t polls = 0, polls_failed = 0;
    uint64_t moves_out = 0, moves_in = 0, moves_failed = 0, takeovers = 0, flushes = 0;
    uint64_t items_sent = 0, items_received = 0;
    unsigned nodes = 0, slabs_owned = 0, slabs_moving = 0;
    std::string etcd;
  };
  Figures figures() const;

 private:
  using ServerNumber = cluster::ServerNumber;
  struct PendingFlush {
    std::shared_ptr<FlushTicket> ticket;
    uint64_t done_ms = 0;
  };

  // ---- agent.cc
  void Poll();
  void OnPoll(uint64_t sent_ms, const cluster::EtcdReply& reply);
  void ReadNodes(const std::vector<cluster::KeyValue>& nodes);
  void ReadMap(const std::vector<cluster::KeyValue>& map);
  void ReadFlush(const std::vector<cluster::KeyValue>& flush);
  void Act(unsigned slab, const cluster::SlabActions& actions);
  void SetGate(unsigned slab);
  void StartTxn(unsigned slab, bool commit);
  void StartSender(unsigned slab);
  void StartWatch();
  void PublishRoutes();
  void Tick();
  void KeepAlive();
  void GrantLease(std::function<void(bool)> done);
  void PutNode(std::function<void(bool)> done);
  ServerNumber NumberOf(const cluster::NodeLife& life);
  cluster::MapRecord WithNames(const cluster::SlabRecord& record) const;
  void Post(std::function<void()> job);
  template <class Condition>
  bool RunLoopUntil(Condition condition, unsigned timeout_ms);

  // ---- agent_leader.cc
  void Lead(const std::vector<cluster::KeyValue>& leader,
            const std::vector<cluster::KeyValue>& drains);
  void WriteChanges(std::vector<cluster::LeaderChange> changes);

  // SlabSenderOwner
  void OnNearlyAllSent(unsigned slab, uint64_t epoch) override;
  void OnTargetReady(unsigned slab, uint64_t epoch) override;
  void OnSendFailed(unsigned slab, uint64_t epoch) override;

  static void OnTick(evutil_socket_t fd, short what, void* agent) noexcept;
  static void OnWake(evutil_socket_t fd, short what, void* agent) noexcept;

  const AgentContext context_;
  const cluster::Keys keys_;
  cluster::NodeLife me_;
  std::unique_ptr<event_base, void (*)(event_base*)> base_;
  std::unique_ptr<cluster::EtcdClient> etcd_;
  int wake_fd_ = -1;
  event* wake_ = nullptr;
  event* tick_ = nullptr;
  std::thread thread_;

  // Jobs for the thread.
  std::mutex jobs_mutex_;
  std::vector<std::function<void()>> jobs_;

  // The thread's own.
  uint64_t lease_ = 0;
  bool polling_ = false;
  bool poll_again_ = false;
  uint64_t next_poll_ms_ = 0;
  uint64_t next_keep_alive_ms_ = 0;
  uint64_t map_revision_ = 0;  // of the last read
  uint64_t flush_revision_ = 0;
  bool read_once_ = false;
  bool watching_ = false;
  bool registering_ = false;
  bool leading_ = false;          // changes are being written
  uint64_t leader_revision_ = 0;  // create_revision of the key, if this node leads
  uint64_t nodes_changed_ms_ = 0;
  std::map<ServerNumber, uint64_t> missing_since_ms_;
  std::set<std::string> filling_;
  std::map<unsigned, std::unique_ptr<SlabSender>> senders_;
  std::vector<std::unique_ptr<SlabSender>> finished_senders_;  // freed outside of their callbacks
  std::vector<PendingFlush> flushes_;
  std::shared_ptr<const Routes> routes_;

  // Guarded by mutex_.
  mutable std::mutex mutex_;
  std::vector<cluster::NodeLife> servers_;  // by number - 1
  std::map<std::string, cluster::NodeRecord> nodes_;
  std::vector<cluster::SlabRecord> map_;
  std::vector<cluster::SlabRole> roles_;
  std::set<unsigned> flushed_copies_;  // that arrived before a flush
  Figures figures_;
};

}  // namespace server
