// ValueNumbers gives each distinct value a number, 0, 1, 2, … in the order in which they come in,
// and finds the value of a number again.
//
// Promises:  exact: two values have two numbers, and a number is never given back or changed.
// Requires:  thread-safe. The secret is a copy, so nothing must outlive the object.
// Costs:     8 bytes per number that can exist, and about 64 and the value per number in use. At()
//            takes no lock; FindOrAdd takes one and allocates for new values.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "storage/hash.h"

namespace kbf {

class ValueNumbers {
 public:
  // Numbers below `numbers_max`.
  ValueNumbers(uint32_t numbers_max, const HashSecret& secret);

  // Nothing: the value is new and all numbers are taken.
  std::optional<uint32_t> FindOrAdd(std::string_view value);
  // Null: the number is not in use.
  const std::string* At(uint32_t number) const {
    return number < by_number_.size() ? by_number_[number].load(std::memory_order_acquire)
                                      : nullptr;
  }
  uint64_t size() const;
  uint64_t memory_bytes() const;

 private:
  struct HashValue {
    using is_transparent = void;
    HashSecret secret;
    size_t operator()(std::string_view value) const { return HashKey(value, secret).lo; }
  };

  std::vector<std::atomic<const std::string*>> by_number_;  // each is set once, under the lock

  mutable std::mutex mutex_;
  // Guarded by mutex_. Its keys stay where they are, which by_number_ relies on.
  std::unordered_map<std::string, uint32_t, HashValue, std::equal_to<>> numbers_;
  uint64_t value_bytes_ = 0;
};

}  // namespace kbf
