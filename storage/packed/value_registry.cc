#include "storage/packed/value_registry.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <new>

#include "storage/shared_bytes.h"

namespace kbf {

namespace {

constexpr size_t kSlotsMin = 16;
constexpr size_t kSketchBytesMin = 16 << 10;
constexpr size_t kSketchBytesMax = 2 << 20;
// A collection is worth it once so many values came in since the last one, or this part of those
// that are there.
constexpr uint64_t kCollectAdmitted = 256;
constexpr uint64_t kCollectShare = 8;

}  // namespace

ValueRegistry::ValueRegistry(unsigned number_bits, const HashSecret& secret)
    : numbers_max_(uint64_t{1} << number_bits),
      secret_(secret),
      sketch_bytes_(std::clamp<size_t>(2 * numbers_max_, kSketchBytesMin, kSketchBytesMax) >>
                    kShardBits),
      chunks_((numbers_max_ + kChunk - 1) / kChunk) {
  for (Shard& shard : shards_) shard.sketch.emplace(sketch_bytes_);
  chunks_[0] = new Chunk;
  bytes_ = sizeof(*this) + sizeof(Chunk) + chunks_.size() * sizeof(chunks_[0]) +
           (sketch_bytes_ << kShardBits);
}

ValueRegistry::~ValueRegistry() {
  for (std::atomic<Chunk*>& slot : chunks_) {
    Chunk* chunk = slot.load();
    if (chunk == nullptr) continue;
    for (std::atomic<Blob*>& blob : chunk->blobs) {
      if (blob.load() != nullptr) kbf::Release(blob.load());
    }
    delete chunk;
  }
}

bool ValueRegistry::IsInUse(uint32_t number) const {
  return number < numbers_max_ && ChunkOf(number) != nullptr && BlobOf(number) != nullptr;
}

// ---- index --------------------------------------------------------------------------------------

size_t ValueRegistry::FindSlot(const Shard& shard, std::string_view bytes, uint32_t flags,
                               uint64_t hash) const {
  const size_t mask = shard.slots.size() - 1;
  size_t slot = hash & mask;
  for (; shard.slots[slot] != 0; slot = (slot + 1) & mask) {
    const Blob& blob = *BlobOf(shard.slots[slot] - 1);
    if (blob.hash == hash && blob.flags == flags && blob.view() == bytes) break;
  }
  return slot;
}

bool ValueRegistry::MakeRoom(Shard& shard) {
  if (shard.used + 1 <= shard.slots.size() / 4 * 3) return true;
  std::vector<uint32_t> larger;
  try {
    larger.resize(shard.slots.empty() ? kSlotsMin : shard.slots.size() * 2);
  } catch (const std::bad_alloc&) {
    return false;
  }
  const size_t mask = larger.size() - 1;
  for (const uint32_t entry : shard.slots) {
    if (entry == 0) continue;
    size_t slot = BlobOf(entry - 1)->hash & mask;
    while (larger[slot] != 0) slot = (slot + 1) & mask;
    larger[slot] = entry;
  }
  bytes_ += (larger.size() - shard.slots.size()) * sizeof(uint32_t);
  shard.slots = std::move(larger);
  return true;
}

// Closes the gap: every entry behind it that may move nearer to its home does.
void ValueRegistry::RemoveSlot(Shard& shard, size_t slot) {
  const size_t mask = shard.slots.size() - 1;
  for (size_t next = (slot + 1) & mask; shard.slots[next] != 0; next = (next + 1) & mask) {
    const size_t home = BlobOf(shard.slots[next] - 1)->hash & mask;
    if (((next - home) & mask) < ((next - slot) & mask)) continue;
    shard.slots[slot] = shard.slots[next];
    slot = next;
  }
  shard.slots[slot] = 0;
}

// Values that occur once are not worth a number once these are scarce.
bool ValueRegistry::ShouldAdmit(Shard& shard, uint64_t hash, size_t bytes) {
  const uint32_t count = shard.sketch->Increment(hash);
  if (bytes <= kFirstOccurrenceBytesMax && size() < numbers_max_ / kFirstOccurrenceShare) {
    return true;
  }
  return count >= std::min<size_t>(kMinOccurrences + bytes / kBytesPerOccurrence,
                                   FrequencySketch::kCountMax);
}

std::optional<uint32_t> ValueRegistry::TakeNumber(uint64_t bytes_max) {
  const std::lock_guard lock(numbers_mutex_);
  if (!free_.empty()) {
    const uint32_t number = free_.back();
    free_.pop_back();
    return number;
  }
  if (next_ == numbers_max_) return std::nullopt;
  std::atomic<Chunk*>& chunk = chunks_[next_ / kChunk];
  if (chunk.load() == nullptr) {
    Chunk* made = bytes() + sizeof(Chunk) <= bytes_max ? new (std::nothrow) Chunk : nullptr;
    if (made == nullptr) return std::nullopt;
    bytes_ += sizeof(Chunk);
    chunk.store(made, std::memory_order_release);
  }
  return next_++;
}

void ValueRegistry::GiveBack(uint32_t number) {
  const std::lock_guard lock(numbers_mutex_);
  try {
    free_.push_back(number);
  } catch (const std::bad_alloc&) {
    return;  // one number less
  }
}

std::optional<uint32_t> ValueRegistry::Number(std::string_view bytes, uint32_t flags,
                                              uint64_t bytes_max) {
  const uint64_t hash = Mix64(HashKey(bytes, secret_).lo + flags);
  Shard& shard = ShardOf(hash);
  const std::lock_guard lock(shard.mutex);
  if (!MakeRoom(shard)) return std::nullopt;
  const size_t slot = FindSlot(shard, bytes, flags, hash);
  if (shard.slots[slot] != 0) {
    const uint32_t number = shard.slots[slot] - 1;
    Mark(number);
    return number;
  }
  const uint64_t size = sizeof(Blob) + bytes.size();
  std::optional<uint32_t> number;
  if (ShouldAdmit(shard, hash, bytes.size())) {
    if (this->bytes() + AllocatedBytes(size) <= bytes_max) number = TakeNumber(bytes_max);
    if (!number) ++refused_;
  }
  if (!number) return std::nullopt;
  void* const memory = AllocateShared(size);
  if (memory == nullptr) {
    GiveBack(*number);
    return std::nullopt;
  }
  Blob* const blob = new (memory) Blob;
  blob->flags = flags;
  blob->bytes = static_cast<uint32_t>(bytes.size());
  blob->hash = hash;
  if (!bytes.empty()) std::memcpy(static_cast<void*>(blob + 1), bytes.data(), bytes.size());
  ChunkOf(*number)->blobs[*number % kChunk].store(blob, std::memory_order_release);
  Mark(*number);
  shard.slots[slot] = *number + 1;
  ++shard.used;
  ++used_;
  ++admitted_;
  bytes_ += AllocatedBytes(size);
  return number;
}

// ---- collections --------------------------------------------------------------------------------

void ValueRegistry::Mark(uint32_t number) {
  if (collection() == 0) return;
  std::atomic<uint64_t>& word = ChunkOf(number)->marks[number % kChunk / 64];
  const uint64_t bit = uint64_t{1} << number % 64;
  if ((word.load(std::memory_order_relaxed) & bit) == 0) word.fetch_or(bit);
}

void ValueRegistry::BeginIfWorthwhile() {
  if (collection() != 0) return;
  const std::lock_guard lock(collecting_mutex_);
  if (collection() != 0) return;
  const uint64_t came = admitted_ - admitted_before_;
  const bool refused = refused_ != refused_before_ && dropped_ != dropped_before_;
  if (!refused && came < kCollectAdmitted + size() / kCollectShare) return;
  for (const std::atomic<Chunk*>& chunk : chunks_) {
    if (chunk.load() == nullptr) break;
    for (std::atomic<uint64_t>& word : chunk.load()->marks) word.store(0);
  }
  dropped_before_ = dropped_;
  unfinished_ = chains_;
  freeing_ = false;
  cursor_ = 0;
  // Numbers that were given before this go into their slots before their chain looks.
  collection_.store(++collections_, std::memory_order_release);
}

void ValueRegistry::Finished(uint64_t collection) {
  const std::lock_guard lock(collecting_mutex_);
  if (collection != this->collection() || unfinished_ == 0) return;
  freeing_ = --unfinished_ == 0;
}

bool ValueRegistry::CollectStep() {
  const std::lock_guard lock(collecting_mutex_);
  if (!freeing_) return false;
  uint32_t end;
  {
    const std::lock_guard numbers(numbers_mutex_);
    end = next_;
  }
  for (uint32_t i = 0; i < kCollectedPerStep && cursor_ < end; ++i) CollectNumber(cursor_++);
  if (cursor_ < end) return true;
  freeing_ = false;
  admitted_before_ = admitted_;
  refused_before_ = refused_;
  collection_.store(0, std::memory_order_release);
  return true;
}

void ValueRegistry::CollectNumber(uint32_t number) {
  Chunk& chunk = *ChunkOf(number);
  const auto marked = [&] {
    return (chunk.marks[number % kChunk / 64].load() >> number % 64 & 1) != 0;
  };
  Blob* const blob = chunk.blobs[number % kChunk].load();
  if (blob == nullptr || marked()) return;
  Shard& shard = ShardOf(blob->hash);
  {
    const std::lock_guard lock(shard.mutex);
    if (marked()) return;  // Number has given it meanwhile
    RemoveSlot(shard, FindSlot(shard, blob->view(), blob->flags, blob->hash));
    --shard.used;
    chunk.blobs[number % kChunk].store(nullptr);
  }
  --used_;
  ++recycled_;
  bytes_ -= AllocatedBytes(sizeof(Blob) + blob->bytes);
  GiveBack(number);
  Detach(blob);
}

DictionaryCounters ValueRegistry::counters() const {
  DictionaryCounters counters;
  counters.admitted = admitted_;
  counters.refused = refused_;
  counters.recycled = recycled_;
  return counters;
}

}  // namespace kbf
