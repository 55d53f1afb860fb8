// InnerConnection is the answering side of an inner connection: it belongs to one worker, carries
// out what another node forwards, and takes in the slabs that it sends.
//
// Promises:  nothing is read as a frame before the other side has proved that it knows the secret;
//            it has kHandshakeSeconds for that. Answers in the order of the requests.
// Requires:  the worker's thread.
#pragma once

#include <event2/bufferevent.h>
#include <event2/event.h>

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "src/cluster/router.h"
#include "tools/cluster/frame.h"

namespace server {

class InnerConnection {
 public:
  static constexpr unsigned kHandshakeSeconds = 5;

  // Takes the socket. `ended` is called when the connection is to be deleted, by its own callback:
  // later. Throws std::bad_alloc.
  InnerConnection(event_base* base, int fd, Router& router,
                  std::function<void(InnerConnection*)> ended);
  ~InnerConnection();
  InnerConnection(const InnerConnection&) = delete;
  InnerConnection& operator=(const InnerConnection&) = delete;

 private:
  enum class Phase : uint8_t { kHello, kProof, kOpen };

  bool ReadHello();
  bool ReadProof();
  bool ReadFrames();
  bool Take(const cluster::FrameHeader& header, std::span<char> payload);
  bool TakeCopy(const cluster::FrameHeader& header, std::string_view payload);
  bool Send(cluster::FrameHeader header, std::string_view payload);

  static void OnRead(bufferevent* events, void* connection) noexcept;
  static void OnEvent(bufferevent* events, short what, void* connection) noexcept;

  Router& router_;
  const std::function<void(InnerConnection*)> ended_;
  bufferevent* events_ = nullptr;
  Phase phase_ = Phase::kHello;
  std::string client_nonce_;
  std::string server_nonce_;
  void End();

  bool ended_already_ = false;
  std::map<unsigned, uint64_t> copies_;  // that arrive: slab and epoch
};

}  // namespace server
