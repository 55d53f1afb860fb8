#include "tools/kbfload/tally.h"

#include <numeric>

namespace load {

void Tally::Merge(const Tally& other) {
  for (size_t i = 0; i < kVerbs; ++i) {
    ops[i] += other.ops[i];
    if (other.latency[i].count() > 0) latency[i].Merge(other.latency[i]);
  }
  for (const auto member :
       {&Tally::hits, &Tally::misses, &Tally::wrong, &Tally::absent_asked, &Tally::false_positives,
        &Tally::not_stored, &Tally::not_found, &Tally::errors, &Tally::client_errors,
        &Tally::server_errors, &Tally::bytes_sent, &Tally::bytes_received}) {
    this->*member += other.*member;
  }
  if (!other.last_error.empty()) last_error = other.last_error;
}

uint64_t Tally::AllOps() const { return std::accumulate(ops.begin(), ops.end(), uint64_t{0}); }

Histogram Tally::AllLatency() const {
  Histogram all;
  for (const Histogram& one : latency) {
    if (one.count() > 0) all.Merge(one);
  }
  return all;
}

}  // namespace load
