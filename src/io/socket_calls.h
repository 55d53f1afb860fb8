// SocketCalls receives from many sockets, or sends to many, in as few system calls as it can.
//
// Promises:  no call blocks, and all of them are over when Receive and Send return: nothing is in
//            flight between two rounds.
// Requires:  one thread, which also makes it; at most kCallsMax calls at a time, each for another
//            socket.
// Costs:     by io_uring one system call for all, and about 10 KB in the kernel; plain ones are one
//            system call each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace server {

struct SocketCall {
  int fd = -1;
  uint32_t size = 0;
  char* data = nullptr;
  int result = 0;  // bytes, or -errno
};

class SocketCalls {
 public:
  static constexpr size_t kCallsMax = 64;  // of one span

  virtual ~SocketCalls() = default;
  virtual void Receive(std::span<SocketCall> calls) = 0;
  virtual void Send(std::span<SocketCall> calls) = 0;
  virtual bool uses_ring() const { return false; }
};

class PlainCalls final : public SocketCalls {
 public:
  void Receive(std::span<SocketCall> calls) override;
  void Send(std::span<SocketCall> calls) override;
};

// Null where the kernel or what surrounds this process does not allow io_uring, or where it was not
// built in; *error is then the errno.
std::unique_ptr<SocketCalls> MakeRingCalls(int* error);

}  // namespace server
