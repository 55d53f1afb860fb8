#include "src/io/shedder.h"

#include <algorithm>
#include <limits>

namespace server {
namespace {

// A round visits all connections, so there is a pause between two rounds.
constexpr uint64_t kRoundIntervalMs = 10;

}  // namespace

void WorstHolders::Offer(const Holder& holder) {
  if (size_ == kMax) {
    if (holder.score <= holders_[size_ - 1].score) return;
    --size_;
  }
  size_t at = size_++;
  for (; at > 0 && holders_[at - 1].score < holder.score; --at) holders_[at] = holders_[at - 1];
  holders_[at] = holder;
}

Shedder::Outcome Shedder::Begin(uint64_t now_ms, size_t num_workers) {
  if (!memory_.IsShort()) return Outcome::kDone;
  const std::lock_guard lock(mutex_);
  const bool over_limit = memory_.IsOverLimit();
  const bool early = step_.number > 0 && now_ms < step_.time_ms + kRoundIntervalMs;
  const bool urgent = over_limit && !futile_.load(std::memory_order_relaxed);
  if (num_pending_ > 0 || (early && !urgent)) return Outcome::kDone;
  step_ = {Action::kReport, step_.number + 1, now_ms, !over_limit, 0};
  running_.store(true, std::memory_order_relaxed);
  num_workers_ = num_pending_ = num_workers;
  worst_.Clear();
  return Outcome::kWakeWorkers;
}

Shedder::Step Shedder::NextStep(uint64_t last_step) {
  const std::lock_guard lock(mutex_);
  return step_.number == last_step || num_pending_ == 0 ? Step{} : step_;
}

void Shedder::SetThreshold() {
  const uint64_t excess = memory_.Excess();
  uint64_t sum = 0;
  for (const Holder& holder : worst_.holders()) {
    if (sum >= excess) break;
    sum += holder.bytes;
    step_.threshold = holder.score;
  }
  if (sum == 0) step_.threshold = std::numeric_limits<double>::infinity();
}

Shedder::Outcome Shedder::Report(const WorstHolders& worst) {
  const std::lock_guard lock(mutex_);
  for (const Holder& holder : worst.holders()) worst_.Offer(holder);
  if (--num_pending_ > 0) return Outcome::kDone;
  SetThreshold();
  memory_.ForgetWanted();
  if (step_.threshold == std::numeric_limits<double>::infinity()) {
    EndRound(true);
    return Outcome::kDone;
  }
  step_.action = Action::kClose;
  ++step_.number;
  num_pending_ = num_workers_;
  return Outcome::kWakeWorkers;
}

void Shedder::Closed() {
  const std::lock_guard lock(mutex_);
  if (--num_pending_ == 0) EndRound(false);
}

void Shedder::EndRound(bool futile) {
  futile_.store(futile, std::memory_order_relaxed);
  running_.store(false, std::memory_order_relaxed);
}

}  // namespace server
