// Worker is one thread with its own event loop, and the connections that belong to it.
//
// Requires:  `Start Adopt* Stop Join`. Adopt, Stop, counters and VisitConnections may be called by
//            any thread, everything else by the worker's own. Lock order: connections_mutex_ and
//            queue_mutex_ are never held together, nor with a lock of the store.
// Costs:     one input and one output buffer, whatever the number of connections.
#pragma once

#include <event2/event.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "protocol/request.h"
#include "src/dispatch/dispatcher.h"
#include "src/io/input.h"
#include "src/io/output.h"
#include "src/io/shedder.h"
#include "src/net/connection.h"
#include "src/state.h"
#include "src/stats/counters.h"

namespace server {

class Worker {
 public:
  explicit Worker(State& state);  // throws StartupError
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void Start();
  // Has the worker ask the Shedder what to do, soon and in its own thread.
  void RequestShed();
  // Gives the worker a connected socket.
  void Adopt(int fd);
  // Finishes what was received, hangs up on everybody, and ends the loop within some seconds.
  void Stop();
  void Join();

  const WorkerCounters& counters() const { return counters_; }
  WorkerCounters& counters() { return counters_; }
  // visit(const Connection&) for each, while none comes or goes.
  template <class Visit>
  void VisitConnections(Visit visit) {
    const std::lock_guard lock(connections_mutex_);
    for (const Connection* at = first_; at != nullptr; at = at->next) visit(*at);
  }

  // For its connections.
  event_base* base() const { return base_; }
  ConnectionMemory& memory() { return state_.connection_memory; }
  Input& input() { return input_; }
  Output& output() { return output_; }
  Dispatcher& dispatcher() { return dispatcher_; }
  const protocol::Limits& limits() const { return limits_; }
  const Options& options() const { return state_.options; }
  unsigned requests_per_event() const { return state_.options.requests_per_event; }
  uint32_t idle_timeout() const { return state_.options.idle_timeout_s; }
  uint32_t now() const { return now_; }
  uint64_t now_ms() const { return now_ms_; }
  void Tick();
  // Begins to close connections where all together hold too much.
  void ShedIfShort() {
    if (memory().IsShort()) Proceed(state_.shedder.Begin(now_ms_, state_.workers.size()));
  }
  bool MustPause() const { return state_.shedder.MustPause(); }
  // Another turn, after everybody who is waiting had one. False: no memory to remember it.
  [[nodiscard]] bool ResumeLater(Connection* connection);
  // The same, but in some milliseconds: there is no memory for its request now.
  [[nodiscard]] bool RetryLater(Connection* connection);
  // Deletes it.
  void Remove(Connection* connection);

 private:
  static void OnWake(evutil_socket_t fd, short what, void* worker) noexcept;
  static void OnResume(evutil_socket_t fd, short what, void* worker) noexcept;
  static void OnRetry(evutil_socket_t fd, short what, void* worker) noexcept;
  static void OnSecond(evutil_socket_t fd, short what, void* worker) noexcept;
  static void OnDrain(evutil_socket_t fd, short what, void* worker) noexcept;
  void Add(int fd);
  void Wake();
  // This worker's part of a round of the Shedder.
  void TakeShedStep();
  void ReportHolders(const Shedder::Step& step);
  void CloseHolders(const Shedder::Step& step);
  void Proceed(Shedder::Outcome outcome) {
    if (outcome == Shedder::Outcome::kWakeWorkers) state_.RequestShed();
  }
  void Sweep();
  void FinishAll();

  State& state_;
  const protocol::Limits limits_;
  event_base* base_ = nullptr;
  int wake_fd_ = -1;
  event* wake_ = nullptr;
  event* resume_ = nullptr;
  event* retry_ = nullptr;
  event* second_ = nullptr;
  event* drain_ = nullptr;
  std::thread thread_;

  // The worker's thread only.
  uint32_t now_ = 0;
  uint64_t now_ms_ = 0;
  bool stopping_ = false;
  uint64_t stop_ms_ = 0;  // when it began to stop
  Input input_;
  Output output_;
  WorkerCounters counters_;
  Dispatcher dispatcher_;
  std::vector<Connection*> yielded_;
  std::vector<Connection*> retrying_;

  std::atomic<bool> shed_asked_{false};
  uint64_t shed_step_ = 0;  // the last one taken; the worker's thread only

  // Guarded by queue_mutex_.
  std::mutex queue_mutex_;
  std::vector<int> arrivals_;
  bool stop_asked_ = false;

  // The list changes under connections_mutex_, and is read by the worker without it.
  std::mutex connections_mutex_;
  Connection* first_ = nullptr;
};

}  // namespace server
