#include "storage/store.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "storage/slab.h"
#include "storage/store_memory.h"

namespace kbf {

namespace {

// Memory of one slab: enough for about twenty full-size filters, few enough keys per lock.
constexpr uint64_t kSlabBytes = uint64_t{16} << 20;
constexpr unsigned kSlabsMin = 1;
// Keys per filter: joining or compressing one is a single background step.
constexpr uint64_t kFilterKeysMax = 32768;
constexpr uint64_t kFilterKeysMin = 2048;
// A slab's memory holds about this many filters.
constexpr uint64_t kFiltersPerSlab = 24;
// What the allocator loses to fragmentation, measured with tests/storage/store_memory_test.cc.
constexpr double kMemoryMargin = 0.96;
// Slabs of which the largest gives way, and how many do at most before an operation returns. Slabs
// are alike, because keys go to them by their hash.
constexpr unsigned kSlabsCompared = 8;
constexpr unsigned kGiveWaysMax = 256;
constexpr unsigned kInVainMax = 8;

StoreConfig WithDefaults(StoreConfig config) {
  if (config.num_slabs == 0) {
    // The largest item must fit a slab and leave room for others.
    const uint64_t slab_bytes = std::max(kSlabBytes, uint64_t{4} * config.item_bytes_max);
    const auto slabs = std::bit_floor(std::max<uint64_t>(1, config.memory_bytes / slab_bytes));
    config.num_slabs = static_cast<unsigned>(std::clamp<uint64_t>(slabs, kSlabsMin, kSlabsMax));
  }
  if (config.filter_keys == 0) {
    const uint64_t slab_keys = config.memory_bytes / config.num_slabs / 24;  // about 24 bytes each
    config.filter_keys = std::clamp(slab_keys / kFiltersPerSlab, kFilterKeysMin, kFilterKeysMax);
  }
  return config;
}

std::string ErrorIn(const StoreConfig& config) {
  if (config.memory_bytes < kMemoryBytesMin) return "the memory limit must be at least 2 MB";
  if (config.num_slabs > kSlabsMax ||
      (config.num_slabs != 0 && !std::has_single_bit(config.num_slabs))) {
    return "the number of slabs must be a power of two up to " + std::to_string(kSlabsMax);
  }
  if (!(config.exact_share >= 0 && config.exact_share <= 1))
    return "the exact share must lie between 0 and 1";
  if (!(config.front_share >= 0 && config.front_share <= 1))
    return "the front share must lie between 0 and 1";
  if (config.filter_keys > kFilterKeysMax * 2) {
    return "a filter holds at most " + std::to_string(kFilterKeysMax * 2) + " keys";
  }
  if (config.item_bytes_max < 1024 || config.item_bytes_max > (1u << 30)) {
    return "the largest item must be between 1 KB and 1 GB";
  }
  return {};
}

std::string TooManySlabs(const StoreConfig& config, uint64_t slab_bytes) {
  const auto megabytes = [](uint64_t bytes) { return std::to_string(((bytes - 1) >> 20) + 1); };
  const uint64_t fitting = std::bit_floor(config.memory_bytes / 2 / slab_bytes);
  return std::to_string(config.num_slabs) + " slabs take " +
         megabytes(slab_bytes * config.num_slabs) +
         " MB when they are empty, more than half of the " + megabytes(config.memory_bytes) +
         " MB of the store: " +
         (fitting > 0 ? "use " + std::to_string(fitting) + " slabs or fewer"
                      : "plan for fewer distinct values") +
         ", or raise the memory limit";
}

}  // namespace

Store::CreateOutcome Store::Create(const StoreConfig& asked, const HashSecret& secret) {
  if (std::string error = ErrorIn(asked); !error.empty()) return {nullptr, error};
  const StoreConfig config = WithDefaults(asked);
  EngineOutcome made = MakeEngine({.kind = config.engine,
                                   .false_negative = config.false_negative,
                                   .false_positive = config.false_positive,
                                   .distinct_values = config.distinct_values,
                                   .part_keys = config.filter_keys,
                                   .num_slabs = config.num_slabs,
                                   .slab_bytes = config.memory_bytes / config.num_slabs},
                                  secret);
  if (made.engine == nullptr) return {nullptr, std::move(made.error)};
  std::unique_ptr<Store> store(new Store(config, std::move(made.engine), secret));
  // All empty slabs take the same, so the first one shows the sum before the others are made.
  store->AddSlab();
  const uint64_t slab_bytes = store->Usage().total_bytes();
  if (slab_bytes * config.num_slabs > config.memory_bytes / 2) {
    return {nullptr, TooManySlabs(config, slab_bytes)};
  }
  while (store->slabs_.size() < config.num_slabs) store->AddSlab();
  return {std::move(store), {}};
}

Store::Store(const StoreConfig& config, std::unique_ptr<Engine> engine, const HashSecret& secret)
    : config_(config),
      secret_(secret),
      engine_(std::move(engine)),
      memory_(std::make_unique<StoreMemory>(config.memory_bytes, *engine_)) {}

Store::~Store() = default;

void Store::AddSlab() {
  const StoreConfig& config = config_;
  SlabConfig slab;
  slab.memory_bytes = static_cast<uint64_t>(
      kMemoryMargin * static_cast<double>(config.memory_bytes) / config.num_slabs);
  slab.exact_share = config.exact_share;
  slab.front_share = config.front_share;
  slab.evictions = config.evictions;
  slab.keep_cas = config.keep_cas;
  slab.item_bytes_max = config.item_bytes_max;
  slab.exact_prefixes = config.exact_prefixes;
  slab.approximate_prefixes = config.approximate_prefixes;
  slabs_.push_back(std::make_unique<Slab>(
      slab, Slab::Shared{secret_, *engine_, next_cas_, config.num_slabs, memory_.get()}));
}

Reading Store::Get(std::string_view key, const ReadOptions& options, uint32_t now) {
  if (!IsKey(key)) return {};
  const KeyHash hash = HashKey(key, secret_);
  Reading reading = SlabOf(hash).Read(key, hash, options, now);
  KeepLimit(now);
  return reading;
}

// ---- memory that moves between slabs ------------------------------------------------------------

void Store::SetAside(uint64_t bytes) { memory_->SetAside(bytes); }

bool Store::IsOverLimit() const { return !memory_->Fits(0); }

Slab& Store::LargestOfSome() {
  Slab* largest = nullptr;
  for (unsigned i = 0; i < kSlabsCompared; ++i) {
    const uint64_t random = Mix64(relieved_.fetch_add(1, std::memory_order_relaxed));
    Slab& slab = *slabs_[random & (slabs_.size() - 1)];
    if (largest == nullptr || slab.reported_bytes() > largest->reported_bytes()) largest = &slab;
  }
  return *largest;
}

void Store::MakeOthersGiveWay(uint32_t now) {
  unsigned in_vain = 0;
  for (unsigned i = 0; i < kGiveWaysMax && in_vain < kInVainMax && IsOverLimit(); ++i) {
    in_vain = LargestOfSome().GiveWay(now) ? 0 : in_vain + 1;
  }
}

// ---- batches ------------------------------------------------------------------------------------

// The keys of a batch, those of one slab side by side, so that one lock does for all of them.
class Store::Batch {
 public:
  static constexpr size_t kKeysMax = 32;

  void Add(unsigned index, std::string_view key, Store& store) {
    const KeyHash hash = HashKey(key, store.secret_);
    asked_[count_++] = {index, &store.SlabOf(hash), hash};
  }
  // Everything is fetched before anything is used: most batches have about one key per slab, so
  // that going slab by slab would wait for each.
  // What is read is looked for in the chain as well; what is written goes to the front.
  template <bool kReading>
  void Prefetch() {
    std::sort(asked_.begin(), asked_.begin() + count_, [](const Asked& a, const Asked& b) {
      return a.slab != b.slab ? a.slab < b.slab : a.index < b.index;
    });
    if (kReading && count_ < 2) return;
    ForEach([](Slab::Reader& reader, const Asked& asked) {
      reader.PrefetchFront(asked.hash);
      if (kReading) reader.PrefetchPlaces(asked.hash);
    });
    if (count_ < 2) return;  // a single write makes its item meanwhile
    ForEach([](Slab::Reader& reader, const Asked& asked) {
      reader.PrefetchItem(asked.hash);
      if (kReading) reader.PrefetchEntries(asked.hash);
    });
  }
  struct Asked {
    unsigned index;
    Slab* slab;
    KeyHash hash;
  };
  template <class Visit>
  void ForEach(Visit visit) {
    for (size_t i = 0; i < count_;) {
      Slab* const slab = asked_[i].slab;
      Slab::Reader reader(*slab);
      for (; i < count_ && asked_[i].slab == slab; ++i) visit(reader, asked_[i]);
    }
  }
  std::span<Asked> asked() { return {asked_.data(), count_}; }

 private:
  std::array<Asked, kKeysMax> asked_;
  size_t count_ = 0;
};

void Store::GetMany(std::span<const std::string_view> keys, const ReadOptions& options,
                    uint32_t now, Reading* readings) {
  while (!keys.empty()) {
    const size_t taken = std::min(keys.size(), Batch::kKeysMax);
    Batch batch;
    for (unsigned i = 0; i < taken; ++i) {
      readings[i] = {};
      if (IsKey(keys[i])) batch.Add(i, keys[i], *this);
    }
    batch.Prefetch<true>();
    batch.ForEach([&](Slab::Reader& reader, const Batch::Asked& asked) {
      readings[asked.index] = reader.Read(keys[asked.index], asked.hash, options, now);
    });
    KeepLimit(now);
    keys = keys.subspan(taken);
    readings += taken;
  }
}

void Store::Prefetch(std::span<const std::string_view> keys, bool for_reading) {
  while (!keys.empty()) {
    const size_t taken = std::min(keys.size(), Batch::kKeysMax);
    Batch batch;
    for (unsigned i = 0; i < taken; ++i) {
      if (IsKey(keys[i])) batch.Add(i, keys[i], *this);
    }
    for_reading ? batch.Prefetch<true>() : batch.Prefetch<false>();
    keys = keys.subspan(taken);
  }
}

void Store::WriteMany(std::span<const WriteRequest> requests, uint32_t now, WriteResult* results) {
  while (!requests.empty()) {
    const size_t taken = std::min(requests.size(), Batch::kKeysMax);
    Batch batch;
    for (unsigned i = 0; i < taken; ++i) {
      results[i] = {StoreStatus::kBadKey, 0};
      if (IsKey(requests[i].key)) batch.Add(i, requests[i].key, *this);
    }
    batch.Prefetch<false>();
    // In the order of the requests again, which is the order of their CAS numbers.
    std::sort(batch.asked().begin(), batch.asked().end(),
              [](const auto& a, const auto& b) { return a.index < b.index; });
    for (const Batch::Asked& asked : batch.asked()) {
      results[asked.index] = asked.slab->Write(requests[asked.index], asked.hash, now);
      KeepLimit(now);
    }
    requests = requests.subspan(taken);
    results += taken;
  }
}

WriteResult Store::Write(const WriteRequest& request, uint32_t now) {
  if (!IsKey(request.key)) return {StoreStatus::kBadKey, 0};
  const KeyHash hash = HashKey(request.key, secret_);
  const WriteResult result = SlabOf(hash).Write(request, hash, now);
  KeepLimit(now);
  return result;
}

ArithmeticResult Store::Arithmetic(const ArithmeticRequest& request, uint32_t now) {
  if (!IsKey(request.key)) return {StoreStatus::kBadKey};
  const KeyHash hash = HashKey(request.key, secret_);
  const ArithmeticResult result = SlabOf(hash).Arithmetic(request, hash, now);
  KeepLimit(now);
  return result;
}

StoreStatus Store::Delete(std::string_view key, const DeleteOptions& options, uint32_t now) {
  if (!IsKey(key)) return StoreStatus::kBadKey;
  const KeyHash hash = HashKey(key, secret_);
  const StoreStatus status = SlabOf(hash).Delete(key, hash, options, now);
  KeepLimit(now);
  return status;
}

void Store::FlushAll(uint32_t at, uint32_t now) {
  num_flushes_.fetch_add(1, std::memory_order_relaxed);
  for (const auto& slab : slabs_) slab->Flush(at, now);
  if (at <= now) next_cas_.fetch_add(1, std::memory_order_relaxed);
}

void Store::FlushSlab(unsigned slab, uint32_t at, uint32_t now) { slabs_[slab]->Flush(at, now); }

void Store::RaiseCas(uint64_t least) {
  uint64_t seen = next_cas_.load(std::memory_order_relaxed);
  while (seen < least && !next_cas_.compare_exchange_weak(seen, least, std::memory_order_relaxed)) {
  }
}

bool Store::BeginWarming() {
  for (const auto& slab : slabs_) {
    if (slab->BeginWarming()) continue;
    EndWarming();
    return false;
  }
  return true;
}

void Store::EndWarming() {
  for (const auto& slab : slabs_) slab->EndWarming();
}

bool Store::ListItems(unsigned slab, ListPosition* position, uint32_t now, ItemVisitor* visitor) {
  return slabs_[slab]->ListItems(position, now, visitor);
}

unsigned Store::Maintain(unsigned steps, uint32_t now) {
  unsigned worked = 0;
  unsigned idle = 0;
  for (unsigned i = 0; i < steps && idle < slabs_.size(); ++i) {
    const unsigned slab = maintained_.fetch_add(1, std::memory_order_relaxed) % num_slabs();
    const bool found = slabs_[slab]->MaintainStep(now);
    worked += found;
    idle = found ? 0 : idle + 1;
  }
  return worked;
}

void Store::MeasureErrors(unsigned stored, unsigned absent, uint32_t now) {
  for (const auto& slab : slabs_) slab->MeasureErrors(stored, absent, now);
}

SlabUsage Store::UsageOf(unsigned slab) const { return slabs_[slab]->Usage(); }
SlabCounters Store::CountersOf(unsigned slab) const { return slabs_[slab]->Counters(); }

StoreUsage Store::Usage() const {
  StoreUsage usage;
  usage.shared_bytes = engine_->shared_bytes();
  for (const auto& slab : slabs_) AddCounters(slab->Usage(), &usage.slabs);
  return usage;
}

SlabCounters Store::Counters() const {
  SlabCounters sum;
  for (const auto& slab : slabs_) AddCounters(slab->Counters(), &sum);
  return sum;
}

ChainCounters Store::ChainEvents() const {
  ChainCounters sum;
  for (const auto& slab : slabs_) AddCounters(slab->ChainEvents(), &sum);
  return sum;
}

DictionaryCounters Store::ValueEvents() const {
  DictionaryCounters sum;
  for (const auto& slab : slabs_) AddCounters(slab->ValueEvents(), &sum);
  return sum;
}

StoreErrors Store::Errors() const {
  StoreErrors errors;
  errors.promised_false_negative = config_.false_negative;
  errors.promised_false_positive = config_.false_positive;
  double keys = 0;
  for (const auto& slab : slabs_) {
    const ChainErrors predicted = slab->Predicted();
    const ErrorRates& one = predicted.rates;
    const auto size = static_cast<double>(slab->Usage().chain_keys);
    keys += size;
    errors.predicted.false_negative += one.false_negative * size;
    errors.predicted.weak += one.weak * size;
    errors.predicted.false_positive += one.false_positive / num_slabs();
    errors.false_candidates += predicted.false_candidates / num_slabs();
    AddCounters(slab->Measured(), &errors.measured);
  }
  if (keys > 0) {
    errors.predicted.false_negative /= keys;
    errors.predicted.weak /= keys;
  }
  return errors;
}

}  // namespace kbf
