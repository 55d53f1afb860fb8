// InnerLink is the calling side of one inner connection: it connects, proves itself, asks the other
// node for its proof, and then carries frames both ways.
//
// Promises:  frames that are sent before the handshake is over wait for it. After Close, or after
//            OnClosed, nothing is called any more until Connect.
// Requires:  the thread of its event base. Close may be called within OnFrame.
#pragma once

#include <event2/bufferevent.h>
#include <event2/event.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "src/cluster/routes.h"
#include "tools/cluster/frame.h"

namespace server {

class InnerLinkOwner {
 public:
  // False: that is not what may come, and the link is closed.
  virtual bool OnFrame(const cluster::FrameHeader& header, std::string_view payload) = 0;
  virtual void OnClosed() = 0;  // must not throw

 protected:
  ~InnerLinkOwner() = default;
};

class InnerLink {
 public:
  InnerLink(event_base* base, InnerLinkOwner& owner, const std::string& secret)
      : base_(base), owner_(owner), secret_(secret) {}
  ~InnerLink() { Close(); }
  InnerLink(const InnerLink&) = delete;
  InnerLink& operator=(const InnerLink&) = delete;

  bool is_open() const { return events_ != nullptr; }
  [[nodiscard]] bool Connect(const Routes::Peer& peer);
  [[nodiscard]] bool Send(cluster::FrameHeader header, std::string_view payload);
  // Bytes that wait to be sent.
  size_t UnsentBytes() const;
  void Close();

 private:
  bool ReadHandshake();
  bool ReadFrames();
  static void OnRead(bufferevent* events, void* link) noexcept;
  static void OnEvent(bufferevent* events, short what, void* link) noexcept;

  event_base* const base_;
  InnerLinkOwner& owner_;
  const std::string& secret_;
  bufferevent* events_ = nullptr;
  std::string nonce_;
  bool ready_ = false;
  std::string waiting_;  // frames, until the handshake is over
};

}  // namespace server
