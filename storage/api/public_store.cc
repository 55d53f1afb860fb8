#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "storage/store.h"

namespace kbf {

// The inside of the public Store. It is defined before <kbf/store.h> is included, because from then
// on the name Store would mean two classes here: kbf::Store, the engine, and kbf::v0::Store.
class StoreCore {
 public:
  static auto Open(const StoreConfig& config, const HashSecret& secret) {
    return Store::Create(config, secret);
  }
  explicit StoreCore(std::unique_ptr<Store> opened) : engine(std::move(opened)) {}
  const std::unique_ptr<Store> engine;
};

}  // namespace kbf

#include <kbf/store.h>

#include "storage/api/guard.h"

namespace kbf {

namespace {

// The engine keeps 0 for "never" and 1 for "always".
constexpr uint32_t kNowMin = 2;

StoreConfig ConfigOf(const StoreOptions& options) {
  StoreConfig config;
  config.memory_bytes = options.memory_bytes;
  config.false_negative = options.false_negative;
  config.false_positive = options.false_positive;
  config.distinct_values = options.distinct_values;
  config.exact_share = options.exact_share;
  config.evictions = options.evict;
  config.item_bytes_max = options.item_bytes_max;
  config.exact_prefixes = options.exact_prefixes;
  return config;
}

uint32_t ExpiryOf(uint32_t now, uint32_t ttl_seconds) {
  if (ttl_seconds == 0) return 0;
  const uint64_t expires = uint64_t{now} + ttl_seconds;
  return static_cast<uint32_t>(std::min<uint64_t>(expires, std::numeric_limits<uint32_t>::max()));
}

// kNotStored is the answer to an add of a key that is there; nothing else that is asked for here
// gives it.
Status StatusOf(StoreStatus status) {
  switch (status) {
    case StoreStatus::kOk:
      return Status::kOk;
    case StoreStatus::kNotStored:
      return Status::kExists;
    case StoreStatus::kNotFound:
      return Status::kNotFound;
    case StoreStatus::kTooLarge:
      return Status::kTooLarge;
    case StoreStatus::kNoMemory:
      return Status::kNoMemory;
    default:
      return Status::kBadArgument;
  }
}

Status Write(StoreCore& core, WriteMode mode, std::string_view key, std::string_view value,
             uint32_t now, uint32_t ttl_seconds) {
  if (now < kNowMin) return Status::kBadArgument;
  WriteRequest request;
  request.mode = mode;
  request.key = key;
  request.value = value;
  request.expires = ExpiryOf(now, ttl_seconds);
  request.drop_on_failure = mode == WriteMode::kSet;
  return WithStatus([&] { return StatusOf(core.engine->Write(request, now).status); });
}

}  // namespace

inline namespace v0 {

Result<Store> Store::Create(const StoreOptions& options) {
  return WithResult<Store>([&]() -> Result<Store> {
    const HashSecret secret =
        options.seed == 0 ? HashSecret::Random() : HashSecret::FromSeed(options.seed);
    auto opened = StoreCore::Open(ConfigOf(options), secret);
    if (!opened.store) return {Status::kBadArgument, std::move(opened.error)};
    return Store(std::make_unique<StoreCore>(std::move(opened.store)));
  });
}

Store::Store(std::unique_ptr<StoreCore> core) : core_(std::move(core)) {}
Store::Store(Store&& other) noexcept = default;
Store& Store::operator=(Store&& other) noexcept = default;
Store::~Store() = default;

std::optional<std::string> Store::Get(std::string_view key, uint32_t now) try {
  if (now < kNowMin) return std::nullopt;
  const Reading reading = core_->engine->Get(key, now);
  return reading.hit ? std::optional<std::string>(reading.value) : std::nullopt;
} catch (...) {
  return std::nullopt;
}

Status Store::Put(std::string_view key, std::string_view value, uint32_t now,
                  uint32_t ttl_seconds) {
  return Write(*core_, WriteMode::kSet, key, value, now, ttl_seconds);
}

Status Store::Add(std::string_view key, std::string_view value, uint32_t now,
                  uint32_t ttl_seconds) {
  return Write(*core_, WriteMode::kAdd, key, value, now, ttl_seconds);
}

Status Store::Delete(std::string_view key, uint32_t now) {
  if (now < kNowMin) return Status::kBadArgument;
  return WithStatus([&] { return StatusOf(core_->engine->Delete(key, now)); });
}

Status Store::Clear(uint32_t now) {
  if (now < kNowMin) return Status::kBadArgument;
  return WithStatus([&] {
    core_->engine->FlushAll(now, now);
    return Status::kOk;
  });
}

unsigned Store::Maintain(unsigned steps, uint32_t now) try {
  return now < kNowMin ? 0 : core_->engine->Maintain(steps, now);
} catch (...) {
  return 0;
}

StoreStats Store::Stats() const {
  const StoreUsage usage = core_->engine->Usage();
  const SlabCounters events = core_->engine->Counters();
  const StoreErrors errors = core_->engine->Errors();
  StoreStats stats;
  stats.exact_keys = usage.slabs.front_items;
  stats.approximate_keys = usage.slabs.chain_keys;
  stats.bytes = usage.total_bytes();
  stats.hits = events.front_hits + events.chain_hits;
  stats.misses = events.misses;
  stats.evicted = events.evicted;
  stats.predicted_false_negative = errors.predicted.false_negative;
  stats.predicted_false_positive = errors.predicted.false_positive;
  return stats;
}

}  // namespace v0
}  // namespace kbf
