#include "storage/dictionary.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <new>

#include "storage/shared_bytes.h"

namespace kbf {

namespace {

// One Admit in so many looks at its value's block.
constexpr uint32_t kAdmitsPerFit = 8;
// Enough entries to know a share within 1/8.
constexpr uint32_t kEntriesPerFit = 64;
// Rounding up of wanted units: a power of two that is 4/5 used is better than one half as large.
constexpr double kUnitsRounding = 1.25;
// Blocks grow only while more than this part of all symbols stays free for values to come; blocks
// that are smaller than planned, up to the planned size while more than that part does.
constexpr double kFreeToGrow = 0.5;
constexpr double kFreeToCatchUp = 0.3;
// Where no more is free, large blocks give way: all of them may take so much.
constexpr double kFreeAtLeast = 0.125;
// Values start with the planned block while more than this part of all symbols is free. Each of the
// next takes so much of an even share of what is left that their number can still grow fifteen
// times before any is refused, if no symbols return.
constexpr double kFreeToStart = 0.25;
constexpr double kStartShare = 0.25;
constexpr uint32_t kCodesPerSweep = 2;
constexpr uint32_t kCodesPerEagerSweep = 64;
constexpr uint32_t kOccurrencesMin = 2;
// What occurred once within the sketch or the SeenFilter will have so many keys at least, as a slab
// holds more keys than these remember.
constexpr uint64_t kKeysPerOccurrence = 4;

// Room for one more, an eighth at a time: doubling would leave half of the largest tables of a slab
// empty.
template <class T>
void ReserveOneMore(std::vector<T>& items) {
  if (items.size() == items.capacity()) items.reserve(items.size() + items.size() / 8 + 64);
}

}  // namespace

Dictionary::Dictionary(const DictionaryConfig& config, const HashSecret& secret, BlobPool& pool)
    : config_(config),
      secret_(secret),
      pool_(pool),
      blocks_(config.layout.symbol_bits, config.layout.check_bits),
      sketch_(kSketchBytes) {
  assert(IsValid(config.layout) && config.check_bits_min >= 1 &&
         config.check_bits_min <= config.layout.check_bits &&
         config.layout.symbol_bits - config.check_bits_min <= kUnitBitsMax);
  assert(config.value_bytes_max <= BlobPool::kValueBytesMax);
}

Dictionary::~Dictionary() {
  for (const Value& value : values_) {
    if (value.blob != nullptr) pool_.Release(value.blob);
  }
}

uint64_t Dictionary::HashOf(std::string_view bytes, uint32_t flags) const {
  const KeyHash hash = HashKey(bytes, secret_);
  return hash.lo ^ Mix64(hash.hi + flags);
}

SymbolBlock Dictionary::BlockOf(uint32_t code) const {
  SymbolBlock block;
  [[maybe_unused]] const bool found = blocks_.Find(codes_[code].first, &block);
  assert(found && block.value == code);
  return block;
}

Blob* Dictionary::BlobOf(uint32_t code) const {
  assert(code < codes_.size() && codes_[code].value != kNone);
  return values_[codes_[code].value].blob;
}

bool Dictionary::SameValue(uint32_t code_a, uint32_t code_b) const {
  assert(codes_[code_a].value != kNone && codes_[code_b].value != kNone);
  return codes_[code_a].value == codes_[code_b].value;
}

uint32_t Dictionary::FindId(std::string_view bytes, uint32_t flags, uint64_t hash) const {
  return index_.Find(hash, [&](uint32_t id) {
    const Blob& blob = *values_[id].blob;
    return blob.hash == hash && blob.flags == flags && blob.view() == bytes;
  });
}

bool Dictionary::Knows(std::string_view bytes, uint32_t flags) const {
  return bytes.size() <= config_.value_bytes_max &&
         FindId(bytes, flags, HashOf(bytes, flags)) != kNone;
}

// ---- admission ----

std::optional<Dictionary::Code> Dictionary::Admit(std::string_view bytes, uint32_t flags,
                                                  const Offer& offer) {
  given_ = kNone;
  Sweep(kCodesPerSweep, false);
  if (bytes.size() > config_.value_bytes_max) {
    ++counters_.refused;
    return std::nullopt;
  }
  const uint64_t hash = HashOf(bytes, flags);
  uint32_t id = FindId(bytes, flags, hash);
  if (id == kNone) {
    if (ShouldAdmit(hash, bytes.size(), offer)) {
      id = offer.may_add ? AddValue(bytes, flags, hash) : kNone;
      counters_.refused_full += id == kNone;
    }
    if (id == kNone) {
      ++counters_.refused;
      return std::nullopt;
    }
    ++counters_.admitted;
    FitSeen();
  } else if (++admits_ % kAdmitsPerFit == 0) {
    FitBlock(id);
  }
  given_ = values_[id].current;
  codes_[given_].idle = 0;
  return Code{given_, BlockOf(given_)};
}

bool Dictionary::ShouldAdmit(uint64_t hash, size_t bytes, const Offer& offer) {
  if (num_values_ < planned_blocks() / kFirstOccurrenceShare && FreeShare() > 0.5 &&
      bytes <= kFirstOccurrenceBytesMax) {
    return true;
  }
  const uint64_t saved = offer.item_bytes - std::min(offer.item_bytes, kBytesPerKey);
  const uint64_t cost = kBytesPerValue + AllocatedBytes(sizeof(Blob) + bytes);
  const auto wanted = static_cast<uint32_t>(std::clamp<uint64_t>(
      saved == 0 ? FrequencySketch::kCountMax : cost / (kKeysPerOccurrence * saved) + 1,
      kOccurrencesMin, FrequencySketch::kCountMax));
  // Occurrences are counted while there is no room, too, for the time when there is.
  return Occurrences(hash, offer.again) >= wanted;
}

// How often the value occurred lately, this one included.
uint32_t Dictionary::Occurrences(uint64_t hash, bool again) {
  if (again) return sketch_.Estimate(hash);
  const uint32_t count = sketch_.Increment(hash);
  // What the sketch has forgotten was there once at least.
  if (count == 1 && seen_.Contains(hash)) return sketch_.Increment(hash);
  seen_.Add(hash);
  return count;
}

void Dictionary::FitSeen() {
  if (seen_.empty() && num_values_ >= kSeenValuesMin && config_.seen_bytes > 0) {
    try {
      seen_ = SeenFilter(config_.seen_bytes);
    } catch (const std::bad_alloc&) {
      return;  // values that come again after a long time stay exact
    }
  } else if (!seen_.empty() && num_values_ < kSeenValuesMin / 2) {
    seen_ = SeenFilter();
  }
}

// Room for one more value in index and tables. False: there is no memory.
bool Dictionary::ReserveTables() {
  try {
    index_.Reserve();
    if (free_id_ == kNone) ReserveOneMore(values_);
    if (free_code_ == kNone) ReserveOneMore(codes_);
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

// REQUIRES: there is no such value. kNone: no memory or no symbols.
uint32_t Dictionary::AddValue(std::string_view bytes, uint32_t flags, uint64_t hash) {
  if (!ReserveTables()) return kNone;
  Blob* blob = pool_.Intern(bytes, flags, hash);
  if (blob == nullptr) return kNone;
  uint32_t id = free_id_;
  if (id == kNone) {
    id = static_cast<uint32_t>(values_.size());
    values_.emplace_back();
  } else {
    free_id_ = values_[id].entries;
    values_[id] = Value{};
  }
  values_[id].blob = blob;
  ++num_values_;
  index_.Add(hash, id);
  if (!GiveFirstCode(id)) {
    DropValue(id);
    return kNone;
  }
  return id;
}

bool Dictionary::GiveFirstCode(uint32_t id) {
  const unsigned wanted = new_check_bits();
  (void)RefineTo(wanted);
  if (GiveCode(id, wanted)) return true;
  Sweep(kCodesPerEagerSweep, true);
  for (unsigned bits = wanted + 1; bits-- > config_.check_bits_min;) {
    if (RefineTo(bits) && GiveCode(id, bits)) return true;
  }
  return false;
}

void Dictionary::DropValue(uint32_t id) {
  Value& value = values_[id];
  assert(value.num_codes == 0 && value.entries == 0);
  index_.Remove(value.blob->hash, id);
  pool_.Release(value.blob);
  value = Value{};
  value.entries = free_id_;
  free_id_ = id;
  --num_values_;
}

// ---- codes ----

unsigned Dictionary::new_check_bits() const {
  const unsigned planned = config_.layout.check_bits;
  if (num_values_ < planned_blocks() / 4 * 3 && FreeShare() > kFreeToStart) return planned;
  const double free = std::ldexp(blocks_.free_units(), static_cast<int>(blocks_.check_bits_min()));
  const double each = kStartShare * free / std::max(num_values_, 1u);
  const auto bits = static_cast<unsigned>(std::bit_width(static_cast<uint64_t>(each)));
  return std::clamp(std::max(bits, 1u) - 1, config_.check_bits_min, planned);
}

unsigned Dictionary::typical_check_bits() const {
  const double bits = std::floor(1 - std::log2(match()));
  return std::min(static_cast<unsigned>(std::max(bits, 1.0)), config_.layout.check_bits);
}

// Units of that size or smaller. False: there is no memory.
bool Dictionary::RefineTo(unsigned check_bits) {
  try {
    while (blocks_.check_bits_min() > check_bits) {
      blocks_.Refine();
      ++counters_.refined;
    }
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

// A new current code with a block of this size. False: no such block is free, or no memory.
bool Dictionary::GiveCode(uint32_t id, unsigned check_bits) {
  uint32_t code = free_code_;
  if (code == kNone) {
    try {
      ReserveOneMore(codes_);
    } catch (const std::bad_alloc&) {
      return false;
    }
    code = static_cast<uint32_t>(codes_.size());
  }
  const auto block = blocks_.Allocate(code, check_bits);
  if (!block) return false;
  if (code == free_code_) {
    free_code_ = codes_[code].first;
  } else {
    codes_.emplace_back();
  }
  codes_[code] = {id, block->first};
  ++num_codes_;
  values_[id].current = code;
  ++values_[id].num_codes;
  return true;
}

// REQUIRES: it has no entries
void Dictionary::FreeCode(uint32_t code) {
  assert(codes_[code].entries == 0);
  blocks_.Free(BlockOf(code));
  const uint32_t id = codes_[code].value;
  Value& value = values_[id];
  if (value.current == code) value.current = kNoCode;
  codes_[code] = {kNone, free_code_};
  free_code_ = code;
  --num_codes_;
  ++counters_.recycled;
  if (--value.num_codes == 0) DropValue(id);
}

void Dictionary::AddEntry(uint32_t code) {
  CodeEntry& entry = codes_[code];
  ++entry.entries;
  entry.idle = 0;
  ++values_[entry.value].entries;
  ++num_entries_;
  match_ += MatchOf(code);
}

void Dictionary::RemoveEntries(uint32_t code, uint32_t entries) {
  CodeEntry& entry = codes_[code];
  assert(entry.value != kNone && entry.entries >= entries);
  entry.entries -= entries;
  values_[entry.value].entries -= entries;
  num_entries_ -= entries;
  match_ -= entries * MatchOf(code);
  FreeIfUnused(code, false);
}

void Dictionary::DropEntries(uint32_t code, uint32_t entries) {
  const uint32_t id = codes_[code].value;
  RemoveEntries(code, entries);
  // Nothing has freed a current code here, so the value is still there.
  if (values_[id].entries == 0) FreeIfUnused(values_[id].current, true);
}

// A value's current code goes last: what the value is given next is that one.
void Dictionary::FreeIfUnused(uint32_t code, bool eager) {
  CodeEntry& entry = codes_[code];
  if (entry.value == kNone || entry.entries > 0 || code == given_) return;
  const Value& value = values_[entry.value];
  if (value.current != code) return FreeCode(code);
  if (value.num_codes > 1) return;
  if (eager || entry.idle != 0) FreeCode(code);
}

void Dictionary::Sweep(uint32_t codes, bool eager) {
  for (; codes > 0 && !codes_.empty(); --codes) {
    hand_ = hand_ + 1 < codes_.size() ? hand_ + 1 : 0;
    FreeIfUnused(hand_, eager);
    CodeEntry& entry = codes_[hand_];
    entry.idle = entry.value != kNone && entry.entries == 0;
  }
}

// A larger block for a value whose share is worth twice its block, or the best that is free. A
// smaller one where it is four times what the share is worth and symbols are not plenty.
void Dictionary::FitBlock(uint32_t id) {
  const Value& value = values_[id];
  if (value.num_codes >= kCodesPerValueMax) return;
  const double units = num_units();
  const double all = static_cast<double>(std::max(num_entries_, config_.keys_expected));
  const double shared_out = FreeShare() <= kFreeAtLeast ? kFreeAtLeast : kFreeToGrow;
  const double wanted = units * shared_out * value.entries / all * kUnitsRounding;
  const unsigned unit = blocks_.check_bits_min();
  const auto wanted_bits = static_cast<unsigned>(std::bit_width(static_cast<uint64_t>(wanted)));
  const unsigned target = std::min(unit + std::max(wanted_bits, 1u) - 1, blocks_.check_bits_max());
  const unsigned present = BlockOf(value.current).check_bits;
  if (target > present && value.entries >= kEntriesPerFit) {
    for (unsigned bits = target; bits > present; --bits) {
      const double kept = bits > config_.layout.check_bits ? kFreeToGrow : kFreeToCatchUp;
      const double left = blocks_.free_units() - std::ldexp(1, static_cast<int>(bits - unit));
      if (left < units * kept || !GiveCode(id, bits)) continue;
      ++counters_.upgraded;
      return;
    }
  }
  const unsigned smaller = std::max(target, new_check_bits());
  if (present > smaller + 1 && FreeShare() <= kFreeToGrow) {
    if (!RefineTo(smaller)) return;
    for (unsigned bits = smaller + 1; bits-- > blocks_.check_bits_min();) {
      if (GiveCode(id, bits)) break;
    }
    counters_.downgraded += BlockOf(value.current).check_bits < present;
  }
}

// ---- figures ----

double Dictionary::match() const {
  if (num_entries_ == 0) return std::ldexp(1, -static_cast<int>(config_.layout.check_bits));
  return std::ldexp(static_cast<double>(match_) / static_cast<double>(num_entries_),
                    -static_cast<int>(config_.layout.symbol_bits));
}

uint64_t Dictionary::memory_bytes() const {
  return sizeof(*this) + blocks_.memory_bytes() + values_.capacity() * sizeof(Value) +
         codes_.capacity() * sizeof(CodeEntry) + index_.memory_bytes() + sketch_.memory_bytes() +
         seen_.memory_bytes();
}

}  // namespace kbf
