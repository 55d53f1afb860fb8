#include "storage/packed/packed_store_planner.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "storage/blob_pool.h"
#include "storage/error_sampler.h"
#include "storage/packed/packed_table.h"
#include "storage/shared_bytes.h"
#include "storage/slab.h"
#include "storage/store.h"

namespace kbf {

namespace {

// The constants of store.cc, slab.cc and slab_eviction.cc.
constexpr double kMemoryMargin = 0.96;
constexpr uint64_t kValueShare = 4;

// Slots that are used when the fullest segment of a slab grows for the last time. Fresh segments
// take keys until 97 % of their slots are used with 12 a line, 93 % with 7, and segments differ by
// the chance of the keys' hashes.
constexpr double kPlannedFill = 0.90;
// Keys go to slabs by their hash: the fullest slab has more than the mean by so many standard
// deviations at most.
constexpr double kSlabDeviations = 5;
// By value in ValueRegistry: a pointer, and four bytes of an index that is 3/8 full at least.
constexpr uint64_t kRegistryBytesPerValue = 8 + 11;
// Tables by number, sketches; and of each slab its windows, and some tombstones.
constexpr uint64_t kRegistryBytesMin = 80 << 10;
constexpr uint64_t kChainBytes = 24 << 10;
constexpr uint64_t kStepShare = 256;
constexpr uint64_t kMemoryMax = uint64_t{1} << 50;

StoreParts Times(const StoreParts& one, uint64_t slabs) {
  return {one.cells * slabs,  one.locator * slabs, one.dictionary * slabs,
          one.values * slabs, one.front * slabs,   one.other * slabs};
}

// Nothing where this memory does not hold the keys.
std::optional<PackedStorePlan> TryMemory(const StorePlanRequest& request, const PackedPlan& plan,
                                         uint64_t memory_bytes) {
  const unsigned num_slabs = ShapeOfStore(memory_bytes).num_slabs;
  const uint64_t blob = AllocatedBytes(sizeof(Blob) + request.value_bytes);
  const uint64_t values =
      request.distinct_values * (blob + kRegistryBytesPerValue) + kRegistryBytesMin;
  if (values > memory_bytes / kValueShare) return std::nullopt;
  const auto slab_bytes =
      static_cast<uint64_t>(kMemoryMargin * static_cast<double>(memory_bytes)) / num_slabs;
  const double mean = static_cast<double>(request.keys) / num_slabs;
  const double most = num_slabs == 1 ? mean : mean + kSlabDeviations * std::sqrt(mean);
  const auto segments =
      static_cast<double>(memory_bytes / num_slabs / kLineBytes / kSegmentLinesMax) + 1;
  StoreParts one;
  one.cells = static_cast<uint64_t>(most * plan.bytes_per_key / kPlannedFill +
                                    segments * kPageLines * kLineBytes);
  one.values = values / num_slabs + 1;
  one.front = static_cast<uint64_t>(
      request.front_share * static_cast<double>(slab_bytes - std::min(slab_bytes, one.values)));
  one.other = sizeof(Slab) + ErrorSampler::kSamplesMax * sizeof(ErrorSampler::Sample) + kChainBytes;
  if (one.total() > slab_bytes) return std::nullopt;
  return PackedStorePlan{memory_bytes, num_slabs, plan, Times(one, num_slabs)};
}

}  // namespace

PackedStorePlanOutcome PlanPackedStore(const StorePlanRequest& request, uint64_t granularity) {
  PackedPlanOutcome planned = PlanPacked({request.false_positive, request.distinct_values});
  if (!planned.plan) return {std::nullopt, std::move(planned.error)};
  uint64_t memory = (kMemoryBytesMin + granularity - 1) / granularity * granularity;
  while (memory <= kMemoryMax) {
    if (auto plan = TryMemory(request, *planned.plan, memory)) return {*plan, {}};
    memory += std::max<uint64_t>(1, memory / kStepShare / granularity) * granularity;
  }
  return {std::nullopt, "one store cannot hold " + std::to_string(request.keys) +
                            " keys: divide them over several servers"};
}

}  // namespace kbf
