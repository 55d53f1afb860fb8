#include "storage/api/value_numbers.h"

namespace kbf {

namespace {

// What an element of the hash table takes besides the bytes of its value: string, number, hash,
// link, bucket and the allocator's header.
constexpr uint64_t kElementBytes = 80;

}  // namespace

ValueNumbers::ValueNumbers(uint32_t numbers_max, const HashSecret& secret)
    : by_number_(numbers_max), numbers_(0, HashValue{secret}) {}

std::optional<uint32_t> ValueNumbers::FindOrAdd(std::string_view value) {
  const std::lock_guard lock(mutex_);
  if (const auto known = numbers_.find(value); known != numbers_.end()) return known->second;
  if (numbers_.size() == by_number_.size()) return std::nullopt;
  const auto number = static_cast<uint32_t>(numbers_.size());
  const auto added = numbers_.emplace(value, number).first;
  by_number_[number].store(&added->first, std::memory_order_release);
  value_bytes_ += value.size();
  return number;
}

uint64_t ValueNumbers::size() const {
  const std::lock_guard lock(mutex_);
  return numbers_.size();
}

uint64_t ValueNumbers::memory_bytes() const {
  const std::lock_guard lock(mutex_);
  return by_number_.size() * sizeof(by_number_[0]) + numbers_.size() * kElementBytes + value_bytes_;
}

}  // namespace kbf
