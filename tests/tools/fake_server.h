// FakeServer stands in for a memcached server that misbehaves: a listener on loopback, one thread,
// and a function that says what to send for what came.
//
// Requires:  the function runs on the server's thread; what it shares with the test is atomic, or
//            read after the server is gone.
#pragma once

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tools/kbfload/server.h"

namespace load {

class FakeServer {
 public:
  // Takes whole requests off the front of `in` and appends replies to `out`; false: hang up.
  using Answer = std::function<bool(std::string* in, std::string* out)>;

  explicit FakeServer(Answer answer) : answer_(std::move(answer)) {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof name;
    listener_ = Socket(socket(AF_INET, SOCK_STREAM, 0));
    const bool listening =
        bind(listener_.fd(), reinterpret_cast<sockaddr*>(&name), bytes) == 0 &&
        listen(listener_.fd(), 64) == 0 &&
        getsockname(listener_.fd(), reinterpret_cast<sockaddr*>(&name), &bytes) == 0;
    if (!listening) throw std::runtime_error("the fake server cannot listen");
    address_ = ParseAddress("127.0.0.1:" + std::to_string(ntohs(name.sin_port)));
    thread_ = std::thread([this] { Serve(); });
  }
  ~FakeServer() {
    stop_ = true;
    thread_.join();
  }
  const Address& address() const { return address_; }

 private:
  struct Peer {
    Socket socket;
    std::string in;
  };

  void Serve() {
    while (!stop_) {
      std::vector<pollfd> polled = {{listener_.fd(), POLLIN, 0}};
      for (const auto& [fd, peer] : peers_) polled.push_back({fd, POLLIN, 0});
      if (poll(polled.data(), polled.size(), 10) <= 0) continue;
      for (const pollfd& one : polled) {
        if (one.revents == 0) continue;
        if (one.fd == listener_.fd()) {
          Socket socket(accept(one.fd, nullptr, nullptr));
          const int fd = socket.fd();
          peers_[fd].socket = std::move(socket);
        } else if (!Talk(&peers_[one.fd])) {
          peers_.erase(one.fd);
        }
      }
    }
  }

  bool Talk(Peer* peer) {
    char buffer[65536];
    const ssize_t got = recv(peer->socket.fd(), buffer, sizeof buffer, 0);
    if (got <= 0) return false;
    peer->in.append(buffer, static_cast<size_t>(got));
    std::string out;
    const bool stay = answer_(&peer->in, &out);
    for (size_t sent = 0; sent < out.size();) {
      const ssize_t now =
          send(peer->socket.fd(), out.data() + sent, out.size() - sent, MSG_NOSIGNAL);
      if (now <= 0) return false;
      sent += static_cast<size_t>(now);
    }
    return stay;
  }

  Answer answer_;
  Socket listener_;
  Address address_;
  std::map<int, Peer> peers_;  // server thread only
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace load
