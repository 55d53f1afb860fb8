// How a slab is written to: one function per write mode, then arithmetic and delete.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

#include "storage/slab.h"

namespace kbf {

namespace {

constexpr size_t kNumberBytesMax = 20;
constexpr size_t kNumberItemBytesMax = 512 << 10;

bool Extends(WriteMode mode) { return mode == WriteMode::kAppend || mode == WriteMode::kPrepend; }

bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// The number at the beginning of a value, as memcached reads it: white space and a plus sign may
// come before it, white space after it.
std::optional<uint64_t> NumberIn(std::string_view value) {
  while (!value.empty() && IsSpace(value.front())) value.remove_prefix(1);
  if (value.starts_with('+')) value.remove_prefix(1);
  uint64_t number = 0;
  const char* const last = value.data() + value.size();
  const auto [end, error] = std::from_chars(value.data(), last, number);
  if (error != std::errc() || (end != last && !IsSpace(*end) && *end != '\0')) return std::nullopt;
  return number;
}

// A number in decimal digits.
class Digits {
 public:
  explicit Digits(uint64_t number)
      : end_(std::to_chars(bytes_.data(), bytes_.data() + bytes_.size(), number).ptr) {}
  std::string_view view() const { return {bytes_.data(), end_}; }

 private:
  std::array<char, kNumberBytesMax> bytes_;
  const char* end_;
};

void FillItem(const WriteRequest& request, Item* item) {
  std::memcpy(item->value_data(), request.value.data(), request.value.size());
  if (request.base64_key) item->set_base64_key(true);
}

uint64_t Changed(const ArithmeticRequest& request, uint64_t number) {
  if (!request.decrement) return number + request.delta;
  return request.delta > number ? 0 : number - request.delta;
}

}  // namespace

// ---- every write --------------------------------------------------------------------------------

WriteResult Slab::Write(const WriteRequest& request, const KeyHash& hash, uint32_t now) {
  const uint64_t bytes =
      CountedItemBytes(request.key.size(), request.value.size(), request.flags, config_.keep_cas);
  if (bytes > config_.item_bytes_max) return RefuseTooLarge(request, hash, now);
  const Key key{request.key, hash};
  // A long value is copied before the lock is taken.
  const NewItem shape = NewItemOf(request, now);
  const bool is_long = front_.IsLong(shape) && !Extends(request.mode);
  ItemPtr item = is_long ? front_.CreateLong(shape) : nullptr;
  if (item != nullptr) FillItem(request, item.get());
  LockedOperation operation(*this, now);
  if (!request.warming) {
    NoteChange(hash);
  } else if (changed_ == nullptr || changed_->MayHold(hash)) {
    return {StoreStatus::kNotStored, 0};
  }
  operation.MakeRoomAtEnd();  // also where a key was promoted in vain
  WriteResult result{StoreStatus::kNoMemory, 0};
  if (is_long == (item != nullptr) &&
      MakeRoomFor(Item::BytesFor(request.key.size(), request.value.size(), request.flags, 8))) {
    result = WriteLocked(request, key, std::move(item));
  }
  counters_.refused_memory += result.status == StoreStatus::kNoMemory;
  if (result.status == StoreStatus::kNoMemory && request.drop_on_failure) RemoveEverywhere(key);
  counters_.stored += result.status == StoreStatus::kOk;
  return result;
}

WriteResult Slab::RefuseTooLarge(const WriteRequest& request, const KeyHash& hash, uint32_t now) {
  const LockedOperation operation(*this, now);
  ++counters_.refused_size;
  NoteChange(hash);
  if (request.mode == WriteMode::kSet || request.drop_on_failure) {
    RemoveEverywhere({request.key, hash});
  }
  return {StoreStatus::kTooLarge, 0};
}

// With room for the CAS number that it will get: that is not taken before it is stored.
NewItem Slab::NewItemOf(const WriteRequest& request, uint32_t now) const {
  const uint64_t next_cas = shared_.next_cas.load(std::memory_order_relaxed);
  return {request.key,
          request.flags,
          request.expires,
          static_cast<uint32_t>(request.value.size()),
          request.new_cas.value_or(next_cas),
          now};
}

ItemPtr Slab::CopyOf(const WriteRequest& request, const Key& key, const Item* old) {
  ItemPtr item = front_.Create(NewItemOf(request, now_), key.hash, old);
  if (item != nullptr) FillItem(request, item.get());
  return item;
}

WriteResult Slab::WriteLocked(const WriteRequest& request, const Key& key, ItemPtr&& item) {
  switch (request.mode) {
    case WriteMode::kSet:
      return Set(request, key, std::move(item));
    case WriteMode::kAdd:
      return Add(request, key, std::move(item));
    case WriteMode::kReplace:
      return Replace(request, key, std::move(item));
    case WriteMode::kCas:
      return CompareAndSwap(request, key, std::move(item));
    case WriteMode::kAppend:
    case WriteMode::kPrepend:
      break;
  }
  return Extend(request, key);
}

// ---- the write modes ----------------------------------------------------------------------------

WriteResult Slab::Set(const WriteRequest& request, const Key& key, ItemPtr&& item) {
  if (request.cas == 0) return Store(request, key, FindInFront(key).item, std::move(item));
  const ItemAnswer old = FindOrPromote(key);
  if (old.item == nullptr) return {old.StatusOr(StoreStatus::kNotFound), 0};
  return StoreChecked(request, key, old.item, std::move(item));
}

WriteResult Slab::Add(const WriteRequest& request, const Key& key, ItemPtr&& item) {
  if (Item* old = FindInFront(key).item) {
    // The refusal counts as an access, but not as a fetch.
    const bool fetched = old->fetched();
    Front::Touch(old, now_);
    old->set_fetched(fetched);
    return {StoreStatus::kNotStored, 0};
  }
  const ChainAnswer answer = FindInChain(key);
  if (answer.found && request.warming) return {StoreStatus::kNotStored, 0};
  if (answer.found) return RefuseAdd(key, answer);
  return Store(request, key, nullptr, std::move(item));
}

// What get answers, add refuses. If the answer is a false positive, it must not refuse for ever:
// now and then it is forgotten after the refusal, so that the next get misses and the next add
// stores.
WriteResult Slab::RefuseAdd(const Key& key, const ChainAnswer& answer) {
  if (ScaleTo(Mix64(++refused_adds_ ^ key.hash.lo), answer.refusals) == 0) {
    sampler_.Remove(key.hash);
    chain_->Forget(key.hash, now_);
  }
  return {StoreStatus::kNotStored, 0};
}

WriteResult Slab::Replace(const WriteRequest& request, const Key& key, ItemPtr&& item) {
  if (request.cas != 0) return Set(request, key, std::move(item));
  Item* old = FindInFront(key).item;
  if (old == nullptr && !FindInChain(key).found) return {StoreStatus::kNotStored, 0};
  return Store(request, key, old, std::move(item));
}

WriteResult Slab::CompareAndSwap(const WriteRequest& request, const Key& key, ItemPtr&& item) {
  const ItemAnswer old = FindOrPromote(key);
  if (old.item == nullptr) return {old.StatusOr(StoreStatus::kNotFound), 0};
  return StoreChecked(request, key, old.item, std::move(item));
}

WriteResult Slab::Extend(const WriteRequest& request, const Key& key) {
  const ItemAnswer found = FindOrPromote(key);
  Item* const old = found.item;
  if (old == nullptr) {
    const StoreStatus status = found.StatusOr(StoreStatus::kNotStored);
    const bool creates = status == StoreStatus::kNotStored && request.vivify_expires;
    return creates ? ExtendNothing(request, key) : WriteResult{status, 0};
  }
  const bool checked = request.cas != 0;
  if (checked && IsRefused(request, *old)) return {StoreStatus::kExists, 0};
  const uint64_t size = uint64_t{old->value_bytes()} + request.value.size();
  if (CountedItemBytes(key.text.size(), size, old->flags(), config_.keep_cas) >
      config_.item_bytes_max) {
    ++counters_.refused_size;
    return {StoreStatus::kNotStored, 0};  // memcached's answer
  }
  ItemPtr item = ExtendedItem(request, key, *old);
  if (item == nullptr) return {StoreStatus::kNoMemory, 0};
  return checked ? StoreChecked(request, key, old, std::move(item))
                 : Store(request, key, old, std::move(item));
}

WriteResult Slab::ExtendNothing(const WriteRequest& request, const Key& key) {
  ItemPtr item = CopyOf(request, key, nullptr);
  if (item == nullptr) return {StoreStatus::kNoMemory, 0};
  front_.SetExpires(item.get(), *request.vivify_expires);
  return Store(request, key, nullptr, std::move(item));
}

ItemPtr Slab::ExtendedItem(const WriteRequest& request, const Key& key, const Item& old) {
  const bool appends = request.mode == WriteMode::kAppend;
  const std::string_view first = appends ? old.value() : request.value;
  const std::string_view second = appends ? request.value : old.value();
  NewItem shape = NewItemOf(request, now_);
  shape.flags = old.flags();
  shape.expires = old.expires();
  shape.value_bytes = static_cast<uint32_t>(first.size() + second.size());
  ItemPtr item = front_.Create(shape, key.hash, &old);
  if (item == nullptr) return item;
  std::memcpy(item->value_data(), first.data(), first.size());
  std::memcpy(item->value_data() + first.size(), second.data(), second.size());
  return item;
}

// Meta I: a CAS number that is smaller than the item's stores the value as stale.
bool Slab::StoresAsStale(const WriteRequest& request, const Item& old) {
  return request.invalidate && request.cas != 0 && request.cas < old.cas();
}

bool Slab::IsRefused(const WriteRequest& request, const Item& old) {
  return request.cas != old.cas() && !StoresAsStale(request, old);
}

// Stores in the place of `old` if that has the CAS number that the request names.
WriteResult Slab::StoreChecked(const WriteRequest& request, const Key& key, Item* old,
                               ItemPtr&& item) {
  if (IsRefused(request, *old)) return {StoreStatus::kExists, 0};
  if (request.cas != old->cas()) {
    // It takes the place of a newer value: with that one's expiry and win token.
    if (item == nullptr) item = CopyOf(request, key, old);
    if (item == nullptr) return {StoreStatus::kNoMemory, 0};
    item->set_stale(true);
    front_.SetExpires(item.get(), old->expires());
    item->set_win(old->win());
  }
  return Store(request, key, old, std::move(item));
}

WriteResult Slab::Store(const WriteRequest& request, const Key& key, Item* old, ItemPtr&& item) {
  if (item == nullptr) item = CopyOf(request, key, old);
  if (item == nullptr || !front_.Adopt(item.get(), key.hash, old)) {
    return {StoreStatus::kNoMemory, 0};
  }
  const uint64_t cas = request.new_cas ? *request.new_cas : NextCas();
  item->set_cas(cas);
  item->set_explicit_cas(request.new_cas.has_value());
  const uint64_t value_bytes = item->value_bytes();
  RemoveIfExpired(LinkItem(key.hash, old, std::move(item)), key.hash);
  return {StoreStatus::kOk, cas, value_bytes};
}

Item* Slab::ChangeCas(const Key& key, Item* item, const std::optional<uint64_t>& chosen) {
  const uint64_t cas = chosen ? *chosen : NextCas();
  if (!item->CanHoldCas(cas)) {
    ItemPtr copy = front_.Create({key.text, item->flags(), item->expires(), item->value_bytes(),
                                  cas, item->last_access(now_)},
                                 key.hash, item);
    if (copy == nullptr) return nullptr;
    std::memcpy(copy->value_data(), item->value().data(), item->value_bytes());
    copy->CopyMarks(*item);
    item = front_.Replace(item, std::move(copy), key.hash);
  }
  item->set_cas(cas);
  item->set_explicit_cas(chosen.has_value());
  return item;
}

// What was stored with an expiry in the past is gone at once.
void Slab::RemoveIfExpired(Item* item, const KeyHash& hash) {
  if (HasExpired(item->expires())) RemoveFromFront(item, hash, Cause::kExpired);
}

Item* Slab::LinkItem(const KeyHash& hash, Item* old, ItemPtr&& item) {
  // An older copy in the chain stays there, shadowed by the new item, until that is removed.
  item->set_clean(old != nullptr ? old->clean() : chain_->num_parts() == 0);
  return old != nullptr ? front_.Replace(old, std::move(item), hash)
                        : front_.Link(std::move(item), hash);
}

void Slab::RemoveEverywhere(const Key& key) {
  if (Item* item = FindInFront(key).item) {
    RemoveFromFront(item, key.hash, Cause::kDeleted);
  } else {
    RemoveFromChain(key.hash);
  }
}

// ---- arithmetic ---------------------------------------------------------------------------------

ArithmeticResult Slab::Arithmetic(const ArithmeticRequest& request, const KeyHash& hash,
                                  uint32_t now) {
  LockedOperation operation(*this, now);
  NoteChange(hash);
  if (!MakeRoomFor(Front::ItemBytes(request.key.size(), kNumberBytesMax, 0, true))) {
    ++counters_.refused_memory;
    return {StoreStatus::kNoMemory};
  }
  const Key key{request.key, hash};
  const ItemAnswer found = FindOrPromote(key);
  // A number that could not be promoted is not replaced by the initial one.
  if (found.no_memory) return {StoreStatus::kNoMemory};
  if (found.item == nullptr && !request.initial) return {StoreStatus::kNotFound};
  operation.MakeRoomAtEnd();
  return found.item != nullptr ? Count(request, key, found.item) : CreateNumber(request, key);
}

ArithmeticResult Slab::CreateNumber(const ArithmeticRequest& request, const Key& key) {
  ArithmeticResult result;
  result.number = *request.initial;
  result.created = true;
  const uint64_t cas = request.new_cas ? *request.new_cas : NextCas();
  Item* item =
      StoreNumber(key, nullptr, Digits(result.number).view(), 0, request.initial_expires, cas);
  if (item == nullptr) return {StoreStatus::kNoMemory};
  item->set_explicit_cas(request.new_cas.has_value());
  ++counters_.stored;
  return FinishNumber(result, key.hash, item);
}

ArithmeticResult Slab::Count(const ArithmeticRequest& request, const Key& key, Item* item) {
  // Empty values and values of 512 KiB or more are never numeric, whatever their CAS number, as in
  // memcached.
  if (item->value_bytes() == 0 || item->value_bytes() >= kNumberItemBytesMax) {
    return {StoreStatus::kNotNumber};
  }
  if (request.cas != 0 && request.cas != item->cas()) return {StoreStatus::kExists};
  const std::optional<uint64_t> number = NumberIn(item->value());
  if (!number) return {StoreStatus::kNotNumber};
  ArithmeticResult result;
  result.number = Changed(request, *number);
  result.expires_before = item->expires();
  const uint32_t expires = request.expires.value_or(item->expires());
  const Digits digits(result.number);
  const std::string_view text = digits.view();
  const uint64_t next_cas = NextCas();
  const uint64_t cas = request.new_cas.value_or(next_cas);
  if (text.size() <= item->value_bytes() && !front_.IsShared(item) && item->CanHoldCas(cas)) {
    std::memcpy(item->value_data(), text.data(), text.size());
    std::memset(item->value_data() + text.size(), ' ', item->value_bytes() - text.size());
    front_.SetExpires(item, expires);
    item->set_cas(cas);
    item->set_unique(false);
    item->set_age(std::max(1u, item->age()));
  } else {
    item = StoreNumber(key, item, text, item->flags(), expires, cas);
    if (item == nullptr) return {StoreStatus::kNoMemory};
  }
  item->set_explicit_cas(request.new_cas.has_value());
  return FinishNumber(result, key.hash, item);
}

Item* Slab::StoreNumber(const Key& key, Item* old, std::string_view digits, uint32_t flags,
                        uint32_t expires, uint64_t cas) {
  ItemPtr item = front_.Create(
      {key.text, flags, expires, static_cast<uint32_t>(digits.size()), cas, now_}, key.hash, old);
  if (item == nullptr) return nullptr;
  std::memcpy(item->value_data(), digits.data(), digits.size());
  return LinkItem(key.hash, old, std::move(item));
}

ArithmeticResult Slab::FinishNumber(ArithmeticResult result, const KeyHash& hash, Item* item) {
  result.cas = item->cas();
  result.flags = item->flags();
  result.expires = item->expires();
  RemoveIfExpired(item, hash);
  return result;
}

// ---- delete -------------------------------------------------------------------------------------

StoreStatus Slab::Delete(std::string_view text, const KeyHash& hash, const DeleteOptions& options,
                         uint32_t now) {
  LockedOperation operation(*this, now);
  NoteChange(hash);
  const Key key{text, hash};
  const bool needs_item = options.cas != 0 || options.mark_stale || options.remove_value;
  Item* item = needs_item ? FindOrPromote(key).item : FindInFront(key).item;
  if (item == nullptr) return DeleteFromChain(key, needs_item);
  if (options.cas != 0 && options.cas != item->cas()) {
    operation.MakeRoomAtEnd();  // the key may have been promoted for this
    return StoreStatus::kExists;
  }
  if (!options.mark_stale && !options.remove_value) {
    RemoveFromFront(item, hash, Cause::kDeleted);
    return StoreStatus::kOk;
  }
  operation.MakeRoomAtEnd();
  if (options.remove_value) {
    item = RemoveValue(key, item, options);
    if (item == nullptr) return StoreStatus::kNoMemory;
  }
  if (options.mark_stale) return MarkStale(key, item, options);
  RemoveIfExpired(item, hash);
  return StoreStatus::kOk;
}

StoreStatus Slab::DeleteFromChain(const Key& key, bool needs_item) {
  const bool found = FindInChain(key).found;
  if (found && needs_item) return StoreStatus::kNoMemory;  // it could not be promoted
  // Also where nothing was found: what does not decode now must not decode later.
  RemoveFromChain(key.hash);
  counters_.deleted += found;
  return found ? StoreStatus::kOk : StoreStatus::kNotFound;
}

Item* Slab::RemoveValue(const Key& key, Item* old, const DeleteOptions& options) {
  const uint64_t cas = options.new_cas.value_or(old->cas());
  ItemPtr made = front_.Create({key.text, options.flags, options.expires.value_or(0), 0, cas, now_},
                               key.hash, old);
  if (made == nullptr) return nullptr;
  made->set_explicit_cas(options.new_cas || old->explicit_cas());
  ++counters_.stored;
  return LinkItem(key.hash, old, std::move(made));
}

StoreStatus Slab::MarkStale(const Key& key, Item* item, const DeleteOptions& options) {
  item = ChangeCas(key, item, options.new_cas);
  if (item == nullptr) return StoreStatus::kNoMemory;
  item->set_stale(true);
  item->set_win(false);
  if (options.expires) front_.SetExpires(item, *options.expires);
  RemoveIfExpired(item, key.hash);
  return StoreStatus::kOk;
}

}  // namespace kbf
