// A worker without a thread and without a port: a test turns its event loop and talks to it over
// socket pairs, so that everything happens in the order in which the test asks for it.
//
// Requires:  one thread. The state outlives the server and has no other workers.
#pragma once

#include <event2/event.h>
#include <event2/event_struct.h>
#include <fcntl.h>
#include <sys/socket.h>

#include <stdexcept>
#include <vector>

#include "src/net/worker.h"
#include "src/state.h"

namespace server {

class LoopServer {
 public:
  explicit LoopServer(State& state) : state_(state), worker_(state) {}
  LoopServer(const LoopServer&) = delete;
  LoopServer& operator=(const LoopServer&) = delete;

  Worker& worker() { return worker_; }

  // The client's end of a new connection, as the listener would hand it over. `send_bytes`: of the
  // server's socket buffer; 0: the system's default.
  int Connect(int send_bytes = 0) {
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0) {
      throw std::runtime_error("cannot make a pair of sockets");
    }
    if (send_bytes != 0) {
      (void)setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &send_bytes, sizeof(send_bytes));
    }
    state_.connections.current.fetch_add(1, std::memory_order_relaxed);
    worker().Adopt(fds[0]);
    return fds[1];
  }

  // What is due now, once; never waits.
  void Turn() { (void)event_base_loop(worker().context().base, EVLOOP_NONBLOCK); }

  // As if the time of every timer had come by the next turn: of connections that wait for memory,
  // and of the sweep of every second.
  void FireTimers() {
    // The worker's own events; all others are connections'.
    struct Found {
      const Worker* worker;
      std::vector<event*> events;
    } found{&worker_, {}};
    const auto collect = [](const event_base*, const event* each, void* all) {
      auto* into = static_cast<Found*>(all);
      if (event_get_callback_arg(each) == into->worker) {
        into->events.push_back(const_cast<event*>(each));
      }
      return 0;
    };
    (void)event_base_foreach_event(worker().context().base, collect, &found);
    for (event* each : found.events) event_active(each, EV_TIMEOUT, 0);
  }

 private:
  State& state_;
  Worker worker_;
};

}  // namespace server
