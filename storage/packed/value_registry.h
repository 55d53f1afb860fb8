// ValueRegistry numbers each distinct value (bytes and client flags) once for all packed chains of
// a store, and takes a number back when no slot refers to it any more.
//
// Nobody counts references: a collection finds the numbers that are not in use. It begins, every
// chain then goes once through all its slots and marks what it finds (Mark), Number marks what it
// gives, and numbers without a mark are taken back. Entries cannot be missed on the way, because a
// chain goes through a whole segment at a time under its lock, and entries do not change segments.
//
// Promises:  exact: a number's value is the one it was given for while a slot or a caller of Number
//            has it; equal values have one number. A value that is taken back stays in memory until
//            the replies that refer to it are sent.
// Requires:  thread-safe. A chain Joins before it calls anything and Leaves when it has no slots.
//            Lock order: slab -> shard -> numbers. A number that Number gave goes into a slot, or
//            is forgotten, before the chain's lock is released.
// Costs:     a value takes 24 bytes and itself in one allocation, 8 bytes in a table by number and
// 5
//            to 11 in the index, once for the store. Number locks one of 64 shards: one hash, one
//            comparison. Mark is an atomic OR at most. CollectStep frees up to 1,024 values.
// Departs:   from counts of references: those would need a random access, shared by all threads,
// for
//            each slot that is written. Collections take 3 ns per slot, now and then.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "storage/blob_pool.h"
#include "storage/frequency_sketch.h"
#include "storage/hash.h"
#include "storage/store_counters.h"

namespace kbf {

class ValueRegistry {
 public:
  // Occurrences that a value needs once numbers are scarce, and one more for every so many of its
  // bytes.
  static constexpr uint32_t kMinOccurrences = 2;
  static constexpr uint32_t kBytesPerOccurrence = 4096;
  // Short values get a number at their first occurrence while less than this part is taken.
  static constexpr uint32_t kFirstOccurrenceShare = 8;
  static constexpr size_t kFirstOccurrenceBytesMax = 1024;

  // Numbers below 2^number_bits. Throws std::bad_alloc.
  ValueRegistry(unsigned number_bits, const HashSecret& secret);
  ValueRegistry(const ValueRegistry&) = delete;
  ValueRegistry& operator=(const ValueRegistry&) = delete;
  ~ValueRegistry();

  // Nothing: the value does not occur often enough, all numbers are taken, or there is no memory
  // (more than `bytes_max` in all).
  [[nodiscard]] std::optional<uint32_t> Number(std::string_view bytes, uint32_t flags,
                                               uint64_t bytes_max);
  // REQUIRES: the number is in a slot, or Number gave it
  Blob* BlobOf(uint32_t number) const {
    return ChunkOf(number)->blobs[number % kChunk].load(std::memory_order_acquire);
  }
  // Whether the number has a value: for numbers from elsewhere.
  bool IsInUse(uint32_t number) const;

  // ---- collections

  void Join() { chains_.fetch_add(1); }
  void Leave() { chains_.fetch_sub(1); }
  // A chain has dropped entries.
  void NoteDropped() { dropped_.fetch_add(1, std::memory_order_relaxed); }
  // Begins one if it is worth it: since the last one many values came in, or some were refused
  // although entries were dropped.
  void BeginIfWorthwhile();
  // The collection that chains should go through their slots for; 0: none.
  uint64_t collection() const { return collection_.load(std::memory_order_acquire); }
  void Mark(uint32_t number);
  // A chain has gone through all its slots since this collection began. Each chain says it once.
  void Finished(uint64_t collection);
  // Takes back some numbers without a mark once all chains have finished. False: nothing to do.
  bool CollectStep();

  uint64_t size() const { return used_.load(std::memory_order_relaxed); }
  uint64_t numbers_max() const { return numbers_max_; }
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  DictionaryCounters counters() const;

 private:
  static constexpr uint32_t kChunk = 4096;
  static constexpr unsigned kShardBits = 6;
  static constexpr uint32_t kCollectedPerStep = 1024;

  struct Chunk {
    std::array<std::atomic<Blob*>, kChunk> blobs{};
    std::array<std::atomic<uint64_t>, kChunk / 64> marks{};
  };
  // Open addressing with linear probing: number + 1, or 0.
  struct alignas(64) Shard {
    std::mutex mutex;
    std::vector<uint32_t> slots;  // guarded by mutex, like the next
    size_t used = 0;
    std::optional<FrequencySketch> sketch;
  };

  Chunk* ChunkOf(uint32_t number) const {
    return chunks_[number / kChunk].load(std::memory_order_acquire);
  }
  Shard& ShardOf(uint64_t hash) { return shards_[hash >> (64 - kShardBits)]; }
  size_t FindSlot(const Shard& shard, std::string_view bytes, uint32_t flags, uint64_t hash) const;
  bool ShouldAdmit(Shard& shard, uint64_t hash, size_t bytes);
  bool MakeRoom(Shard& shard);
  void RemoveSlot(Shard& shard, size_t slot);
  std::optional<uint32_t> TakeNumber(uint64_t bytes_max);
  void GiveBack(uint32_t number);
  void CollectNumber(uint32_t number);

  const uint64_t numbers_max_;
  const HashSecret secret_;
  const size_t sketch_bytes_;  // of one shard

  std::vector<std::atomic<Chunk*>> chunks_;
  std::array<Shard, size_t{1} << kShardBits> shards_;
  std::atomic<uint64_t> used_{0};
  std::atomic<uint64_t> bytes_{0};
  std::atomic<uint64_t> admitted_{0};
  std::atomic<uint64_t> refused_{0};
  std::atomic<uint64_t> recycled_{0};
  std::atomic<uint64_t> dropped_{0};

  std::mutex numbers_mutex_;
  std::vector<uint32_t> free_;  // guarded by numbers_mutex_, like the next
  uint32_t next_ = 0;           // numbers from here on were never given

  std::atomic<uint64_t> collection_{0};  // 0 where none runs
  std::atomic<uint32_t> chains_{0};
  std::mutex collecting_mutex_;
  uint64_t collections_ = 0;  // guarded by collecting_mutex_, like all below
  uint32_t unfinished_ = 0;   // chains that have not gone through their slots
  bool freeing_ = false;
  uint32_t cursor_ = 0;
  uint64_t admitted_before_ = 0;  // at the end of the last collection
  uint64_t refused_before_ = 0;
  uint64_t dropped_before_ = 0;
};

}  // namespace kbf
