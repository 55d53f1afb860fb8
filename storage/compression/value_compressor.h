// ValueCompressor makes values shorter that are alike but not equal, such as the sessions of a web
// application: with zstd and dictionaries that it trains itself from what it is given. One serves
// all slabs of a store.
//
//   a compressed value:  | number of the dictionary, 1 byte | plain length, 1 to 3 | zstd's blocks
//   |
//
// Promises:  what Decompress gives is what Compress was given, or it returns false: bytes that are
//            no compressed value are never a crash. Values below 64 bytes and above 64 KiB, and
//            those that would not become a fifth shorter, are left alone. All dictionaries, sets of
//            samples and this object take at most `memory_bytes`.
// Requires:  a compressed value holds a reference to its dictionary: Compress takes it, Copied and
//            Release say that there is one compressed value more or less. A dictionary without
//            references that is not used any more goes at the next TrainStep. Thread-safe; its lock
//            is held for some 50 ns at a time and is the last in the lock order. TrainStep is for
//            one thread at a time and may take 50 ms, without any lock: the caller holds none.
//            The secret outlives it.
// Costs:     see zstd_codec.h and zstd_dictionary.h; the price of Compress where no dictionary fits
//            is the lock.
//
// Training:  a survey finds the groups of keys that have most of the bytes (value_samples.h); each
//            of them that has no dictionary gets one, from seven of eight sampled values. If it
//            does not make the eighth a fifth shorter, the group is left alone for a while. A group
//            is trained anew when its compressed values have become a fifth longer than they were,
//            and the new dictionary is taken if it is a twentieth better. Surveys are a minute
//            apart.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>

#include "storage/compression/value_samples.h"
#include "storage/compression/zstd_codec.h"
#include "storage/compression/zstd_dictionary.h"
#include "storage/hash.h"

namespace kbf {

struct CompressionCounters {
  uint64_t compressed = 0;        // values
  uint64_t plain_bytes = 0;       // of those, before
  uint64_t stored_bytes = 0;      // and after
  uint64_t refused = 0;           // values that would not become a fifth shorter
  uint64_t decompressed = 0;      // values
  uint64_t dictionaries = 0;      // now
  uint64_t dictionary_bytes = 0;  // now
  uint64_t trained = 0;           // dictionaries, ever
};

class ValueCompressor {
 public:
  static constexpr size_t kPlainBytesMin = 64;
  static constexpr size_t kPlainBytesMax = ZstdCodec::kPlainBytesMax;
  static constexpr size_t kHeadBytesMax = 4;
  static constexpr size_t kDictionariesMax = 64;
  // Less memory has no room for a dictionary.
  static constexpr uint64_t kMemoryBytesMin = 160 << 10;
  static constexpr uint32_t kSurveySeconds = 60;

  ValueCompressor(uint64_t memory_bytes, const HashSecret& secret)
      : memory_bytes_max_(memory_bytes), secret_(secret) {}
  ValueCompressor(const ValueCompressor&) = delete;
  ValueCompressor& operator=(const ValueCompressor&) = delete;

  // The value in its compressed form, which lies in the codec until its next use, and holds one
  // reference to its dictionary; empty: it is left alone. Offers the value as a sample.
  [[nodiscard]] std::string_view Compress(std::string_view key, std::string_view plain,
                                          ZstdCodec& codec);
  // The length of a compressed value; nothing where these bytes are none.
  static std::optional<uint32_t> PlainBytes(std::string_view stored);
  // False: these bytes are no compressed value of plain.size() bytes. REQUIRES: they hold a
  // reference
  [[nodiscard]] bool Decompress(std::string_view stored, std::span<char> plain, ZstdCodec& codec);
  void Copied(std::string_view stored);
  void Release(std::string_view stored);

  // One step of training. False: there is nothing to do until values were offered or time passes.
  bool TrainStep(uint32_t now);

  uint64_t memory_bytes() const;
  CompressionCounters Counters() const;

 private:
  static constexpr uint8_t kNone = 0;  // no dictionary has this number
  static constexpr size_t kTextBytes = 16 << 10;
  static constexpr size_t kSmallTextBytes = 2 << 10;
  static constexpr uint64_t kDictionaryBytes = 112 << 10;  // with a text of kTextBytes
  static constexpr uint32_t kCollectSeconds = 300;

  enum class Phase : uint8_t { kRest, kSurvey, kCollect };

  struct Group {
    GroupName name = kNoPrefix;
    uint8_t number = kNone;
    double trained_ratio = 1;  // compressed by plain bytes of values that were not trained from
    bool surveyed = true;      // the last survey found it
    uint32_t failures = 0;     // trainings that were not worth it, one after the other
    uint32_t pause = 0;        // surveys until the next one
  };
  struct Place {
    std::unique_ptr<ZstdDictionary> owner;  // guarded by mutex_
    std::atomic<const ZstdDictionary*> dictionary{nullptr};
    std::atomic<uint64_t> references{0};
    bool retired = false;                  // guarded by mutex_
    std::atomic<uint64_t> plain_bytes{0};  // since it was judged last
    std::atomic<uint64_t> stored_bytes{0};
  };
  struct Head {
    uint8_t number = kNone;
    uint32_t plain_bytes = 0;
    size_t bytes = 0;
  };

  static std::optional<Head> ParseHead(std::string_view stored);
  static size_t WriteHead(const Head& head, char* out);
  // The group of exactly this name, or null.
  Group* Find(GroupName name);
  // The group that a key of this prefix belongs to, or null.
  Group* GroupFor(GroupName prefix);
  // A reference to the dictionary of the key's group; kNone: it has none.
  uint8_t Acquire(std::string_view key, std::string_view plain);
  void Offer(GroupName prefix, const Group* group, std::string_view plain);
  void Retire(Group* group);

  // What TrainStep does; mutex_ is not held, each takes it where needed.
  void BeginSurvey();
  void FinishSurvey();
  void AddGroup(const ValueSamples::Share& share);
  void RetireUnused();
  // Collects values of the next group that wants a dictionary, or rests.
  void NextGroup(uint32_t now);
  bool WantsTraining(Group* group);
  void TrainGroup();
  bool IsBetter(const Group& group, double ratio, std::string_view held_out,
                std::span<const size_t> sizes);
  static double RatioOf(const ZstdDictionary& dictionary, std::string_view samples,
                        std::span<const size_t> sizes);
  bool Install(std::unique_ptr<ZstdDictionary> dictionary, double ratio);
  void FreeRetired();
  size_t SampleBytes() const;
  size_t TextBytes() const;

  // Constant after construction.
  const uint64_t memory_bytes_max_;
  const HashSecret& secret_;

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::array<Group, ValueSamples::kGroupsMax> groups_{};
  size_t num_groups_ = 0;
  ValueSamples samples_;
  GroupName collected_ = kNoPrefix;

  std::array<Place, kDictionariesMax> places_;
  std::atomic<Phase> phase_{Phase::kRest};
  std::atomic<uint64_t> dictionary_bytes_{0};
  std::atomic<uint64_t> dictionaries_{0};
  std::atomic<uint64_t> trained_{0};
  std::atomic<uint64_t> compressed_{0};
  std::atomic<uint64_t> plain_bytes_{0};
  std::atomic<uint64_t> stored_bytes_{0};
  std::atomic<uint64_t> refused_{0};
  std::atomic<uint64_t> decompressed_{0};

  // The training thread's only.
  std::array<ValueSamples::Share, ValueSamples::kGroupsMax> wanted_{};
  size_t num_wanted_ = 0;
  size_t next_wanted_ = 0;
  uint32_t next_survey_ = 0;
  uint32_t collect_until_ = 0;
};

}  // namespace kbf
