#include "storage/slab.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace kbf {

namespace {

// Blocks that one background step looks at, and that it frees: less than 0.1 ms of work.
constexpr unsigned kSweptPerStep = 64;
constexpr unsigned kFreedPerStep = 16;
// A block of items: so small a part of the slab that what is unused in the last ones does not
// matter, within these limits.
constexpr uint64_t kBlocksPerSlab = 128;
constexpr uint64_t kBlockBytesMin = 16 << 10;

Front::Config FrontConfig(const SlabConfig& config) {
  return {config.keep_cas, std::clamp(std::bit_floor(config.memory_bytes / kBlocksPerSlab),
                                      kBlockBytesMin, ItemArena::kSlotBytes)};
}

// Values of the chains may take this part of the memory, in all slabs together.
constexpr uint64_t kValueShare = 4;
// A value that took more of a slab's memory than this would not be worth a number.
constexpr uint64_t kOneValueShare = 64;

ChainConfig ChainConfigOf(const SlabConfig& config, uint64_t num_slabs) {
  ChainConfig chain;
  chain.memory_bytes = config.memory_bytes;
  chain.value_bytes_max = static_cast<uint32_t>(
      std::min<uint64_t>(config.item_bytes_max, config.memory_bytes / kOneValueShare));
  chain.shared_bytes_max = config.memory_bytes / kValueShare * num_slabs;
  return chain;
}

}  // namespace

Slab::Slab(const SlabConfig& config, const Shared& shared)
    : config_(config),
      shared_(shared),
      own_memory_(shared.memory != nullptr
                      ? nullptr
                      : std::make_unique<StoreMemory>(config.memory_bytes, shared.engine)),
      memory_(own_memory_ ? *own_memory_ : *shared.memory),
      front_(shared.secret, memory_.arena(), FrontConfig(config)),
      chain_(shared.engine.NewChain(ChainConfigOf(config, shared.num_slabs))) {
  Report();
}

// ---- clock and flush ----------------------------------------------------------------------------

void Slab::Advance(uint32_t now) {
  now_ = std::max(now_, now);
  if (flush_at_ == 0 || now_ < flush_at_) return;
  flush_at_ = 0;
  FlushNow();
}

void Slab::Flush(uint32_t at, uint32_t now) {
  const LockedOperation operation(*this, now);
  changed_.reset();  // what would still arrive is older than the flush
  flush_at_ = at > now_ ? at : 0;
  if (flush_at_ == 0) FlushNow();
}

void Slab::FlushNow() {
  counters_.flushed += front_.count();
  front_.Flush();
  chain_->Clear();
  sampler_.Clear();
}

// ---- the way out of the front -------------------------------------------------------------------

void Slab::RemoveFromFront(Item* item, const KeyHash& hash, Cause cause) {
  // An older copy in the chain must not be found again.
  if (!item->clean()) RemoveFromChain(hash);
  CountRemoval(*item, cause);
  front_.Unlink(item, hash);
}

void Slab::CountRemoval(const Item& item, Cause cause) {
  const bool unfetched = !item.fetched();
  switch (cause) {
    case Cause::kDemoted:
      ++counters_.demoted;
      break;
    case Cause::kEvicted:
      ++counters_.evicted;
      counters_.evicted_unfetched += unfetched;
      break;
    case Cause::kExpired:
      ++counters_.expired;
      counters_.expired_unfetched += unfetched;
      break;
    case Cause::kDeleted:
      ++counters_.deleted;
      break;
  }
}

// ---- finding ------------------------------------------------------------------------------------

Slab::FrontAnswer Slab::FindInFront(const Key& key) {
  Item* item = front_.Find(key.text, key.hash);
  if (item == nullptr) {
    const bool flushed = front_.has_retired() && front_.WasFlushed(key.text, key.hash);
    return {nullptr, flushed ? FrontMiss::kFlushed : FrontMiss::kNeverThere};
  }
  if (!IsDead(*item)) return {item};
  RemoveDead(item, key.hash);
  return {nullptr, FrontMiss::kExpired};
}

bool Slab::IsExact(std::string_view key) const {
  const auto is_under = [key](const std::vector<std::string>& prefixes) {
    return std::any_of(prefixes.begin(), prefixes.end(),
                       [key](const std::string& prefix) { return key.starts_with(prefix); });
  };
  const std::vector<std::string>& approximate = config_.approximate_prefixes;
  return is_under(config_.exact_prefixes) || (!approximate.empty() && !is_under(approximate));
}

ChainAnswer Slab::FindInChain(const Key& key) {
  return IsExact(key.text) ? ChainAnswer{} : chain_->Find(key.hash, now_);
}

ChainAnswer Slab::Renewed(const Key& key, const ChainAnswer& answer) {
  return answer.version == chain_->version() ? answer : FindInChain(key);
}

void Slab::RemoveFromChain(const KeyHash& hash) {
  sampler_.Remove(hash);
  chain_->Remove(hash, now_);
}

Slab::ItemAnswer Slab::FindOrPromote(const Key& key) {
  if (Item* item = FindInFront(key).item) return {item};
  const ChainAnswer answer = FindInChain(key);
  if (!answer.found) return {};
  Item* item = Promote(key, answer);
  return {item, item == nullptr && Renewed(key, answer).found};
}

Item* Slab::Promote(const Key& key, const ChainAnswer& answer) {
  const size_t value_bytes = chain_->ValueOf(answer.number).bytes.size();
  // Room first, also for what was promoted before; that may drop filters.
  MakeRoom();
  if (!MakeRoomFor(Front::ItemBytes(key.text.size(), value_bytes, 1, true))) {
    return nullptr;
  }
  const ChainAnswer present = Renewed(key, answer);
  if (!present.found) return nullptr;
  const ChainValue value = chain_->ValueOf(present.number);
  ItemPtr made = front_.Create({key.text, value.flags, present.expires,
                                static_cast<uint32_t>(value.bytes.size()), NextCas(), now_},
                               key.hash);
  if (made == nullptr) return nullptr;
  std::memcpy(made->value_data(), value.bytes.data(), value.bytes.size());
  RemoveFromChain(key.hash);
  made->set_clean(true);
  made->set_fetched(true);
  made->ForgetKeyForm();
  ++counters_.promoted;
  return front_.Link(std::move(made), key.hash);
}

// ---- reading ------------------------------------------------------------------------------------

Reading Slab::Read(std::string_view key, const KeyHash& hash, const ReadOptions& options,
                   uint32_t now) {
  const std::lock_guard lock(mutex_);
  return ReadLocked({key, hash}, options, now);
}

Reading Slab::ReadLocked(const Key& key, const ReadOptions& options, uint32_t now) {
  Operation operation(*this, now);
  if (options.touch || options.vivify_expires) NoteChange(key.hash);
  const FrontAnswer front = FindInFront(key);
  if (front.item != nullptr) return ReadItem(key, front.item, options);
  const ChainAnswer answer = FindInChain(key);
  if (answer.found) return ReadChain(key, answer, options, &operation);
  return ReadNothing(key, front.miss, options, &operation);
}

Reading Slab::ReadItem(const Key& key, Item* item, const ReadOptions& options) {
  ++counters_.front_hits;
  cold_hits_ += item->age() == 0;
  Reading reading = ReadingOf(item, options);
  // A touch to the past is a delete.
  if (options.touch && HasExpired(options.expires)) {
    RemoveFromFront(item, key.hash, Cause::kExpired);
  }
  return reading;
}

// Under memory pressure a key among the oldest would soon be dropped with its filter.
bool Slab::IsWorthPromoting(const ChainAnswer& answer) {
  return config_.evictions && answer.old && !Fits(2 * chain_->part_bytes());
}

Reading Slab::ReadChain(const Key& key, const ChainAnswer& answer, const ReadOptions& options,
                        Operation* operation) {
  ++counters_.chain_hits;
  old_hits_ += answer.old;
  // A touch to the past is a delete, and needs no room in the front.
  if (options.touch && HasExpired(options.expires)) {
    Reading reading = ReadingOf(answer);
    RemoveFromChain(key.hash);
    ++counters_.expired;
    return reading;
  }
  if (!options.touch && !options.recache_before && !IsWorthPromoting(answer)) {
    return ReadingOf(answer);
  }
  if (Item* item = Promote(key, answer)) {
    operation->MakeRoomAtEnd();
    Reading reading = ReadingOf(item, options);
    reading.from_chain = true;
    return reading;
  }
  const ChainAnswer present = Renewed(key, answer);
  if (!options.touch || !present.found) return ReadingOf(present);
  Reading reading;
  reading.no_memory = true;
  return reading;
}

Reading Slab::ReadNothing(const Key& key, FrontMiss miss, const ReadOptions& options,
                          Operation* operation) {
  ++counters_.misses;
  counters_.expired_reads += miss == FrontMiss::kExpired;
  counters_.flushed_reads += miss == FrontMiss::kFlushed;
  // A touch to the past is a delete: what does not decode now must not decode later.
  if (options.touch && HasExpired(options.expires)) RemoveFromChain(key.hash);
  return options.vivify_expires ? Vivify(key, options, operation) : Reading{};
}

Reading Slab::ReadingOf(Item* item, const ReadOptions& options) {
  Reading reading;
  reading.hit = true;
  reading.fetched = item->fetched();
  reading.last_access = item->last_access(now_);
  reading.expires_before = item->expires();
  if (options.touch) front_.SetExpires(item, options.expires);
  // One client at a time is told to recache: the first that reads the item when it is stale or
  // about to expire.
  const uint32_t compared = options.recache_first ? reading.expires_before : item->expires();
  const bool expires_soon =
      options.recache_before && compared != 0 && compared < *options.recache_before;
  reading.stale = item->stale();
  if (item->win()) {
    reading.win_sent = true;
  } else if (options.claim_win && (item->stale() || expires_soon)) {
    reading.win = true;
    item->set_win(true);
  }
  if (options.bump) Front::Touch(item, now_);
  if (item->knows_key_form()) reading.base64_key = item->base64_key();
  reading.flags = item->flags();
  reading.expires = item->expires();
  reading.cas = item->cas();
  reading.value = item->value();
  reading.ref = front_.RefOf(item);
  return reading;
}

Reading Slab::ReadingOf(const ChainAnswer& answer) const {
  if (!answer.found) return {};
  const ChainValue value = chain_->ValueOf(answer.number);
  Reading reading;
  reading.hit = true;
  reading.from_chain = true;
  reading.fetched = true;
  reading.flags = value.flags;
  reading.expires = reading.expires_before = answer.expires;
  reading.cas = kChainCas;
  reading.value = value.bytes;
  reading.ref = SharedRef(value.holder);
  return reading;
}

Reading Slab::Vivify(const Key& key, const ReadOptions& options, Operation* operation) {
  Reading reading;
  reading.no_memory = true;
  if (!MakeRoomFor(Front::ItemBytes(key.text.size(), 0, 0, true))) return reading;
  const uint64_t cas = options.new_cas ? *options.new_cas : NextCas();
  ItemPtr made = front_.Create({key.text, 0, *options.vivify_expires, 0, cas, now_}, key.hash);
  if (made == nullptr) return reading;
  if (options.new_cas) made->set_explicit_cas(true);
  made->set_win(true);
  made->set_fetched(options.bump);  // by the client that made it
  Item* item = LinkItem(key.hash, nullptr, std::move(made));
  ++counters_.stored;
  operation->MakeRoomAtEnd();
  reading.no_memory = false;
  reading.hit = true;
  reading.created = true;
  reading.base64_key = false;  // as in memcached, however the key was sent
  reading.win = true;
  reading.expires = item->expires();
  reading.cas = item->cas();
  reading.value = item->value();
  reading.ref = front_.RefOf(item);
  return reading;
}

// ---- listing ------------------------------------------------------------------------------------

namespace {

constexpr unsigned kListedBuckets = 64;

ListedItem ListingOf(const Item& item, uint32_t now) {
  ListedItem listed;
  listed.key = item.key();
  listed.value_bytes = item.value_bytes();
  listed.cas = item.cas();
  listed.flags = item.flags();
  listed.expires = item.expires();
  listed.last_access = item.last_access(now);
  listed.fetched = item.fetched();
  listed.base64_key = item.base64_key();
  return listed;
}

}  // namespace

bool Slab::ListItems(ListPosition* position, uint32_t now, ItemVisitor* visitor) {
  const LockedOperation operation(*this, now);
  unsigned shown = 0;
  // A bucket is begun while at least half of the items may still be shown, so that it is cut only
  // if it is larger than that.
  for (unsigned i = 0; i < kListedBuckets && shown <= kListedMax / 2; ++i) {
    unsigned seen = 0;
    unsigned done = position->items;
    const uint64_t next = front_.VisitBuckets(position->bucket, 1, [&](Item* item) {
      if (++seen <= done || shown == kListedMax) return;
      done = seen;
      if (IsDead(*item)) return;
      visitor->Visit(ListingOf(*item, now_));
      ++shown;
    });
    if (seen > done) {
      position->items = done;
      return true;
    }
    *position = {next, 0};
    if (next == 0) return false;
  }
  return true;
}

// ---- background ---------------------------------------------------------------------------------

bool Slab::MaintainStep(uint32_t now) {
  const LockedOperation operation(*this, now);
  if (front_.has_retired()) {
    front_.FreeRetired(kFreedPerStep);
    return true;
  }
  const bool swept = front_.SweepExpired(kSweptPerStep, now_, [&](Item* item, const KeyHash& hash) {
    RemoveFromFront(item, hash, Cause::kExpired);
  });
  if (swept || (front_.IsSparse() && front_.Compact())) return true;
  return chain_->MaintainStep(now_);
}

void Slab::MeasureErrors(unsigned stored, unsigned absent, uint32_t now) {
  const LockedOperation operation(*this, now);
  for (unsigned i = 0; i < stored; ++i) {
    const ErrorSampler::Sample* sample = sampler_.Next();
    if (sample == nullptr) break;
    ProbeStored(*sample);
  }
  if (chain_->num_parts() == 0) return;
  for (unsigned i = 0; i < absent; ++i) {
    ++sampler_.rates.absent_probes;
    sampler_.rates.false_positives += chain_->Find(sampler_.AbsentKey(), now_).found;
  }
}

void Slab::ProbeStored(const ErrorSampler::Sample& sample) {
  const ChainAnswer answer = chain_->Find(sample.key, now_);
  if (!chain_->HasPart(sample.part, now_)) {
    sampler_.Remove(KeyHash(sample.key));
    return;
  }
  MeasuredRates& rates = sampler_.rates;
  ++rates.stored_asked;
  rates.false_negatives += !answer.found;
  if (!answer.found) return;
  const ChainValue value = chain_->ValueOf(answer.number);
  rates.wrong += ValueTag(value.bytes, value.flags) != sample.value_tag;
}

uint64_t Slab::ValueTag(std::string_view value, uint32_t flags) const {
  return HashKey(value, shared_.secret).lo ^ flags;
}

// ---- warming ------------------------------------------------------------------------------------

bool Slab::BeginWarming() {
  constexpr uint64_t kShare = 64;
  const std::lock_guard lock(mutex_);
  try {
    changed_ = std::make_unique<ChangedKeys>(config_.memory_bytes / kShare);
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

void Slab::EndWarming() {
  const std::lock_guard lock(mutex_);
  changed_.reset();
}

// ---- figures ------------------------------------------------------------------------------------

SlabUsage Slab::Usage() const {
  const std::lock_guard lock(mutex_);
  SlabUsage usage;
  usage.front_items = front_.count();
  usage.front_bytes = front_.bytes();
  chain_->AddTo(&usage);
  usage.other_bytes = MemoryBytes() - usage.front_bytes - usage.cells_bytes - usage.locator_bytes -
                      usage.dictionary_bytes;
  return usage;
}

SlabCounters Slab::Counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}
ChainCounters Slab::ChainEvents() const {
  const std::lock_guard lock(mutex_);
  return chain_->counters();
}
DictionaryCounters Slab::ValueEvents() const {
  const std::lock_guard lock(mutex_);
  return chain_->value_counters();
}
MeasuredRates Slab::Measured() const {
  const std::lock_guard lock(mutex_);
  return sampler_.rates;
}
ChainErrors Slab::Predicted() const {
  const std::lock_guard lock(mutex_);
  return chain_->PredictedErrors();
}

}  // namespace kbf
