// Shedder decides which connections are closed when all of them together hold too much memory.
// Connections belong to their workers, so a decision takes a round of two steps: every worker
// reports its worst holders, the last report sets a threshold for all, and every worker closes its
// connections that reach the threshold.
//
// Promises:  the connections closed in a round are the worst of the whole server, and only as many
//            as are needed to give the excess back. Connections that have made progress since the
//            round began are closed only if they still reach the threshold.
// Requires:  any worker may call Begin at any time. When Begin or Report returns kWakeWorkers, the
//            caller calls WakeAll, and each worker calls NextStep and carries out that step once.
// Costs:     one mutex, taken only while memory is short; no allocation. When a worker stops and
//            leaves a round unfinished, no other round begins.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "src/io/connection_memory.h"

namespace server {

// A connection that could be closed. A larger score: it holds more, with less progress lately.
struct Holder {
  double score;
  uint64_t bytes;
};

// The worst holders that were offered, in descending order.
class WorstHolders {
 public:
  static constexpr size_t kMax = 64;

  void Offer(const Holder& holder);
  std::span<const Holder> holders() const { return {holders_.data(), size_}; }
  void Clear() { size_ = 0; }

 private:
  std::array<Holder, kMax> holders_;
  size_t size_ = 0;
};

class Shedder {
 public:
  enum class Outcome : uint8_t { kDone, kWakeWorkers };
  enum class Action : uint8_t { kNone, kReport, kClose };
  struct Step {
    Action action = Action::kNone;
    uint64_t number = 0;
    uint64_t time_ms = 0;      // when the round began; scores are computed for this moment
    bool spare_moving = true;  // connections that make progress are not reported
    double threshold = 0;      // kClose: close the connections with this score or a larger one
  };

  // A worker, whose RequestShed makes it take its next step soon, from any thread.
  class Participant {
   public:
    virtual void RequestShed() = 0;

   protected:
    ~Participant() = default;
  };

  explicit Shedder(ConnectionMemory& memory) : memory_(memory) {}

  // REQUIRES: before any round. The participant outlives all rounds.
  void AddParticipant(Participant* participant) { participants_.push_back(participant); }
  void WakeAll() const {
    for (Participant* participant : participants_) participant->RequestShed();
  }

  // Begins a round if memory is short, none is running and the last one is some milliseconds ago.
  Outcome Begin(uint64_t now_ms, size_t num_workers);
  // No requests are carried out for the moment: replacing and evicting items that replies still
  // hold could exceed the limit before connections are closed.
  bool MustPause() const {
    if (!memory_.IsOverMark()) return false;
    return running_.load(std::memory_order_relaxed) ||
           (memory_.IsOverLimit() && !futile_.load(std::memory_order_relaxed));
  }
  // The step to take for a worker whose last one was number `last_step`.
  Step NextStep(uint64_t last_step);
  // Each worker calls one of these when it has taken a step.
  Outcome Report(const WorstHolders& worst);
  void Closed();

 private:
  void SetThreshold();
  void EndRound(bool futile);

  ConnectionMemory& memory_;
  std::vector<Participant*> participants_;  // constant once there are rounds
  std::atomic<bool> running_{false};
  std::atomic<bool> futile_{false};  // the last round found no connection to close
  std::mutex mutex_;
  // Guarded by mutex_.
  Step step_;
  size_t num_workers_ = 0;
  size_t num_pending_ = 0;  // workers that have not answered the step; 0: no round is running
  WorstHolders worst_;
};

}  // namespace server
