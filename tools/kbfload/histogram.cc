#include "tools/kbfload/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace load {

size_t Histogram::BucketOf(uint64_t ns) {
  ns = std::min(ns, kLimitNs - 1);
  const unsigned bits = static_cast<unsigned>(std::bit_width(ns));
  if (bits <= kSubBits + 1) return ns;
  const unsigned shift = bits - kSubBits - 1;
  return (size_t{shift} << kSubBits) + (ns >> shift);
}

uint64_t Histogram::LowestOf(size_t bucket) {
  if (bucket < size_t{2} << kSubBits) return bucket;
  const size_t shift = (bucket >> kSubBits) - 1;
  return (bucket - (shift << kSubBits)) << shift;
}

void Histogram::Add(uint64_t ns) {
  if (counts_.empty()) counts_.resize(kBuckets);
  ++counts_[BucketOf(ns)];
  ++count_;
  min_ = std::min(min_, ns);
  max_ = std::max(max_, ns);
  sum_ += static_cast<double>(ns);
}

void Histogram::Merge(const Histogram& other) {
  if (other.count_ == 0) return;
  counts_.resize(kBuckets);
  for (size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
  count_ += other.count_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
  sum_ += other.sum_;
}

double Histogram::Percentile(double share) const {
  if (count_ == 0) return 0;
  const double wanted = std::max(1.0, std::ceil(share * static_cast<double>(count_)));
  uint64_t seen = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    seen += counts_[i];
    if (static_cast<double>(seen) >= wanted) {
      const double middle = 0.5 * static_cast<double>(LowestOf(i) + LowestOf(i + 1) - 1);
      return std::clamp(middle, static_cast<double>(min_), static_cast<double>(max_));
    }
  }
  return static_cast<double>(max_);
}

uint64_t Histogram::CountBetween(uint64_t from_ns, uint64_t to_ns) const {
  uint64_t count = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    const uint64_t lowest = LowestOf(i);
    if (lowest >= from_ns && lowest < to_ns) count += counts_[i];
  }
  return count;
}

}  // namespace load
