#include "storage/front.h"

#include <cstdlib>
#include <new>
#include <utility>

namespace kbf {

namespace {

// Items per bucket above which a link splits one bucket: 17/10. The index takes 3.5 bytes per item
// then, and a hit reads 1.85 items; at 1.5 it would be 4 bytes and 1.75.
constexpr uint64_t kGrowLoad10 = 17;
// Below this an unlink merges. Far enough from the above that no workload splits and merges in
// turn.
constexpr uint64_t kShrinkLoad10 = 7;
// One merge per unlink would not hold the load: at 0.7, an unlink makes 1.43 buckets superfluous.
constexpr uint64_t kMergesPerUnlink = 2;
constexpr uint64_t kDirectoryMin = 8;
// New items may take this part of the bytes before they are the first to go.
constexpr uint64_t kNewShare = 10;
// Holes are worth a compaction from this part of the blocks on.
constexpr uint64_t kHoleShare = 8;

}  // namespace

// ---- the index ----------------------------------------------------------------------------------

bool Front::Index::AddSegment() {
  if (segments == directory_capacity) {
    const uint64_t capacity = directory_capacity == 0 ? kDirectoryMin : 2 * directory_capacity;
    void* larger = std::realloc(directory, capacity * sizeof(Bucket*));
    if (larger == nullptr) return false;
    directory = static_cast<Bucket**>(larger);
    directory_capacity = capacity;
  }
  void* memory = AllocateShared(kSegmentBuckets * sizeof(Bucket));
  if (memory == nullptr) return false;
  directory[segments++] = new (memory) Bucket[kSegmentBuckets];
  return true;
}

void Front::Index::DropSegment() {
  FreeShared(directory[--segments]);
  if (directory_capacity == kDirectoryMin || segments > directory_capacity / 4) return;
  const uint64_t capacity = directory_capacity / 2;
  void* smaller = std::realloc(directory, capacity * sizeof(Bucket*));
  if (smaller == nullptr) return;
  directory = static_cast<Bucket**>(smaller);
  directory_capacity = capacity;
}

void Front::Index::Clear() {
  while (segments > 1) DropSegment();
  std::fill_n(directory[0], kSegmentBuckets, Bucket());
  SetNumBuckets(kBucketsMin);
  count = 0;
}

void Front::Index::Free() {
  for (uint64_t i = 0; i < segments; ++i) FreeShared(directory[i]);
  std::free(directory);
  *this = Index();
}

uint64_t Front::Index::bytes() const {
  if (directory == nullptr) return 0;
  return AllocatedBytes(directory_capacity * sizeof(Bucket*)) +
         segments * AllocatedBytes(kSegmentBuckets * sizeof(Bucket));
}

// Splits one bucket. Without memory for it the chains grow longer instead, until a later link finds
// some.
void Front::GrowIfLoaded() {
  Index& index = index_;
  if (10 * index.count <= kGrowLoad10 * index.num_buckets) return;
  if (index.num_buckets == index.segments * kSegmentBuckets && !index.AddSegment()) return;
  const uint64_t upper = index.num_buckets;
  const uint64_t bit = std::bit_floor(upper);
  Item* item = HeadOf(index.At(upper - bit));
  index.At(upper - bit) = index.At(upper) = Bucket();
  index.SetNumBuckets(upper + 1);
  while (item != nullptr) {
    Item* const next = NextOf(item);
    Push(&index.At((WordOf(*item) & bit) != 0 ? upper : upper - bit), item);
    item = next;
  }
}

// Merges last buckets into those they were split from.
void Front::ShrinkIfSparse(uint64_t merges_max) {
  Index& index = index_;
  for (; merges_max > 0; --merges_max) {
    if (index.num_buckets == kBucketsMin || 10 * index.count >= kShrinkLoad10 * index.num_buckets) {
      return;
    }
    const uint64_t upper = index.num_buckets - 1;
    Bucket& lower = index.At(upper - std::bit_floor(upper));
    for (Item* item = HeadOf(index.At(upper)); item != nullptr;) {
      Item* const next = NextOf(item);
      Push(&lower, item);
      item = next;
    }
    index.At(upper) = Bucket();
    index.SetNumBuckets(upper);
    if (upper == (index.segments - 1) * kSegmentBuckets) index.DropSegment();
  }
}

uint64_t Front::Reverse(uint64_t word) {
  word = (word >> 1 & 0x5555555555555555u) | (word & 0x5555555555555555u) << 1;
  word = (word >> 2 & 0x3333333333333333u) | (word & 0x3333333333333333u) << 2;
  word = (word >> 4 & 0x0f0f0f0f0f0f0f0fu) | (word & 0x0f0f0f0f0f0f0f0fu) << 4;
  return __builtin_bswap64(word);
}

void Front::Push(Bucket* bucket, Item* item) const {
  item->next_ = bucket->head;
  bucket->head = log_->RefOf(item);
  bucket->marks = static_cast<uint16_t>(bucket->marks | 1u << item->Bits(Item::kMark, 4));
}

// ---- life of a front ----------------------------------------------------------------------------

Front::Front(const HashSecret& secret, ItemArena& arena, const Config& config)
    : secret_(secret),
      arena_(arena),
      config_(config),
      log_(std::make_unique<ItemLog>(arena, config.block_bytes)) {
  if (!index_.AddSegment()) {
    index_.Free();
    throw std::bad_alloc();
  }
  index_.SetNumBuckets(kBucketsMin);
}

Front::~Front() {
  index_.Free();
  for (Retired& retired : retired_) retired.index.Free();
}

void Front::Flush() {
  if (count() == 0) return;
  Index empty;
  try {
    retired_.reserve(retired_.size() + 1);
    auto log = std::make_unique<ItemLog>(arena_, config_.block_bytes);
    if (!empty.AddSegment()) throw std::bad_alloc();
    empty.SetNumBuckets(kBucketsMin);
    retired_.push_back({std::exchange(index_, empty), std::exchange(log_, std::move(log))});
  } catch (const std::bad_alloc&) {
    empty.Free();
    index_.Clear();
    log_->FreeBlocks(ItemLog::kBlocksMax);
  }
  swept_ = 0;
  hand_ = 0;
}

void Front::FreeRetired(unsigned blocks) {
  if (retired_.empty()) return;
  Retired& retired = retired_.back();
  retired.index.Free();
  if (!retired.log->FreeBlocks(blocks)) retired_.pop_back();
}

bool Front::WasFlushed(std::string_view key, const KeyHash& hash) const {
  return std::any_of(retired_.begin(), retired_.end(), [&](const Retired& retired) {
    return retired.index.count > 0 && FindIn(retired.index, *retired.log, key, hash) != nullptr;
  });
}

uint64_t Front::index_bytes() const {
  uint64_t bytes = index_.bytes() + ghosts_.bytes();
  for (const Retired& retired : retired_) bytes += retired.index.bytes();
  return bytes;
}

uint64_t Front::pages_bytes() const {
  uint64_t bytes = log_->pages_bytes();
  for (const Retired& retired : retired_) bytes += retired.log->pages_bytes();
  return bytes;
}

uint64_t Front::bytes() const {
  uint64_t bytes = index_bytes() + log_->bytes();
  for (const Retired& retired : retired_) bytes += retired.log->bytes();
  return bytes;
}

// ---- finding ------------------------------------------------------------------------------------

Item* Front::FindIn(const Index& index, const ItemLog& log, std::string_view key,
                    const KeyHash& hash) {
  const uint64_t word = Stream(hash, kFrontStream);
  const unsigned mark = MarkOf(word);
  const Bucket bucket = index.At(index.BucketOf(word));
  if (!bucket.MayHold(mark)) return nullptr;
  for (ItemRef ref = bucket.head; ref != 0;) {
    Item* const item = log.At(ref);
    if (item->Bits(Item::kMark, 4) == mark && item->key() == key) return item;
    ref = item->next_;
  }
  return nullptr;
}

Item* Front::Find(std::string_view key, const KeyHash& hash) const {
  return FindIn(index_, *log_, key, hash);
}

void Front::Prefetch(const KeyHash& hash) const {
  __builtin_prefetch(&index_.At(index_.BucketOf(Stream(hash, kFrontStream))));
}

void Front::PrefetchItem(const KeyHash& hash) const {
  const uint64_t word = Stream(hash, kFrontStream);
  const Bucket bucket = index_.At(index_.BucketOf(word));
  if (bucket.MayHold(MarkOf(word))) __builtin_prefetch(log_->At(bucket.head));
}

// ---- items --------------------------------------------------------------------------------------

size_t Front::BytesOf(const NewItem& from) const {
  return Item::BytesFor(from.key.size(), from.value_bytes, from.flags,
                        Item::CasBytes(config_.keep_cas, from.cas));
}

ItemLog::Queue Front::QueueFor(const KeyHash& hash, const Item* old) {
  if (old != nullptr) return static_cast<ItemLog::Queue>(log_->BlockOf(old)->queue);
  return ghosts_.Take(Stream(hash, kFrontStream)) ? ItemLog::kMain : ItemLog::kNew;
}

ItemPtr Front::Create(const NewItem& from, const KeyHash& hash, const Item* old) {
  assert(from.key.size() <= Item::kKeyBytesMax && from.value_bytes <= Item::kValueBytesMax);
  if (IsLong(from)) {
    ItemPtr item = CreateLong(from);
    return item != nullptr && Adopt(item.get(), hash, old) ? std::move(item) : nullptr;
  }
  Item* item = log_->Append(QueueFor(hash, old), BytesOf(from));
  if (item == nullptr) return nullptr;
  item->Init(from, Item::CasBytes(config_.keep_cas, from.cas));
  return ItemPtr(item, DropItem{this});
}

ItemPtr Front::CreateLong(const NewItem& from) const {
  ItemBlock* block = arena_.Allocate(BytesOf(from));
  if (block == nullptr) return nullptr;
  Item* item = reinterpret_cast<Item*>(arena_.MemoryOf(block));
  item->Init(from, Item::CasBytes(config_.keep_cas, from.cas));
  return ItemPtr(item, DropItem{this});
}

bool Front::Adopt(Item* item, const KeyHash& hash, const Item* old) {
  if (log_->BlockOf(item)->index != 0) return true;
  return log_->Adopt(item, QueueFor(hash, old));
}

void Front::Drop(Item* item) const {
  ItemBlock* block = arena_.BlockAt(item);
  if (block->index == 0) return arena_.Release(block);  // it was not adopted
  log_->Remove(item);
}

void Front::SetExpires(Item* item, uint32_t seconds) {
  item->expires_ = seconds;
  NoteExpiry(item);
}

void Front::NoteExpiry(const Item* item) {
  uint32_t& sweep_at = log_->BlockOf(item)->sweep_at;
  const uint32_t expires = item->expires_;
  if (expires != 0 && (sweep_at == 0 || expires < sweep_at)) sweep_at = expires;
}

Item* Front::Link(ItemPtr&& made, const KeyHash& hash) {
  Item* const item = made.release();
  const uint64_t word = Stream(hash, kFrontStream);
  item->set_age(1);
  item->SetBits(Item::kMark, 4, MarkOf(word));
  // Behind the hand it counts as examined, so that the hand meets it in the next round.
  item->SetBits(Item::kRound, 1, Reverse(word) < hand_ ? round_ : !round_);
  Push(&index_.At(index_.BucketOf(word)), item);
  NoteExpiry(item);
  ++index_.count;
  GrowIfLoaded();
  return item;
}

void Front::Unlink(Item* item, const KeyHash& hash) {
  Bucket& bucket = index_.At(index_.BucketOf(Stream(hash, kFrontStream)));
  // The marks of the other items, and the item before this one.
  unsigned marks = 0;
  Item* before = nullptr;
  [[maybe_unused]] bool found = false;
  for (Item *other = HeadOf(bucket), *last = nullptr; other != nullptr; other = NextOf(other)) {
    if (other == item) {
      found = true;
      before = last;
    } else {
      marks |= 1u << other->Bits(Item::kMark, 4);
    }
    last = other;
  }
  assert(found);
  if (before != nullptr) {
    before->next_ = item->next_;
  } else {
    bucket.head = item->next_;
  }
  bucket.marks = static_cast<uint16_t>(marks);
  --index_.count;
  log_->Remove(item);
  if (!visiting_) ShrinkIfSparse(kMergesPerUnlink);
}

// Whoever points to `from` points to `to` from now on.
void Front::Redirect(uint64_t word, const Item* from, ItemRef to) {
  const ItemRef old = log_->RefOf(from);
  Bucket& bucket = index_.At(index_.BucketOf(word));
  if (bucket.head == old) {
    bucket.head = to;
    return;
  }
  Item* before = HeadOf(bucket);
  while (before->next_ != old) before = NextOf(before);
  before->next_ = to;
}

Item* Front::Replace(Item* old, ItemPtr&& made, const KeyHash& hash) {
  Item* const item = made.release();
  item->set_age(1);
  item->set_uses(old->uses());
  item->AddUse();
  item->SetBits(Item::kMark, 4, old->Bits(Item::kMark, 4));
  item->SetBits(Item::kRound, 1, old->Bits(Item::kRound, 1));
  item->next_ = old->next_;
  Redirect(Stream(hash, kFrontStream), old, log_->RefOf(item));
  NoteExpiry(item);
  log_->Remove(old);
  return item;
}

void Front::Touch(Item* item, uint32_t now) {
  item->set_last_access(now);
  item->set_fetched(true);
  if (item->age() < Item::kAgeMax) item->set_age(item->age() + 1);
  item->AddUse();
}

// ---- order --------------------------------------------------------------------------------------

Item* Front::NextCold(unsigned examine_max) {
  for (uint64_t buckets_left = 2 * uint64_t{examine_max}; buckets_left > 0; --buckets_left) {
    const uint64_t bucket = BucketAt(hand_);
    const uint64_t end = EndOf(bucket);
    // Buckets in this order are nowhere near each other.
    const uint64_t after = BucketAt(end);
    if (const Item* head = HeadOf(index_.At(after))) __builtin_prefetch(head);
    __builtin_prefetch(&index_.At(BucketAt(EndOf(after))));
    for (Item* item = HeadOf(index_.At(bucket)); item != nullptr; item = NextOf(item)) {
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

ItemBlock* Front::NextToEvict() const {
  ItemBlock* const fresh = log_->Oldest(ItemLog::kNew);
  ItemBlock* const main = log_->Oldest(ItemLog::kMain);
  if (fresh == nullptr || main == nullptr) return fresh != nullptr ? fresh : main;
  const bool many_new = kNewShare * log_->live_bytes(ItemLog::kNew) > log_->live_bytes();
  return many_new ? fresh : main;
}

// A copy takes the place of the item. False: no memory.
bool Front::MoveTo(ItemLog::Queue queue, Item* item, const KeyHash& hash) {
  Item* const copy = log_->CopyTo(item, queue);
  if (copy == nullptr) return false;
  Redirect(Stream(hash, kFrontStream), item, log_->RefOf(copy));
  log_->Remove(item);
  return true;
}

// True: the item was hit lately, and was moved to the end of the main queue.
bool Front::KeepLonger(const Visited& visited, uint32_t now, uint64_t* may_keep) {
  Item* const item = visited.item;
  const bool expired = item->expires() != 0 && item->expires() <= now;
  if (item->uses() == 0 || expired) return false;
  const bool is_new = log_->BlockOf(item)->queue == ItemLog::kNew;
  const unsigned uses = is_new ? 0 : item->uses() - 1;
  const uint64_t bytes = item->total_bytes();
  if (log_->IsLong(bytes)) {
    item->set_uses(uses);
    log_->Requeue(item, ItemLog::kMain);
    return true;
  }
  if (bytes > *may_keep) return false;
  *may_keep -= bytes;
  item->set_uses(uses);
  return MoveTo(ItemLog::kMain, item, visited.hash);
}

bool Front::IsSparse() const {
  const uint64_t blocks = log_->bytes();
  return blocks > log_->live_bytes() + blocks / kHoleShare + 2 * log_->block_bytes();
}

bool Front::Compact() {
  ItemBlock* block = log_->Sparsest();
  if (block == nullptr) return false;
  const auto queue = static_cast<ItemLog::Queue>(block->queue);
  bool moved = true;
  VisitHashed(block, [&](const Visited& visited) {
    moved = moved && MoveTo(queue, visited.item, visited.hash);
  });
  return moved;
}

}  // namespace kbf
