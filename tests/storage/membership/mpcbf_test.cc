#include "storage/membership/mpcbf.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "tests/storage/membership/membership_world.h"
#include "tests/storage/statistics.h"

namespace kbf {
namespace {

// A filter beside plain counters for its places and a multiset of the keys that are in it.
class Model {
 public:
  explicit Model(const MpcbfConfig& config) : filter_(Mpcbf::Create(config).value()) {}

  Mpcbf& filter() { return filter_; }
  uint64_t wrong() const { return wrong_; }
  uint64_t size() const { return size_; }
  uint64_t refused_deletes() const { return refused_deletes_; }
  bool Stored(uint64_t number) { return stored_[number] > 0; }

  void Insert(uint64_t number) {
    filter_.Insert(NumberedKey(number));
    ++stored_[number];
    ++size_;
    for (const auto& place : WordPlaces(filter_.hashing(), NumberedKey(number))) {
      ++counters_[{place.word, place.position}];
    }
  }
  // Stored keys only.
  void Delete(uint64_t number) {
    wrong_ += !filter_.Delete(NumberedKey(number));
    --stored_[number];
    --size_;
    for (const auto& place : WordPlaces(filter_.hashing(), NumberedKey(number))) {
      --counters_[{place.word, place.position}];
    }
  }
  // An absent key that every place denies: nothing may change.
  void DeleteAbsent(uint64_t number) {
    if (filter_.MayContain(NumberedKey(number))) return;
    wrong_ += filter_.Delete(NumberedKey(number));
    ++refused_deletes_;
  }
  void Check(uint64_t number) {
    const KeyHash key = NumberedKey(number);
    bool expected = true;
    bool stuck = false;
    for (const auto& place : WordPlaces(filter_.hashing(), key)) {
      const uint32_t count = filter_.CounterAt(place.word, place.position);
      const uint32_t real = counters_[{place.word, place.position}];
      const bool in_stuck_word = count == Mpcbf::kStuck;
      // In a stuck word nothing is forgotten: its bits show at least what is there.
      wrong_ += in_stuck_word ? 0 : count != real;
      stuck |= in_stuck_word;
      expected &= real > 0;
    }
    const bool found = filter_.MayContain(key);
    wrong_ += stuck ? expected && !found : found != expected;
    wrong_ += Stored(number) && !found;
    wrong_ += filter_.size() != size_;
  }

 private:
  Mpcbf filter_;
  std::map<std::pair<uint64_t, unsigned>, uint32_t> counters_;
  std::map<uint64_t, uint32_t> stored_;
  uint64_t size_ = 0;
  uint64_t wrong_ = 0;
  uint64_t refused_deletes_ = 0;
};

struct ModelRun {
  uint64_t overflowed_most = 0;
  uint64_t stuck = 0;
};

// Phases of growth and shrinking between empty and `keys_most`, by keys of a small universe, so
// that the same key is often stored several times.
ModelRun Churn(Model* model, uint64_t steps, uint64_t keys_most, uint64_t seed) {
  std::mt19937_64 random(seed);
  ModelRun run;
  bool growing = true;
  for (uint64_t step = 0; step < steps; ++step) {
    const uint64_t number = random() % (2 * keys_most);
    if (model->size() >= keys_most) growing = false;
    if (model->size() < keys_most / 8) growing = true;
    if (random() % 4 < (growing ? 3u : 1u)) {
      model->Insert(number);
    } else if (model->Stored(number)) {
      model->Delete(number);
    } else {
      model->DeleteAbsent(number);
    }
    model->Check(number);
    model->Check(random() % (2 * keys_most));
    run.overflowed_most = std::max(run.overflowed_most, model->filter().overflowed_words());
  }
  run.stuck = model->filter().stuck_words();
  return run;
}

double MeasuredRate(const MpcbfConfig& config, uint64_t asked, unsigned filters, WordShape* shape) {
  uint64_t hits = 0;
  for (uint64_t instance = 0; instance < filters; ++instance) {
    auto filter = Mpcbf::Create(config).value();
    *shape = filter.shape();
    const uint64_t first = (instance + 1) << 32;
    for (uint64_t i = 0; i < config.keys; ++i) filter.Insert(NumberedKey(first + i));
    uint64_t absent = 0;
    for (uint64_t i = 0; i < config.keys; ++i) absent += !filter.MayContain(NumberedKey(first + i));
    REQUIRE(absent == 0);
    for (uint64_t i = 0; i < asked; ++i) {
      hits += filter.MayContain(NumberedKey(first + config.keys + i));
    }
  }
  return static_cast<double>(hits) / static_cast<double>(asked * filters);
}

}  // namespace

TEST_SUITE_BEGIN("storage/membership");

TEST_CASE("an MPCBF agrees with a multiset over two million operations, overflow included") {
  const uint64_t steps = Soak() ? 4000000 : 400000;
  for (const auto& [word_bits, k, g, first_level] : {std::tuple{16u, 3u, 1u, 10u},
                                                     {16u, 4u, 2u, 11u},
                                                     {32u, 3u, 2u, 20u},
                                                     {64u, 5u, 3u, 44u},
                                                     {64u, 3u, 1u, 43u}}) {
    CAPTURE(word_bits);
    CAPTURE(k);
    CAPTURE(g);
    // Twice as many increments as hierarchy bits where the filter is fullest.
    const uint64_t words = 64;
    const uint64_t keys = 2 * words * (word_bits - first_level) / k;
    Model model({.keys = keys,
                 .memory_bits = words * word_bits,
                 .word_bits = word_bits,
                 .num_hashes = k,
                 .num_accesses = g,
                 .first_level = first_level,
                 .overflow_words_max = words});
    const ModelRun run = Churn(&model, steps, keys, 20261118 + word_bits + k);
    CHECK(model.wrong() == 0);
    CHECK(run.overflowed_most > words / 2);
    CHECK(run.stuck == 0);
    CHECK(model.refused_deletes() > 100);
  }
}

TEST_CASE("words that return from the side table leave it empty when all keys are gone") {
  Model model({.keys = 100,
               .memory_bits = 16 * 16,
               .word_bits = 16,
               .num_hashes = 3,
               .first_level = 10,
               .overflow_words_max = 16});
  for (uint64_t i = 0; i < 200; ++i) model.Insert(i);
  CHECK(model.filter().overflowed_words() == 16);
  for (uint64_t i = 0; i < 200; ++i) model.Delete(i);
  for (uint64_t i = 0; i < 400; ++i) model.Check(i);
  CHECK(model.wrong() == 0);
  CHECK(model.filter().overflowed_words() == 0);
  CHECK(model.filter().size() == 0);
  for (uint64_t word = 0; word < 16; ++word) {
    for (unsigned at = 0; at < 10; ++at) CHECK(model.filter().CounterAt(word, at) == 0);
  }
}

TEST_CASE("words that find no room in the side table are stuck and still never deny a stored key") {
  Model model({.keys = 300,
               .memory_bits = 64 * 16,
               .word_bits = 16,
               .num_hashes = 3,
               .num_accesses = 2,
               .first_level = 10,
               .overflow_words_max = 5});
  const ModelRun run = Churn(&model, 300000, 300, 20261118);
  CHECK(model.wrong() == 0);
  CHECK(run.overflowed_most == 5);
  CHECK(run.stuck > 5);
}

TEST_CASE("a key that is stored many times overflows its words and can be taken out again") {
  Model model({.keys = 10, .memory_bits = 640, .num_hashes = 3, .first_level = 43});
  for (int i = 0; i < 5000; ++i) model.Insert(7);
  model.Check(7);
  CHECK(model.filter().overflowed_words() == 1);
  for (int i = 0; i < 5000; ++i) model.Delete(7);
  model.Check(7);
  CHECK_FALSE(model.filter().MayContain(NumberedKey(7)));
  CHECK_FALSE(model.filter().Delete(NumberedKey(7)));
  CHECK(model.wrong() == 0);
}

TEST_CASE("false positives of an MPCBF are those of eq. 4 and 8, within 5 sigma on both sides") {
  // Sizes as in §IV.B, a fifth of them: 100 keys on 125 words. 4 filters, 200,000 absent keys each.
  constexpr uint64_t kAsked = 200000;
  constexpr unsigned kFilters = 4;
  for (const auto& [k, g, bits_per_key] : {std::tuple{3u, 1u, 40u},
                                           {4u, 1u, 40u},
                                           {4u, 2u, 40u},
                                           {3u, 3u, 40u},
                                           {4u, 2u, 24u},
                                           {6u, 3u, 24u}}) {
    CAPTURE(k);
    CAPTURE(g);
    CAPTURE(bits_per_key);
    const MpcbfConfig config{
        .keys = 20000, .memory_bits = 20000 * bits_per_key, .num_hashes = k, .num_accesses = g};
    WordShape shape;
    const double rate = MeasuredRate(config, kAsked, kFilters, &shape);
    const double sigma = RateDeviation(config.keys, shape, kAsked, kFilters);
    const double paper = PaperWordFalsePositive(config.keys, shape);
    CAPTURE(rate);
    CAPTURE(paper);
    CHECK(rate > paper - 5 * sigma);
    CHECK(rate < paper + 5 * sigma);
    CHECK(std::fabs(rate - WordFalsePositive(config.keys, shape)) < 5 * sigma);
  }
}

TEST_CASE("a larger sample tells the exact rate from the paper's approximation") {
  // k = 3, g = 2: one word takes two hash functions, the other one; eq. 8 has 1.5 in each.
  const MpcbfConfig config{
      .keys = 20000, .memory_bits = 20000 * 20, .num_hashes = 3, .num_accesses = 2};
  WordShape shape;
  const double rate = MeasuredRate(config, 400000, 10, &shape);
  const double sigma = RateDeviation(config.keys, shape, 400000, 10);
  CHECK(std::fabs(rate - WordFalsePositive(config.keys, shape)) < 5 * sigma);
  CHECK(rate > PaperWordFalsePositive(config.keys, shape) + sigma);
}

TEST_CASE("sized by eq. 11, at most a handful of words overflow") {
  for (const unsigned g : {1u, 2u}) {
    const MpcbfConfig config{
        .keys = 100000, .memory_bits = 8000000, .num_hashes = 3, .num_accesses = g};
    auto filter = Mpcbf::Create(config).value();
    for (uint64_t i = 0; i < config.keys; ++i) filter.Insert(NumberedKey(i));
    const double expected =
        OverflowChance(config.keys, filter.shape(), 64 - filter.shape().positions) *
        static_cast<double>(filter.shape().words);
    CAPTURE(expected);
    CHECK(static_cast<double>(filter.overflowed_words()) <= expected + 5 * std::sqrt(expected) + 1);
    CHECK(filter.stuck_words() == 0);
  }
}

TEST_CASE("a plan keeps to its rate and is not much larger than it must be") {
  for (const double rate : {0.05, 0.01, 1e-4}) {
    for (const unsigned g : {1u, 2u, 3u}) {
      CAPTURE(rate);
      CAPTURE(g);
      const auto plan = Mpcbf::Plan(50000, rate, g);
      REQUIRE(plan.has_value());
      const auto filter = Mpcbf::Create(*plan).value();
      CHECK(WordFalsePositive(50000, filter.shape()) <= rate);
      MpcbfConfig smaller = *plan;
      smaller.memory_bits = smaller.memory_bits * 9 / 10;
      smaller.num_hashes = BestNumHashes(50000, smaller.memory_bits / 64, 64, g);
      const auto small = Mpcbf::Create(smaller).value();
      CHECK(WordFalsePositive(50000, small.shape()) > rate);
    }
  }
  CHECK_FALSE(Mpcbf::Plan(0, 0.01, 1));
  CHECK_FALSE(Mpcbf::Plan(100, 0, 1));
  CHECK_FALSE(Mpcbf::Plan(100, 1, 1));
  CHECK_FALSE(Mpcbf::Plan(100, 0.01, 0));
  CHECK_FALSE(Mpcbf::Plan(100000, 1e-12, 1));
}

TEST_CASE("a batch of an MPCBF is answered like single keys") {
  for (const unsigned word_bits : {16u, 32u, 64u}) {
    auto filter = Mpcbf::Create({.keys = 500,
                                 .memory_bits = 64 * 300,
                                 .word_bits = word_bits,
                                 .num_hashes = 3,
                                 .num_accesses = 2,
                                 .first_level = word_bits / 2})
                      .value();
    std::vector<KeyHash> keys;
    for (uint64_t i = 0; i < 1000; ++i) keys.push_back(NumberedKey(i));
    for (uint64_t i = 0; i < 500; ++i) filter.Insert(keys[i]);
    for (const size_t count : {0u, 1u, 31u, 32u, 33u, 1000u}) {
      const auto answers = std::make_unique<bool[]>(1000);
      filter.MayContainMany({keys.data(), count}, answers.get());
      for (size_t i = 0; i < count; ++i) CHECK(answers[i] == filter.MayContain(keys[i]));
    }
  }
}

TEST_CASE("places of a key are pinned") {
  const WordHashing hashing({1000, 43, 3, 2});
  const WordPlaces places(hashing, NumberedKey(1));
  REQUIRE(places.count == 3);
  CHECK(places.places[0] == WordPlaces::Place{55, 26});
  CHECK(places.places[1] == WordPlaces::Place{55, 19});
  CHECK(places.places[2] == WordPlaces::Place{829, 33});
}

TEST_CASE("numbers that make no MPCBF are refused") {
  const MpcbfConfig good{.keys = 100, .memory_bits = 6400};
  CHECK(Mpcbf::Create(good));
  const auto refused = [&](auto&& change) {
    MpcbfConfig config = good;
    change(&config);
    return !Mpcbf::Create(config).has_value();
  };
  CHECK(refused([](MpcbfConfig* c) { c->memory_bits = 0; }));
  CHECK(refused([](MpcbfConfig* c) { c->memory_bits = 63; }));
  CHECK(refused([](MpcbfConfig* c) { c->word_bits = 48; }));
  CHECK(refused([](MpcbfConfig* c) { c->num_hashes = 17; }));
  CHECK(refused([](MpcbfConfig* c) { c->num_hashes = 0; }));
  CHECK(refused([](MpcbfConfig* c) { c->num_accesses = 0; }));
  CHECK(refused([](MpcbfConfig* c) { c->num_accesses = 4; }));
  CHECK(refused([](MpcbfConfig* c) { c->first_level = 1; }));
  CHECK(refused([](MpcbfConfig* c) { c->first_level = 64; }));
  CHECK(refused([](MpcbfConfig* c) { c->keys = 0; }));
  // 50 keys per word leave no room for a first level.
  CHECK(refused([](MpcbfConfig* c) { c->keys = 5000; }));
}

TEST_SUITE_END();
}  // namespace kbf
