// ValueSamples chooses the values that dictionaries are trained from: first it counts, over some
// thousand values, which groups of keys have most bytes, then it collects values of one group.
//
// A group is all keys with one prefix: what is before the first of ':', '/', '.', '|', '#', '_' and
// '-'. Keys of rare prefixes, and those without such a character, are one group together.
//
// Promises:  groups are counted within 1/64 of all bytes (Metwally et al., Space-Saving, 2005), in
//            fixed memory whatever keys clients choose. Of the values offered while a group is
//            collected, one in four is taken, by chance, so that neighbours do not fill the set.
// Requires:  one thread at a time.
// Costs:     1.5 KB, and while a group is collected the bytes of the set, allocated by Collect().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "storage/hash.h"

namespace kbf {

// The name of a key's group; kNoPrefix for keys that have no prefix.
using GroupName = uint64_t;
inline constexpr GroupName kNoPrefix = 0;
GroupName GroupOf(std::string_view key, const HashSecret& secret);

class ValueSamples {
 public:
  static constexpr size_t kSurveyValues = 4096;
  static constexpr size_t kGroupsMax = 16;
  // Of longer values the beginning is enough.
  static constexpr size_t kSampleBytesMax = 4096;
  static constexpr size_t kTakenOneIn = 4;

  struct Share {
    GroupName group = kNoPrefix;
    uint64_t bytes = 0;
  };

  // ---- which groups are there: BeginSurvey Count* FinishSurvey

  void BeginSurvey();
  void Count(GroupName group, size_t value_bytes);
  bool SurveyIsFull() const { return counted_ >= kSurveyValues; }
  // Groups with a sixteenth of all bytes and more, largest first; the others together are
  // kNoPrefix, where they have as much.
  std::span<const Share> FinishSurvey();

  // ---- values of one group: Collect Take* (samples sizes) Drop

  // False: no memory.
  [[nodiscard]] bool Collect(size_t bytes);
  // Takes the value or not.
  void Take(std::string_view value);
  bool IsFull() const { return full_; }
  std::string_view samples() const { return {bytes_.get(), used_}; }
  std::span<const size_t> sizes() const { return sizes_; }
  void Drop();
  size_t memory_bytes() const { return sizeof(*this) + bytes_max_ + sizes_.capacity() * 8; }

 private:
  static constexpr size_t kCounters = 64;

  std::array<Share, kCounters> counters_{};
  std::array<Share, kGroupsMax> largest_{};
  size_t used_counters_ = 0;
  uint64_t counted_ = 0;
  uint64_t counted_bytes_ = 0;

  std::unique_ptr<char[]> bytes_;
  std::vector<size_t> sizes_;
  size_t bytes_max_ = 0;
  size_t used_ = 0;
  uint64_t offered_ = 0;
  bool full_ = false;
};

}  // namespace kbf
