// Shedder decides which connections are closed when all of them together hold too much memory.
// Connections belong to their workers, so a decision takes a round of two steps: every worker
// reports what its connections hold, by score; the last report sets a threshold for all, and every
// worker closes its connections that reach the threshold.
//
// Promises:  the connections closed in a round are the worst of the whole server, where scores that
//            differ by less than a quarter count as equal, and only as many as are needed. That is
//            to give the excess back, and more with each round that soon follows another: rounds
//            that gave back no more than what arrives meanwhile would follow each other without
//            end, and requests would pause in all of them. Connections that have made progress
//            since the round began are closed only if they still reach the threshold.
// Requires:  any worker may call Begin at any time. When Begin, Report or Closed returns
//            kWakeWorkers, the caller calls WakeAll, and each worker calls NextStep and carries out
//            that step once.
// Costs:     one mutex, taken only while memory is short; 4 KB; no allocation. When a worker stops
//            and leaves a round unfinished, no other round begins.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "src/io/connection_memory.h"

namespace server {

// What connections hold that could be closed, by their scores. A larger score: it holds more, with
// less progress lately.
class HeldByScore {
 public:
  void Add(double score, uint64_t bytes) { bytes_[ClassOf(score)] += bytes; }
  void Add(const HeldByScore& other);
  // The connections with this score or a larger one hold `bytes`, or all. Infinity: there are none.
  double ThresholdFor(uint64_t bytes) const;

 private:
  // Four classes for each power of two, from 2^-64 to 2^48.
  static constexpr int kPerOctave = 4;
  static constexpr int kFirstOctave = -64;
  static constexpr size_t kClasses = 448;

  static size_t ClassOf(double score);

  std::array<uint64_t, kClasses> bytes_{};
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
    // kClose: close the connections with this score or a larger one.
    double threshold = 0;
    double moving_threshold = 0;  // for connections that make progress, if they are not spared
    // Sixteenths of the limit to give back beyond the excess, by connections that make no progress.
    unsigned pressure = 0;
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
  // Each worker calls one of these when it has taken a step. kWakeWorkers also means that the round
  // has ended, and MustPause may have changed.
  Outcome Report(const HeldByScore& held);
  Outcome Closed();

 private:
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
  HeldByScore held_;
  unsigned pressure_ = 0;   // of the next round
  uint64_t closed_ms_ = 0;  // when the last round began that closed connections
};

}  // namespace server
