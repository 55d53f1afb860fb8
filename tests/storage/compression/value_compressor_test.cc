#include "storage/compression/value_compressor.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tools/kbfload/session_values.h"

namespace kbf {
namespace {

constexpr uint64_t kSeed = 20261119;
constexpr uint64_t kMemory = 2 << 20;

std::string Session(uint64_t number) {
  char bytes[load::kSessionBytesMax];
  return {bytes, load::WriteSession(number, bytes)};
}

// Values of several kinds, each with a text of its own and 24 random letters.
std::string OfKind(unsigned kind, uint64_t number) {
  std::mt19937_64 random(kSeed + kind);
  std::string text;
  for (int i = 0; i < 150; ++i) text += static_cast<char>('!' + random() % 90);
  std::mt19937_64 letters(number);
  for (int i = 0; i < 24; ++i) {
    text.insert(letters() % text.size(), 1, static_cast<char>('a' + letters() % 26));
  }
  return text;
}

std::string Random(std::mt19937_64& random, size_t bytes) {
  std::string text(bytes, '\0');
  for (char& byte : text) byte = static_cast<char>(random());
  return text;
}

struct World {
  explicit World(uint64_t memory = kMemory) : compressor(memory, secret) {}

  // The compressed value, or nothing.
  std::string Compress(const std::string& key, const std::string& plain) {
    return std::string(compressor.Compress(key, plain, *codec));
  }
  std::string Decompress(const std::string& stored) {
    std::string plain(ValueCompressor::PlainBytes(stored).value(), '\0');
    REQUIRE(compressor.Decompress(stored, plain, *codec));
    return plain;
  }
  // Offers values and trains until nothing changes any more.
  template <class Make>
  void Train(Make make, uint64_t values = 20000) {
    for (uint64_t i = 0; i < values; ++i) {
      const auto [key, value] = make(offered++);
      const std::string stored = Compress(key, value);
      if (!stored.empty()) compressor.Release(stored);
      if (i % 100 == 0) {
        (void)compressor.TrainStep(now);
        REQUIRE(compressor.memory_bytes() <= memory_max);
      }
    }
  }
  void NextSurvey() { now += ValueCompressor::kSurveySeconds + 1; }

  HashSecret secret = HashSecret::FromSeed(kSeed);
  ValueCompressor compressor;
  std::unique_ptr<ZstdCodec> codec = ZstdCodec::Create();
  uint64_t memory_max = kMemory;
  uint64_t offered = 0;
  uint32_t now = 1000;
};

const auto kSessions = [](uint64_t i) {
  return std::pair("session:" + std::to_string(i), Session(i));
};

TEST_SUITE("compression") {
  TEST_CASE("what is offered trains a dictionary that makes later values short") {
    World world;
    CHECK(world.Compress("session:1", Session(1)).empty());
    world.Train(kSessions);
    CHECK(world.compressor.Counters().dictionaries == 1);
    uint64_t plain_bytes = 0;
    uint64_t stored_bytes = 0;
    for (uint64_t i = 1000000; i < 1001000; ++i) {
      const std::string plain = Session(i);
      const std::string stored = world.Compress("session:" + std::to_string(i), plain);
      REQUIRE(!stored.empty());
      REQUIRE(world.Decompress(stored) == plain);
      plain_bytes += plain.size();
      stored_bytes += stored.size();
      world.compressor.Release(stored);
    }
    CHECK(stored_bytes < plain_bytes * 3 / 10);
    const CompressionCounters counters = world.compressor.Counters();
    CHECK(counters.compressed >= 1000);
    CHECK(counters.decompressed == 1000);
    CHECK(counters.trained == 1);
    CHECK(counters.dictionary_bytes < 120 << 10);
  }

  TEST_CASE("values that are too short, too long or too random are left alone") {
    World world;
    world.Train(kSessions);
    std::mt19937_64 random(kSeed);
    const std::string session = Session(1);
    CHECK(world.Compress("session:1", session.substr(0, 63)).empty());
    CHECK(!world.Compress("session:1", session.substr(0, 64)).empty());
    CHECK(world.Compress("session:1", Random(random, 300)).empty());
    CHECK(
        world.Compress("session:1", std::string(ValueCompressor::kPlainBytesMax + 1, 'x')).empty());
    CHECK(!world.Compress("session:1", std::string(ValueCompressor::kPlainBytesMax, 'x')).empty());
    // A key of no group that has a dictionary.
    CHECK(world.Compress("other:1", session).empty());
    // Never more than four fifths.
    for (int i = 0; i < 1000; ++i) {
      const std::string plain = session + Random(random, random() % 2000);
      const std::string stored = world.Compress("session:1", plain);
      if (!stored.empty()) CHECK(stored.size() <= plain.size() * 4 / 5);
    }
  }

  TEST_CASE("a group whose values are random is tried more and more rarely") {
    World world;
    std::mt19937_64 random(kSeed);
    const auto noise = [&](uint64_t i) {
      return std::pair("noise:" + std::to_string(i), Random(random, 300));
    };
    for (int survey = 0; survey < 6; ++survey) {
      world.Train(noise, 8000);
      world.NextSurvey();
    }
    CHECK(world.compressor.Counters().dictionaries == 0);
    CHECK(world.compressor.Counters().compressed == 0);
  }

  TEST_CASE("each frequent prefix gets a dictionary, and rare ones share one") {
    World world;
    const auto kinds = [](uint64_t i) {
      if (i % 3 == 0) return std::pair("a:" + std::to_string(i), OfKind(1, i));
      if (i % 3 == 1) return std::pair("b:" + std::to_string(i), OfKind(2, i));
      return std::pair("rare" + std::to_string(i) + ":", OfKind(3, i));
    };
    world.Train(kinds, 40000);
    CHECK(world.compressor.Counters().dictionaries == 3);
    CHECK(!world.Compress("a:1", OfKind(1, 7)).empty());
    CHECK(!world.Compress("b:1", OfKind(2, 7)).empty());
    CHECK(!world.Compress("never:1", OfKind(3, 7)).empty());
    CHECK(!world.Compress("never", OfKind(3, 7)).empty());
    // With the dictionary of others it would not be a fifth shorter.
    CHECK(world.Compress("a:1", OfKind(2, 7)).empty());
  }

  TEST_CASE("little memory holds few dictionaries, and too little none") {
    World small(ValueCompressor::kMemoryBytesMin);
    small.memory_max = ValueCompressor::kMemoryBytesMin;
    const auto kinds = [](uint64_t i) {
      const unsigned kind = 1 + i % 4;
      return std::pair(std::to_string(kind) + ":" + std::to_string(i), OfKind(kind, i));
    };
    small.Train(kinds, 30000);
    CHECK(small.compressor.Counters().dictionaries >= 1);
    CHECK(small.compressor.Counters().dictionaries <= 2);
    World none(60 << 10);
    none.memory_max = 60 << 10;
    none.Train(kinds, 30000);
    CHECK(none.compressor.Counters().dictionaries == 0);
    CHECK(none.compressor.Counters().compressed == 0);
  }

  TEST_CASE(
      "when the values change their shape a new dictionary follows, and the old one stays while "
      "a value refers to it") {
    World world;
    const auto kind = [](unsigned k) {
      return [k](uint64_t i) { return std::pair("a:" + std::to_string(i), OfKind(k, i)); };
    };
    std::vector<std::pair<std::string, std::string>> held;  // plain, stored
    for (unsigned turn = 1; turn <= 8; ++turn) {
      for (int survey = 0; survey < 2; ++survey) {
        world.Train(kind(turn), 8000);
        world.NextSurvey();
      }
      const std::string plain = OfKind(turn, 999);
      const std::string stored = world.Compress("a:1", plain);
      CAPTURE(turn);
      REQUIRE(!stored.empty());
      held.emplace_back(plain, stored);
      CHECK(world.compressor.Counters().dictionaries == turn);
    }
    for (const auto& [plain, stored] : held) CHECK(world.Decompress(stored) == plain);
    for (const auto& [plain, stored] : held) world.compressor.Release(stored);
    (void)world.compressor.TrainStep(world.now);
    CHECK(world.compressor.Counters().dictionaries == 1);
  }

  TEST_CASE("dictionaries of prefixes that nobody uses any more make way") {
    World world(400 << 10);
    world.memory_max = 400 << 10;
    for (unsigned turn = 1; turn <= 8; ++turn) {
      const auto kind = [turn](uint64_t i) {
        return std::pair(std::to_string(turn) + ":" + std::to_string(i), OfKind(turn, i));
      };
      world.Train(kind, 16000);
      world.NextSurvey();
      CAPTURE(turn);
      const std::string stored = world.Compress(std::to_string(turn) + ":1", OfKind(turn, 3));
      REQUIRE(!stored.empty());
      world.compressor.Release(stored);
    }
  }

  TEST_CASE("model: whatever happens, a compressed value gives what was stored") {
    World world(600 << 10);
    world.memory_max = 600 << 10;
    std::mt19937_64 random(kSeed);
    std::unordered_map<uint64_t, std::pair<std::string, std::string>> model;  // plain, stored
    unsigned era = 0;
    for (int i = 0; i < 160000; ++i) {
      if (i % 40000 == 0) ++era;
      if (i % 200 == 0) ++world.now;
      if (i % 50 == 0) (void)world.compressor.TrainStep(world.now);
      const uint64_t number = random() % 500;
      const auto found = model.find(number);
      switch (random() % 8) {
        case 0:  // a copy of the item is made, and the old one goes
          if (found == model.end()) break;
          world.compressor.Copied(found->second.second);
          world.compressor.Release(found->second.second);
          break;
        case 1:
          if (found == model.end()) break;
          world.compressor.Release(found->second.second);
          model.erase(found);
          break;
        case 2:
        case 3:
          if (found == model.end()) break;
          REQUIRE(world.Decompress(found->second.second) == found->second.first);
          break;
        default: {
          const unsigned kind = era + (random() % 8 == 0 ? 1 : 0);
          const std::string plain = random() % 8 == 0 ? Session(random()) : OfKind(kind, random());
          const std::string stored =
              world.Compress(std::to_string(kind) + ":" + std::to_string(number), plain);
          if (stored.empty()) break;
          if (found != model.end()) world.compressor.Release(found->second.second);
          model[number] = {plain, stored};
        }
      }
      REQUIRE(world.compressor.memory_bytes() <= world.memory_max);
    }
    for (const auto& [number, value] : model) {
      CHECK(world.Decompress(value.second) == value.first);
      world.compressor.Release(value.second);
    }
    CHECK(world.compressor.Counters().trained > 3);
    CHECK(world.compressor.Counters().compressed > 5000);
  }

  TEST_CASE("bytes that are no compressed value are refused") {
    World world;
    world.Train(kSessions);
    std::mt19937_64 random(kSeed);
    const std::string plain = Session(5);
    const std::string stored = world.Compress("session:5", plain);
    REQUIRE(!stored.empty());
    CHECK(!ValueCompressor::PlainBytes("").has_value());
    CHECK(!ValueCompressor::PlainBytes(stored.substr(0, 1)).has_value());
    CHECK(!ValueCompressor::PlainBytes(stored.substr(0, 2)).has_value());
    CHECK(ValueCompressor::PlainBytes(stored) == plain.size());
    for (int i = 0; i < 20000; ++i) {
      std::string bytes = i % 2 == 0 ? stored : Random(random, random() % 120);
      if (!bytes.empty())
        bytes[random() % std::min<size_t>(bytes.size(), 6)] = static_cast<char>(random());
      const std::optional<uint32_t> length = ValueCompressor::PlainBytes(bytes);
      if (length) CHECK(*length <= ValueCompressor::kPlainBytesMax);
      std::vector<char> out(length.value_or(100));
      (void)world.compressor.Decompress(bytes, out, *world.codec);
      std::vector<char> other(random() % 400);
      if (other.size() != length.value_or(0)) {
        CHECK(!world.compressor.Decompress(bytes, other, *world.codec));
      }
    }
  }

  // Every access to a dictionary is under a reference, and only one thread trains: the thread
  // sanitizer sees each pair of threads meet here.
  TEST_CASE("threads compress, read and release while another trains") {
    World world(600 << 10);
    std::atomic<bool> done{false};
    std::atomic<uint64_t> wrong{0};
    std::atomic<uint64_t> compressed{0};
    std::atomic<uint64_t> operations{0};
    const auto work = [&](uint64_t seed) {
      std::mt19937_64 random(seed);
      const auto codec = ZstdCodec::Create();
      std::vector<std::pair<std::string, std::string>> held(64);
      for (int i = 0; i < 15000 || (compressed < 1000 && i < 2000000); ++i) {
        ++operations;
        auto& [plain, stored] = held[random() % held.size()];
        if (!stored.empty()) {
          std::string back(plain.size(), '\0');
          wrong += !world.compressor.Decompress(stored, back, *codec) || back != plain;
          world.compressor.Release(stored);
        }
        const auto kind = static_cast<unsigned>(1 + i / 20000 % 4 + random() % 2);
        plain = OfKind(kind, random());
        stored = world.compressor.Compress(std::to_string(kind) + ":x", plain, *codec);
        compressed += !stored.empty();
      }
      for (const auto& [plain, stored] : held) {
        if (!stored.empty()) world.compressor.Release(stored);
      }
    };
    std::thread trainer([&] {
      while (!done) {
        (void)world.compressor.TrainStep(static_cast<uint32_t>(1000 + operations / 200));
        std::this_thread::yield();
      }
    });
    std::vector<std::thread> workers;
    for (uint64_t seed = 1; seed <= 3; ++seed) workers.emplace_back(work, seed);
    for (std::thread& worker : workers) worker.join();
    done = true;
    trainer.join();
    CHECK(wrong == 0);
    CHECK(compressed > 0);
  }
}

}  // namespace
}  // namespace kbf
