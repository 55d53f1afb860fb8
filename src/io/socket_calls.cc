#include "src/io/socket_calls.h"

#include <errno.h>
#include <sys/socket.h>

#include <array>
#include <new>

#include "config.h"

#ifdef HAVE_LIBURING
#include <liburing.h>
#endif

namespace server {
namespace {

constexpr int kReceiveFlags = MSG_DONTWAIT;
constexpr int kSendFlags = MSG_DONTWAIT | MSG_NOSIGNAL;

int ResultOf(ssize_t n) { return n < 0 ? -errno : static_cast<int>(n); }

void ReceivePlainly(SocketCall* call) {
  do call->result = ResultOf(recv(call->fd, call->data, call->size, kReceiveFlags));
  while (call->result == -EINTR);
}

void SendPlainly(SocketCall* call) {
  do call->result = ResultOf(send(call->fd, call->data, call->size, kSendFlags));
  while (call->result == -EINTR);
}

}  // namespace

void PlainCalls::Receive(std::span<SocketCall> calls) {
  for (SocketCall& call : calls) ReceivePlainly(&call);
}

void PlainCalls::Send(std::span<SocketCall> calls) {
  for (SocketCall& call : calls) SendPlainly(&call);
}

#ifdef HAVE_LIBURING
namespace {

// Until the kernel has answered.
constexpr int kUnknown = INT32_MIN;

class RingCalls final : public SocketCalls {
 public:
  // 0 or -errno. Once.
  int Open();
  ~RingCalls() override { Close(); }

  void Receive(std::span<SocketCall> calls) override {
    if (calls.size() == 1) return ReceivePlainly(&calls[0]);  // which costs less
    Run(calls, [](io_uring_sqe* entry, const SocketCall& call) {
      io_uring_prep_recv(entry, call.fd, call.data, call.size, kReceiveFlags);
    });
    Complete(calls, ReceivePlainly);
  }
  void Send(std::span<SocketCall> calls) override {
    if (calls.size() == 1) return SendPlainly(&calls[0]);
    Run(calls, [](io_uring_sqe* entry, const SocketCall& call) {
      io_uring_prep_send(entry, call.fd, call.data, call.size, kSendFlags);
    });
    Complete(calls, SendPlainly);
  }
  bool uses_ring() const override { return open_; }

 private:
  template <class Prepare>
  void Run(std::span<SocketCall> calls, Prepare prepare);
  unsigned Reap(std::span<SocketCall> calls);
  // What the kernel did not take, or was interrupted in.
  template <class Call>
  static void Complete(std::span<SocketCall> calls, Call plainly) {
    for (SocketCall& call : calls) {
      if (call.result == kUnknown || call.result == -EINTR) plainly(&call);
    }
  }
  bool HasCalls();
  void Close() {
    if (open_) io_uring_queue_exit(&ring_);
    open_ = false;
  }

  io_uring ring_{};
  bool open_ = false;
};

// Linux has had them since 5.6. A filter of system calls may also forbid to enter a ring that could
// be made.
bool RingCalls::HasCalls() {
  io_uring_probe* const probe = io_uring_get_probe_ring(&ring_);
  if (probe == nullptr) return false;
  const bool has = io_uring_opcode_supported(probe, IORING_OP_RECV) != 0 &&
                   io_uring_opcode_supported(probe, IORING_OP_SEND) != 0;
  io_uring_free_probe(probe);
  io_uring_prep_nop(io_uring_get_sqe(&ring_));
  if (!has || io_uring_submit_and_wait(&ring_, 1) != 1) return false;
  io_uring_cq_advance(&ring_, 1);
  return true;
}

int RingCalls::Open() {
  // Without interrupts, the answers are there when the submitting call returns. Older kernels do
  // not know all flags.
  constexpr unsigned kFlags[] = {IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
                                 IORING_SETUP_COOP_TASKRUN, 0};
  int result = 0;
  for (const unsigned flags : kFlags) {
    result = io_uring_queue_init(kCallsMax, &ring_, flags);
    if (result != -EINVAL) break;
  }
  if (result != 0) return result;
  open_ = true;
  if (!HasCalls()) {
    Close();
    return -EOPNOTSUPP;
  }
  // Saves looking the ring up in each call; where it cannot be had the descriptor does.
  (void)io_uring_register_ring_fd(&ring_);
  return 0;
}

unsigned RingCalls::Reap(std::span<SocketCall> calls) {
  std::array<io_uring_cqe*, kCallsMax> done;
  const unsigned count = io_uring_peek_batch_cqe(&ring_, done.data(), done.size());
  for (unsigned i = 0; i < count; ++i) calls[done[i]->user_data].result = done[i]->res;
  io_uring_cq_advance(&ring_, count);
  return count;
}

template <class Prepare>
void RingCalls::Run(std::span<SocketCall> calls, Prepare prepare) {
  for (SocketCall& call : calls) call.result = kUnknown;
  if (!open_) return;
  for (size_t i = 0; i < calls.size(); ++i) {
    io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
    prepare(entry, calls[i]);
    entry->user_data = i;
  }
  const auto total = static_cast<unsigned>(calls.size());
  unsigned submitted = 0;
  for (unsigned reaped = 0; reaped < total;) {
    const int result = io_uring_submit_and_wait(&ring_, total - reaped);
    if (result >= 0) submitted += static_cast<unsigned>(result);
    reaped += Reap(calls);
    if (result >= 0 || result == -EINTR) continue;
    // What was not submitted is done plainly, once what was submitted is over.
    if (reaped == submitted) return Close();
  }
}

}  // namespace

std::unique_ptr<SocketCalls> MakeRingCalls(int* error) {
  std::unique_ptr<RingCalls> calls(new (std::nothrow) RingCalls);
  const int result = calls == nullptr ? -ENOMEM : calls->Open();
  if (result == 0) return calls;
  *error = -result;
  return nullptr;
}

#else

std::unique_ptr<SocketCalls> MakeRingCalls(int* error) {
  *error = ENOSYS;
  return nullptr;
}

#endif

}  // namespace server
