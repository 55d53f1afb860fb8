#include "src/stats/prefix_stats.h"

#include <algorithm>
#include <cstdio>
#include <new>

namespace server {

void PrefixStats::Rehash(Shard* shard) {
  std::vector<uint32_t> slots(std::max<size_t>(64, 2 * shard->slots.size()));
  const size_t mask = slots.size() - 1;
  for (uint32_t i = 0; i < shard->entries.size(); ++i) {
    size_t slot = shard->entries[i].hash & mask;
    while (slots[slot] != 0) slot = (slot + 1) & mask;
    slots[slot] = i + 1;
  }
  shard->slots = std::move(slots);
}

PrefixStats::Entry* PrefixStats::FindOrAdd(Shard* shard, std::string_view prefix, uint64_t hash) {
  if (shard->slots.size() < 2 * (shard->entries.size() + 1)) Rehash(shard);
  const size_t mask = shard->slots.size() - 1;
  size_t slot = hash & mask;
  for (; shard->slots[slot] != 0; slot = (slot + 1) & mask) {
    Entry& entry = shard->entries[shard->slots[slot] - 1];
    if (entry.hash == hash && entry.prefix == prefix) return &entry;
  }
  // Several threads at once may exceed the limits by one prefix each.
  if (prefixes_.load(std::memory_order_relaxed) >= kPrefixesMax ||
      prefix_bytes_.load(std::memory_order_relaxed) >= kPrefixBytesMax) {
    return nullptr;
  }
  shard->entries.push_back({std::string(prefix), hash, {}});
  shard->slots[slot] = static_cast<uint32_t>(shard->entries.size());
  prefixes_.fetch_add(1, std::memory_order_relaxed);
  prefix_bytes_.fetch_add(prefix.size(), std::memory_order_relaxed);
  return &shard->entries.back();
}

template <class Change>
void PrefixStats::Count(std::string_view key, Change change) {
  const size_t length = key.find(delimiter_);
  if (length == key.npos) return;
  const std::string_view prefix = key.substr(0, length);
  // A line end in a binary key would break the reply.
  if (std::ranges::any_of(prefix, [](unsigned char c) { return c <= ' '; })) return;
  const kbf::KeyHash hash = kbf::HashKey(prefix, secret_);
  Shard& shard = shards_[hash.hi % kShards];
  const std::lock_guard lock(shard.mutex);
  try {
    if (Entry* entry = FindOrAdd(&shard, prefix, hash.lo)) change(entry->counts);
  } catch (const std::bad_alloc&) {
    return;  // without memory a prefix is just not counted
  }
}

void PrefixStats::CountGet(std::string_view key, bool hit) {
  Count(key, [hit](Counts& counts) {
    ++counts.gets;
    counts.hits += hit;
  });
}

void PrefixStats::CountSet(std::string_view key) {
  Count(key, [](Counts& counts) { ++counts.sets; });
}

void PrefixStats::CountDelete(std::string_view key) {
  Count(key, [](Counts& counts) { ++counts.deletes; });
}

size_t PrefixStats::Dump(Cursor* cursor, char* out, size_t bytes) const {
  size_t written = 0;
  for (; cursor->shard < kShards; ++cursor->shard, cursor->entry = 0) {
    const Shard& shard = shards_[cursor->shard];
    const std::lock_guard lock(shard.mutex);
    for (; cursor->entry < shard.entries.size(); ++cursor->entry) {
      if (bytes - written < kLineBytesMax) return written;
      const auto& [prefix, hash, counts] = shard.entries[cursor->entry];
      const auto number = [](uint64_t n) { return static_cast<unsigned long long>(n); };
      const int length = std::snprintf(
          out + written, kLineBytesMax, "PREFIX %.*s get %llu hit %llu set %llu del %llu\r\n",
          static_cast<int>(prefix.size()), prefix.data(), number(counts.gets), number(counts.hits),
          number(counts.sets), number(counts.deletes));
      written += static_cast<size_t>(length);
    }
  }
  return written;
}

void PrefixStats::Clear() {
  for (Shard& shard : shards_) {
    const std::lock_guard lock(shard.mutex);
    prefixes_.fetch_sub(shard.entries.size(), std::memory_order_relaxed);
    for (const Entry& entry : shard.entries) {
      prefix_bytes_.fetch_sub(entry.prefix.size(), std::memory_order_relaxed);
    }
    shard.entries = {};
    shard.slots = {};
  }
}

}  // namespace server
