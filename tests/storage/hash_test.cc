#include "storage/hash.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <unordered_set>
#include <vector>

namespace kbf {
namespace {

// χ² of `counts` against equal shares; mean is counts.size() - 1, σ² twice that.
void CheckUniform(const std::vector<double>& counts, double total) {
  const double expected = total / static_cast<double>(counts.size());
  double chi = 0;
  for (const double count : counts) chi += (count - expected) * (count - expected) / expected;
  const double freedom = static_cast<double>(counts.size()) - 1;
  CHECK(std::abs(chi - freedom) < 5 * std::sqrt(2 * freedom));
}

TEST_SUITE("storage") {
  TEST_CASE("hashes and streams are pinned: a silent change would lose every saved filter") {
    const HashSecret secret = HashSecret::FromSeed(1);
    const KeyHash hash = HashKey("kbfcached", secret);
    CHECK(hash.lo == 0x955e8b4e342dcae6u);
    CHECK(hash.hi == 0xe2dcd12252f92fc2u);
    CHECK(Stream(hash, 0) == 0x7d9c286405c281a1u);
    CHECK(Stream(hash, kCheckStream) == 0x51bae80b22073d1eu);
  }

  TEST_CASE("hashes depend on every part of the key and on the secret") {
    const HashSecret a = HashSecret::FromSeed(1);
    const HashSecret b = HashSecret::FromSeed(2);
    CHECK(a.Id() != b.Id());
    CHECK_FALSE(HashKey("k", a) == HashKey("k", b));
    std::unordered_set<uint64_t> seen;
    std::string key;
    for (int length = 0; length <= 250; ++length, key.push_back('\0')) {
      const KeyHash hash = HashKey(key, a);
      CHECK(seen.insert(hash.lo).second);
      CHECK(seen.insert(hash.hi).second);
    }
    CHECK(HashSecret::Random().Id() != HashSecret::Random().Id());
  }

  TEST_CASE("streams are uniform and pairwise independent, also among the keys of one slab") {
    // 1 M sequential keys, in one of 16 slabs or in any. Pairs of streams fall evenly into 16 x 16
    // boxes.
    const HashSecret secret = HashSecret::FromSeed(3);
    constexpr unsigned kStreams[] = {0, 1, 2, 5, kCheckStream, kLocatorStream, kSlabStream};
    constexpr unsigned kCount = std::size(kStreams);
    for (const bool one_slab : {false, true}) {
      CAPTURE(one_slab);
      std::vector<std::vector<double>> boxes(kCount * kCount, std::vector<double>(256));
      double total = 0;
      for (int i = 0; i < 1000000; ++i) {
        const KeyHash hash = HashKey("user:" + std::to_string(i), secret);
        if (one_slab && Stream(hash, kSlabStream) >> 60 != 7) continue;
        ++total;
        for (unsigned a = 0; a < kCount; ++a) {
          for (unsigned b = a + 1; b < kCount; ++b) {
            ++boxes[a * kCount + b]
                   [(Stream(hash, kStreams[a]) >> 60) * 16 + (Stream(hash, kStreams[b]) >> 60)];
          }
        }
      }
      for (unsigned a = 0; a < kCount; ++a) {
        for (unsigned b = a + 1; b < kCount; ++b) {
          if (one_slab && (kStreams[a] == kSlabStream || kStreams[b] == kSlabStream)) continue;
          CAPTURE(a);
          CAPTURE(b);
          CheckUniform(boxes[a * kCount + b], total);
        }
      }
    }
  }

  TEST_CASE("ScaleTo covers the whole range and stays inside") {
    CHECK(ScaleTo(0, 10) == 0);
    CHECK(ScaleTo(~uint64_t{0}, 10) == 9);
    CHECK(ScaleTo(~uint64_t{0}, uint64_t{1} << 40) == (uint64_t{1} << 40) - 1);
  }
}

}  // namespace
}  // namespace kbf
