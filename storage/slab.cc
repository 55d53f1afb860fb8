#include "storage/slab.h"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace kbf {

namespace {

// About 0.1 ms of work.
constexpr uint64_t kSweepBucketsPerStep = 256;
constexpr size_t kNumberBytesMax = 20;
constexpr size_t kNumberItemBytesMax = 512 << 10;

// A value that took more of the memory than this would not be worth an id.
uint32_t ValueBytesMax(const SlabConfig& config) {
  return static_cast<uint32_t>(std::min<uint64_t>(config.item_bytes_max, config.memory_bytes / 64));
}

// The number that a value begins with, as memcached reads it: white space and a plus sign may come
// before it, white space after it.
std::optional<uint64_t> NumberIn(std::string_view value) {
  const auto is_space = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  while (!value.empty() && is_space(value.front())) value.remove_prefix(1);
  if (value.starts_with('+')) value.remove_prefix(1);
  uint64_t number = 0;
  const char* const last = value.data() + value.size();
  const auto [end, error] = std::from_chars(value.data(), last, number);
  if (error != std::errc() || (end != last && !is_space(*end) && *end != '\0')) return std::nullopt;
  return number;
}

}  // namespace

void SlabCounters::Add(const SlabCounters& other) {
  front_hits += other.front_hits;
  chain_hits += other.chain_hits;
  misses += other.misses;
  expired_reads += other.expired_reads;
  flushed_reads += other.flushed_reads;
  stored += other.stored;
  demoted += other.demoted;
  promoted += other.promoted;
  evicted += other.evicted;
  evicted_unfetched += other.evicted_unfetched;
  expired += other.expired;
  expired_unfetched += other.expired_unfetched;
  flushed += other.flushed;
  deleted += other.deleted;
  refused_memory += other.refused_memory;
  refused_size += other.refused_size;
}

Slab::Slab(const SlabConfig& config, const Shared& shared)
    : config_(config),
      shared_(shared),
      front_(shared.secret, config.keep_cas),
      dictionary_({config.layout, ValueBytesMax(config)}, shared.secret, shared.blobs),
      chain_(config.chain, shared.maker, dictionary_) {}

// ---- the way out ------------------------------------------------------------------------------

void Slab::Leave(Item* item, const KeyHash& hash, Cause cause, uint32_t now) {
  // An older copy must not come to light. (A flush has emptied the chain, and demotion has removed
  // the copy already.)
  if (!item->clean() && cause != Cause::kFlushed) {
    (void)RemoveFromChain(hash, now);
  }
  const bool unfetched = !item->fetched();
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
    case Cause::kFlushed:
      ++counters_.flushed;
      break;
    case Cause::kDeleted:
      ++counters_.deleted;
      break;
    case Cause::kReplaced:
      break;
  }
  front_.Unlink(item, hash);
}

void Slab::Flush(uint32_t at, uint32_t now) {
  const std::lock_guard lock(mutex_);
  now = Clock(now);
  RunDueFlush(now);
  flush_at_ = 0;
  if (at > now) {
    flush_at_ = at;
  } else {
    FlushNow();
  }
}

void Slab::RunDueFlush(uint32_t now) {
  if (flush_at_ == 0 || now < flush_at_) return;
  flush_at_ = 0;
  FlushNow();
}

// The chain goes at once; items of the front go by their generation, when somebody meets them.
// Generations are counted modulo four, so before the fourth flush meets items of the first, the
// whole table is set aside and freed in steps.
void Slab::FlushNow() {
  if (flushes_unswept_ == 3) {
    if (front_.num_buckets() > kSweepBucketsPerStep && front_.Retire()) {
      flushes_unswept_ = 0;
    } else {
      while (SweepFlushed(kSweepBucketsPerStep, 0)) {
      }
    }
  }
  chain_.Clear();
  sampler_.Clear();
  generation_ = (generation_ + 1) % 4;
  ++flushes_unswept_;
  sweep_position_ = 0;
}

// False: all items of older generations are gone.
bool Slab::SweepFlushed(uint64_t buckets, uint32_t now) {
  sweep_position_ = front_.VisitBuckets(sweep_position_, buckets, [&](Item* item) {
    if (IsFlushed(*item)) Leave(item, front_.HashOf(*item), Cause::kFlushed, now);
  });
  if (sweep_position_ == 0) flushes_unswept_ = 0;
  return sweep_position_ != 0;
}

// ---- finding ----------------------------------------------------------------------------------

ChainAnswer Slab::FindInChain(std::string_view key, const KeyHash& hash, uint32_t now) {
  return HasExactPrefix(key) ? ChainAnswer{} : chain_.Find(hash, now);
}

Chain::Removal Slab::RemoveFromChain(const KeyHash& hash, uint32_t now) {
  sampler_.Remove(hash);
  return chain_.Remove(hash, now);
}

Item* Slab::LiveItem(std::string_view key, const KeyHash& hash, uint32_t now) {
  last_miss_ = Cause::kReplaced;
  Item* item = front_.Find(key, hash);
  if (item == nullptr) return nullptr;
  if (IsFlushed(*item)) {
    last_miss_ = Cause::kFlushed;
    Leave(item, hash, Cause::kFlushed, now);
    return nullptr;
  }
  if (IsExpired(item->expires(), now)) {
    last_miss_ = Cause::kExpired;
    Leave(item, hash, Cause::kExpired, now);
    return nullptr;
  }
  return item;
}

Item* Slab::Promote(std::string_view key, const KeyHash& hash, const ChainAnswer& answer,
                    uint32_t now) {
  const Blob* blob = dictionary_.BlobOf(answer.code);
  const std::string_view value = blob->view();
  Item* item = front_.Create({key, blob->flags, answer.deadline,
                              static_cast<uint32_t>(value.size()), NextCas(), now, generation_});
  if (item == nullptr) return nullptr;
  std::memcpy(item->value_data(), value.data(), value.size());
  (void)RemoveFromChain(hash, now);
  item->set_clean(true);
  item->set_fetched(true);
  front_.Link(item, hash);
  ++counters_.promoted;
  return item;
}

// Moves what the chain answers to the front. Null: it answers nothing, or there is no room for it.
Item* Slab::MoveToFront(std::string_view key, const KeyHash& hash, uint32_t now) {
  ChainAnswer answer = FindInChain(key, hash, now);
  if (!answer.found) return nullptr;
  const size_t value_bytes = dictionary_.BlobOf(answer.code)->view().size();
  const uint64_t bytes = AllocatedBytes(Front::ItemBytes(key.size(), value_bytes, 1, true));
  // Room first, also for what was moved before; that may drop filters, so ask again.
  MakeRoom(now);
  if (!HasRoom(bytes, now)) return nullptr;
  answer = FindInChain(key, hash, now);
  return answer.found ? Promote(key, hash, answer, now) : nullptr;
}

Item* Slab::ExactItem(std::string_view key, const KeyHash& hash, uint32_t now) {
  Item* item = LiveItem(key, hash, now);
  return item != nullptr ? item : MoveToFront(key, hash, now);
}

StoreStatus Slab::WithoutItem(std::string_view key, const KeyHash& hash, StoreStatus absent,
                              uint32_t now) {
  return FindInChain(key, hash, now).found ? StoreStatus::kNoMemory : absent;
}

// ---- reading ----------------------------------------------------------------------------------

Reading Slab::Read(std::string_view key, const KeyHash& hash, const ReadOptions& options,
                   uint32_t now) {
  const std::lock_guard lock(mutex_);
  return ReadLocked(key, hash, options, now);
}

Reading Slab::ReadLocked(std::string_view key, const KeyHash& hash, const ReadOptions& options,
                         uint32_t now) {
  now = Clock(now);
  RunDueFlush(now);
  Item* item = LiveItem(key, hash, now);
  if (item != nullptr) {
    ++counters_.front_hits;
    cold_hits_ += item->age() == 0;
    Reading reading = ReadingOf(item, options, now);
    // A touch to the past is a delete.
    if (options.touch && IsExpired(options.expires, now)) Leave(item, hash, Cause::kExpired, now);
    return reading;
  }
  const ChainAnswer answer = FindInChain(key, hash, now);
  if (answer.found) {
    ++counters_.chain_hits;
    old_hits_ += answer.old;
    // A touch to the past is a delete, and needs no room in the front.
    if (options.touch && IsExpired(options.expires, now)) {
      Reading reading = ReadingOf(answer);
      (void)RemoveFromChain(hash, now);
      ++counters_.expired;
      return reading;
    }
    const bool pressed =
        config_.evictions && answer.old && memory_bytes() + 2 * chain_.filter_bytes() > Budget();
    if (options.touch || options.recache_below || pressed) {
      if ((item = MoveToFront(key, hash, now)) != nullptr) {
        Reading reading = ReadingOf(item, options, now);
        reading.from_chain = true;
        MakeRoom(now);
        return reading;
      }
      // Moving may have dropped the filter that answered.
      const ChainAnswer still = FindInChain(key, hash, now);
      if (!options.touch || !still.found) return ReadingOf(still);
      Reading reading;
      reading.no_memory = true;
      return reading;
    }
    return ReadingOf(answer);
  }
  ++counters_.misses;
  counters_.expired_reads += last_miss_ == Cause::kExpired;
  counters_.flushed_reads += last_miss_ == Cause::kFlushed;
  // Told to be gone: what does not decode now must not decode later.
  if (options.touch && IsExpired(options.expires, now)) (void)RemoveFromChain(hash, now);
  return options.vivify_expires ? Vivify(key, hash, options, now) : Reading{};
}

Reading Slab::ReadingOf(Item* item, const ReadOptions& options, uint32_t now) {
  Reading reading;
  reading.hit = true;
  reading.fetched = item->fetched();
  reading.last_access = item->last_access();
  reading.expires_before = item->expires();
  if (options.touch) item->set_expires(options.expires);
  // One client at a time is told to recache: the first that sees the item stale, or about to
  // expire.
  const uint32_t judged = options.recache_first ? reading.expires_before : item->expires();
  const bool recache =
      options.recache_below && judged != 0 && judged - now < *options.recache_below;
  reading.stale = item->stale();
  if (item->win()) {
    reading.win_sent = true;
  } else if (options.claim_win && (item->stale() || recache)) {
    reading.win = true;
    item->set_win(true);
  }
  if (options.bump) Front::Touch(item, now);
  reading.flags = item->flags();
  reading.expires = item->expires();
  reading.cas = item->cas();
  reading.value = item->value();
  reading.ref = SharedRef(item->header());
  return reading;
}

Reading Slab::ReadingOf(const ChainAnswer& answer) {
  if (!answer.found) return {};
  Blob* blob = dictionary_.BlobOf(answer.code);
  Reading reading;
  reading.hit = true;
  reading.from_chain = true;
  reading.fetched = true;
  reading.flags = blob->flags;
  reading.expires = reading.expires_before = answer.deadline;
  reading.cas = kChainCas;
  reading.value = blob->view();
  reading.ref = SharedRef(blob);
  return reading;
}

Reading Slab::Vivify(std::string_view key, const KeyHash& hash, const ReadOptions& options,
                     uint32_t now) {
  Reading reading;
  reading.no_memory = true;
  if (!HasRoom(AllocatedBytes(Front::ItemBytes(key.size(), 0, 0, true)), now)) return reading;
  Item* item = front_.Create({key, 0, *options.vivify_expires, 0, NextCas(), now, generation_});
  if (item == nullptr) return reading;
  item->set_win(true);
  item->set_fetched(options.bump);  // by who made it
  LinkItem(item, hash, nullptr);
  reading.no_memory = false;
  reading.hit = true;
  reading.created = true;
  reading.win = true;
  reading.expires = item->expires();
  reading.cas = item->cas();
  reading.value = item->value();
  reading.ref = SharedRef(item->header());
  ++counters_.stored;
  MakeRoom(now);
  return reading;
}

// ---- writing ----------------------------------------------------------------------------------

void Slab::LinkItem(Item* item, const KeyHash& hash, Item* old) {
  item->set_generation(generation_);
  // What the chain may hold of the key stays in the shadow of the new item.
  item->set_clean(old != nullptr ? old->clean() : chain_.num_filters() == 0);
  if (old != nullptr) {
    front_.Replace(old, item, hash);
  } else {
    front_.Link(item, hash);
  }
}

void Slab::RemoveEverywhere(std::string_view key, const KeyHash& hash, uint32_t now) {
  if (Item* item = LiveItem(key, hash, now)) {
    Leave(item, hash, Cause::kDeleted, now);
  } else {
    (void)RemoveFromChain(hash, now);
  }
}

WriteResult Slab::Write(const WriteRequest& request, const KeyHash& hash, uint32_t now) {
  const uint64_t bytes =
      CountedItemBytes(request.key.size(), request.value.size(), request.flags, config_.keep_cas);
  const bool joins = request.mode == WriteMode::kAppend || request.mode == WriteMode::kPrepend;
  if (bytes > config_.item_bytes_max) {
    const std::lock_guard lock(mutex_);
    now = Clock(now);
    RunDueFlush(now);
    ++counters_.refused_size;
    if (request.mode == WriteMode::kSet) RemoveEverywhere(request.key, hash, now);
    return {StoreStatus::kTooLarge, 0};
  }
  // The copy is made before the lock is taken.
  Item* item = nullptr;
  if (!joins) {
    item = front_.Create({request.key, request.flags, request.expires,
                          static_cast<uint32_t>(request.value.size()), 0, now, 0});
    if (item != nullptr) {
      std::memcpy(item->value_data(), request.value.data(), request.value.size());
    }
  }
  const std::lock_guard lock(mutex_);
  now = Clock(now);
  RunDueFlush(now);
  WriteResult result{StoreStatus::kNoMemory, 0};
  if ((item != nullptr || joins) && HasRoom(AllocatedBytes(bytes), now)) {
    result = WriteLocked(request, hash, now, &item);
  } else {
    ++counters_.refused_memory;
  }
  if (item != nullptr) Release(item->header());  // it was not stored
  if (result.status == StoreStatus::kNoMemory && request.drop_on_failure) {
    RemoveEverywhere(request.key, hash, now);
  }
  counters_.stored += result.status == StoreStatus::kOk;
  MakeRoom(now);  // also where an item was moved to the front in vain
  return result;
}

// Stores `*item` and sets it to null, or leaves it to the caller.
WriteResult Slab::WriteLocked(const WriteRequest& request, const KeyHash& hash, uint32_t now,
                              Item** item) {
  Item* old = nullptr;
  bool stale = false;
  switch (request.mode) {
    case WriteMode::kSet:
      old = request.cas != 0 ? ExactItem(request.key, hash, now) : LiveItem(request.key, hash, now);
      if (request.cas != 0 && old == nullptr) {
        return {WithoutItem(request.key, hash, StoreStatus::kNotFound, now), 0};
      }
      break;
    case WriteMode::kAdd:
      // A weak answer counts as evicted, or a false positive would refuse the key for ever.
      if ((old = LiveItem(request.key, hash, now)) != nullptr) {
        // In use, but not fetched.
        const bool fetched = old->fetched();
        Front::Touch(old, now);
        old->set_fetched(fetched);
        return {StoreStatus::kNotStored, 0};
      }
      if (const ChainAnswer answer = FindInChain(request.key, hash, now);
          answer.found && answer.strong) {
        return {StoreStatus::kNotStored, 0};
      }
      break;
    case WriteMode::kReplace:
      old = request.cas != 0 ? ExactItem(request.key, hash, now) : LiveItem(request.key, hash, now);
      if (old == nullptr && request.cas != 0) {
        return {WithoutItem(request.key, hash, StoreStatus::kNotFound, now), 0};
      }
      if (old == nullptr && !FindInChain(request.key, hash, now).found) {
        return {StoreStatus::kNotStored, 0};
      }
      break;
    case WriteMode::kAppend:
    case WriteMode::kPrepend:
    case WriteMode::kCas:
      old = ExactItem(request.key, hash, now);
      if (old == nullptr) {
        const StoreStatus absent =
            request.mode == WriteMode::kCas ? StoreStatus::kNotFound : StoreStatus::kNotStored;
        return {WithoutItem(request.key, hash, absent, now), 0};
      }
      break;
  }
  if ((request.cas != 0 || request.mode == WriteMode::kCas) && old != nullptr &&
      request.cas != old->cas()) {
    stale = request.invalidate && request.cas != 0 && request.cas < old->cas();
    if (!stale) return {StoreStatus::kExists, 0};
  }
  if (request.mode == WriteMode::kAppend || request.mode == WriteMode::kPrepend) {
    const uint64_t size = uint64_t{old->value_bytes()} + request.value.size();
    if (CountedItemBytes(request.key.size(), size, old->flags(), config_.keep_cas) >
        config_.item_bytes_max) {
      ++counters_.refused_size;
      return {StoreStatus::kNotStored, 0};  // memcached's answer
    }
    *item = front_.Create(
        {request.key, old->flags(), old->expires(), static_cast<uint32_t>(size), 0, now, 0});
    if (*item == nullptr) return {StoreStatus::kNoMemory, 0};
    const std::string_view first =
        request.mode == WriteMode::kAppend ? old->value() : request.value;
    const std::string_view second =
        request.mode == WriteMode::kAppend ? request.value : old->value();
    std::memcpy((*item)->value_data(), first.data(), first.size());
    std::memcpy((*item)->value_data() + first.size(), second.data(), second.size());
  }
  Item* stored = *item;
  *item = nullptr;
  const uint64_t cas = NextCas();
  stored->set_cas(cas);
  stored->set_stale(stale);
  if (stale) {  // it takes the place of a newer one: for as long, and with its token
    stored->set_expires(old->expires());
    stored->set_win(old->win());
  }
  LinkItem(stored, hash, old);
  // Stored, and gone at once.
  if (IsExpired(stored->expires(), now)) Leave(stored, hash, Cause::kExpired, now);
  return {StoreStatus::kOk, cas};
}

ArithmeticResult Slab::Arithmetic(const ArithmeticRequest& request, const KeyHash& hash,
                                  uint32_t now) {
  const std::lock_guard lock(mutex_);
  now = Clock(now);
  RunDueFlush(now);
  ArithmeticResult result;
  std::array<char, kNumberBytesMax> digits;
  const auto print = [&](uint64_t number) {
    return static_cast<uint32_t>(
        std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr - digits.data());
  };
  if (!HasRoom(AllocatedBytes(Front::ItemBytes(request.key.size(), kNumberBytesMax, 0, true)),
               now)) {
    ++counters_.refused_memory;
    return {StoreStatus::kNoMemory};
  }
  Item* item = ExactItem(request.key, hash, now);
  const auto put = [&](Item* old, uint32_t flags, uint32_t expires) {
    const uint32_t length = print(result.number);
    Item* made = front_.Create({request.key, flags, expires, length, NextCas(), now, 0});
    if (made == nullptr) return false;
    std::memcpy(made->value_data(), digits.data(), length);
    LinkItem(made, hash, old);
    item = made;
    return true;
  };
  if (item == nullptr) {
    // A number that could not be moved does not begin anew.
    result.status = WithoutItem(request.key, hash, StoreStatus::kOk, now);
    if (result.status != StoreStatus::kOk) return {result.status};
    if (!request.initial) return {StoreStatus::kNotFound};
    result.number = *request.initial;
    result.created = true;
    if (!put(nullptr, 0, request.initial_expires)) return {StoreStatus::kNoMemory};
    ++counters_.stored;
  } else {
    // Nothing is no number, nor is what memcached keeps in pieces, whatever its CAS.
    const bool may_be = item->value_bytes() > 0 && item->value_bytes() < kNumberItemBytesMax;
    const std::optional<uint64_t> number =
        may_be ? NumberIn(item->value()) : std::optional<uint64_t>();
    if (request.cas != 0 && request.cas != item->cas() && may_be) {
      result.status = StoreStatus::kExists;
    }
    if (result.status == StoreStatus::kOk && !number) result.status = StoreStatus::kNotNumber;
    if (result.status != StoreStatus::kOk) {
      MakeRoom(now);  // it may have been moved to the front for this
      return result;
    }
    result.number = !request.decrement        ? *number + request.delta
                    : request.delta > *number ? 0
                                              : *number - request.delta;
    result.expires_before = item->expires();
    const uint32_t expires = request.expires.value_or(item->expires());
    const uint32_t length = print(result.number);
    if (length <= item->value_bytes() && !item->shared()) {
      std::memcpy(item->value_data(), digits.data(), length);
      std::memset(item->value_data() + length, ' ', item->value_bytes() - length);
      item->set_expires(expires);
      item->set_cas(NextCas());
      item->set_unique(false);
      item->set_age(std::max(1u, item->age()));
    } else if (!put(item, item->flags(), expires)) {
      return {StoreStatus::kNoMemory};
    }
  }
  result.cas = item->cas();
  result.flags = item->flags();
  result.expires = item->expires();
  if (IsExpired(item->expires(), now)) Leave(item, hash, Cause::kExpired, now);
  MakeRoom(now);
  return result;
}

StoreStatus Slab::Delete(std::string_view key, const KeyHash& hash, const DeleteOptions& options,
                         uint32_t now) {
  const std::lock_guard lock(mutex_);
  now = Clock(now);
  RunDueFlush(now);
  Item* item =
      options.cas != 0 || options.mark_stale ? ExactItem(key, hash, now) : LiveItem(key, hash, now);
  if (item == nullptr) {
    if (!FindInChain(key, hash, now).found) {
      (void)RemoveFromChain(hash, now);  // what does not decode now must not decode later
      return StoreStatus::kNotFound;
    }
    if (options.cas != 0 || options.mark_stale)
      return StoreStatus::kNoMemory;  // it could not be moved
    (void)RemoveFromChain(hash, now);
    ++counters_.deleted;
    return StoreStatus::kOk;
  }
  if (options.cas != 0 && options.cas != item->cas()) {
    MakeRoom(now);  // it may have been moved to the front for this
    return StoreStatus::kExists;
  }
  if (!options.mark_stale) {
    Leave(item, hash, Cause::kDeleted, now);
    return StoreStatus::kOk;
  }
  item->set_stale(true);
  item->set_win(false);
  item->set_cas(NextCas());
  if (options.expires) item->set_expires(*options.expires);
  if (IsExpired(item->expires(), now)) Leave(item, hash, Cause::kExpired, now);
  MakeRoom(now);
  return StoreStatus::kOk;
}

// ---- background -------------------------------------------------------------------------------

bool Slab::MaintainStep(uint32_t now) {
  const std::lock_guard lock(mutex_);
  now = Clock(now);
  RunDueFlush(now);
  if (front_.has_retired()) {
    FreeRetired(kSweepBucketsPerStep);
    return true;
  }
  if (flushes_unswept_ > 0) return SweepFlushed(kSweepBucketsPerStep, now);
  return chain_.MaintainStep(now);
}

void Slab::MeasureErrors(unsigned stored, unsigned strangers, uint32_t now) {
  const std::lock_guard lock(mutex_);
  now = Clock(now);
  RunDueFlush(now);
  MeasuredRates& rates = sampler_.rates;
  for (unsigned i = 0; i < stored; ++i) {
    const ErrorSampler::Sample* sample = sampler_.Next();
    if (sample == nullptr) break;
    const ChainAnswer answer = chain_.Find(sample->key, now);
    if (!chain_.HasSequence(sample->filter_sequence, now)) {
      sampler_.Remove(KeyHash(sample->key));
      continue;
    }
    ++rates.stored_asked;
    if (!answer.found) {
      ++rates.false_negatives;
    } else {
      const Blob* blob = dictionary_.BlobOf(answer.code);
      rates.wrong += (HashKey(blob->view(), shared_.secret).lo ^ blob->flags) != sample->value_tag;
    }
  }
  if (chain_.num_filters() == 0) return;
  for (unsigned i = 0; i < strangers; ++i) {
    ++rates.strangers_asked;
    rates.false_positives += chain_.Find(sampler_.Stranger(), now).found;
  }
}

SlabUsage Slab::Usage() const {
  const std::lock_guard lock(mutex_);
  SlabUsage usage;
  usage.front_items = front_.count();
  usage.front_bytes = front_.bytes();
  usage.chain_keys = chain_.num_keys();
  usage.cells_bytes = chain_.cells_bytes();
  usage.locator_bytes = chain_.locator_bytes();
  usage.tombstones = chain_.num_tombstones();
  usage.filters = chain_.num_filters();
  usage.dictionary_bytes = dictionary_.memory_bytes();
  usage.values = dictionary_.num_values();
  usage.codes = dictionary_.num_codes();
  usage.other_bytes = memory_bytes() - usage.front_bytes - usage.cells_bytes - usage.locator_bytes -
                      usage.dictionary_bytes;
  return usage;
}

SlabCounters Slab::Counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}
ChainCounters Slab::ChainEvents() const {
  const std::lock_guard lock(mutex_);
  return chain_.counters();
}
DictionaryCounters Slab::DictionaryEvents() const {
  const std::lock_guard lock(mutex_);
  return dictionary_.counters();
}
MeasuredRates Slab::Measured() const {
  const std::lock_guard lock(mutex_);
  return sampler_.rates;
}
ErrorRates Slab::Predicted() const {
  const std::lock_guard lock(mutex_);
  return chain_.PredictedErrors();
}
double Slab::PredictedFalseCandidates() const {
  const std::lock_guard lock(mutex_);
  return chain_.PredictedFalseCandidates();
}

}  // namespace kbf
