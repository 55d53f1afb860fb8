#include "storage/membership/mpcbf_image.h"

#include <doctest/doctest.h>

#include <cstring>
#include <random>
#include <vector>

#include "tests/storage/membership/membership_world.h"

namespace kbf {
namespace {

using Bytes = std::vector<std::byte>;

HashSecret Secret() { return HashSecret::FromSeed(kMembershipSeed); }

Mpcbf Filled(const MpcbfConfig& config, uint64_t keys) {
  Mpcbf filter = Mpcbf::Create(config).value();
  for (uint64_t i = 0; i < keys; ++i) filter.Insert(NumberedKey(i));
  return filter;
}

// So full that some words overflow, of which some are stuck.
Mpcbf Overfull(unsigned word_bits, unsigned first_level, uint64_t overflow_words_max) {
  const uint64_t keys = 2000;
  MpcbfConfig config{.keys = keys, .memory_bits = keys * 9, .word_bits = word_bits};
  config.num_accesses = 2;
  config.first_level = first_level;
  config.overflow_words_max = overflow_words_max;
  return Filled(config, keys);
}

void SetChecksum(Bytes* bytes) {
  const uint64_t sum = MpcbfImageChecksum(std::span(*bytes).first(bytes->size() - 8));
  std::memcpy(bytes->data() + bytes->size() - 8, &sum, 8);
}

// The image with a number of its head changed and the checksum made right.
template <class Number>
Bytes With(Bytes bytes, size_t offset, Number number) {
  std::memcpy(bytes.data() + offset, &number, sizeof number);
  SetChecksum(&bytes);
  return bytes;
}

}  // namespace

TEST_SUITE_BEGIN("storage/membership");

TEST_CASE("an MPCBF from its image answers, counts and changes as the original") {
  for (const auto& [word_bits, first_level, overflow_words_max] :
       {std::tuple{16u, 8u, 40u}, {32u, 15u, 20u}, {64u, 40u, 5u}, {64u, 40u, 0u}}) {
    CAPTURE(word_bits);
    CAPTURE(overflow_words_max);
    Mpcbf original = Overfull(word_bits, first_level, overflow_words_max);
    REQUIRE(original.overflowed_words() == overflow_words_max);
    REQUIRE(original.stuck_words() > 0);
    const Bytes bytes = EncodeMpcbf(original, Secret());
    auto outcome = DecodeMpcbf(bytes);
    REQUIRE(outcome.status == MpcbfImageStatus::kRead);
    Mpcbf& copy = outcome.image->filter;
    CHECK(outcome.image->secret.bytes() == Secret().bytes());
    CHECK(EncodeMpcbf(copy, outcome.image->secret) == bytes);

    std::mt19937_64 random(kMembershipSeed);
    std::vector<bool> stored(4000, false);
    std::fill(stored.begin(), stored.begin() + 2000, true);
    uint64_t differences = 0;
    for (int step = 0; step < 20000; ++step) {
      const uint64_t number = random() % stored.size();
      const KeyHash key = NumberedKey(number);
      if (stored[number]) {
        differences += original.Delete(key) != copy.Delete(key);
      } else {
        original.Insert(key);
        copy.Insert(key);
      }
      stored[number] = !stored[number];
      const KeyHash other = NumberedKey(random() % 8000);
      differences += original.MayContain(other) != copy.MayContain(other);
    }
    CHECK(differences == 0);
    CHECK(EncodeMpcbf(copy, Secret()) == EncodeMpcbf(original, Secret()));
  }
}

TEST_CASE("an empty MPCBF has an image") {
  const Mpcbf filter = Filled(Mpcbf::Plan(1024, 0.01, 2).value(), 0);
  const auto outcome = DecodeMpcbf(EncodeMpcbf(filter, Secret()));
  REQUIRE(outcome.status == MpcbfImageStatus::kRead);
  CHECK(outcome.image->filter.size() == 0);
}

TEST_CASE("the head of an MPCBF's image is where its description says") {
  const Bytes bytes =
      EncodeMpcbf(Filled({.keys = 10, .memory_bits = 640, .first_level = 40}, 3), Secret());
  CHECK(bytes.size() == 256 + 10 * 8 + 8);
  const auto number = [&]<class Number>(size_t offset, Number value) {
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
  };
  CHECK(std::memcmp(bytes.data(), "KBFMPCBF", 8) == 0);
  CHECK(number(8, uint32_t{}) == 1);
  CHECK(number(12, uint32_t{}) == 64);
  CHECK(number(16, uint32_t{}) == 40);
  CHECK(number(20, uint16_t{}) == 3);
  CHECK(number(22, uint16_t{}) == 1);
  CHECK(number(24, uint64_t{}) == 10);
  CHECK(number(32, uint64_t{}) == 3);
  CHECK(std::memcmp(bytes.data() + 64, Secret().bytes().data(), 192) == 0);
}

TEST_CASE("an MPCBF's image that is cut at any byte, or has more bytes, is refused") {
  const Bytes bytes = EncodeMpcbf(Overfull(64, 40, 5), Secret());
  uint64_t accepted = 0;
  for (size_t length = 0; length < bytes.size(); ++length) {
    accepted += DecodeMpcbf(std::span(bytes).first(length)).status == MpcbfImageStatus::kRead;
  }
  CHECK(accepted == 0);
  CHECK(DecodeMpcbf(std::span(bytes).first(7)).status == MpcbfImageStatus::kForeign);
  const auto cut = DecodeMpcbf(std::span(bytes).first(1000));
  CHECK(cut.status == MpcbfImageStatus::kWrongLength);
  CHECK(cut.number == bytes.size());
  Bytes longer = bytes;
  longer.push_back(std::byte{0});
  CHECK(DecodeMpcbf(longer).status == MpcbfImageStatus::kWrongLength);
}

TEST_CASE("an MPCBF's image with any bit of its head or one of many others flipped is refused") {
  const Bytes bytes = EncodeMpcbf(Overfull(64, 40, 5), Secret());
  uint64_t accepted = 0;
  for (size_t bit = 0; bit < bytes.size() * 8; bit += bit < 256 * 8 ? 1 : 7) {
    Bytes damaged = bytes;
    damaged[bit / 8] ^= std::byte(1u << bit % 8);
    accepted += DecodeMpcbf(damaged).status == MpcbfImageStatus::kRead;
  }
  CHECK(accepted == 0);
}

TEST_CASE("an MPCBF's image with numbers that no filter has is refused, whatever its checksum") {
  const Bytes bytes = EncodeMpcbf(Overfull(64, 40, 5), Secret());
  const auto status = [](const Bytes& changed) { return DecodeMpcbf(changed).status; };
  CHECK(status(With(bytes, 0, 'X')) == MpcbfImageStatus::kForeign);
  const auto newer = DecodeMpcbf(With(bytes, 8, uint32_t{7}));
  CHECK(newer.status == MpcbfImageStatus::kOtherFormat);
  CHECK(newer.number == 7);
  for (const uint32_t word_bits : {0u, 8u, 48u, 128u}) {
    CHECK(status(With(bytes, 12, word_bits)) == MpcbfImageStatus::kImpossible);
  }
  for (const uint32_t positions : {0u, 1u, 64u, 4000000000u}) {
    CHECK(status(With(bytes, 16, positions)) == MpcbfImageStatus::kImpossible);
  }
  CHECK(status(With(bytes, 20, uint16_t{0})) == MpcbfImageStatus::kImpossible);
  CHECK(status(With(bytes, 20, uint16_t{17})) == MpcbfImageStatus::kImpossible);
  CHECK(status(With(bytes, 22, uint16_t{0})) == MpcbfImageStatus::kImpossible);
  CHECK(status(With(bytes, 22, uint16_t{4})) == MpcbfImageStatus::kImpossible);
  for (const uint64_t words : {uint64_t{0}, ~uint64_t{0}, uint64_t{1} << 61}) {
    CHECK(status(With(bytes, 24, words)) != MpcbfImageStatus::kRead);
  }
  CHECK(status(With(bytes, 32, Mpcbf::kKeysMax + 1)) == MpcbfImageStatus::kImpossible);
  CHECK(status(With(bytes, 40, uint64_t{4})) == MpcbfImageStatus::kImpossible);
  CHECK(status(With(bytes, 48, ~uint64_t{0})) == MpcbfImageStatus::kImpossible);
  CHECK(status(With(bytes, 56, uint64_t{0})) == MpcbfImageStatus::kImpossible);
  // A word whose levels run out of it, and counters that its bits deny.
  CHECK(status(With(bytes, 256, ~uint64_t{0} >> 1)) == MpcbfImageStatus::kImpossible);
  const size_t overflowed = bytes.size() - 8 - 5 * (8 + 40 * 4);
  CHECK(status(With(bytes, overflowed, uint64_t{1} << 40)) == MpcbfImageStatus::kImpossible);
  CHECK(status(With(bytes, overflowed + 8, uint32_t{1} << 30)) == MpcbfImageStatus::kImpossible);
}

TEST_SUITE_END();

}  // namespace kbf
