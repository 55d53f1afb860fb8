#include "storage/compression/value_samples.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

namespace kbf {
namespace {

TEST_SUITE("compression") {
  TEST_CASE("a group is a prefix up to the first delimiter") {
    const HashSecret secret = HashSecret::FromSeed(1);
    const auto group = [&](std::string_view key) { return GroupOf(key, secret); };
    CHECK(group("session:1") == group("session:22"));
    CHECK(group("session:1") != group("session.1"));
    CHECK(group("session:a:b") == group("session:c/d"));
    CHECK(group("user/1") != group("session/1"));
    CHECK(group("plain") == kNoPrefix);
    CHECK(group("") == kNoPrefix);
    CHECK(group(":1") == kNoPrefix);
    CHECK(group(std::string(40, 'a') + ":1") == kNoPrefix);
    CHECK(group("session:1") != kNoPrefix);
    CHECK(group("session:1") != GroupOf("session:1", HashSecret::FromSeed(2)));
  }

  TEST_CASE("a survey names the groups that have a sixteenth of the bytes, and the rest together") {
    ValueSamples samples;
    samples.BeginSurvey();
    uint64_t rare = 1000;
    for (size_t i = 0; !samples.SurveyIsFull(); ++i) {
      // 3 : 2 : 1 : 2, and one in eight rare groups with few bytes.
      constexpr GroupName kNames[] = {11, 11, 11, 12, 12, 13, kNoPrefix, kNoPrefix};
      samples.Count(kNames[i % 8], 100);
      if (i % 8 == 0) samples.Count(rare++, 10);
    }
    const auto found = samples.FinishSurvey();
    REQUIRE(found.size() == 4);
    CHECK(found[0].group == 11);
    CHECK(found[1].group == 12);
    CHECK(found[2].group == 13);
    CHECK(found[3].group == kNoPrefix);
    // Names that were counted only since others made way are at most 1/64 of all bytes too high.
    const uint64_t all = samples.kSurveyValues * 100;
    CHECK(found[0].bytes >= all * 3 / 9 - all / 100);
    CHECK(found[0].bytes <= all * 3 / 8 + all / 64);
  }

  TEST_CASE("a survey of nothing names nothing, and the next one forgets the last") {
    ValueSamples samples;
    samples.BeginSurvey();
    CHECK(samples.FinishSurvey().empty());
    samples.Count(11, 1000);
    samples.BeginSurvey();
    samples.Count(12, 1000);
    const auto found = samples.FinishSurvey();
    REQUIRE(found.size() == 1);
    CHECK(found[0].group == 12);
  }

  TEST_CASE("one value in four is taken, of each kind alike, until the set is full") {
    ValueSamples samples;
    const size_t empty = samples.memory_bytes();
    REQUIRE(samples.Collect(200000));
    for (int i = 0; i < 4000; ++i) samples.Take(std::string(100, static_cast<char>('a' + i % 4)));
    // 1,000 and 250 expected; 5 sigma are 137 and 68.
    CHECK(std::abs(static_cast<int>(samples.sizes().size()) - 1000) < 137);
    for (const char kind : {'a', 'b', 'c', 'd'}) {
      const auto taken = std::count(samples.samples().begin(), samples.samples().end(), kind) / 100;
      CHECK(std::abs(static_cast<int>(taken) - 250) < 68);
    }
    CHECK(!samples.IsFull());
    while (samples.sizes().back() == 100) samples.Take(std::string(100000, 'e'));
    CHECK(samples.sizes().back() == ValueSamples::kSampleBytesMax);
    for (int i = 0; i < 8000; ++i) samples.Take(std::string(100, 'f'));
    CHECK(samples.IsFull());
    CHECK(samples.samples().size() <= 200000);
    CHECK(samples.memory_bytes() > empty + 200000);
    samples.Drop();
    CHECK(samples.memory_bytes() == empty);
    CHECK(samples.samples().empty());
  }

  TEST_CASE("many empty and tiny values do not grow the set") {
    ValueSamples samples;
    REQUIRE(samples.Collect(10000));
    const size_t bytes = samples.memory_bytes();
    for (int i = 0; i < 100000; ++i) samples.Take("");
    CHECK(samples.IsFull());
    CHECK(samples.memory_bytes() == bytes);
  }
}

}  // namespace
}  // namespace kbf
