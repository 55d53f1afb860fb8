#include "storage/membership/mpcbf_image.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string_view>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace kbf {

static_assert(std::endian::native == std::endian::little, "words are saved as they are in memory");

// What an image needs to see of an Mpcbf.
struct MpcbfParts {
  using Counters = Mpcbf::Counters;

  static const std::byte* Words(const Mpcbf& filter) { return filter.cells_.data(); }
  static std::byte* Words(Mpcbf* filter) { return filter->cells_.data(); }
  static unsigned WordBits(const Mpcbf& filter) { return filter.hcbf_.word_bits(); }
  static uint64_t OverflowWordsMax(const Mpcbf& filter) { return filter.overflow_words_max_; }
  static const auto& Overflowed(const Mpcbf& filter) { return filter.overflowed_; }

  static void SetCounts(Mpcbf* filter, uint64_t keys, uint64_t stuck_words) {
    filter->size_ = keys;
    filter->stuck_words_ = stuck_words;
  }
  // False where these cannot be the counters of a word that has overflowed.
  static bool AddOverflowed(Mpcbf* filter, uint64_t word, std::span<const uint32_t> counters);
  static bool IsPossible(const Mpcbf& filter);
};

bool MpcbfParts::AddOverflowed(Mpcbf* filter, uint64_t word, std::span<const uint32_t> counters) {
  const uint64_t bits = filter->Load(word);
  const uint64_t counter_max = filter->size_ * filter->shape().num_hashes;
  uint64_t sum = 0;
  for (size_t at = 0; at < counters.size(); ++at) {
    if ((bits >> at & 1) != (counters[at] > 0) || counters[at] > counter_max) return false;
    sum += counters[at];
  }
  if (!filter->Marked(bits) || sum <= filter->hcbf_.hierarchy_bits()) return false;
  Counters& kept = filter->overflowed_[word];
  kept.fill(0);
  std::copy(counters.begin(), counters.end(), kept.begin());
  return true;
}

bool MpcbfParts::IsPossible(const Mpcbf& filter) {
  const uint64_t marked_mask = filter.hcbf_.FirstLevelMask() | filter.hcbf_.HighestBit();
  uint64_t marked = 0;
  for (uint64_t word = 0; word < filter.shape().words; ++word) {
    const uint64_t bits = filter.Load(word);
    if (filter.Marked(bits)) {
      ++marked;
      if ((bits & ~marked_mask) != 0) return false;
    } else if (!filter.hcbf_.IsPossible(bits)) {
      return false;
    }
  }
  return filter.size_ <= Mpcbf::kKeysMax && marked >= filter.overflowed_.size() &&
         marked - filter.overflowed_.size() == filter.stuck_words_ &&
         filter.overflowed_.size() <= filter.overflow_words_max_;
}

namespace {

constexpr std::string_view kMagic = "KBFMPCBF";
constexpr size_t kChecksumBytes = 8;

struct Head {
  char magic[8];
  uint32_t format;
  uint32_t word_bits;
  uint32_t positions;
  uint16_t num_hashes;
  uint16_t num_accesses;
  uint64_t words;
  uint64_t keys;
  uint64_t overflow_words_max;
  uint64_t overflowed;
  uint64_t stuck;
  std::array<std::byte, HashSecret::kBytes> secret;
};
static_assert(sizeof(Head) == 256);

size_t EntryBytes(unsigned positions) { return sizeof(uint64_t) + positions * sizeof(uint32_t); }

void Append(std::vector<std::byte>* bytes, const void* data, size_t size) {
  const auto* const first = static_cast<const std::byte*>(data);
  bytes->insert(bytes->end(), first, first + size);
}

// Nothing where the numbers cannot be those of a filter, or the length is beyond counting.
std::optional<uint64_t> LengthOf(const Head& head) {
  constexpr uint64_t kCountMax = uint64_t{1} << 48;
  if ((head.word_bits != 16 && head.word_bits != 32 && head.word_bits != 64) ||
      head.positions < 2 || head.positions >= head.word_bits || head.words == 0 ||
      head.words > kCountMax || head.overflowed > head.words) {
    return std::nullopt;
  }
  return sizeof(Head) + head.words * (head.word_bits / 8) +
         head.overflowed * EntryBytes(head.positions) + kChecksumBytes;
}

// The filter of an image whose length and checksum are right.
MpcbfImageOutcome Build(const Head& head, const std::byte* data) {
  if (head.num_accesses < 1 || head.num_accesses > head.num_hashes ||
      head.num_hashes > kWordHashesMax) {
    return {MpcbfImageStatus::kImpossible, 0, std::nullopt};
  }
  auto filter = Mpcbf::Create({.memory_bits = head.words * head.word_bits,
                               .word_bits = head.word_bits,
                               .num_hashes = head.num_hashes,
                               .num_accesses = head.num_accesses,
                               .first_level = head.positions,
                               .overflow_words_max = head.overflow_words_max});
  if (!filter) return {MpcbfImageStatus::kNoMemory, 0, std::nullopt};
  const size_t word_bytes = head.words * (head.word_bits / 8);
  std::memcpy(MpcbfParts::Words(&*filter), data, word_bytes);
  MpcbfParts::SetCounts(&*filter, head.keys, head.stuck);

  data += word_bytes;
  uint64_t next = 0;
  for (uint64_t i = 0; i < head.overflowed; ++i, data += EntryBytes(head.positions)) {
    uint64_t word = 0;
    std::array<uint32_t, 64> counters;
    std::memcpy(&word, data, sizeof word);
    std::memcpy(counters.data(), data + sizeof word, head.positions * sizeof(uint32_t));
    if (word < next || word >= head.words ||
        !MpcbfParts::AddOverflowed(&*filter, word, std::span(counters).first(head.positions))) {
      return {MpcbfImageStatus::kImpossible, 0, std::nullopt};
    }
    next = word + 1;
  }
  if (!MpcbfParts::IsPossible(*filter)) return {MpcbfImageStatus::kImpossible, 0, std::nullopt};
  return {MpcbfImageStatus::kRead, 0, MpcbfImage{std::move(*filter), HashSecret(head.secret)}};
}

}  // namespace

uint64_t MpcbfImageChecksum(std::span<const std::byte> body) {
  return XXH3_64bits(body.data(), body.size());
}

std::vector<std::byte> EncodeMpcbf(const Mpcbf& filter, const HashSecret& secret) {
  const WordShape& shape = filter.shape();
  Head head{};
  kMagic.copy(head.magic, sizeof head.magic);
  head.format = kMpcbfImageFormat;
  head.word_bits = MpcbfParts::WordBits(filter);
  head.positions = shape.positions;
  head.num_hashes = static_cast<uint16_t>(shape.num_hashes);
  head.num_accesses = static_cast<uint16_t>(shape.num_accesses);
  head.words = shape.words;
  head.keys = filter.size();
  head.overflow_words_max = MpcbfParts::OverflowWordsMax(filter);
  head.overflowed = filter.overflowed_words();
  head.stuck = filter.stuck_words();
  head.secret = secret.bytes();

  std::vector<std::byte> bytes;
  bytes.reserve(LengthOf(head).value_or(0));
  Append(&bytes, &head, sizeof head);
  Append(&bytes, MpcbfParts::Words(filter), head.words * (head.word_bits / 8));
  std::vector<uint64_t> overflowed;
  for (const auto& entry : MpcbfParts::Overflowed(filter)) overflowed.push_back(entry.first);
  std::sort(overflowed.begin(), overflowed.end());
  for (const uint64_t word : overflowed) {
    Append(&bytes, &word, sizeof word);
    Append(&bytes, MpcbfParts::Overflowed(filter).at(word).data(),
           shape.positions * sizeof(uint32_t));
  }
  const uint64_t sum = MpcbfImageChecksum(bytes);
  Append(&bytes, &sum, sizeof sum);
  return bytes;
}

MpcbfImageOutcome DecodeMpcbf(std::span<const std::byte> bytes) {
  const auto refuse = [](MpcbfImageStatus status, uint64_t number = 0) {
    return MpcbfImageOutcome{status, number, std::nullopt};
  };
  Head head{};
  const size_t head_bytes = std::min(bytes.size(), sizeof head);
  if (head_bytes > 0) std::memcpy(&head, bytes.data(), head_bytes);
  if (std::string_view(head.magic, sizeof head.magic) != kMagic) {
    return refuse(MpcbfImageStatus::kForeign);
  }
  if (bytes.size() >= 12 && head.format != kMpcbfImageFormat) {
    return refuse(MpcbfImageStatus::kOtherFormat, head.format);
  }
  if (bytes.size() < sizeof head + kChecksumBytes) {
    return refuse(MpcbfImageStatus::kWrongLength, sizeof head + kChecksumBytes);
  }
  const std::optional<uint64_t> length = LengthOf(head);
  if (length && *length != bytes.size()) return refuse(MpcbfImageStatus::kWrongLength, *length);
  const auto body = bytes.first(bytes.size() - kChecksumBytes);
  uint64_t sum = 0;
  std::memcpy(&sum, bytes.data() + body.size(), sizeof sum);
  if (sum != MpcbfImageChecksum(body)) return refuse(MpcbfImageStatus::kDamaged);
  if (!length) return refuse(MpcbfImageStatus::kImpossible);
  return Build(head, bytes.data() + sizeof head);
}

}  // namespace kbf
