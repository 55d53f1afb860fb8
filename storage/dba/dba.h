// Dba is a dynamic Bloom filter array ([DBA] §3): an index over subsets of a growing set, one Bloom
// filter per subset, kept in groups that are asked in parallel. It says which subsets may hold a
// key. It holds no keys; the subsets themselves belong to the caller, who can list the keys of a
// subset when a filter has to be built anew. storage/locator.h is the small, blocked relative of it
// that the store uses.
//
// Promises:  a key is among the candidates of the subset that it was inserted into, until the
// subset has
//            been refreshed without it. An absent key has any candidate at all with chance
//            ErrorRate(), eq. 3 over all filters; with error control that stays at the threshold ε
//            (once Maintain has caught up) however many keys come.
// Control:   kNone      filters are added without end; ε is passed after r of them.
//            kEnlarge   at r filters a group is built anew with t times the capacity at the same
//            rate, and
//                       its subsets take more keys ([DBA] §3.2, first method).
//            kTighten   at r filters a group gets more hash functions, for the rate that t·r
//            filters would
//                       be allowed, and (t-1)·g more filters may come (second method, eq. 5). Only
//                       the new segments are filled (Fig. 4).
// Deletion:  lazy (§3.4): a filter counts its stale keys. NeedsRefresh where their share reaches
//            stale_share_max; Refresh clears the filter and adds the live keys. A deleted key stays
//            a candidate until then.
// Requires:  one thread at a time. Insert and Delete name subsets that exist; keys are not deleted
// twice.
//            Lister lists the live keys of a subset, all that were inserted and not deleted.
// Costs:     bits: k log2 e per key of capacity. Locate: k rows in a group that holds the key,
// about 2 in
//            others; g filters per row. A step of Maintain builds one filter: k bits per key of it.
// Departs:   - groups are as large as configured; Combine doubles them when asked, where the paper
// has a
//              background thread that keeps g/r in [1/8, 1/4).
//            - a new key goes to the first subset with room, so subsets that were enlarged or
//            refreshed
//              fill up again.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "storage/dba/filter_group.h"
#include "storage/hash.h"

namespace kbf {

struct DbaConfig {
  enum class Control : uint8_t { kNone, kEnlarge, kTighten };
  uint64_t keys_per_filter = 0;  // c_BF
  unsigned filters = 64;         // r, the designed number
  double error_rate = 1e-4;      // ε
  unsigned group_cardinality = 32;
  Control control = Control::kNone;
  unsigned growth = 3;  // t
  double stale_share_max = 0.25;
};

class Dba {
 public:
  using Visit = std::function<void(const KeyHash&)>;
  using Lister = std::function<void(uint32_t subset, const Visit&)>;

  // Nothing where the numbers make no array (c_BF, r, g at least one, 0 < ε < 1, t at least 2) or
  // the memory of a group is not to be had.
  static std::optional<Dba> Create(const DbaConfig& config);

  // The subset that the key now belongs to; nothing where memory for a new group is not to be had.
  std::optional<uint32_t> Insert(const KeyHash& key);
  // Subsets that may hold the key, ascending. More than one with chance below ε for a key that is
  // there.
  void Locate(const KeyHash& key, std::vector<uint32_t>* subsets) const;
  // The first of them, Algorithm 2; nothing where the key is absent.
  std::optional<uint32_t> First(const KeyHash& key) const;
  bool MayContain(const KeyHash& key) const { return First(key).has_value(); }

  // A key of that subset is stale from now on.
  void Delete(uint32_t subset);
  bool NeedsRefresh(uint32_t subset) const;
  void Refresh(uint32_t subset, const Lister& lister);
  // Moves the filter of `from` onto that of `to`; the caller has moved the keys. False, and nothing
  // changed, where they are not in one group or `to` has no room.
  [[nodiscard]] bool Join(uint32_t from, uint32_t to);

  // Error control. Builds up to `filters_max` filters anew; true where nothing is left to do.
  // Queries and insertions may come between two steps.
  bool Maintain(const Lister& lister, unsigned filters_max = ~0u);
  // Pairs of neighbouring groups of the same shape become one of twice the cardinality. False, and
  // what is done stays, where memory or FilterGroup::kCardinalityMax does not allow it.
  bool Combine();

  uint32_t num_subsets() const { return static_cast<uint32_t>(subsets_.size()); }
  uint64_t num_keys() const;  // stale ones count until they are refreshed away
  double ErrorRate() const;   // eq. 3 with the filters as they are filled
  uint64_t memory_bytes() const;
  size_t num_groups() const { return groups_.size(); }
  const FilterGroupShape& GroupShape(size_t group) const { return groups_[group].filters.shape(); }

 private:
  struct Subset {
    uint64_t keys = 0;
    uint64_t stale = 0;
  };
  struct Group {
    FilterGroup filters;
    uint32_t first;     // subset of filter 0
    uint64_t capacity;  // keys per filter
    unsigned round;     // how often error control has passed over it
  };
  // A group that is being built anew.
  struct Rebuild {
    size_t group;
    std::optional<FilterGroup>
        filters;        // kEnlarge: the new ones; kTighten: the new segments, if any
    unsigned next = 0;  // filter
  };

  explicit Dba(const DbaConfig& config);

  static FilterGroupShape ShapeFor(uint64_t capacity, double filter_error_rate,
                                   unsigned cardinality);
  uint64_t CapacityInRound(unsigned round) const;
  double FilterRateInRound(unsigned round) const;
  // Filters that ε allows with the groups as they are.
  uint64_t FiltersAllowed() const;
  size_t GroupOf(uint32_t subset) const;
  unsigned FilterIn(const Group& group, uint32_t subset) const { return subset - group.first; }
  // Filters of the group that stand for subsets.
  unsigned UsedFilters(const Group& group) const;
  // Moves open_ to the first subset with room. False where there is none.
  bool FindRoom();
  bool AddGroup();
  bool StartRebuild();
  void RebuildFilter(const Lister& lister);
  void FinishRebuild();
  void AddKey(Group* group, uint32_t subset, const KeyHash& key);

  DbaConfig config_;
  std::vector<Group> groups_;  // ascending by first
  std::vector<Subset> subsets_;
  std::optional<Rebuild> rebuild_;
  unsigned round_ = 0;  // of new groups
  uint32_t open_ = 0;   // no subset before this one has room
};

}  // namespace kbf
