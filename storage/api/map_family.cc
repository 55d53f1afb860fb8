#include "storage/api/map_family.h"

#include <cassert>
#include <cmath>
#include <string>

#include "storage/kbf.h"
#include "storage/maths.h"

namespace kbf {

namespace {

constexpr uint64_t kMapValuesMax = uint64_t{1} << 24;

// Filters for fewer keys show less than 22.7 bits of evidence with two of three cells.
constexpr uint64_t kSmallMapKeys = 8192;

// SymbolBlocks and ValueNumbers, see there.
constexpr uint64_t kBytesPerValue = 16;

std::string RangeError(const MapOptions& options) {
  if (options.capacity == 0 || options.capacity > kCapacityMax) {
    return "the capacity must be 1 to " + std::to_string(kCapacityMax) + " keys, not " +
           std::to_string(options.capacity);
  }
  if (options.distinct_values == 0 || options.distinct_values > kMapValuesMax) {
    return "there must be 1 to " + std::to_string(kMapValuesMax) + " distinct values, not " +
           std::to_string(options.distinct_values);
  }
  return {};
}

// m/k, or lines per row in a line-partitioned layout.
double RowGroups(const Plan& plan, uint64_t capacity) {
  const KbfLayout& layout = plan.layout;
  return static_cast<double>(capacity) * layout.num_hashes /
         (plan.load * layout.num_lines * CellsPerGroup(layout));
}

double DamageOf(const Plan& plan, uint64_t capacity) {
  const double strong = StrongEvidenceBits(plan.layout, plan.load, RowGroups(plan, capacity));
  return std::exp2(-MapEvidenceBits(capacity, strong));
}

MapPlan PromisedBy(const Plan& plan, const MapOptions& options, uint64_t cell_bytes) {
  MapPlan promised;
  promised.capacity = options.capacity;
  promised.values_max = plan.values_max;
  promised.bytes = cell_bytes + kBytesPerValue * plan.values_max;
  promised.bytes_per_key =
      static_cast<double>(promised.bytes) / static_cast<double>(options.capacity);
  promised.errors = {plan.predicted.false_negative, plan.predicted.false_positive};
  promised.damage = DamageOf(plan, options.capacity);
  promised.cache_lines = plan.memory_accesses;
  return promised;
}

}  // namespace

double MapEvidenceBits(uint64_t capacity, double strong_bits) {
  return capacity < kSmallMapKeys ? kStrongEvidenceBits : strong_bits;
}

Result<PlannedMap> PlanCells(const MapOptions& options) {
  if (std::string error = RangeError(options); !error.empty()) {
    return {Status::kBadArgument, std::move(error)};
  }
  const PlanOutcome planned =
      MakePlan({options.false_negative, options.false_positive, options.distinct_values});
  if (!planned.plan) return {Status::kBadArgument, planned.error};
  const SizeOutcome size = TotalBytes(*planned.plan, options.capacity);
  if (!size.bytes) return {Status::kBadArgument, size.error};
  return PlannedMap{PromisedBy(*planned.plan, options, *size.bytes), *planned.plan};
}

std::shared_ptr<MapFamily> MapFamily::Create(const PlannedMap& planned, uint64_t seed) {
  const HashSecret secret = seed == 0 ? HashSecret::Random() : HashSecret::FromSeed(seed);
  return std::shared_ptr<MapFamily>(new MapFamily(planned, secret));
}

MapFamily::MapFamily(const PlannedMap& planned, const HashSecret& secret)
    : planned_(planned),
      secret_(secret),
      blocks_(planned.plan.layout.symbol_bits, planned.plan.layout.check_bits),
      values_(static_cast<uint32_t>(planned.plan.values_max), secret) {
  // Smallest blocks are given out in ascending order, which BlockOf relies on.
  for (uint32_t number = 0; number < planned.plan.values_max; ++number) {
    [[maybe_unused]] const auto block = blocks_.Allocate(number, planned.plan.layout.check_bits);
    assert(block && block->first == BlockOf(number).first);
  }
}

}  // namespace kbf
