// Tally counts what the answers were. One per connection's work; they add up.
//
//   gets of stored keys  = hits + misses + wrong
//   gets of absent keys    = false_positives + rightly missed
//
// Errors are what the server says instead of an answer; every asked key has either an answer or an
// error, so ops is the sum of all.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "tools/kbfload/histogram.h"

namespace load {

enum class Verb : uint8_t { kGet, kSet, kDelete, kTouch, kIncr, kDecr };
inline constexpr size_t kVerbs = 6;
inline constexpr std::array<std::string_view, kVerbs> kVerbNames = {"get",   "set",  "delete",
                                                                    "touch", "incr", "decr"};

struct Tally {
  std::array<uint64_t, kVerbs> ops{};     // keys asked about
  std::array<Histogram, kVerbs> latency;  // one entry a request: a multiget counts once
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t wrong = 0;
  uint64_t absent_asked = 0;
  uint64_t false_positives = 0;
  uint64_t not_stored = 0;  // sets that were refused without an error
  uint64_t not_found = 0;   // delete, touch, incr, decr
  uint64_t errors = 0;      // ERROR
  uint64_t client_errors = 0;
  uint64_t server_errors = 0;
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
  std::string last_error;  // what the server said

  void Merge(const Tally& other);
  uint64_t AllOps() const;
  uint64_t AllErrors() const { return errors + client_errors + server_errors; }
  uint64_t StoredGets() const { return hits + misses + wrong; }
  Histogram AllLatency() const;
};

}  // namespace load
