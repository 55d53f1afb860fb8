#include "src/net/inner_listener.h"

#include <event2/listener.h>
#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "src/net/worker.h"
#include "src/process/startup_error.h"

namespace server {

InnerListener::InnerListener(const ClusterOptions& options, event_base* base,
                             std::vector<Worker*> workers)
    : workers_(std::move(workers)) {
  const std::string port = std::to_string(options.inner_port);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(options.inner_host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) {
    throw StartupError("cannot find the address of --node " + options.node + ": " +
                       gai_strerror(error));
  }
  constexpr unsigned kFlags = LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_REUSEABLE;
  listener_ = evconnlistener_new_bind(base, OnAccept, this, kFlags, -1, found->ai_addr,
                                      static_cast<int>(found->ai_addrlen));
  const int bind_error = errno;
  freeaddrinfo(found);
  if (listener_ == nullptr) {
    throw StartupError("cannot listen for other nodes on " + options.inner_host + ":" + port +
                       ": " + strerror(bind_error) + "; choose a port with --inner-port");
  }
}

InnerListener::~InnerListener() {
  if (listener_ != nullptr) evconnlistener_free(listener_);
}

void InnerListener::OnAccept(evconnlistener*, evutil_socket_t fd, sockaddr*, int,
                             void* self) noexcept {
  auto* const listener = static_cast<InnerListener*>(self);
  listener->workers_[listener->next_++ % listener->workers_.size()]->AdoptInner(fd);
}

}  // namespace server
