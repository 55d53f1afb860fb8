// Histogram counts durations in buckets whose width grows with the duration, so that percentiles of
// microseconds and of seconds have the same relative error.
//
// Promises:  Percentile is within 0.4 % of the exact one (half a bucket's width over its lower end:
//            1/256) for durations up to kLimitNs, longer ones are counted there; min, max and mean
//            are exact. Adding histograms is the same as counting into one.
// Requires:  one thread.
// Costs:     35 KiB; an addition is a few shifts. Allocates with the first one.
//
// The form is that of HdrHistogram: below 256 a bucket per nanosecond, above 128 buckets per
// doubling.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace load {

class Histogram {
 public:
  static constexpr uint64_t kLimitNs = uint64_t{1} << 40;  // 18 minutes

  void Add(uint64_t ns);
  void Merge(const Histogram& other);

  uint64_t count() const { return count_; }
  uint64_t min_ns() const { return count_ > 0 ? min_ : 0; }
  uint64_t max_ns() const { return max_; }
  double mean_ns() const { return count_ > 0 ? sum_ / static_cast<double>(count_) : 0; }

  // The duration that `share` (0 … 1) of all do not exceed; 0 where there are none.
  double Percentile(double share) const;
  // How many lie in [from_ns, to_ns), to the width of a bucket.
  uint64_t CountBetween(uint64_t from_ns, uint64_t to_ns) const;

 private:
  static constexpr unsigned kSubBits = 7;
  static constexpr size_t kBuckets = (40 - kSubBits + 1) << kSubBits;

  static size_t BucketOf(uint64_t ns);
  static uint64_t LowestOf(size_t bucket);

  std::vector<uint64_t> counts_;  // empty until something is counted
  uint64_t count_ = 0;
  uint64_t min_ = UINT64_MAX;
  uint64_t max_ = 0;
  double sum_ = 0;
};

}  // namespace load
