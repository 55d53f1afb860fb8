#include "src/prefix_stats.h"

#include <algorithm>

namespace server {

PrefixStats::Counts* PrefixStats::Find(std::string_view key) {
  const size_t length = key.find(delimiter_);
  if (length == key.npos) return nullptr;
  const std::string_view prefix = key.substr(0, length);
  // A binary key could end the line that shows it.
  if (std::ranges::any_of(prefix, [](unsigned char c) { return c <= ' '; })) return nullptr;
  const auto found = counts_.find(prefix);
  if (found != counts_.end()) return &found->second;
  if (counts_.size() >= kPrefixesMax) return nullptr;
  return &counts_[std::string(prefix)];
}

void PrefixStats::CountGet(std::string_view key, bool hit) {
  const std::lock_guard lock(mutex_);
  Counts* counts = Find(key);
  if (counts == nullptr) return;
  ++counts->gets;
  counts->hits += hit;
}

void PrefixStats::CountSet(std::string_view key) {
  const std::lock_guard lock(mutex_);
  if (Counts* counts = Find(key)) ++counts->sets;
}

void PrefixStats::CountDelete(std::string_view key) {
  const std::lock_guard lock(mutex_);
  if (Counts* counts = Find(key)) ++counts->deletes;
}

std::string PrefixStats::Dump() const {
  const std::lock_guard lock(mutex_);
  std::string out;
  for (const auto& [prefix, counts] : counts_) {
    out += "PREFIX " + prefix + " get " + std::to_string(counts.gets) + " hit " +
           std::to_string(counts.hits) + " set " + std::to_string(counts.sets) + " del " +
           std::to_string(counts.deletes) + "\r\n";
  }
  return out + "END\r\n";
}

void PrefixStats::Clear() {
  const std::lock_guard lock(mutex_);
  counts_.clear();
}

}  // namespace server
