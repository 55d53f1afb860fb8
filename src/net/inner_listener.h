// InnerListener accepts the connections of other nodes of the cluster, on the address of --node and
// --inner-port alone, and hands them to the workers in turn.
//
// Requires:  the thread of the event base.
#pragma once

#include <event2/event.h>

#include <cstddef>
#include <vector>

#include "src/config/options.h"

struct evconnlistener;

namespace server {

class Worker;

class InnerListener {
 public:
  // Listens. Throws StartupError.
  InnerListener(const ClusterOptions& options, event_base* base, std::vector<Worker*> workers);
  ~InnerListener();
  InnerListener(const InnerListener&) = delete;
  InnerListener& operator=(const InnerListener&) = delete;

 private:
  static void OnAccept(evconnlistener* listener, evutil_socket_t fd, struct sockaddr* address,
                       int bytes, void* self) noexcept;

  const std::vector<Worker*> workers_;
  size_t next_ = 0;
  evconnlistener* listener_ = nullptr;
};

}  // namespace server
