// Worker is one thread with its own event loop, and the connections that belong to it.
//
// Connections that are ready after the same pass of the event loop are served in rounds: their
// sockets are read together, what their requests will touch in the store is prefetched, they are
// served, and their replies are sent together (see Round). A connection that is ready alone is
// served at once.
//
// Requires:  `Start Adopt* Stop Join`. Adopt, RequestShed, Stop, counters and VisitConnections may
//            be called by any thread, everything else by the worker's own. Lock order:
//            connections_mutex_ and queue_mutex_ are never held together, nor with a lock of the
//            store.
// Costs:     one input and one output buffer and a Round, whatever the number of connections.
#pragma once

#include <event2/event.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "src/cluster/inner_connection.h"
#include "src/io/round.h"
#include "src/io/shedder.h"
#include "src/net/connection.h"
#include "src/net/worker_context.h"
#include "src/state.h"
#include "src/stats/server_view.h"

namespace server {

class Worker final : public WorkerView, public Shedder::Participant, private ConnectionOwner {
 public:
  // Adds itself to the state. Throws StartupError. REQUIRES: no worker runs yet.
  explicit Worker(State& state);
  ~Worker();  // stops it if it runs
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void Start();
  // Gives the worker a connected socket, and says whether TLS is spoken on it.
  void Adopt(int fd, bool tls = false);
  // Gives the worker a connection of another node. REQUIRES: JoinCluster was called.
  void AdoptInner(int fd);
  // Before Start. Throws std::bad_alloc.
  void JoinCluster(Node& node);
  // Finishes what was received, closes all connections, and ends the loop within some seconds.
  void Stop();
  void Join();

  const WorkerCounters& counters() const override { return context_.counters; }
  // For tests.
  WorkerCounters& counters() { return context_.counters; }
  const WorkerContext& context() const { return context_; }
  void VisitConnections(const std::function<void(const ConnectionInfo&)>& visit) const override;
  // Has the worker ask the Shedder what to do, soon and in its own thread.
  void RequestShed() override;

 private:
  struct Arrival {
    int fd;
    bool tls;
    bool inner;
  };

  static void OnWake(evutil_socket_t fd, short what, void* worker) noexcept;
  static void OnResume(evutil_socket_t fd, short what, void* worker) noexcept;
  static void OnRetry(evutil_socket_t fd, short what, void* worker) noexcept;
  static void OnSecond(evutil_socket_t fd, short what, void* worker) noexcept;
  static void OnDrain(evutil_socket_t fd, short what, void* worker) noexcept;
  static void OnSweepInner(evutil_socket_t fd, short what, void* worker) noexcept;
  void AddInner(int fd);
  static void OnRound(evutil_socket_t fd, short what, void* worker) noexcept;
  [[nodiscard]] bool ServeLater(Connection* connection) override;
  [[nodiscard]] bool ServeSoon(Connection* connection) override;
  [[nodiscard]] bool ResumeLater(Connection* connection) override;
  [[nodiscard]] bool RetryLater(Connection* connection) override;
  void Retry();
  void BeginShedding() override;
  void Remove(Connection* connection) override;
  void Add(int fd, bool tls);
  // Whether the rounds go through io_uring. By the thread that serves, before the first round.
  void ChooseCalls();
  void ServeRound(std::span<Connection* const> members);
  void SendDeferred(std::span<Connection* const> members);
  // A connection that could not be added.
  void Drop(int fd);
  void Wake();
  // This worker's part of a round of the Shedder.
  void TakeShedStep();
  void ReportHolders(const Shedder::Step& step);
  void CloseHolders(const Shedder::Step& step);
  void CloseTimedOut();
  void FinishAll();

  State& state_;
  int wake_fd_ = -1;
  int second_fd_ = -1;
  event* wake_ = nullptr;
  event* resume_ = nullptr;
  event* retry_ = nullptr;
  event* second_ = nullptr;
  event* drain_ = nullptr;
  event* round_event_ = nullptr;
  std::thread thread_;

  // The worker's thread only.
  WorkerContext context_;
  bool stopping_ = false;
  uint64_t stop_ms_ = 0;  // when it began to stop
  std::vector<Connection*> yielded_;
  std::vector<Connection*> retrying_;
  Round round_;
  bool has_chosen_calls_ = false;
  std::vector<Connection*> ready_;  // to be served in the next round; null: has ended
  uint64_t shed_step_ = 0;          // the last one taken

  std::atomic<bool> shed_requested_{false};

  std::vector<std::unique_ptr<InnerConnection>> inner_;
  std::vector<InnerConnection*> inner_ended_;  // to be deleted outside of their callbacks
  event* sweep_inner_ = nullptr;

  // Guarded by queue_mutex_.
  std::mutex queue_mutex_;
  std::vector<Arrival> arrivals_;
  bool stop_requested_ = false;

  // The list changes under connections_mutex_, and is read by the worker without it.
  mutable std::mutex connections_mutex_;
  Connection* first_ = nullptr;
};

}  // namespace server
