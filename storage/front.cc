#include "storage/front.h"

#include <cstdlib>
#include <new>

namespace kbf {

namespace {

// Items per bucket above which a link splits one bucket: 17/10. At 1.5 an item with CAS and two
// bytes of client flags takes 40.4 bytes, at 1.7 it is 39.7; a hit reads 1.85 items instead
// of 1.75.
constexpr uint64_t kGrowLoad10 = 17;
// Below this an unlink merges. Far enough from the above that no workload splits and merges in
// turn.
constexpr uint64_t kShrinkLoad10 = 7;
// One merge per unlink would not hold the load: at 0.7, an unlink makes 1.43 buckets superfluous.
constexpr uint64_t kMergesPerUnlink = 2;
constexpr uint64_t kDirectoryMin = 8;

}  // namespace

uint32_t Item::flags() const {
  // The narrow widths are the low bytes of the word.
  static_assert(std::endian::native == std::endian::little);
  uint32_t flags = 0;
  std::memcpy(&flags, bytes() + FlagsOffset(), FlagWidth(Bits(kFlagWidth, 2)));
  return flags;
}

uint64_t Item::cas() const {
  uint64_t cas = 0;
  if (Bits(kHasCas, 1) != 0) std::memcpy(&cas, bytes() + kHeadBytes, sizeof(cas));
  return cas;
}

void Item::set_cas(uint64_t cas) {
  if (Bits(kHasCas, 1) == 0) return;
  std::memcpy(reinterpret_cast<char*>(this) + kHeadBytes, &cas, sizeof(cas));
}

Front::Front(const HashSecret& secret, bool keep_cas) : secret_(secret), keep_cas_(keep_cas) {
  if (!AddSegment()) {
    std::free(directory_);
    throw std::bad_alloc();
  }
  SetNumBuckets(kBucketsMin);
}

Front::~Front() {
  while (has_retired()) (void)FreeRetired(num_buckets_ + 1);
  for (uint64_t bucket = 0; bucket < num_buckets_; ++bucket) {
    for (Item* item = At(bucket).head(); item != nullptr;) {
      Item* const next = item->next();
      Release(item->header());
      item = next;
    }
  }
  for (uint64_t i = 0; i < segments_; ++i) FreeShared(directory_[i]);
  std::free(directory_);
}

bool Front::Retire() {
  try {
    retired_.reserve(retired_.size() + 1);
  } catch (const std::bad_alloc&) {
    return false;
  }
  retired_.push_back({directory_, directory_capacity_, segments_, num_buckets_, 0});
  directory_ = nullptr;
  directory_capacity_ = segments_ = 0;
  if (!AddSegment()) {
    std::free(directory_);
    directory_ = retired_.back().directory;
    directory_capacity_ = retired_.back().directory_capacity;
    segments_ = retired_.back().segments;
    retired_.pop_back();
    return false;
  }
  SetNumBuckets(kBucketsMin);
  count_ = 0;
  hand_ = 0;
  return true;
}

uint64_t Front::FreeRetired(uint64_t buckets) {
  uint64_t freed = 0;
  for (; buckets > 0 && has_retired(); --buckets) {
    Retired& table = retired_.back();
    Bucket& bucket = table.directory[table.next / kSegmentBuckets][table.next % kSegmentBuckets];
    for (Item* item = bucket.head(); item != nullptr;) {
      Item* const next = item->next();
      item_bytes_ -= AllocatedBytes(item->total_bytes());
      DetachToPage(item->header());
      item = next;
      ++freed;
    }
    if (++table.next < table.num_buckets) continue;
    for (uint64_t i = 0; i < table.segments; ++i) FreeShared(table.directory[i]);
    std::free(table.directory);
    retired_.pop_back();
  }
  return freed;
}

Item* Front::Find(std::string_view key, const KeyHash& hash) const {
  const uint64_t word = Stream(hash, kFrontStream);
  const unsigned mark = MarkOf(word);
  const Bucket bucket = At(BucketOf(word));
  if (!bucket.MayHold(mark)) return nullptr;
  for (Item* item = bucket.head(); item != nullptr; item = item->next()) {
    if (item->Bits(Item::kMark, 4) == mark && item->key() == key) return item;
  }
  return nullptr;
}

void Front::Prefetch(const KeyHash& hash) const {
  __builtin_prefetch(&At(BucketOf(Stream(hash, kFrontStream))));
}

void Front::PrefetchItem(const KeyHash& hash) const {
  const uint64_t word = Stream(hash, kFrontStream);
  const Bucket bucket = At(BucketOf(word));
  if (bucket.MayHold(MarkOf(word))) __builtin_prefetch(bucket.head());
}

ItemPtr Front::Create(const NewItem& from) const {
  assert(from.key.size() <= Item::kKeyBytesMax && from.value_bytes <= Item::kValueBytesMax);
  assert(from.generation < 4);
  void* memory =
      AllocateShared(ItemBytes(from.key.size(), from.value_bytes, from.flags, keep_cas_));
  if (memory == nullptr) return nullptr;
  Item* item = new (memory) Item();
  item->expires_ = from.expires;
  item->set_last_access(from.now);
  item->size_age_ = from.value_bytes;
  const unsigned flag_code = Item::FlagCode(from.flags);
  item->SetBits(Item::kGeneration, 2, from.generation);
  item->SetBits(Item::kFlagWidth, 2, flag_code);
  item->SetBits(Item::kHasCas, 1, keep_cas_);
  item->set_cas(from.cas);
  char* to = static_cast<char*>(memory) + item->FlagsOffset();
  std::memcpy(to, &from.flags, Item::FlagWidth(flag_code));
  to += Item::FlagWidth(flag_code);
  *to++ = static_cast<char>(from.key.size());
  if (!from.key.empty()) std::memcpy(to, from.key.data(), from.key.size());
  return ItemPtr(item);
}

Item* Front::Link(ItemPtr&& made, const KeyHash& hash) {
  Item* const item = made.release();
  assert((reinterpret_cast<uint64_t>(item) & ~Item::kPointerMask) == 0);
  const uint64_t word = Stream(hash, kFrontStream);
  item->set_age(1);
  item->SetBits(Item::kMark, 4, MarkOf(word));
  // Behind the hand it counts as examined, so that the hand meets it in the next round.
  item->SetBits(Item::kRound, 1, Reverse(word) < hand_ ? round_ : !round_);
  At(BucketOf(word)).Push(item);
  ++count_;
  item_bytes_ += AllocatedBytes(item->total_bytes());
  GrowIfLoaded();
  return item;
}

void Front::Unlink(Item* item, const KeyHash& hash) {
  Bucket& bucket = At(BucketOf(Stream(hash, kFrontStream)));
  // The marks of the other items, and the item before this one.
  uint64_t marks = 0;
  Item* before = nullptr;
  [[maybe_unused]] bool found = false;
  for (Item* other = bucket.head(); other != nullptr; other = other->next()) {
    if (other == item) {
      found = true;
      continue;
    }
    if (other->next() == item) before = other;
    marks |= uint64_t{1} << (48 + other->Bits(Item::kMark, 4));
  }
  assert(found);
  if (before != nullptr) before->set_next(item->next());
  Item* const head = before != nullptr ? bucket.head() : item->next();
  bucket.word = reinterpret_cast<uint64_t>(head) | marks;
  item->set_next(nullptr);
  --count_;
  item_bytes_ -= AllocatedBytes(item->total_bytes());
  DetachToPage(item->header());
  if (!visiting_) ShrinkIfSparse(kMergesPerUnlink);
}

Item* Front::Replace(Item* old, ItemPtr&& made, const KeyHash& hash) {
  Item* const item = made.release();
  Bucket& bucket = At(BucketOf(Stream(hash, kFrontStream)));
  item->set_age(1);
  item->SetBits(Item::kMark, 4, old->Bits(Item::kMark, 4));
  item->SetBits(Item::kRound, 1, old->Bits(Item::kRound, 1));
  item->set_next(old->next());
  if (bucket.head() == old) {
    bucket.word = (bucket.word & ~Item::kPointerMask) | reinterpret_cast<uint64_t>(item);
  } else {
    Item* before = bucket.head();
    while (before->next() != old) before = before->next();
    before->set_next(item);
  }
  item_bytes_ += AllocatedBytes(item->total_bytes());
  item_bytes_ -= AllocatedBytes(old->total_bytes());
  old->set_next(nullptr);
  Detach(old->header());
  return item;
}

void Front::Touch(Item* item, uint32_t now) {
  item->set_last_access(now);
  item->set_fetched(true);
  if (item->age() < Item::kAgeMax) item->set_age(item->age() + 1);
}

Item* Front::NextCold(unsigned examine_max) {
  for (uint64_t buckets_left = 2 * uint64_t{examine_max}; buckets_left > 0; --buckets_left) {
    const uint64_t bucket = BucketAt(hand_);
    const uint64_t end = EndOf(bucket);
    // Buckets in this order are nowhere near each other.
    const uint64_t after = BucketAt(end);
    __builtin_prefetch(At(after).head());
    __builtin_prefetch(&At(BucketAt(EndOf(after))));
    for (Item* item = At(bucket).head(); item != nullptr; item = item->next()) {
      if (item->Bits(Item::kRound, 1) == round_) continue;
      if (examine_max-- == 0) return nullptr;
      item->SetBits(Item::kRound, 1, round_);
      if (item->age() == 0) return item;
      item->set_age(item->age() - 1);
    }
    hand_ = end;
    if (end == 0) round_ = !round_;
  }
  return nullptr;
}

uint64_t Front::index_bytes() const {
  uint64_t segments = segments_;
  uint64_t bytes = AllocatedBytes(directory_capacity_ * sizeof(Bucket*));
  for (const Retired& table : retired_) {
    segments += table.segments;
    bytes += AllocatedBytes(table.directory_capacity * sizeof(Bucket*));
  }
  return bytes + segments * AllocatedBytes(kSegmentBuckets * sizeof(Bucket));
}

uint64_t Front::Reverse(uint64_t word) {
  word = (word >> 1 & 0x5555555555555555u) | (word & 0x5555555555555555u) << 1;
  word = (word >> 2 & 0x3333333333333333u) | (word & 0x3333333333333333u) << 2;
  word = (word >> 4 & 0x0f0f0f0f0f0f0f0fu) | (word & 0x0f0f0f0f0f0f0f0fu) << 4;
  return __builtin_bswap64(word);
}

void Front::SetNumBuckets(uint64_t buckets) {
  num_buckets_ = buckets;
  base_ = std::bit_floor(buckets);
}

bool Front::AddSegment() {
  if (segments_ == directory_capacity_) {
    const uint64_t capacity = directory_capacity_ == 0 ? kDirectoryMin : 2 * directory_capacity_;
    void* directory = std::realloc(directory_, capacity * sizeof(Bucket*));
    if (directory == nullptr) return false;
    directory_ = static_cast<Bucket**>(directory);
    directory_capacity_ = capacity;
  }
  void* memory = AllocateShared(kSegmentBuckets * sizeof(Bucket));
  if (memory == nullptr) return false;
  directory_[segments_++] = new (memory) Bucket[kSegmentBuckets];
  return true;
}

void Front::DropSegment() {
  FreeShared(directory_[--segments_]);
  if (directory_capacity_ == kDirectoryMin || segments_ > directory_capacity_ / 4) return;
  const uint64_t capacity = directory_capacity_ / 2;
  void* directory = std::realloc(directory_, capacity * sizeof(Bucket*));
  if (directory == nullptr) return;
  directory_ = static_cast<Bucket**>(directory);
  directory_capacity_ = capacity;
}

// Splits one bucket. Without memory for it the chains grow longer instead, until a later link finds
// some.
void Front::GrowIfLoaded() {
  if (10 * count_ <= kGrowLoad10 * num_buckets_) return;
  if (num_buckets_ == segments_ * kSegmentBuckets && !AddSegment()) return;
  const uint64_t upper = num_buckets_;
  const uint64_t bit = std::bit_floor(upper);
  Item* item = At(upper - bit).head();
  At(upper - bit) = At(upper) = Bucket();
  SetNumBuckets(upper + 1);
  while (item != nullptr) {
    Item* const next = item->next();
    const uint64_t word = WordOf(*item);
    At((word & bit) != 0 ? upper : upper - bit).Push(item);
    item = next;
  }
}

// Merges last buckets into those they were split from.
void Front::ShrinkIfSparse(uint64_t merges_max) {
  for (; merges_max > 0; --merges_max) {
    if (num_buckets_ == kBucketsMin || 10 * count_ >= kShrinkLoad10 * num_buckets_) return;
    const uint64_t upper = num_buckets_ - 1;
    Bucket& lower = At(upper - std::bit_floor(upper));
    for (Item* item = At(upper).head(); item != nullptr;) {
      Item* const next = item->next();
      lower.Push(item);
      item = next;
    }
    At(upper) = Bucket();
    SetNumBuckets(upper);
    if (upper == (segments_ - 1) * kSegmentBuckets) DropSegment();
  }
}

}  // namespace kbf
