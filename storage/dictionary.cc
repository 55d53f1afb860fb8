#include "storage/dictionary.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <new>

namespace kbf {

namespace {

constexpr uint64_t kIndexCapacityMin = 256;
// Entries per cell. With the default layout 5e-4 of the values are not decodable (the papers' λ =
// ln 2: 3e-5, for 44 % more memory); they cost a search once and a place in `undecodable_ids_`.
constexpr double kIndexLoad = 1;
constexpr size_t kUndecodableIdsMax = 64;

// A value's block is looked at every so many of its uses: enough to know a share within 1/8, and
// rare enough to cost nothing.
constexpr uint32_t kUsesPerFit = 64;
// All uses are halved when there are so many per unit, so that a value worth two units always has
// kUsesPerFit of them.
constexpr uint64_t kUsesPerUnitMax = 64;
constexpr uint64_t kUsesMax = uint64_t{1} << 31;
// Rounding up of wanted units: a power of two that is 4/5 used is better than one half as large.
constexpr double kUnitsRounding = 1.25;

// Room for one more, an eighth at a time: doubling would leave half of the largest tables of a slab
// empty.
template <class T>
void ReserveOneMore(std::vector<T>& items) {
  if (items.size() == items.capacity()) items.reserve(items.size() + items.size() / 8 + 64);
}

KeyHash IndexKey(uint64_t hash) { return {hash, Mix64(hash + 0x9e3779b97f4a7c15u)}; }

}  // namespace

void CodeSet::UnionWith(const CodeSet& other) {
  assert(words_.size() == other.words_.size());
  for (size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
}

Dictionary::Dictionary(const DictionaryConfig& config, const HashSecret& secret, BlobPool& pool)
    : config_(config),
      secret_(secret),
      pool_(pool),
      num_units_(1u << (config.layout.symbol_bits - config.layout.check_bits)),
      id_blocks_(config.layout.symbol_bits, config.layout.check_bits),
      blocks_(config.layout.symbol_bits, config.layout.check_bits),
      codes_in_use_(num_units_ - 1),
      sketch_(kSketchBytes) {
  assert(IsValid(config.layout) && num_units_ <= 1u << kUnitBitsMax);
  assert(config.value_bytes_max <= BlobPool::kValueBytesMax);
  for (uint32_t id = 0; id < num_units_ - 1; ++id) {
    [[maybe_unused]] const auto block = id_blocks_.Allocate(id, config.layout.check_bits);
    assert(block && block->first == (id + 1) << config.layout.check_bits);
  }
  undecodable_ids_.reserve(kUndecodableIdsMax);
  fixed_bytes_ = sizeof(*this) + id_blocks_.memory_bytes() + blocks_.memory_bytes() +
                 codes_in_use_.memory_bytes() + undecodable_ids_.capacity() * sizeof(uint32_t) +
                 sketch_.memory_bytes();
  if (!RebuildIndex(std::min<uint64_t>(kIndexCapacityMin, codes_max()))) throw std::bad_alloc();
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

// ---- value -> id ----

// What the s-kBF stores for a value: its own choice among the check bits of unit id + 1.
uint32_t Dictionary::IndexSymbol(uint32_t id) const {
  const unsigned check_bits = config_.layout.check_bits;
  const SymbolBlock block{(id + 1) << check_bits, check_bits, id};
  return block.Choose(KeyCheck(IndexKey(values_[id].hash)));
}

bool Dictionary::Matches(uint32_t id, std::string_view bytes, uint32_t flags, uint64_t hash) const {
  if (id >= values_.size()) return false;
  const Value& value = values_[id];
  return value.hash == hash && value.blob != nullptr && value.blob->flags == flags &&
         value.blob->view() == bytes;
}

// kNone: there is no such value. *scanned: the s-kBF could not tell.
uint32_t Dictionary::FindId(std::string_view bytes, uint32_t flags, uint64_t hash,
                            bool* scanned) const {
  *scanned = false;
  const QueryResult result = index_->Query(IndexKey(hash), id_blocks_);
  if (result.outcome == Outcome::kFound && Matches(result.value, bytes, flags, hash)) {
    return result.value;
  }
  // A stored key is found or undecodable; this value is not stored.
  if (result.outcome != Outcome::kUndecodable) return kNone;
  for (const uint32_t id : undecodable_ids_) {
    if (Matches(id, bytes, flags, hash)) return id;
  }
  *scanned = true;
  for (uint32_t id = 0; id < values_.size(); ++id) {
    if (Matches(id, bytes, flags, hash)) return id;
  }
  return kNone;
}

bool Dictionary::Knows(std::string_view bytes, uint32_t flags) const {
  bool scanned = false;
  return bytes.size() <= config_.value_bytes_max &&
         FindId(bytes, flags, HashOf(bytes, flags), &scanned) != kNone;
}

bool Dictionary::RebuildIndex(uint64_t capacity) {
  KbfConfig config;
  config.layout = config_.layout;
  config.capacity = capacity;
  config.load = kIndexLoad;
  config.folds = 0;
  config.secret_id = secret_.Id();
  Kbf::CreateOutcome outcome = Kbf::Create(config);
  if (!outcome.filter) return false;
  for (uint32_t id = 0; id < values_.size(); ++id) {
    if (values_[id].blob != nullptr) {
      outcome.filter->Insert(IndexKey(values_[id].hash), IndexSymbol(id));
    }
  }
  index_.emplace(std::move(*outcome.filter));
  undecodable_ids_.clear();
  return true;
}

// ---- admission ----

std::optional<Dictionary::Code> Dictionary::Admit(std::string_view bytes, uint32_t flags) {
  if (bytes.size() > config_.value_bytes_max) {
    ++counters_.refused;
    return std::nullopt;
  }
  const uint64_t hash = HashOf(bytes, flags);
  bool scanned = false;
  uint32_t id = FindId(bytes, flags, hash, &scanned);
  if (scanned) {
    ++counters_.index_scans;
    if (id != kNone && undecodable_ids_.size() < kUndecodableIdsMax) undecodable_ids_.push_back(id);
  }
  if (id == kNone) {
    if (ShouldAdmit(hash, bytes.size())) id = AddValue(bytes, flags, hash);
    if (id == kNone) {
      ++counters_.refused;
      return std::nullopt;
    }
    ++counters_.admitted;
  }
  Value& value = values_[id];
  ++uses_;
  if (++value.uses % kUsesPerFit == 0) FitBlock(id);
  if (uses_ >= std::min(kUsesMax, kUsesPerUnitMax * num_units_)) HalveUses();
  return Code{value.current, BlockOf(value.current)};
}

bool Dictionary::ShouldAdmit(uint64_t hash, size_t bytes) {
  if (num_values_ < num_units_ / kFirstOccurrenceShare && blocks_.free_units() > num_units_ / 2 &&
      bytes <= kFirstOccurrenceBytesMax) {
    return true;
  }
  const auto occurrences = static_cast<uint32_t>(
      std::min<size_t>(kMinOccurrences + bytes / kBytesPerOccurrence, FrequencySketch::kCountMax));
  // Occurrences are counted while there is no room, too, for the time when there is.
  return sketch_.Increment(hash) >= occurrences && blocks_.free_units() > 0;
}

// Room for one more value in index and tables. False: there is no memory.
bool Dictionary::MakeRoom() {
  const uint64_t capacity = index_->capacity();
  try {
    // Without memory for the cells there may be none for the sentence that says so either.
    if (num_values_ >= capacity && capacity < codes_max() &&
        !RebuildIndex(std::min<uint64_t>(capacity * 2, codes_max()))) {
      return false;
    }
    if (free_id_ == kNone) ReserveOneMore(values_);
    if (free_code_ == kNone) ReserveOneMore(codes_);
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

// REQUIRES: there is no such value. kNone: no memory or no symbols.
uint32_t Dictionary::AddValue(std::string_view bytes, uint32_t flags, uint64_t hash) {
  if (!MakeRoom()) return kNone;
  Blob* blob = pool_.Intern(bytes, flags, hash);
  if (blob == nullptr) return kNone;
  uint32_t id = free_id_;
  if (id == kNone) {
    id = static_cast<uint32_t>(values_.size());
    values_.emplace_back();
  } else {
    free_id_ = values_[id].uses;
    values_[id] = Value{};
  }
  values_[id].hash = hash;
  values_[id].blob = blob;
  ++num_values_;
  index_->Insert(IndexKey(hash), IndexSymbol(id));
  if (!GiveCode(id, config_.layout.check_bits)) {
    DropValue(id);
    return kNone;
  }
  return id;
}

void Dictionary::DropValue(uint32_t id) {
  Value& value = values_[id];
  assert(value.num_codes == 0);
  // The symbol is known, so this takes out exactly what was put in.
  [[maybe_unused]] const KbfStatus status =
      index_->DeleteSymbol(IndexKey(value.hash), IndexSymbol(id));
  assert(status == KbfStatus::kOk);
  std::erase(undecodable_ids_, id);
  pool_.Release(value.blob);
  uses_ -= value.uses;
  value = Value{};
  value.uses = free_id_;
  free_id_ = id;
  --num_values_;
}

// ---- codes ----

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
  codes_in_use_.Add(code);
  ++num_codes_;
  values_[id].current = code;
  ++values_[id].num_codes;
  return true;
}

void Dictionary::FreeCode(uint32_t code) {
  blocks_.Free(BlockOf(code));
  Value& value = values_[codes_[code].value];
  if (value.current == code) value.current = kNoCode;
  --value.num_codes;
  codes_[code] = {kNone, free_code_};
  free_code_ = code;
  codes_in_use_.Remove(code);
  --num_codes_;
}

// Units that a value's share is worth. Like ShareBlocks, one unit per value comes first (an eighth
// more for old codes) and the rest is shared out, but never less than a quarter: else many
// rare values would leave the frequent ones with a unit each. When few units are free, room is kept
// for values to come, so that large blocks give way before any is refused.
double Dictionary::WantedUnits(const Value& value) const {
  const double quarter = num_units_ / 4.0;
  double spare = num_units_ - num_values_ * 1.125;
  if (blocks_.free_units() <= num_units_ / 8) spare -= quarter;
  return std::max(spare, quarter) * value.uses / static_cast<double>(uses_) * kUnitsRounding;
}

// A larger block for a value whose share is worth twice its block, or the best that is free. A
// smaller one where symbols are scarce and the block is too large.
void Dictionary::FitBlock(uint32_t id) {
  const Value& value = values_[id];
  if (value.num_codes >= kCodesPerValueMax) return;
  const double wanted = WantedUnits(value);
  const unsigned smallest = config_.layout.check_bits;
  const auto wanted_bits = static_cast<unsigned>(std::bit_width(static_cast<uint64_t>(wanted)));
  const unsigned target =
      std::min(smallest + std::max(wanted_bits, 1u) - 1, blocks_.check_bits_max());
  const unsigned present = BlockOf(value.current).check_bits;
  const uint32_t free_units = blocks_.free_units();
  if (target > present) {
    // What grows leaves as much free as there are values, up to an eighth; else blocks that gave
    // way would come back at once.
    const uint32_t reserve = std::min(num_values_, num_units_ / 8);
    for (unsigned bits = target; bits > present; --bits) {
      if ((1u << (bits - smallest)) + reserve > free_units || !GiveCode(id, bits)) continue;
      ++counters_.upgraded;
      return;
    }
  } else if (target < present) {
    // Hysteresis: a block that was just fitted is no larger than wanted; it has to be a third too
    // large before it goes. Then the next is within a quarter of the target, or things stay as they
    // are.
    const double units = static_cast<double>(uint64_t{1} << (present - smallest));
    if (!(free_units <= num_units_ / 2 && units >= wanted * 4) &&
        !(free_units <= num_units_ / 8 && units >= wanted * 4 / 3)) {
      return;
    }
    const unsigned least = std::max(smallest + 2, target) - 2;
    for (unsigned bits = target + 1; bits-- > least;) {
      if (!GiveCode(id, bits)) continue;
      ++counters_.downgraded;
      return;
    }
  }
}

void Dictionary::HalveUses() {
  uses_ = 0;
  for (Value& value : values_) {
    if (value.blob == nullptr) continue;
    value.uses /= 2;
    uses_ += value.uses;
  }
}

void Dictionary::Recycle(std::span<const CodeSet* const> in_use) {
  const auto present = codes_in_use_.words();
  bool lost_current = false;
  for (size_t i = 0; i < present.size(); ++i) {
    uint64_t dead = present[i];
    for (size_t j = 0; j < in_use.size() && dead != 0; ++j) dead &= ~in_use[j]->words()[i];
    for (; dead != 0; dead &= dead - 1) {
      const auto code = static_cast<uint32_t>(i * 64 + static_cast<size_t>(std::countr_zero(dead)));
      const uint32_t id = codes_[code].value;
      FreeCode(code);
      ++counters_.recycled;
      if (values_[id].num_codes == 0) {
        DropValue(id);
      } else if (values_[id].current == kNoCode) {
        lost_current = true;
      }
    }
  }
  if (!lost_current) return;
  for (uint32_t code = 0; code < codes_.size(); ++code) {
    if (codes_[code].value == kNone) continue;
    Value& value = values_[codes_[code].value];
    if (value.current == kNoCode) value.current = code;
  }
}

// ---- figures ----

double Dictionary::match() const {
  double match = 0;
  double uses = 0;
  for (const Value& value : values_) {
    if (value.blob == nullptr) continue;
    match += std::ldexp(value.uses, -static_cast<int>(BlockOf(value.current).check_bits));
    uses += value.uses;
  }
  return uses > 0 ? match / uses : std::ldexp(1, -static_cast<int>(config_.layout.check_bits));
}

uint64_t Dictionary::memory_bytes() const {
  return fixed_bytes_ + values_.capacity() * sizeof(Value) + codes_.capacity() * sizeof(CodeEntry) +
         index_->memory_bytes();
}

}  // namespace kbf
