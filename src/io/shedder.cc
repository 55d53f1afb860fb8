#include "src/io/shedder.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace server {
namespace {

// A round visits all connections, so there is a pause between two rounds.
constexpr uint64_t kRoundIntervalMs = 10;
// A round so soon after another gives back more than that one did, up to a quarter of the limit.
constexpr uint64_t kSoonMs = 1000;
constexpr unsigned kPressureMax = 4;

}  // namespace

// ---- scores -------------------------------------------------------------------------------------

size_t HeldByScore::ClassOf(double score) {
  int octave = 0;
  const double mantissa = std::frexp(score, &octave);  // from 0.5 to 1
  const int fourth = static_cast<int>((mantissa - 0.5) * 2 * kPerOctave);
  const int place = (octave - 1 - kFirstOctave) * kPerOctave + fourth;
  return static_cast<size_t>(std::clamp(place, 0, static_cast<int>(kClasses) - 1));
}

void HeldByScore::Add(const HeldByScore& other) {
  for (size_t i = 0; i < kClasses; ++i) bytes_[i] += other.bytes_[i];
}

double HeldByScore::ThresholdFor(uint64_t bytes) const {
  double threshold = std::numeric_limits<double>::infinity();
  uint64_t sum = 0;
  for (size_t i = kClasses; i-- > 0 && sum < bytes;) {
    if (bytes_[i] == 0) continue;
    sum += bytes_[i];
    const int place = static_cast<int>(i);
    const double fraction = 1 + static_cast<double>(place % kPerOctave) / kPerOctave;
    // The last class has everything below it as well.
    threshold = i == 0 ? 0 : std::ldexp(fraction, kFirstOctave + place / kPerOctave);
  }
  return threshold;
}

// ---- rounds -------------------------------------------------------------------------------------

Shedder::Outcome Shedder::Begin(uint64_t now_ms, size_t num_workers) {
  if (!memory_.IsShort()) return Outcome::kDone;
  const std::lock_guard lock(mutex_);
  const bool over_limit = memory_.IsOverLimit();
  const bool early = step_.number > 0 && now_ms < step_.time_ms + kRoundIntervalMs;
  const bool urgent = over_limit && !futile_.load(std::memory_order_relaxed);
  if (num_pending_ > 0 || (early && !urgent)) return Outcome::kDone;
  if (now_ms >= closed_ms_ + kSoonMs) pressure_ = 0;
  step_ = {Action::kReport, step_.number + 1, now_ms, !over_limit, 0, 0, pressure_};
  running_.store(true, std::memory_order_relaxed);
  num_workers_ = num_pending_ = num_workers;
  held_ = {};
  return Outcome::kWakeWorkers;
}

Shedder::Step Shedder::NextStep(uint64_t last_step) {
  const std::lock_guard lock(mutex_);
  return step_.number == last_step || num_pending_ == 0 ? Step{} : step_;
}

Shedder::Outcome Shedder::Report(const HeldByScore& held) {
  const std::lock_guard lock(mutex_);
  held_.Add(held);
  if (--num_pending_ > 0) return Outcome::kDone;
  step_.moving_threshold = held_.ThresholdFor(memory_.Excess());
  step_.threshold = held_.ThresholdFor(memory_.Excess(step_.pressure));
  memory_.ForgetWanted();
  if (step_.threshold == std::numeric_limits<double>::infinity()) {
    EndRound(true);
    return Outcome::kWakeWorkers;
  }
  pressure_ = std::min(pressure_ + 1, kPressureMax);
  closed_ms_ = step_.time_ms;
  step_.action = Action::kClose;
  ++step_.number;
  num_pending_ = num_workers_;
  return Outcome::kWakeWorkers;
}

Shedder::Outcome Shedder::Closed() {
  const std::lock_guard lock(mutex_);
  if (--num_pending_ > 0) return Outcome::kDone;
  EndRound(false);
  return Outcome::kWakeWorkers;
}

void Shedder::EndRound(bool futile) {
  futile_.store(futile, std::memory_order_relaxed);
  running_.store(false, std::memory_order_relaxed);
}

}  // namespace server
