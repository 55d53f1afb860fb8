#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/stats/sections.h"

namespace server {
namespace {

// Both numbers of slabs are powers of two, so all classes have equally many.
struct SlabClass {
  unsigned id;
  unsigned slabs;
  uint64_t items = 0;
  uint64_t bytes = 0;
  kbf::SlabCounters events = {};
  uint64_t bytes_per_item() const { return (bytes + items - 1) / items; }
};

// The classes that hold items.
std::vector<SlabClass> ClassesOf(const kbf::Store& store) {
  const unsigned slabs_each = SlabsPerClass(store);
  const unsigned count = store.num_slabs() / slabs_each;
  std::vector<SlabClass> classes;
  for (unsigned i = 0; i < count; ++i) {
    SlabClass one{i + 1, slabs_each};
    for (unsigned slab = i * slabs_each; slab < (i + 1) * slabs_each; ++slab) {
      const kbf::SlabUsage usage = store.UsageOf(slab);
      one.items += CurrentItems(usage);
      one.bytes += usage.total_bytes();
      kbf::AddCounters(store.CountersOf(slab), &one.events);
    }
    if (one.items > 0) classes.push_back(one);
  }
  return classes;
}

// A name of memcached's and the events that it counts; none for what does not exist here.
struct Event {
  std::string_view name;
  uint64_t kbf::SlabCounters::*first = nullptr;
  uint64_t kbf::SlabCounters::*second = nullptr;
};

void WriteEvents(const std::string& prefix, std::span<const Event> events,
                 const kbf::SlabCounters& counters, StatsSink* out) {
  for (const Event& event : events) {
    uint64_t count = event.first == nullptr ? 0 : counters.*event.first;
    if (event.second != nullptr) count += counters.*event.second;
    out->Add(prefix + std::string(event.name), count);
  }
}

// How many more items like those of a class its part of the memory would hold, at least one until
// something was evicted: tools call a class full that has no free chunk.
uint64_t FreeChunks(const kbf::Store& store, const SlabClass& one) {
  if (store.Counters().evicted + store.ChainEvents().dropped_keys > 0) return 0;
  const uint64_t part = store.config().memory_bytes / store.num_slabs() * one.slabs;
  const uint64_t free_bytes = part - std::min(part, one.bytes);
  return std::max<uint64_t>(1, free_bytes / one.bytes_per_item());
}

}  // namespace

unsigned SlabsPerClass(const kbf::Store& store) {
  return store.num_slabs() / std::min(store.num_slabs(), kClassesMax);
}

void WriteItems(const ServerView& server, StatsSink* out) {
  using Counters = kbf::SlabCounters;
  // Ages and lists do not exist.
  constexpr std::string_view kLists[] = {"number_hot", "number_warm", "number_cold",
                                         "age_hot",    "age_warm",    "age"};
  static constexpr Event kEvents[] = {{"evicted", &Counters::evicted},
                                      {"evicted_nonzero"},
                                      {"evicted_time"},
                                      {"outofmemory", &Counters::refused_memory},
                                      {"tailrepairs"},
                                      {"reclaimed", &Counters::expired},
                                      {"expired_unfetched", &Counters::expired_unfetched},
                                      {"evicted_unfetched", &Counters::evicted_unfetched},
                                      {"evicted_active"},
                                      {"crawler_reclaimed"},
                                      {"crawler_items_checked"},
                                      {"lrutail_reflocked"},
                                      {"moves_to_cold"},
                                      {"moves_to_warm"},
                                      {"moves_within_lru"},
                                      {"direct_reclaims"},
                                      {"hits_to_hot"},
                                      {"hits_to_warm"},
                                      {"hits_to_cold"},
                                      {"hits_to_temp"}};
  for (const SlabClass& one : ClassesOf(server.store)) {
    const std::string prefix = "items:" + std::to_string(one.id) + ":";
    out->Add(prefix + "number", one.items);
    for (const std::string_view name : kLists) out->Add(prefix + std::string(name), 0);
    out->Add(prefix + "mem_requested", one.bytes);
    WriteEvents(prefix, kEvents, one.events, out);
  }
}

void WriteSlabs(const ServerView& server, StatsSink* out) {
  using Counters = kbf::SlabCounters;
  static constexpr Event kEvents[] = {{"get_hits", &Counters::front_hits, &Counters::chain_hits},
                                      {"cmd_set", &Counters::stored},
                                      {"delete_hits", &Counters::deleted},
                                      {"incr_hits"},
                                      {"decr_hits"},
                                      {"cas_hits"},
                                      {"cas_badval"},
                                      {"touch_hits"}};
  const std::vector<SlabClass> classes = ClassesOf(server.store);
  for (const SlabClass& one : classes) {
    const std::string prefix = std::to_string(one.id) + ":";
    out->Add(prefix + "chunk_size", one.bytes_per_item());
    out->Add(prefix + "chunks_per_page", one.items / one.slabs);
    out->Add(prefix + "total_pages", one.slabs);
    const uint64_t free_chunks = FreeChunks(server.store, one);
    out->Add(prefix + "total_chunks", one.items + free_chunks);
    out->Add(prefix + "used_chunks", one.items);
    out->Add(prefix + "free_chunks", free_chunks);
    out->Add(prefix + "free_chunks_end", 0);
    WriteEvents(prefix, kEvents, one.events, out);
  }
  out->Add("active_slabs", classes.size());
  out->Add("total_malloced", server.store.Usage().total_bytes());
}

}  // namespace server
