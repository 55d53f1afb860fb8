#include "storage/membership/replica_update.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace kbf {

namespace {

constexpr uint8_t kFormat = 1;
constexpr uint8_t kFromEmpty = 1;
constexpr uint8_t kBitmap = 2;
constexpr unsigned kRiceMax = 36;
constexpr size_t kChecksumBytes = 4;

class Writer {
 public:
  void Byte(uint64_t value) { bytes_.push_back(static_cast<std::byte>(value & 255)); }
  void Number(uint64_t value) {
    for (; value >= 128; value >>= 7) Byte(value | 128);
    Byte(value);
  }
  void Bit(bool bit) {
    if (bit_ == 0) bytes_.push_back(std::byte{0});
    bytes_.back() |= std::byte(bit ? 1u << bit_ : 0u);
    bit_ = (bit_ + 1) % 8;
  }
  // REQUIRES: rice <= kRiceMax
  void Gap(uint64_t gap, unsigned rice) {
    for (uint64_t left = gap >> rice; left > 0; --left) Bit(true);
    Bit(false);
    for (unsigned i = 0; i < rice; ++i) Bit((gap >> i & 1) != 0);
  }
  std::vector<std::byte> Finish() {
    const uint32_t sum = ReplicaUpdateChecksum(bytes_);
    for (unsigned shift = 0; shift < 32; shift += 8) Byte(sum >> shift);
    return std::move(bytes_);
  }

 private:
  std::vector<std::byte> bytes_;
  unsigned bit_ = 0;  // of the last byte
};

// Every read says whether there was something to read.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::optional<uint8_t> Byte() {
    if (at_ == bytes_.size()) return std::nullopt;
    return std::to_integer<uint8_t>(bytes_[at_++]);
  }
  std::optional<uint64_t> Number() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = Byte();
      // The tenth byte has room for one more bit.
      if (!byte || (shift == 63 && *byte > 1)) return std::nullopt;
      value |= uint64_t{*byte & 127u} << shift;
      if (*byte < 128) return value;
    }
    return std::nullopt;
  }
  std::optional<bool> Bit() {
    if (bit_ == 0) {
      const auto byte = Byte();
      if (!byte) return std::nullopt;
      current_ = *byte;
    }
    const bool bit = (current_ >> bit_ & 1) != 0;
    bit_ = (bit_ + 1) % 8;
    return bit;
  }
  // Nothing at the end, and for gaps of more than `most`.
  std::optional<uint64_t> Gap(unsigned rice, uint64_t most) {
    uint64_t gap = 0;
    const uint64_t step = uint64_t{1} << rice;
    for (auto bit = Bit();; bit = Bit()) {
      if (!bit) return std::nullopt;
      if (!*bit) break;
      gap += step;
      if (gap > most) return std::nullopt;
    }
    for (unsigned i = 0; i < rice; ++i) {
      const auto bit = Bit();
      if (!bit) return std::nullopt;
      gap |= uint64_t{*bit} << i;
    }
    if (gap > most) return std::nullopt;
    return gap;
  }
  // What is left of the current byte must be zeros.
  bool AtEnd() const { return at_ == bytes_.size() && (bit_ == 0 || current_ >> bit_ == 0); }
  std::span<const std::byte> Rest() const { return bytes_.subspan(at_); }

 private:
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
  unsigned bit_ = 0;
  uint8_t current_ = 0;
};

void ForEachBit(std::span<const uint64_t> words, auto&& visit) {
  for (size_t word = 0; word < words.size(); ++word) {
    for (uint64_t left = words[word]; left != 0; left &= left - 1) {
      visit(word * 64 + static_cast<unsigned>(std::countr_zero(left)));
    }
  }
}

// The gaps before all set bits. The first position counts from -1.
void ForEachGap(std::span<const uint64_t> words, auto&& visit) {
  uint64_t next = 0;
  ForEachBit(words, [&](uint64_t at) {
    visit(at - next);
    next = at + 1;
  });
}

struct Coding {
  uint64_t count = 0;
  unsigned rice = 0;
  uint64_t bits = 0;
};

// The best Rice parameter lies next to the binary logarithm of the mean gap.
Coding BestCoding(std::span<const uint64_t> differing, uint64_t bits) {
  Coding best;
  for (const uint64_t word : differing) best.count += static_cast<unsigned>(std::popcount(word));
  if (best.count == 0) return best;
  best.bits = std::numeric_limits<uint64_t>::max();
  const int middle = std::bit_width(bits / best.count) - 1;
  for (int rice = std::max(0, middle - 2); rice <= middle + 1; ++rice) {
    uint64_t needed = 0;
    ForEachGap(differing,
               [&](uint64_t gap) { needed += (gap >> rice) + 1 + static_cast<unsigned>(rice); });
    if (needed < best.bits) {
      best.bits = needed;
      best.rice = static_cast<unsigned>(rice);
    }
  }
  return best;
}

ApplyStatus ReadGaps(Reader* reader, uint64_t count, unsigned rice, uint64_t bits,
                     std::vector<uint64_t>* positions) {
  uint64_t next = 0;
  for (uint64_t i = 0; i < count; ++i) {
    if (next >= bits) return ApplyStatus::kMalformed;
    const auto gap = reader->Gap(rice, bits - 1 - next);
    if (!gap) return ApplyStatus::kMalformed;
    positions->push_back(next + *gap);
    next = positions->back() + 1;
  }
  return reader->AtEnd() ? ApplyStatus::kApplied : ApplyStatus::kMalformed;
}

ApplyStatus ReadBitmap(std::span<const std::byte> bytes, uint64_t count, uint64_t bits,
                       std::vector<uint64_t>* positions) {
  if (bytes.size() != (bits + 7) / 8) return ApplyStatus::kMalformed;
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (auto left = std::to_integer<unsigned>(bytes[at]); left != 0; left &= left - 1) {
      positions->push_back(at * 8 + static_cast<unsigned>(std::countr_zero(left)));
    }
  }
  const bool good = positions->size() == count && (positions->empty() || positions->back() < bits);
  return good ? ApplyStatus::kApplied : ApplyStatus::kMalformed;
}

}  // namespace

uint32_t ReplicaUpdateChecksum(std::span<const std::byte> body) {
  return static_cast<uint32_t>(XXH3_64bits(body.data(), body.size()));
}

std::vector<std::byte> EncodeReplicaUpdate(const ReplicaUpdateHead& head,
                                           std::span<const uint64_t> differing) {
  const Coding coding = BestCoding(differing, head.shape.bits);
  const bool bitmap = coding.bits > head.shape.bits;
  Writer out;
  out.Byte(kFormat);
  out.Byte((head.from_empty ? kFromEmpty : 0) | (bitmap ? kBitmap : 0));
  out.Number(head.shape.bits);
  out.Number(head.shape.num_hashes);
  out.Number(head.base);
  out.Number(head.version);
  out.Number(coding.count);
  out.Byte(bitmap ? 0 : coding.rice);
  if (bitmap) {
    for (uint64_t at = 0; at < head.shape.bits; at += 8) out.Byte(differing[at / 64] >> at % 64);
  } else {
    ForEachGap(differing, [&](uint64_t gap) { out.Gap(gap, coding.rice); });
  }
  return out.Finish();
}

namespace {

// The numbers in front of the positions, as they stand in the update.
struct Numbers {
  uint8_t format = 0, flags = 0, rice = 0;
  uint64_t bits = 0, num_hashes = 0, base = 0, version = 0, count = 0;
};

// Nothing where the update ends too early or its numbers cannot be right.
std::optional<Numbers> ReadNumbers(Reader* in) {
  Numbers numbers;
  bool complete = true;
  const auto take = [&complete](auto read, auto* into) {
    complete = complete && read.has_value();
    if (complete) *into = *read;
  };
  take(in->Byte(), &numbers.format);
  take(in->Byte(), &numbers.flags);
  for (uint64_t* number :
       {&numbers.bits, &numbers.num_hashes, &numbers.base, &numbers.version, &numbers.count}) {
    take(in->Number(), number);
  }
  take(in->Byte(), &numbers.rice);
  if (!complete || numbers.format != kFormat || numbers.flags > (kFromEmpty | kBitmap) ||
      numbers.rice > kRiceMax) {
    return std::nullopt;
  }
  return numbers;
}

bool ChecksumFits(std::span<const std::byte> bytes) {
  const auto body = bytes.first(bytes.size() - kChecksumBytes);
  uint32_t sum = 0;
  for (unsigned i = 0; i < kChecksumBytes; ++i) {
    sum |= std::to_integer<uint32_t>(bytes[body.size() + i]) << 8 * i;
  }
  return sum == ReplicaUpdateChecksum(body);
}

}  // namespace

ApplyStatus DecodeReplicaUpdate(std::span<const std::byte> bytes, const ReplicaShape& shape,
                                ReplicaUpdate* update) {
  if (bytes.size() < kChecksumBytes || !ChecksumFits(bytes)) return ApplyStatus::kMalformed;
  Reader in(bytes.first(bytes.size() - kChecksumBytes));
  const auto numbers = ReadNumbers(&in);
  if (!numbers) return ApplyStatus::kMalformed;
  const auto& [format, flags, rice, bits, num_hashes, base, version, count] = *numbers;
  if (bits != shape.bits || num_hashes != shape.num_hashes) return ApplyStatus::kWrongShape;
  update->head = {shape, (flags & kFromEmpty) != 0, base, version};
  update->positions.clear();
  if ((flags & kBitmap) != 0) return ReadBitmap(in.Rest(), count, bits, &update->positions);
  return ReadGaps(&in, count, rice, bits, &update->positions);
}

}  // namespace kbf
