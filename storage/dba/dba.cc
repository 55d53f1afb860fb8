#include "storage/dba/dba.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <numbers>

#include "storage/dba/maths.h"

namespace kbf {

Dba::Dba(const DbaConfig& config) : config_(config) {}

std::optional<Dba> Dba::Create(const DbaConfig& config) {
  if (config.keys_per_filter < 1 || config.filters < 1 || config.group_cardinality < 1 ||
      config.growth < 2 || !(config.error_rate > 0 && config.error_rate < 1)) {
    return std::nullopt;
  }
  Dba dba(config);
  if (!dba.AddGroup()) return std::nullopt;
  return dba;
}

FilterGroupShape Dba::ShapeFor(uint64_t capacity, double filter_error_rate, unsigned cardinality) {
  // Half of the bits of a full filter are ones, at m/k = log2 e · n rows in a segment (eq. 1 and
  // 2).
  const auto rows =
      static_cast<uint64_t>(std::ceil(static_cast<double>(capacity) * std::numbers::log2e));
  return {cardinality, rows, DbaNumHashes(filter_error_rate)};
}

uint64_t Dba::CapacityInRound(unsigned round) const {
  uint64_t capacity = config_.keys_per_filter;
  if (config_.control != DbaConfig::Control::kEnlarge) return capacity;
  for (; round > 0; --round) capacity *= config_.growth;
  return capacity;
}

double Dba::FilterRateInRound(unsigned round) const {
  double filters = config_.filters;
  if (config_.control == DbaConfig::Control::kTighten) {
    filters *= std::pow(config_.growth, round);
  }
  return DbaFilterErrorRate(config_.error_rate, filters);
}

uint64_t Dba::FiltersAllowed() const {
  if (config_.control == DbaConfig::Control::kNone) return ~uint64_t{0};
  if (config_.control == DbaConfig::Control::kEnlarge) return config_.filters;
  // Every filter takes its share of ε: 1/r in round 0, 1/(t r) in round 1, …
  const auto share = [this](unsigned round) {
    return std::pow(config_.growth, -static_cast<double>(round));
  };
  constexpr double kRounding = 1e-6;
  double left = config_.filters + kRounding;
  for (const Group& group : groups_) left -= UsedFilters(group) * share(group.round);
  // First what is free in the last group, then groups of this round.
  const Group& last = groups_.back();
  const double free = last.filters.shape().cardinality - UsedFilters(last);
  const double here = std::clamp(std::floor(left / share(last.round)), 0.0, free);
  left -= here * share(last.round);
  const double more = here < free ? 0 : std::max(0.0, std::floor(left / share(round_)));
  return num_subsets() + static_cast<uint64_t>(here + more);
}

size_t Dba::GroupOf(uint32_t subset) const {
  const auto after =
      std::upper_bound(groups_.begin(), groups_.end(), subset,
                       [](uint32_t number, const Group& group) { return number < group.first; });
  return static_cast<size_t>(after - groups_.begin()) - 1;
}

unsigned Dba::UsedFilters(const Group& group) const {
  return std::min(group.filters.shape().cardinality, num_subsets() - group.first);
}

bool Dba::AddGroup() {
  const uint64_t capacity = CapacityInRound(round_);
  auto filters =
      FilterGroup::Create(ShapeFor(capacity, FilterRateInRound(round_), config_.group_cardinality));
  if (!filters) return false;
  groups_.push_back({std::move(*filters), num_subsets(), capacity, round_});
  return true;
}

void Dba::AddKey(Group* group, uint32_t subset, const KeyHash& key) {
  group->filters.Add(FilterIn(*group, subset), key);
  // The filter that will stand for the subset needs the key as well, if it has been built already.
  if (rebuild_ && rebuild_->filters && &groups_[rebuild_->group] == group &&
      FilterIn(*group, subset) < rebuild_->next) {
    rebuild_->filters->Add(FilterIn(*group, subset), key);
  }
}

bool Dba::FindRoom() {
  while (open_ < num_subsets() && subsets_[open_].keys >= groups_[GroupOf(open_)].capacity) ++open_;
  return open_ < num_subsets();
}

std::optional<uint32_t> Dba::Insert(const KeyHash& key) {
  if (!FindRoom()) {
    const Group& last = groups_.back();
    if (UsedFilters(last) == last.filters.shape().cardinality && !AddGroup()) return std::nullopt;
    subsets_.push_back({});
  }
  AddKey(&groups_[GroupOf(open_)], open_, key);
  ++subsets_[open_].keys;
  return open_;
}

void Dba::Locate(const KeyHash& key, std::vector<uint32_t>* found) const {
  found->clear();
  DbaHashes hashes(key);
  std::array<uint64_t, FilterGroup::kWordsMax> mask;
  for (const Group& group : groups_) {
    std::fill_n(mask.begin(), group.filters.words(), ~uint64_t{0});
    if (!group.filters.Candidates(&hashes, mask.data())) continue;
    for (unsigned word = 0; word < group.filters.words(); ++word) {
      for (uint64_t left = mask[word]; left != 0; left &= left - 1) {
        found->push_back(group.first + word * 64 + static_cast<unsigned>(std::countr_zero(left)));
      }
    }
  }
}

std::optional<uint32_t> Dba::First(const KeyHash& key) const {
  DbaHashes hashes(key);
  std::array<uint64_t, FilterGroup::kWordsMax> mask;
  for (const Group& group : groups_) {
    std::fill_n(mask.begin(), group.filters.words(), ~uint64_t{0});
    if (!group.filters.Candidates(&hashes, mask.data())) continue;
    unsigned word = 0;
    while (mask[word] == 0) ++word;
    return group.first + word * 64 + static_cast<unsigned>(std::countr_zero(mask[word]));
  }
  return std::nullopt;
}

void Dba::Delete(uint32_t subset) {
  assert(subset < num_subsets() && subsets_[subset].stale < subsets_[subset].keys);
  ++subsets_[subset].stale;
}

bool Dba::NeedsRefresh(uint32_t subset) const {
  const Subset& s = subsets_[subset];
  return s.stale > 0 &&
         static_cast<double>(s.stale) >= config_.stale_share_max * static_cast<double>(s.keys);
}

void Dba::Refresh(uint32_t subset, const Lister& lister) {
  Group& group = groups_[GroupOf(subset)];
  const unsigned filter = FilterIn(group, subset);
  group.filters.Clear(filter);
  const bool rebuilt = rebuild_ && rebuild_->filters && &groups_[rebuild_->group] == &group &&
                       filter < rebuild_->next;
  if (rebuilt) rebuild_->filters->Clear(filter);
  Subset fresh;
  lister(subset, [&](const KeyHash& key) {
    AddKey(&group, subset, key);
    ++fresh.keys;
  });
  subsets_[subset] = fresh;
  open_ = std::min(open_, subset);
}

bool Dba::Join(uint32_t from, uint32_t to) {
  const size_t at = GroupOf(to);
  Group& group = groups_[at];
  if (from == to || GroupOf(from) != at || (rebuild_ && rebuild_->group == at) ||
      subsets_[from].keys + subsets_[to].keys > group.capacity) {
    return false;
  }
  group.filters.Or(FilterIn(group, from), FilterIn(group, to));
  group.filters.Clear(FilterIn(group, from));
  subsets_[to].keys += subsets_[from].keys;
  subsets_[to].stale += subsets_[from].stale;
  subsets_[from] = {};
  open_ = std::min(open_, from);
  return true;
}

bool Dba::Maintain(const Lister& lister, unsigned filters_max) {
  for (unsigned built = 0; built < filters_max; ++built) {
    if (!rebuild_ && !StartRebuild()) return true;
    if (rebuild_->next < UsedFilters(groups_[rebuild_->group])) RebuildFilter(lister);
    if (rebuild_->next >= UsedFilters(groups_[rebuild_->group])) FinishRebuild();
  }
  return false;
}

bool Dba::StartRebuild() {
  if (config_.control == DbaConfig::Control::kNone || FindRoom() ||
      num_subsets() < FiltersAllowed()) {
    return false;
  }
  auto oldest = std::min_element(groups_.begin(), groups_.end(),
                                 [](const Group& a, const Group& b) { return a.round < b.round; });
  // A group from this round: the next round begins.
  round_ = std::max(round_, oldest->round + 1);
  Rebuild rebuild{static_cast<size_t>(oldest - groups_.begin()), std::nullopt, 0};
  FilterGroup& filters = oldest->filters;
  const unsigned round = oldest->round + 1;
  const FilterGroupShape shape =
      ShapeFor(CapacityInRound(round), FilterRateInRound(round), filters.shape().cardinality);
  if (config_.control == DbaConfig::Control::kEnlarge) {
    rebuild.filters = FilterGroup::Create(shape);
    if (!rebuild.filters) return false;
  } else {
    // Empty segments would make keys absent, so they are filled apart.
    const unsigned more = shape.num_hashes - filters.shape().num_hashes;
    if (more > 0) {
      rebuild.filters = filters.MoreSegments(more);
      if (!rebuild.filters) return false;
    }
  }
  rebuild_ = std::move(rebuild);
  return true;
}

void Dba::RebuildFilter(const Lister& lister) {
  const Group& group = groups_[rebuild_->group];
  const unsigned filter = rebuild_->next++;
  if (!rebuild_->filters) return;
  uint64_t keys = 0;
  lister(group.first + filter, [&](const KeyHash& key) {
    rebuild_->filters->Add(filter, key);
    ++keys;
  });
  // A larger filter holds no stale keys. New segments deny them, but the old ones keep their bits.
  if (config_.control == DbaConfig::Control::kEnlarge) subsets_[group.first + filter] = {keys, 0};
}

void Dba::FinishRebuild() {
  Group& group = groups_[rebuild_->group];
  if (config_.control == DbaConfig::Control::kEnlarge) {
    group.filters = std::move(*rebuild_->filters);
  } else if (rebuild_->filters) {
    group.filters.Append(std::move(*rebuild_->filters));
  }
  ++group.round;
  group.capacity = CapacityInRound(group.round);
  open_ = std::min(open_, group.first);
  rebuild_.reset();
}

bool Dba::Combine() {
  if (rebuild_) return false;
  for (size_t i = 0; i + 1 < groups_.size(); ++i) {
    Group& a = groups_[i];
    const Group& b = groups_[i + 1];
    const FilterGroupShape& shape = a.filters.shape();
    if (shape.rows != b.filters.shape().rows || a.round != b.round ||
        shape.cardinality != b.filters.shape().cardinality) {
      continue;
    }
    auto both = FilterGroup::Create({2 * shape.cardinality, shape.rows, shape.num_hashes});
    if (!both) return false;
    both->CopyFrom(a.filters, 0);
    both->CopyFrom(b.filters, shape.cardinality);
    a.filters = std::move(*both);
    groups_.erase(groups_.begin() + static_cast<ptrdiff_t>(i) + 1);
  }
  return true;
}

uint64_t Dba::num_keys() const {
  uint64_t keys = 0;
  for (const Subset& subset : subsets_) keys += subset.keys;
  return keys;
}

double Dba::ErrorRate() const {
  double none = 0;  // logarithm of the chance that no filter errs
  for (const Group& group : groups_) {
    for (unsigned filter = 0; filter < UsedFilters(group); ++filter) {
      none += std::log1p(-SegmentedFalsePositive(
          static_cast<double>(subsets_[group.first + filter].keys),
          static_cast<double>(group.filters.shape().rows), group.filters.shape().num_hashes));
    }
  }
  return -std::expm1(none);
}

uint64_t Dba::memory_bytes() const {
  uint64_t bytes = rebuild_ && rebuild_->filters ? rebuild_->filters->memory_bytes() : 0;
  for (const Group& group : groups_) bytes += group.filters.memory_bytes();
  return bytes;
}

}  // namespace kbf
