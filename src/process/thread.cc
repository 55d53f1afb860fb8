#include "src/process/thread.h"

#include <future>
#include <utility>

#include "storage/shared_bytes.h"

namespace server {

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

}  // namespace server
