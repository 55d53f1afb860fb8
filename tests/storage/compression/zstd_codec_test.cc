#include "storage/compression/zstd_codec.h"

#include <doctest/doctest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "storage/compression/zstd_dictionary.h"
#include "tools/kbfload/session_values.h"

namespace kbf {
namespace {

constexpr uint64_t kSeed = 20261119;

std::string Session(uint64_t number) {
  char bytes[load::kSessionBytesMax];
  return {bytes, load::WriteSession(number, bytes)};
}

std::unique_ptr<ZstdDictionary> SessionDictionary() {
  std::string samples;
  std::vector<size_t> sizes;
  for (uint64_t i = 0; i < 400; ++i) {
    const std::string session = Session(1000000 + i);
    samples += session;
    sizes.push_back(session.size());
  }
  return ZstdDictionary::Train(samples, sizes, 16 << 10);
}

std::string Random(std::mt19937_64& random, size_t bytes) {
  std::string text(bytes, '\0');
  for (char& byte : text) byte = static_cast<char>(random());
  return text;
}

TEST_SUITE("compression") {
  TEST_CASE("sessions of 305 bytes take less than 92 and come back") {
    const auto codec = ZstdCodec::Create();
    const auto dictionary = SessionDictionary();
    REQUIRE(codec != nullptr);
    REQUIRE(dictionary != nullptr);
    CHECK(dictionary->memory_bytes() < 120 << 10);
    size_t plain_bytes = 0;
    size_t stored_bytes = 0;
    for (uint64_t i = 0; i < 2000; ++i) {
      const std::string plain = Session(i);
      const std::string stored(codec->Compress(plain, *dictionary, plain.size()));
      REQUIRE(!stored.empty());
      std::string back(plain.size(), '\0');
      REQUIRE(codec->Decompress(stored, *dictionary, back));
      REQUIRE(back == plain);
      plain_bytes += plain.size();
      stored_bytes += stored.size();
    }
    MESSAGE("mean bytes: " << plain_bytes / 2000 << " to " << stored_bytes / 2000);
    CHECK(stored_bytes < plain_bytes * 30 / 100);
    // 27 bytes of each are random, so less would be wrong.
    CHECK(stored_bytes > 2000 * 40);
  }

  TEST_CASE("values of any size and content come back, or are refused") {
    const auto codec = ZstdCodec::Create();
    const auto dictionary = SessionDictionary();
    REQUIRE((codec != nullptr && dictionary != nullptr));
    std::mt19937_64 random(kSeed);
    const std::vector<size_t> sizes = {0,     1,     2,     63,    64,    255,
                                       256,   257,   511,   1000,  4095,  16383,
                                       16384, 32768, 65535, 65536, 65537, 200000};
    for (const size_t size : sizes) {
      std::string sessions;
      while (sessions.size() < size) sessions += Session(random());
      sessions.resize(size);
      for (const std::string& plain : {sessions, std::string(size, 'x'), Random(random, size)}) {
        CAPTURE(size);
        const std::string stored(codec->Compress(plain, *dictionary, 1 << 20));
        if (stored.empty()) {
          CHECK((size > ZstdCodec::kPlainBytesMax || size == 0));
          continue;
        }
        std::string back(size, '\0');
        CHECK(codec->Decompress(stored, *dictionary, back));
        CHECK(back == plain);
      }
    }
  }

  TEST_CASE("a compressed value is not longer than asked for") {
    const auto codec = ZstdCodec::Create();
    const auto dictionary = SessionDictionary();
    REQUIRE((codec != nullptr && dictionary != nullptr));
    const std::string plain = Session(1);
    const size_t bytes = codec->Compress(plain, *dictionary, plain.size()).size();
    CHECK(codec->Compress(plain, *dictionary, bytes).size() == bytes);
    CHECK(codec->Compress(plain, *dictionary, bytes - 1).empty());
  }

  TEST_CASE("bytes that are no compressed value are refused or give bytes, and nothing else") {
    const auto codec = ZstdCodec::Create();
    const auto dictionary = SessionDictionary();
    REQUIRE((codec != nullptr && dictionary != nullptr));
    std::mt19937_64 random(kSeed);
    uint64_t refused = 0;
    const auto attempt = [&](const std::string& stored, size_t plain_bytes) {
      // On the heap, so that a sanitizer sees every byte outside.
      std::vector<char> back(plain_bytes);
      refused += !codec->Decompress(stored, *dictionary, back);
    };
    for (uint64_t i = 0; i < 600; ++i) {
      const std::string plain = Session(i);
      const std::string stored(codec->Compress(plain, *dictionary, plain.size()));
      std::string changed = stored;
      changed[random() % changed.size()] ^= static_cast<char>(1 << random() % 8);
      attempt(changed, plain.size());
      attempt(stored.substr(0, random() % stored.size()), plain.size());
      attempt(stored + Random(random, 1 + random() % 20), plain.size());
      attempt(stored, plain.size() - 1 - random() % 100);
      attempt(stored, plain.size() + 1 + random() % 70000);
      attempt(Random(random, random() % 300), random() % 70000);
      attempt(Random(random, 100000), plain.size());
    }
    // What was changed in its literals still decodes; all others must be refused.
    CHECK(refused > 6 * 600 * 95 / 100);
  }

  TEST_CASE("too few samples, or none, train no dictionary") {
    CHECK(ZstdDictionary::Train("", {}, 16 << 10) == nullptr);
    const std::string samples(64, 'a');
    const std::vector<size_t> sizes(8, 8);
    CHECK(ZstdDictionary::Train(samples, sizes, 16 << 10) == nullptr);
  }
}

}  // namespace
}  // namespace kbf
