// WorkerContext is what a worker's connections use in turn: its event loop, its buffers and its
// dispatcher. ConnectionOwner is what they ask of the worker itself.
//
// Requires:  the worker's thread; for the counters see stats/counters.h.
#pragma once

#include <event2/event.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "protocol/request.h"
#include "src/cluster/router.h"
#include "src/dispatch/dispatcher.h"
#include "src/io/input.h"
#include "src/io/output.h"
#include "src/state.h"
#include "src/stats/counters.h"

namespace server {

class Connection;

struct WorkerContext {
  explicit WorkerContext(State& shared);
  ~WorkerContext();
  WorkerContext(const WorkerContext&) = delete;
  WorkerContext& operator=(const WorkerContext&) = delete;

  // Reads the clocks.
  void Tick();

  State& state;
  const protocol::Limits limits;
  event_base* const base;  // null: it could not be made
  uint32_t now = 0;        // of state.clock
  uint64_t now_ms = 0;     // of another clock, which never goes back either
  WorkerCounters counters;
  std::atomic<const Connection*> serving{nullptr};  // other threads compare it
  Input input;
  Output output;
  Dispatcher dispatcher;
  std::unique_ptr<Router> router;  // null: this server is alone
};

class ConnectionOwner {
 public:
  // It is ready. True: it is served by ServeReady after this pass of the event loop, with others.
  // False: it is to be served now.
  [[nodiscard]] virtual bool ServeLater(Connection* /*connection*/) { return false; }
  // The same, but never now. False: no memory to remember that.
  [[nodiscard]] virtual bool ServeSoon(Connection* /*connection*/) { return false; }
  // Another turn, after every connection that waits for one had it. False: no memory to remember
  // that.
  [[nodiscard]] virtual bool ResumeLater(Connection* connection) = 0;
  // The same, but when there may be memory for its request, or connections have been closed.
  [[nodiscard]] virtual bool RetryLater(Connection* connection) = 0;
  // Connections hold too much memory: begin to close some. Not within this call.
  virtual void BeginShedding() = 0;
  // Deletes it.
  virtual void Remove(Connection* connection) = 0;

 protected:
  ~ConnectionOwner() = default;
};

}  // namespace server
