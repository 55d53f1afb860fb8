// PlainTransport is a connected TCP or unix socket, unencrypted.
//
// Requires:  a non-blocking stream socket, which it takes over and closes at its end.
// Costs:     one system call per Read and per Write.
#pragma once

#include "src/io/transport.h"

namespace server {

class PlainTransport : public Transport {
 public:
  using Transport::Transport;
  ~PlainTransport() override;

  IoStatus Handshake() override { return IoStatus::kOk; }
  IoResult Read(std::span<char> into) override;
  IoResult Write(std::span<const iovec> pieces) override;
  bool HasPending() const override { return false; }
  IoStatus Shutdown() override;
};

}  // namespace server
