// Source decides what a connection asks next: it walks all keys (fill, verify), draws from a mix
// (run), or replays a trace. It knows keys by code only; bytes are the workload's business.
//
// Promises:  a mix depends on seed and connection alone. Walks and traces are shared by the
//            connections of a client group: each task is given out once, in order.
// Requires:  a source belongs to one connection; what they share is atomic.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tools/kbfload/tally.h"
#include "tools/kbfload/workload.h"

namespace load {

struct Task {
  static constexpr uint32_t kDrawnBytes = UINT32_MAX;

  Verb verb = Verb::kGet;
  KeyCode key = 0;
  uint32_t value_bytes = kDrawnBytes;  // of a set, where a trace says so
};

class Source {
 public:
  virtual ~Source() = default;
  // One request: gets that go together, or a single task of another kind. Says how many tasks it
  // wrote; 0: there is no more to do. REQUIRES: out is not empty.
  virtual size_t Next(std::span<Task> out) = 0;
};

// Makes the source of a client group's nth connection.
using SourceFactory = std::function<std::unique_ptr<Source>(uint64_t connection)>;

// The codes first, first + step … below end, each once.
SourceFactory WalkKeys(Verb verb, KeyCode first, KeyCode step, KeyCode end);

// Shares of get, set and delete. The default is ETC's: 30 gets for a set is published; deletes are
// so many that the hit rate settles at the published 81.4 %: sets / (sets + deletes).
struct Mix {
  std::array<double, kVerbs> share = {30, 1, 0.23};
};
// "get:set:delete", any numbers that are not negative; throws std::invalid_argument.
Mix ParseMix(const std::string& text);

// A verb by its share, and keys by their popularity (Zipf exponent, 0 is uniform). Which
// keys are popular has nothing to do with the order of their numbers. `absent_asked` of the gets
// ask for keys that nobody stored. `scan` of the gets walk over all keys in turn, each connection
// over its own part. With `moves_every`, the hot set moves: after so many operations of all
// connections the most popular key becomes the least popular one, and all others rise by one rank.
struct MixOptions {
  Mix mix;
  double zipf = 0;
  double absent_asked = 0;
  double scan = 0;
  uint64_t moves_every = 0;   // 0: never
  uint64_t ops = UINT64_MAX;  // of all connections together
  uint64_t pass = 0;          // another pass draws other keys by the same rules
};
SourceFactory DrawKeys(const Workload& workload, const MixOptions& options, unsigned connections);

// One verb for the numbers below `keys`. The nth connection belongs to group n % groups, and the
// connections of a group go round the keys as one.
enum class KeyOrder : uint8_t {
  kInTurn,    // 0, 1, 2 … round and round
  kShuffled,  // round and round too, in an order without pattern
  kUniform,   // each number is drawn, all alike
  kZipf,      // P(number) proportional to (number + 1)^-zipf_skew
};
struct CycleOptions {
  Verb verb = Verb::kGet;
  uint64_t keys = 1;
  KeyOrder order = KeyOrder::kInTurn;
  double zipf_skew = 0;
  unsigned groups = 1;
  uint64_t group_ops = UINT64_MAX;  // operations of a group, at most
  uint64_t ops = UINT64_MAX;        // of all together
};
SourceFactory CycleKeys(const CycleOptions& options);

// A trace from beginning to end; gets that follow each other share requests.
SourceFactory ReplayTrace(const std::shared_ptr<const std::vector<Task>>& trace);

}  // namespace load
