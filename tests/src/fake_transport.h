// A transport without a socket: it hands out what a test gives it, piece by piece, and can refuse
// or fail at any call.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "src/io/transport.h"

namespace server {

// What the client does, and what it has seen.
struct FakePeer {
  std::string to_read;         // what the client has sent
  bool ends = false;           // and then it closes its side
  size_t read_max = SIZE_MAX;  // of one call
  size_t write_max = SIZE_MAX;
  bool reads = true;      // what is written to it
  bool announced = true;  // an event tells that there is something to read

  // The call with this number, counted over all kinds, has this outcome instead of its own.
  std::optional<unsigned> odd_call;
  IoStatus odd_status = IoStatus::kOk;

  unsigned calls = 0;
  std::string written;
  bool shut_down = false;
  bool closed = false;

  std::optional<IoStatus> NextOdd() {
    if (odd_call != calls++) return std::nullopt;
    return odd_status;
  }
};

class FakeTransport final : public Transport {
 public:
  // Its descriptor is always writable, and readable if `peer.announced`.
  explicit FakeTransport(FakePeer& peer)
      : Transport(eventfd(peer.announced ? 1 : 0, EFD_NONBLOCK | EFD_CLOEXEC)), peer_(peer) {}
  ~FakeTransport() override {
    peer_.closed = true;
    close(fd());
  }

  IoStatus Handshake() override { return peer_.NextOdd().value_or(IoStatus::kOk); }

  IoResult Read(std::span<char> into) override {
    if (const auto odd = peer_.NextOdd()) return {*odd};
    const size_t n = std::min({into.size(), peer_.to_read.size(), peer_.read_max});
    if (n == 0) return {peer_.ends || peer_.shut_down ? IoStatus::kEnd : IoStatus::kWantsRead};
    memcpy(into.data(), peer_.to_read.data(), n);
    peer_.to_read.erase(0, n);
    return {IoStatus::kOk, n};
  }

  IoResult Write(std::span<const iovec> pieces) override {
    if (const auto odd = peer_.NextOdd()) return {*odd};
    if (!peer_.reads) return {IoStatus::kWantsWrite};
    size_t taken = 0;
    for (const iovec& piece : pieces) {
      const size_t n = std::min(piece.iov_len, peer_.write_max - taken);
      peer_.written.append(static_cast<const char*>(piece.iov_base), n);
      taken += n;
    }
    return {IoStatus::kOk, taken};
  }

  bool HasPending() const override { return !peer_.announced && !peer_.to_read.empty(); }

  IoStatus Shutdown() override {
    if (const auto odd = peer_.NextOdd()) return *odd;
    peer_.shut_down = true;
    return IoStatus::kOk;
  }

 private:
  FakePeer& peer_;
};

}  // namespace server
