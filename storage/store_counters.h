// What the store counts: events since it was made, and what it holds now. Each struct has one table
// of its fields; sums and the output of `stats` are loops over that table.
//
// Promises:  a field that is missing from its table, or there twice, does not compile.
// Costs:     tables are constants; Add is one addition per field.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kbf {

// One line of a table. Fields without a name are not in `stats kbf` under a name of their own:
// `stats` shows them under memcached's names, or `stats errors` does.
template <class Struct>
struct CounterField {
  uint64_t Struct::*field;
  std::string_view name = {};
};

template <class Struct>
constexpr bool EachFieldOnce() {
  constexpr auto kFields = Struct::Fields();
  for (size_t i = 0; i < kFields.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (kFields[i].field == kFields[j].field) return false;
    }
  }
  return kFields.size() * sizeof(uint64_t) == sizeof(Struct);
}

template <class Struct>
void AddCounters(const Struct& other, Struct* sum) {
  for (const auto& [field, name] : Struct::Fields()) sum->*field += other.*field;
}

// Each event once. Removals are counted by cause, whether the key was in the front or in the chain.
struct SlabCounters {
  uint64_t front_hits = 0;
  uint64_t chain_hits = 0;
  uint64_t misses = 0;
  uint64_t demoted = 0;   // front to chain
  uint64_t promoted = 0;  // chain to front
  uint64_t evicted = 0;   // removed from the front to make room
  uint64_t refused_memory = 0;
  uint64_t refused_size = 0;
  uint64_t expired_reads = 0;  // misses that met an expired item
  uint64_t flushed_reads = 0;  // misses that met a flushed item
  uint64_t stored = 0;         // writes that stored something
  uint64_t evicted_unfetched = 0;
  uint64_t expired = 0;
  uint64_t expired_unfetched = 0;
  uint64_t flushed = 0;
  uint64_t deleted = 0;

  static constexpr auto Fields() {
    using Self = SlabCounters;
    return std::to_array<CounterField<Self>>({{&Self::front_hits, "front_hits"},
                                              {&Self::chain_hits, "chain_hits"},
                                              {&Self::misses, "misses"},
                                              {&Self::demoted, "demotions"},
                                              {&Self::promoted, "promotions"},
                                              {&Self::evicted, "front_evictions"},
                                              {&Self::refused_memory, "refused_memory"},
                                              {&Self::refused_size, "refused_size"},
                                              {&Self::expired_reads},
                                              {&Self::flushed_reads},
                                              {&Self::stored},
                                              {&Self::evicted_unfetched},
                                              {&Self::expired},
                                              {&Self::expired_unfetched},
                                              {&Self::flushed},
                                              {&Self::deleted}});
  }
};
static_assert(EachFieldOnce<SlabCounters>());

struct ChainCounters {
  uint64_t inserted = 0;      // keys that came in
  uint64_t removed = 0;       // keys whose entries were deleted
  uint64_t tombstones = 0;    // keys that were hidden by a tombstone instead
  uint64_t dropped_keys = 0;  // entries lost with filters that made room
  uint64_t expired_keys = 0;  // entries gone with filters whose deadline passed
  uint64_t flushed_keys = 0;  // entries gone by a flush
  uint64_t filters_added = 0;
  uint64_t filters_dropped = 0;
  uint64_t filters_expired = 0;
  uint64_t joins = 0;
  uint64_t compressions = 0;
  uint64_t disagreements = 0;  // two filters answered differently: a miss

  static constexpr auto Fields() {
    using Self = ChainCounters;
    return std::to_array<CounterField<Self>>({{&Self::inserted, "inserted_keys"},
                                              {&Self::removed, "removed_keys"},
                                              {&Self::tombstones, "hidden_keys"},
                                              {&Self::dropped_keys, "dropped_keys"},
                                              {&Self::expired_keys, "expired_keys"},
                                              {&Self::flushed_keys, "flushed_keys"},
                                              {&Self::filters_added, "filters_added"},
                                              {&Self::filters_dropped, "filters_dropped"},
                                              {&Self::filters_expired, "filters_expired"},
                                              {&Self::joins, "joins"},
                                              {&Self::compressions, "compressions"},
                                              {&Self::disagreements, "disagreements"}});
  }
};
static_assert(EachFieldOnce<ChainCounters>());

struct DictionaryCounters {
  uint64_t admitted = 0;      // new values
  uint64_t refused = 0;       // times that a value got no number
  uint64_t refused_full = 0;  // of these, because there was no room for one that repeats
  uint64_t upgraded = 0;      // larger blocks given
  uint64_t downgraded = 0;    // smaller blocks given
  uint64_t recycled = 0;      // codes freed
  uint64_t refined = 0;       // times that a chain made room for more values

  static constexpr auto Fields() {
    using Self = DictionaryCounters;
    return std::to_array<CounterField<Self>>({{&Self::admitted, "values_admitted"},
                                              {&Self::refused, "values_refused"},
                                              {&Self::refused_full, "values_refused_full"},
                                              {&Self::upgraded, "codes_upgraded"},
                                              {&Self::downgraded, "codes_downgraded"},
                                              {&Self::recycled, "codes_recycled"},
                                              {&Self::refined, "code_space_doubled"}});
  }
};
static_assert(EachFieldOnce<DictionaryCounters>());

// Probes of the chain by ErrorSampler, and what they found.
struct MeasuredRates {
  uint64_t stored_asked = 0;     // probes for sampled keys that the chain holds
  uint64_t false_negatives = 0;  // of these, not found
  uint64_t wrong = 0;            // of these, found with another value
  uint64_t absent_probes = 0;    // probes for random keys, which are not stored
  uint64_t false_positives = 0;  // of these, found

  static constexpr auto Fields() {
    using Self = MeasuredRates;
    return std::to_array<CounterField<Self>>({{&Self::stored_asked},
                                              {&Self::false_negatives},
                                              {&Self::wrong},
                                              {&Self::absent_probes},
                                              {&Self::false_positives}});
  }
};
static_assert(EachFieldOnce<MeasuredRates>());

// What a slab holds now.
struct SlabUsage {
  uint64_t front_items = 0;
  uint64_t front_bytes = 0;
  uint64_t chain_keys = 0;
  uint64_t cells = 0;       // places for entries
  uint64_t cells_used = 0;  // entries; several may share a place
  uint64_t cells_bytes = 0;
  uint64_t locator_bytes = 0;
  uint64_t tombstones = 0;
  uint64_t filters = 0;  // parts of the chain
  uint64_t dictionary_bytes = 0;
  uint64_t values = 0;
  uint64_t codes = 0;
  uint64_t other_bytes = 0;

  uint64_t total_bytes() const {
    return front_bytes + cells_bytes + locator_bytes + dictionary_bytes + other_bytes;
  }

  static constexpr auto Fields() {
    using Self = SlabUsage;
    return std::to_array<CounterField<Self>>({{&Self::front_items},
                                              {&Self::front_bytes},
                                              {&Self::chain_keys},
                                              {&Self::cells},
                                              {&Self::cells_used},
                                              {&Self::cells_bytes},
                                              {&Self::locator_bytes},
                                              {&Self::tombstones},
                                              {&Self::filters},
                                              {&Self::dictionary_bytes},
                                              {&Self::values},
                                              {&Self::codes},
                                              {&Self::other_bytes}});
  }
};
static_assert(EachFieldOnce<SlabUsage>());

}  // namespace kbf
