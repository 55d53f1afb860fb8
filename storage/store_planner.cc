#include "storage/store_planner.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "storage/blob_pool.h"
#include "storage/dictionary.h"
#include "storage/error_sampler.h"
#include "storage/filter.h"
#include "storage/kbf_chain.h"
#include "storage/kbf_engine.h"
#include "storage/locator.h"
#include "storage/shared_bytes.h"
#include "storage/slab.h"
#include "storage/store.h"

namespace kbf {

namespace {

// ---- how a Store divides its memory: the constants of store.cc and slab_eviction.cc ----

constexpr uint64_t kSlabBytes = uint64_t{16} << 20;
constexpr uint64_t kFilterKeysMax = 32768;
constexpr uint64_t kFilterKeysMin = 2048;
constexpr uint64_t kFiltersPerSlab = 24;
constexpr uint64_t kBytesPerKey = 24;
constexpr double kMemoryMargin = 0.96;
// The dictionaries take no new values once the values take this part of the memory.
constexpr uint64_t kValueShare = 4;

// ---- margins of this file ----

// Keys go to slabs by their hash. The fullest slab holds more than the mean by at most so many
// standard deviations: with 65,536 slabs a normal variable passes 5 of them with chance 0.02.
constexpr double kSlabDeviations = 5;
// A memory is planned only if all larger ones up to this factor hold the keys too: with more memory
// the number of slabs doubles, and each has its own dictionary.
constexpr double kLargerChecked = 1.5;
// Steps between the memories that are tried: a 256th part.
constexpr uint64_t kStepShare = 256;
// Values that a dictionary was seen to take in one go; more as others leave.
constexpr uint64_t kValuesMax = 50000;
// The shard tables of the blob pool: 11 to 21 bytes for each value (blob_pool.h), of 64 shards.
constexpr uint64_t kPoolBytesPerValue = 21;
constexpr uint64_t kPoolBytesMin = 16 << 10;
// For some keys whose entries could not be changed in place.
constexpr uint64_t kTombstoneBytes = 4 << 10;

// What one slab takes whatever the number of its filters.
struct SlabBytes {
  uint64_t dictionary = 0;
  uint64_t other = 0;        // the slab itself, samples for the error measurement
  uint64_t code_counts = 0;  // for each filter
};

// A dictionary with so many values, of which each was seen often enough to get a code.
SlabBytes MeasureSlab(const std::vector<Plan>& plans, uint64_t distinct_values) {
  const HashSecret secret = HashSecret::FromSeed(1);  // the same answer every time
  BlobPool pool;
  const FilterMakers makers(plans, kFilterKeysMin);
  Dictionary dictionary({.layout = makers.layout(), .check_bits_min = makers.check_bits_min()},
                        secret, pool);
  for (uint64_t i = 0; i < distinct_values; ++i) {
    const std::string value = std::to_string(i);
    for (uint32_t seen = 0; seen < FrequencySketch::kCountMax && !dictionary.Knows(value, 0);
         ++seen) {
      if (const auto code = dictionary.Admit(value, 0)) dictionary.AddEntry(code->number);
    }
  }
  return {dictionary.memory_bytes(),
          sizeof(Slab) + ErrorSampler::kSamplesMax * sizeof(ErrorSampler::Sample) + kTombstoneBytes,
          CodeCounts::MemoryBytesFor(dictionary.num_codes() / 4 * 5)};
}

uint64_t ValueBytes(const StorePlanRequest& request) {
  const uint64_t blob = AllocatedBytes(sizeof(Blob) + request.value_bytes);
  return request.distinct_values * (blob + kPoolBytesPerValue) + kPoolBytesMin;
}

// Bytes of a locator that is ready for so many filters, and the most it took on the way: it widens
// when all columns but two are taken, and has both widths meanwhile.
struct LocatorBytes {
  uint64_t settled = 0;
  uint64_t most = 0;
};

LocatorBytes LocatorFor(unsigned filters, uint64_t filter_keys) {
  const uint64_t blocks = static_cast<uint64_t>(
      std::ceil(static_cast<double>(filter_keys) * KbfChain::kLocatorBits / Locator::kSlots));
  const auto bytes = [blocks](unsigned columns) { return blocks * Locator::kSlots * columns / 8; };
  unsigned columns = Locator::kColumnsMin;
  unsigned before = 0;
  while (columns < Locator::kColumnsMax && filters + 1 >= columns) {
    before = columns;
    columns *= 2;
  }
  return {bytes(columns), bytes(columns) + bytes(before)};
}

// Everything that does not depend on the memory that is tried.
class Sizer {
 public:
  // `plan` is the one of `plans` for so many values.
  Sizer(const StorePlanRequest& request, const Plan& plan, const std::vector<Plan>& plans)
      : request_(request),
        plan_(plan),
        slab_(MeasureSlab(plans, request.distinct_values)),
        value_bytes_(ValueBytes(request)) {}

  // Nothing where this memory does not hold the keys.
  std::optional<StorePlan> TryMemory(uint64_t memory_bytes) {
    const StoreShape shape = ShapeOfStore(memory_bytes);
    const unsigned filters = FiltersPerSlab(shape);
    if (filters > Locator::kColumnsMax || value_bytes_ > memory_bytes / kValueShare) return {};
    const uint64_t slab_bytes =
        static_cast<uint64_t>(kMemoryMargin * static_cast<double>(memory_bytes)) / shape.num_slabs;
    const uint64_t value_bytes = value_bytes_ / shape.num_slabs + 1;
    if (value_bytes >= slab_bytes) return {};
    const auto front =
        static_cast<uint64_t>(request_.front_share * static_cast<double>(slab_bytes - value_bytes));
    const LocatorBytes locator = LocatorFor(filters, shape.filter_keys);
    const StoreParts one{.cells = filters * FilterBytes(shape.filter_keys),
                         .locator = locator.settled,
                         .dictionary = slab_.dictionary + SeenBytes(slab_bytes),
                         .values = value_bytes,
                         .front = front,
                         .other = slab_.other + filters * slab_.code_counts};
    if (one.total() - one.locator + locator.most > slab_bytes) return {};
    return StorePlan{memory_bytes, shape.num_slabs, shape.filter_keys,
                     filters,      plan_,           Times(one, shape.num_slabs)};
  }

 private:
  static StoreParts Times(const StoreParts& one, uint64_t slabs) {
    return {one.cells * slabs,  one.locator * slabs, one.dictionary * slabs,
            one.values * slabs, one.front * slabs,   one.other * slabs};
  }

  // The dictionary that was measured had no slab to size this by.
  uint64_t SeenBytes(uint64_t slab_bytes) const {
    return request_.distinct_values < Dictionary::kSeenValuesMin
               ? 0
               : slab_bytes / KbfChain::kSeenShare;
  }

  // The chain is planned for all keys; those in the front are a reserve.
  unsigned FiltersPerSlab(const StoreShape& shape) const {
    const double mean = static_cast<double>(request_.keys) / shape.num_slabs;
    const double most = shape.num_slabs == 1 ? mean : mean + kSlabDeviations * std::sqrt(mean);
    const double filters = std::ceil(most / static_cast<double>(shape.filter_keys));
    return static_cast<unsigned>(std::min(filters, 1e6));
  }

  uint64_t FilterBytes(uint64_t filter_keys) {
    const auto [found, is_new] = filter_bytes_.try_emplace(filter_keys, 0);
    if (is_new) found->second = MakeKbfFilters(plan_, filter_keys)->filter_bytes();
    return found->second;
  }

  const StorePlanRequest& request_;
  const Plan& plan_;
  const SlabBytes slab_;
  const uint64_t value_bytes_;
  std::map<uint64_t, uint64_t> filter_bytes_;
};

uint64_t NextMemory(uint64_t memory_bytes, uint64_t granularity) {
  return memory_bytes +
         std::max<uint64_t>(1, memory_bytes / kStepShare / granularity) * granularity;
}

std::string TooManyKeys(const StorePlanRequest& request) {
  return "one store cannot hold " + std::to_string(request.keys) +
         " keys: divide them over several servers";
}

// The first plan does while its blocks take three quarters of all symbols, as in Dictionary. With
// more values an eighth of an even share is what their blocks may become.
const Plan& PlanFor(const std::vector<Plan>& plans, uint64_t distinct_values) {
  const KbfLayout& layout = plans.front().layout;
  if (distinct_values <= plans.front().values_max / 4 * 3) return plans.front();
  const double each = std::exp2(layout.symbol_bits) / (8 * static_cast<double>(distinct_values));
  const double bits = std::floor(std::log2(std::max(each, 1.0)));
  const double fewer = std::max(0.0, layout.check_bits - bits);
  return plans[std::min(static_cast<size_t>(fewer), plans.size() - 1)];
}

std::string TooManyValues(const StorePlanRequest& request) {
  return "a store is planned for up to " + std::to_string(kValuesMax) +
         " repeating values, and there are " + std::to_string(request.distinct_values) +
         ": keys with the other values are kept exactly and evicted as in memcached";
}

}  // namespace

StoreShape ShapeOfStore(uint64_t memory_bytes) {
  const auto slabs = std::bit_floor(std::max<uint64_t>(1, memory_bytes / kSlabBytes));
  StoreShape shape;
  shape.num_slabs = static_cast<unsigned>(std::min<uint64_t>(slabs, kSlabsMax));
  const uint64_t slab_keys = memory_bytes / shape.num_slabs / kBytesPerKey;
  shape.filter_keys = std::clamp(slab_keys / kFiltersPerSlab, kFilterKeysMin, kFilterKeysMax);
  return shape;
}

StorePlanOutcome PlanStore(const StorePlanRequest& request, uint64_t granularity) {
  const KbfPlans planned = PlanKbfEngine({.false_negative = request.false_negative,
                                          .false_positive = request.false_positive,
                                          .distinct_values = StoreConfig{}.distinct_values});
  if (planned.plans.empty()) return {{}, planned.error};
  if (request.distinct_values > kValuesMax) return {{}, TooManyValues(request)};
  const Plan& plan = PlanFor(planned.plans, request.distinct_values);
  if (const SizeOutcome size = TotalBytes(plan, request.keys); !size.bytes) {
    return {{}, size.error};
  }
  Sizer sizer(request, plan, planned.plans);
  // Cells alone are the least that can do; ten times that, and the values, is more than enough.
  const uint64_t least = *TotalBytes(plan, request.keys).bytes;
  const uint64_t enough = 10 * (least + ValueBytes(request)) + 64 * kSlabBytes;
  uint64_t memory =
      (std::max(least, kMemoryBytesMin) + granularity - 1) / granularity * granularity;
  std::optional<StorePlan> smallest;
  for (; memory <= enough; memory = NextMemory(memory, granularity)) {
    const std::optional<StorePlan> plan = sizer.TryMemory(memory);
    if (!plan) {
      smallest.reset();
      continue;
    }
    if (!smallest) smallest = plan;
    const auto smallest_bytes = static_cast<double>(smallest->memory_bytes);
    if (static_cast<double>(memory) > kLargerChecked * smallest_bytes) break;
  }
  if (!smallest) return {{}, TooManyKeys(request)};
  return {smallest, {}};
}

}  // namespace kbf
