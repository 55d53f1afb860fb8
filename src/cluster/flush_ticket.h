// FlushTicket is a flush of all nodes that a worker has asked for, and waits for.
#pragma once

#include <atomic>
#include <cstdint>

namespace server {

struct FlushTicket {
  enum class State : uint8_t { kPending, kDone, kFailed };
  std::atomic<State> state{State::kPending};
};

}  // namespace server
