// ErrorSampler measures a chain's errors while it runs. It remembers a small random sample of the
// keys that were inserted, by hash, and what they should hold; probes for them show false negatives
// and wrong values. Probes for random hashes that no key has show false positives.
//
// Promises:  unbiased: whether a key is sampled depends on its hash alone. A key that was removed
// from
//            the chain is not an error.
// Costs:     32 bytes per sample, at most kSamplesMax; Add and Remove are a bit test for keys that
//            are not sampled.
#pragma once

#include <cstdint>
#include <new>
#include <vector>

#include "storage/hash.h"
#include "storage/store_counters.h"

namespace kbf {

class ErrorSampler {
 public:
  static constexpr size_t kSamplesMax = 512;

  struct Sample {
    KeyHash key;
    uint64_t value_tag = 0;  // hash of the value
    uint64_t part = 0;       // of the chain that it went into, as Chain::Insert named it
  };

  bool IsSampled(const KeyHash& key) const { return (Stream(key, kSampleStream) & mask_) == 0; }

  void Add(const KeyHash& key, uint64_t value_tag, uint64_t part) {
    if (!IsSampled(key)) return;
    Remove(key);
    if (samples_.size() == kSamplesMax) {
      mask_ = 2 * mask_ + 1;
      std::erase_if(samples_, [this](const Sample& sample) { return !IsSampled(sample.key); });
      if (!IsSampled(key) || samples_.size() == kSamplesMax) return;
    }
    try {
      samples_.push_back({key, value_tag, part});
    } catch (const std::bad_alloc&) {
      return;  // one sample less
    }
  }

  void Remove(const KeyHash& key) {
    if (!IsSampled(key)) return;
    std::erase_if(samples_, [&key](const Sample& sample) { return sample.key == key; });
  }

  void Clear() { samples_.clear(); }
  size_t size() const { return samples_.size(); }
  uint64_t memory_bytes() const { return samples_.capacity() * sizeof(Sample); }

  // The next sample in turn; null where there is none. Remove it if its part is gone.
  const Sample* Next() {
    if (samples_.empty()) return nullptr;
    turn_ = (turn_ + 1) % samples_.size();
    return &samples_[turn_];
  }

  // A hash that no key has, but for chance.
  KeyHash AbsentKey() {
    ++absent_keys_;
    return {Mix64(absent_keys_ * 0x9e3779b97f4a7c15u), Mix64(~absent_keys_)};
  }

  MeasuredRates rates;

 private:
  static constexpr unsigned kSampleStream = 20;

  uint64_t mask_ = 0;  // a key is sampled where these bits of its stream are 0
  size_t turn_ = 0;
  uint64_t absent_keys_ = 0;
  std::vector<Sample> samples_;
};

}  // namespace kbf
