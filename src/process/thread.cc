#include "src/process/thread.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <future>
#include <utility>

#include "storage/shared_bytes.h"

namespace server {
namespace {

constexpr uint64_t kTimeSliceNs = 100'000;

// The first version of the kernel's sched_attr, which the C library does not declare.
struct SchedulingAttributes {
  uint32_t size = sizeof(SchedulingAttributes);
  uint32_t policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime = 0;  // of SCHED_OTHER: the slice
  uint64_t deadline = 0;
  uint64_t period = 0;
};
static_assert(sizeof(SchedulingAttributes) == 48);

}  // namespace

std::thread StartThread(std::function<void()> body) {
  std::promise<void> ready;
  const std::future<void> is_ready = ready.get_future();
  std::thread thread([body = std::move(body), ready = std::move(ready)]() mutable {
    kbf::FreeShared(kbf::AllocateShared(1));
    ready.set_value();
    body();
  });
  is_ready.wait();
  return thread;
}

void RequestShortTimeSlices() noexcept {
  SchedulingAttributes now;
  if (syscall(SYS_sched_getattr, 0, &now, sizeof(now), 0) != 0 || now.policy != SCHED_OTHER) return;
  now.runtime = kTimeSliceNs;
  (void)syscall(SYS_sched_setattr, 0, &now, 0);
}

}  // namespace server
