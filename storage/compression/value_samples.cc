#include "storage/compression/value_samples.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace kbf {

namespace {

constexpr std::string_view kDelimiters = ":/.|#_-";
constexpr size_t kPrefixBytesMax = 32;
constexpr uint64_t kShareMin = 16;  // a group has at least one part in so many of all bytes
constexpr size_t kMeanBytesMin = 64;

}  // namespace

GroupName GroupOf(std::string_view key, const HashSecret& secret) {
  const size_t end = key.substr(0, kPrefixBytesMax).find_first_of(kDelimiters);
  if (end == std::string_view::npos || end == 0) return kNoPrefix;
  return HashKey(key.substr(0, end + 1), secret).lo | 1;
}

void ValueSamples::BeginSurvey() {
  used_counters_ = 0;
  counted_ = counted_bytes_ = 0;
}

void ValueSamples::Count(GroupName group, size_t value_bytes) {
  ++counted_;
  counted_bytes_ += value_bytes;
  if (group == kNoPrefix) return;
  const auto end = counters_.begin() + static_cast<ptrdiff_t>(used_counters_);
  auto at = std::find_if(counters_.begin(), end, [&](const Share& s) { return s.group == group; });
  if (at == end) {
    if (used_counters_ < kCounters) {
      counters_[used_counters_++] = {group, value_bytes};
      return;
    }
    // The smallest makes way, and its count is kept: no group is counted too low.
    at = std::min_element(counters_.begin(), end,
                          [](const Share& a, const Share& b) { return a.bytes < b.bytes; });
    at->group = group;
  }
  at->bytes += value_bytes;
}

std::span<const ValueSamples::Share> ValueSamples::FinishSurvey() {
  const auto end = counters_.begin() + static_cast<ptrdiff_t>(used_counters_);
  std::sort(counters_.begin(), end,
            [](const Share& a, const Share& b) { return a.bytes > b.bytes; });
  const uint64_t least = counted_bytes_ / kShareMin;
  size_t found = 0;
  uint64_t rest = counted_bytes_;
  for (auto at = counters_.begin(); at != end && at->bytes >= least; ++at) {
    if (found == kGroupsMax - 1) break;
    largest_[found++] = *at;
    rest -= std::min(rest, at->bytes);
  }
  if (rest >= least && rest > 0) largest_[found++] = {kNoPrefix, rest};
  return {largest_.data(), found};
}

bool ValueSamples::Collect(size_t bytes) {
  Drop();
  bytes_.reset(new (std::nothrow) char[bytes]);
  if (bytes_ == nullptr) return false;
  try {
    sizes_.reserve(bytes / kMeanBytesMin);
  } catch (const std::bad_alloc&) {
    Drop();
    return false;
  }
  bytes_max_ = bytes;
  return true;
}

void ValueSamples::Take(std::string_view value) {
  if (full_ || Mix64(++offered_) % kTakenOneIn != 0) return;
  const size_t bytes = std::min(value.size(), kSampleBytesMax);
  if (used_ + bytes > bytes_max_ || sizes_.size() == sizes_.capacity()) {
    full_ = true;
    return;
  }
  std::memcpy(bytes_.get() + used_, value.data(), bytes);
  used_ += bytes;
  sizes_.push_back(bytes);
}

void ValueSamples::Drop() {
  bytes_.reset();
  std::vector<size_t>().swap(sizes_);
  bytes_max_ = used_ = 0;
  offered_ = 0;
  full_ = false;
}

}  // namespace kbf
