#include "storage/compression/value_compressor.h"

#include <algorithm>
#include <utility>

namespace kbf {

namespace {

// A compressed value has at most four fifths of the plain bytes.
constexpr size_t StoredBytesMax(size_t plain_bytes) { return plain_bytes * 4 / 5; }
constexpr double kRatioMax = 0.8;
// When to train anew, and when that was worth it.
constexpr double kWorse = 1.2;
constexpr double kBetter = 0.95;
constexpr uint64_t kJudgedBytesMin = 64 << 10;
constexpr size_t kSamplesUsefulMin = 32 << 10;
constexpr size_t kHeldOutOneIn = 8;
constexpr uint32_t kPauseMax = 32;

}  // namespace

// ---- compressed values ----

std::optional<ValueCompressor::Head> ValueCompressor::ParseHead(std::string_view stored) {
  Head head;
  if (stored.empty()) return std::nullopt;
  head.number = static_cast<uint8_t>(stored[0]);
  head.bytes = 1;
  for (unsigned shift = 0; shift < 7 * (kHeadBytesMax - 1); shift += 7) {
    if (head.bytes == stored.size()) return std::nullopt;
    const auto byte = static_cast<uint8_t>(stored[head.bytes++]);
    head.plain_bytes |= static_cast<uint32_t>(byte & 127) << shift;
    if (byte < 128) return head.plain_bytes <= kPlainBytesMax ? std::optional(head) : std::nullopt;
  }
  return std::nullopt;
}

size_t ValueCompressor::WriteHead(const Head& head, char* out) {
  size_t at = 0;
  out[at++] = static_cast<char>(head.number);
  uint32_t rest = head.plain_bytes;
  for (; rest >= 128; rest >>= 7) out[at++] = static_cast<char>(rest | 128);
  out[at++] = static_cast<char>(rest);
  return at;
}

std::optional<uint32_t> ValueCompressor::PlainBytes(std::string_view stored) {
  const std::optional<Head> head = ParseHead(stored);
  if (!head) return std::nullopt;
  return head->plain_bytes;
}

std::string_view ValueCompressor::Compress(std::string_view key, std::string_view plain,
                                           ZstdCodec& codec) {
  if (plain.size() < kPlainBytesMin || plain.size() > kPlainBytesMax) return {};
  const uint8_t number = Acquire(key, plain);
  if (number == kNone) return {};
  Place& place = places_[number];
  char written[kHeadBytesMax];
  const size_t head_bytes =
      WriteHead({.number = number, .plain_bytes = static_cast<uint32_t>(plain.size())}, written);
  const std::string_view blocks =
      codec.Compress(plain, *place.dictionary.load(std::memory_order_acquire),
                     StoredBytesMax(plain.size()) - head_bytes);
  const size_t stored_bytes = blocks.empty() ? plain.size() : blocks.size() + head_bytes;
  place.plain_bytes.fetch_add(plain.size(), std::memory_order_relaxed);
  place.stored_bytes.fetch_add(stored_bytes, std::memory_order_relaxed);
  if (blocks.empty()) {
    place.references.fetch_sub(1);
    refused_.fetch_add(1, std::memory_order_relaxed);
    return {};
  }
  static_assert(kHeadBytesMax <= ZstdCodec::kRoom);
  char* const begin = const_cast<char*>(blocks.data()) - head_bytes;
  std::copy_n(written, head_bytes, begin);
  compressed_.fetch_add(1, std::memory_order_relaxed);
  plain_bytes_.fetch_add(plain.size(), std::memory_order_relaxed);
  stored_bytes_.fetch_add(stored_bytes, std::memory_order_relaxed);
  return {begin, stored_bytes};
}

bool ValueCompressor::Decompress(std::string_view stored, std::span<char> plain, ZstdCodec& codec) {
  const std::optional<Head> head = ParseHead(stored);
  if (!head || head->plain_bytes != plain.size() || head->number >= kDictionariesMax) return false;
  const ZstdDictionary* dictionary =
      places_[head->number].dictionary.load(std::memory_order_acquire);
  if (dictionary == nullptr) return false;
  decompressed_.fetch_add(1, std::memory_order_relaxed);
  return codec.Decompress(stored.substr(head->bytes), *dictionary, plain);
}

void ValueCompressor::Copied(std::string_view stored) {
  places_[static_cast<uint8_t>(stored[0]) % kDictionariesMax].references.fetch_add(1);
}

void ValueCompressor::Release(std::string_view stored) {
  places_[static_cast<uint8_t>(stored[0]) % kDictionariesMax].references.fetch_sub(1);
}

// ---- groups ----

ValueCompressor::Group* ValueCompressor::Find(GroupName name) {
  const auto end = groups_.begin() + static_cast<ptrdiff_t>(num_groups_);
  const auto at =
      std::find_if(groups_.begin(), end, [&](const Group& group) { return group.name == name; });
  return at == end ? nullptr : &*at;
}

ValueCompressor::Group* ValueCompressor::GroupFor(GroupName prefix) {
  Group* group = Find(prefix);
  return group != nullptr || prefix == kNoPrefix ? group : Find(kNoPrefix);
}

uint8_t ValueCompressor::Acquire(std::string_view key, std::string_view plain) {
  const GroupName prefix = GroupOf(key, secret_);
  const std::lock_guard lock(mutex_);
  const Group* group = GroupFor(prefix);
  Offer(prefix, group, plain);
  if (group == nullptr || group->number == kNone) return kNone;
  places_[group->number].references.fetch_add(1);
  return group->number;
}

void ValueCompressor::Offer(GroupName prefix, const Group* group, std::string_view plain) {
  if (phase_ == Phase::kSurvey) samples_.Count(prefix, plain.size());
  if (phase_ != Phase::kCollect || group == nullptr || group->name != collected_) return;
  samples_.Take(plain);
}

void ValueCompressor::Retire(Group* group) {
  if (group->number != kNone) places_[group->number].retired = true;
  group->number = kNone;
}

// ---- training ----

bool ValueCompressor::TrainStep(uint32_t now) {
  FreeRetired();
  switch (phase_) {
    case Phase::kRest:
      if (now < next_survey_) return false;
      BeginSurvey();
      return false;
    case Phase::kSurvey: {
      {
        const std::lock_guard lock(mutex_);
        if (!samples_.SurveyIsFull()) return false;
      }
      FinishSurvey();
      FreeRetired();
      NextGroup(now);
      return true;
    }
    case Phase::kCollect: {
      {
        const std::lock_guard lock(mutex_);
        if (!samples_.IsFull() && now < collect_until_) return false;
        phase_ = Phase::kRest;
      }
      // Nobody else uses samples_ and collected_ in this phase.
      TrainGroup();
      NextGroup(now);
      return true;
    }
  }
  return false;
}

void ValueCompressor::BeginSurvey() {
  const std::lock_guard lock(mutex_);
  samples_.BeginSurvey();
  phase_ = Phase::kSurvey;
}

void ValueCompressor::FinishSurvey() {
  const std::lock_guard lock(mutex_);
  phase_ = Phase::kRest;
  const std::span<const ValueSamples::Share> found = samples_.FinishSurvey();
  std::copy(found.begin(), found.end(), wanted_.begin());
  num_wanted_ = found.size();
  next_wanted_ = 0;
  for (Group& group : groups_) group.surveyed = false;
  for (const ValueSamples::Share& share : found) {
    if (Group* group = Find(share.group)) group->surveyed = true;
  }
  for (const ValueSamples::Share& share : found) {
    if (Find(share.group) == nullptr) AddGroup(share);
  }
  if (dictionary_bytes_ + kDictionaryBytes + sizeof(*this) > memory_bytes_max_) RetireUnused();
}

// REQUIRES: mutex_ is held
void ValueCompressor::RetireUnused() {
  for (Group& group : groups_) {
    if (!group.surveyed) Retire(&group);
  }
}

// REQUIRES: mutex_ is held
void ValueCompressor::AddGroup(const ValueSamples::Share& share) {
  Group* place = nullptr;
  if (num_groups_ < groups_.size()) {
    place = &groups_[num_groups_++];
  } else {
    // There are as many places as a survey can find groups.
    place = &*std::find_if(groups_.begin(), groups_.end(),
                           [](const Group& group) { return !group.surveyed; });
    Retire(place);
  }
  *place = Group{.name = share.group};
}

void ValueCompressor::NextGroup(uint32_t now) {
  const std::lock_guard lock(mutex_);
  while (next_wanted_ < num_wanted_) {
    Group* group = Find(wanted_[next_wanted_++].group);
    if (group == nullptr || !WantsTraining(group)) continue;
    const uint64_t taken = dictionary_bytes_ + sizeof(*this) + SampleBytes();
    if (taken > memory_bytes_max_ || !samples_.Collect(SampleBytes())) continue;
    collected_ = group->name;
    collect_until_ = now + kCollectSeconds;
    phase_ = Phase::kCollect;
    return;
  }
  next_survey_ = now + kSurveySeconds;
  phase_ = Phase::kRest;
}

// REQUIRES: mutex_ is held
bool ValueCompressor::WantsTraining(Group* group) {
  if (group->number == kNone) {
    if (group->pause > 0) --group->pause;
    return group->pause == 0;
  }
  Place& place = places_[group->number];
  const uint64_t plain = place.plain_bytes;
  if (plain < kJudgedBytesMin) return false;
  const double ratio = static_cast<double>(place.stored_bytes) / static_cast<double>(plain);
  place.plain_bytes = place.stored_bytes = 0;
  return ratio > kWorse * group->trained_ratio;
}

void ValueCompressor::TrainGroup() {
  const std::string_view samples = samples_.samples();
  const std::span<const size_t> sizes = samples_.sizes();
  const size_t trained = sizes.size() - sizes.size() / kHeldOutOneIn;
  size_t trained_bytes = 0;
  for (const size_t size : sizes.first(trained)) trained_bytes += size;
  std::unique_ptr<ZstdDictionary> dictionary;
  if (samples.size() >= kSamplesUsefulMin) {
    dictionary =
        ZstdDictionary::Train(samples.substr(0, trained_bytes), sizes.first(trained), TextBytes());
  }
  const std::string_view held_out = samples.substr(trained_bytes);
  double ratio = 1;
  if (dictionary != nullptr) ratio = RatioOf(*dictionary, held_out, sizes.subspan(trained));
  Group* group = Find(collected_);
  const bool better =
      dictionary != nullptr && IsBetter(*group, ratio, held_out, sizes.subspan(trained));
  samples_.Drop();
  if (better && Install(std::move(dictionary), ratio)) return;
  const std::lock_guard lock(mutex_);
  ++group->failures;
  group->pause = std::min(kPauseMax, uint32_t{1} << std::min(group->failures, 5u));
}

bool ValueCompressor::IsBetter(const Group& group, double ratio, std::string_view held_out,
                               std::span<const size_t> sizes) {
  if (ratio > kRatioMax) return false;
  if (group.number == kNone) return true;
  return ratio < kBetter * RatioOf(*places_[group.number].owner, held_out, sizes);
}

// Compressed bytes by plain bytes, where values that would be left alone count in full.
double ValueCompressor::RatioOf(const ZstdDictionary& dictionary, std::string_view samples,
                                std::span<const size_t> sizes) {
  ZstdCodec* codec = ZstdCodec::OfThisThread();
  if (codec == nullptr || samples.empty()) return 1;
  size_t stored = 0;
  size_t at = 0;
  for (const size_t size : sizes) {
    const size_t bytes =
        codec->Compress(samples.substr(at, size), dictionary, StoredBytesMax(size)).size();
    stored += bytes == 0 ? size : bytes;
    at += size;
  }
  return static_cast<double>(stored) / static_cast<double>(samples.size());
}

bool ValueCompressor::Install(std::unique_ptr<ZstdDictionary> dictionary, double ratio) {
  const uint64_t bytes = dictionary->memory_bytes();
  const std::lock_guard lock(mutex_);
  if (dictionary_bytes_ + bytes + sizeof(*this) > memory_bytes_max_) return false;
  for (uint8_t number = 1; number < kDictionariesMax; ++number) {
    Place& place = places_[number];
    if (place.owner != nullptr) continue;
    Group* group = Find(collected_);
    Retire(group);
    place.retired = false;
    place.plain_bytes = place.stored_bytes = 0;
    place.dictionary.store(dictionary.get(), std::memory_order_release);
    place.owner = std::move(dictionary);
    group->number = number;
    group->trained_ratio = ratio;
    group->failures = 0;
    dictionary_bytes_ += bytes;
    ++dictionaries_;
    ++trained_;
    return true;
  }
  return false;
}

void ValueCompressor::FreeRetired() {
  for (Place& place : places_) {
    std::unique_ptr<ZstdDictionary> unused;
    const std::lock_guard lock(mutex_);
    if (!place.retired || place.references != 0) continue;
    place.retired = false;
    place.dictionary = nullptr;
    unused = std::move(place.owner);
    dictionary_bytes_ -= unused->memory_bytes();
    --dictionaries_;
  }
}

// ---- figures ----

size_t ValueCompressor::SampleBytes() const {
  return memory_bytes_max_ < (512 << 10) ? 64 << 10 : 128 << 10;
}
size_t ValueCompressor::TextBytes() const {
  return memory_bytes_max_ < (512 << 10) ? kSmallTextBytes : kTextBytes;
}

uint64_t ValueCompressor::memory_bytes() const {
  const std::lock_guard lock(mutex_);
  return dictionary_bytes_ + sizeof(*this) - sizeof(samples_) + samples_.memory_bytes();
}

CompressionCounters ValueCompressor::Counters() const {
  const auto read = [](const std::atomic<uint64_t>& counter) {
    return counter.load(std::memory_order_relaxed);
  };
  CompressionCounters counters;
  counters.compressed = read(compressed_);
  counters.plain_bytes = read(plain_bytes_);
  counters.stored_bytes = read(stored_bytes_);
  counters.refused = read(refused_);
  counters.decompressed = read(decompressed_);
  counters.dictionaries = read(dictionaries_);
  counters.dictionary_bytes = read(dictionary_bytes_);
  counters.trained = read(trained_);
  return counters;
}

}  // namespace kbf
