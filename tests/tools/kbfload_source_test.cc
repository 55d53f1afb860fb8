#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/tools/text_file.h"
#include "tools/kbfload/source.h"
#include "tools/kbfload/trace.h"

namespace load {
namespace {

TEST_SUITE("tools") {
  TEST_CASE("kbfload: a walk gives out every key once, however many threads ask") {
    constexpr uint64_t kKeys = 100003;
    for (const KeyCode step : {KeyCode{1}, KeyCode{2}}) {
      const SourceFactory sources = WalkKeys(Verb::kGet, 0, step, step * kKeys);
      std::vector<std::atomic<int>> given(kKeys);
      std::vector<std::thread> threads;
      for (uint64_t i = 0; i < 3; ++i) {
        threads.emplace_back([&, i] {
          const auto source = sources(i);
          std::array<Task, 7> tasks;
          while (const size_t count = source->Next(tasks)) {
            for (size_t j = 0; j < count; ++j) ++given.at(tasks[j].key / step);
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
      for (const auto& count : given) CHECK(count == 1);
    }
  }

  TEST_CASE("kbfload: sets are walked one a request, gets as many as fit") {
    std::array<Task, 8> tasks;
    CHECK(WalkKeys(Verb::kSet, 0, 2, 100)(0)->Next(tasks) == 1);
    const auto gets = WalkKeys(Verb::kGet, 0, 1, 10)(0);
    CHECK(gets->Next(tasks) == 8);
    CHECK(gets->Next(tasks) == 2);
    CHECK(gets->Next(tasks) == 0);
  }

  TEST_CASE("kbfload: a mix has its shares of verbs and absent keys, and follows from the seed") {
    const Workload workload({.seed = 4, .keys = 1000});
    MixOptions options;
    options.mix = ParseMix("7:2:1");
    options.absent_asked = 0.25;
    constexpr double kCount = 200000;
    std::array<double, kVerbs> verbs{};
    double absent_asked = 0;
    const auto source = DrawKeys(workload, options, 4)(3);
    const auto again = DrawKeys(workload, options, 4)(3);
    Task task;
    Task same;
    for (int i = 0; i < kCount; ++i) {
      REQUIRE(source->Next({&task, 1}) == 1);
      REQUIRE(again->Next({&same, 1}) == 1);
      CHECK(task.key == same.key);
      CHECK(task.key / 2 < 1000);
      ++verbs[static_cast<size_t>(task.verb)];
      absent_asked += IsAbsentKey(task.key);
      CHECK((task.verb == Verb::kGet || !IsAbsentKey(task.key)));
    }
    const auto near = [](double count, double share) {
      return std::abs(count - share * kCount) < 5 * std::sqrt(kCount * share * (1 - share));
    };
    CHECK(near(verbs[0], 0.7));
    CHECK(near(verbs[1], 0.2));
    CHECK(near(verbs[2], 0.1));
    CHECK(near(absent_asked, 0.7 * 0.25));
    options.pass = 1;
    const auto other = DrawKeys(workload, options, 4)(3);
    int equal = 0;
    for (int i = 0; i < 1000; ++i) {
      REQUIRE(source->Next({&task, 1}) == 1);
      REQUIRE(other->Next({&same, 1}) == 1);
      equal += task.key == same.key;
    }
    CHECK(equal < 50);
  }

  TEST_CASE("kbfload: a mix with a number of operations ends after them") {
    const Workload workload({.keys = 10});
    MixOptions options;
    options.ops = 1001;
    // Shared out among the connections; with many of them some have nothing to do.
    for (const unsigned connections : {1u, 4u, 2000u}) {
      size_t all = 0;
      for (unsigned i = 0; i < connections; ++i) {
        const auto source = DrawKeys(workload, options, connections)(i);
        std::array<Task, 10> tasks;
        while (const size_t count = source->Next(tasks)) all += count;
      }
      CHECK(all == 1001);
    }
  }

  TEST_CASE("kbfload: a hot set moves by one rank after so many operations") {
    const Workload workload({.keys = 1000});
    MixOptions options;
    options.mix = ParseMix("1:0:0");
    options.zipf = 2;  // the first rank has 61 %
    options.moves_every = 2000;
    const auto source = DrawKeys(workload, options, 2)(0);
    const auto hottest = [&] {
      std::vector<int> asked(1000);
      Task task;
      // Half of the operations of two connections.
      for (int i = 0; i < 1000; ++i) {
        REQUIRE(source->Next({&task, 1}) == 1);
        ++asked.at(task.key / 2);
      }
      return std::pair(std::max_element(asked.begin(), asked.end()) - asked.begin(), asked);
    };
    const auto [first, first_asked] = hottest();
    const auto [second, second_asked] = hottest();
    const auto [third, third_asked] = hottest();
    CHECK(first != second);
    CHECK(second != third);
    // The next one was the second before: 15 % of the draws.
    CHECK(first_asked[second] > 100);
    CHECK(second_asked[third] > 100);
    CHECK(second_asked[first] < 20);
  }

  TEST_CASE("kbfload: scans walk over all keys in turn") {
    const Workload workload({.keys = 1000});
    MixOptions options;
    options.mix = ParseMix("1:0:0");
    options.zipf = 1;
    options.scan = 1;
    const auto source = DrawKeys(workload, options, 4)(1);
    std::array<Task, 10> tasks;
    for (uint64_t i = 0; i < 2000; i += 10) {
      REQUIRE(source->Next(tasks) == 10);
      for (uint64_t j = 0; j < 10; ++j) CHECK(tasks[j].key == StoredKey((250 + i + j) % 1000));
    }
    options.scan = 0.25;
    options.absent_asked = 0;
    const auto some = DrawKeys(workload, options, 4)(0);
    uint64_t next = 0;
    for (uint64_t i = 0; i < 20000; i += 10) {
      REQUIRE(some->Next(tasks) == 10);
      for (const Task& task : tasks) next += task.key == StoredKey(next % 1000);
    }
    // Drawn keys that happen to be next add some: each is the one with chance 1/1,000 on average.
    CHECK(next > 5000 - 5 * 62);
    CHECK(next < 5000 + 5 * 62 + 200);
  }

  TEST_CASE("kbfload: a cycle goes round all keys, in order or shuffled") {
    for (const bool shuffled : {false, true}) {
      const auto source =
          CycleKeys({.verb = Verb::kSet,
                     .keys = 100,
                     .order = shuffled ? KeyOrder::kShuffled : KeyOrder::kInTurn})(5);
      std::vector<int> given(100);
      Task task;
      for (int i = 0; i < 300; ++i) {
        REQUIRE(source->Next({&task, 1}) == 1);
        ++given.at(task.key / 2);
      }
      for (const int count : given) CHECK(count == 3);
    }
  }

  TEST_CASE("kbfload: a cycle ends after its operations, whatever the connections and requests") {
    for (const unsigned connections : {1u, 3u, 20u}) {
      for (const Verb verb : {Verb::kGet, Verb::kSet}) {
        CAPTURE(connections);
        size_t all = 0;
        const SourceFactory sources = CycleKeys({.verb = verb, .keys = 7, .group_ops = 101});
        for (unsigned i = 0; i < connections; ++i) {
          const auto source = sources(i);
          std::array<Task, 10> tasks;
          while (const size_t count = source->Next(tasks)) all += count;
        }
        CHECK(all == 101);
      }
    }
  }

  TEST_CASE("kbfload: connections of a group go round the keys together, groups each for itself") {
    const SourceFactory sources = CycleKeys({.verb = Verb::kGet, .keys = 40, .groups = 2});
    std::vector<std::unique_ptr<Source>> connections;
    for (unsigned i = 0; i < 4; ++i) connections.push_back(sources(i));
    std::array<Task, 10> tasks;
    for (unsigned turn = 0; turn < 4; ++turn) {
      for (unsigned i = 0; i < 4; ++i) {
        REQUIRE(connections[i]->Next(tasks) == 10);
        CHECK(tasks[0].key == StoredKey((20 * turn + 10 * (i / 2)) % 40));
        CHECK(tasks[9].key == StoredKey((20 * turn + 10 * (i / 2)) % 40 + 9));
      }
    }
  }

  TEST_CASE("kbfload: each group of a cycle ends by its own count, all together by theirs") {
    const auto run = [](const CycleOptions& options) {
      const SourceFactory sources = CycleKeys(options);
      std::array<Task, 8> tasks;
      size_t all = 0;
      for (unsigned i = 0; i < 6; ++i) {
        const auto source = sources(i);
        while (const size_t count = source->Next(tasks)) all += count;
      }
      return all;
    };
    CHECK(run({.keys = 5, .groups = 3, .group_ops = 100}) == 300);
    CHECK(run({.keys = 5, .groups = 3, .group_ops = 100, .ops = 200}) == 200);
    CHECK(run({.keys = 5, .groups = 3, .group_ops = 100, .ops = 1000}) == 300);
  }

  TEST_CASE("kbfload: drawn numbers are uniform, or follow Zipf's law with low numbers in front") {
    constexpr uint64_t kKeys = 50;
    constexpr double kDraws = 200000;
    for (const double skew : {0.0, 0.25, 0.9, 1.0, 2.0}) {
      CAPTURE(skew);
      const CycleOptions options = {.verb = Verb::kSet,
                                    .keys = kKeys,
                                    .order = skew > 0 ? KeyOrder::kZipf : KeyOrder::kUniform,
                                    .zipf_skew = skew};
      const SourceFactory sources = CycleKeys(options);
      const std::array<std::unique_ptr<Source>, 2> pair = {sources(0), sources(1)};
      std::vector<double> given(kKeys);
      uint64_t equal = 0;
      for (int i = 0; i < kDraws; ++i) {
        std::array<Task, 2> tasks;
        REQUIRE(pair[0]->Next({&tasks[0], 1}) == 1);
        REQUIRE(pair[1]->Next({&tasks[1], 1}) == 1);
        ++given.at(tasks[0].key / 2);
        equal += tasks[0].key == tasks[1].key;
      }
      CHECK(equal < kDraws);  // every connection draws for itself
      double whole = 0;
      for (uint64_t i = 0; i < kKeys; ++i) whole += std::pow(i + 1, -skew);
      for (uint64_t i = 0; i < kKeys; ++i) {
        CAPTURE(i);
        const double share = std::pow(i + 1, -skew) / whole;
        CHECK(std::abs(given[i] - kDraws * share) < 5 * std::sqrt(kDraws * share * (1 - share)));
      }
    }
  }

  TEST_CASE("kbfload: mixes are read, and nonsense refused") {
    CHECK(ParseMix("1:0:0").share[0] == 1);
    CHECK(ParseMix("30:1:0.23").share[2] == doctest::Approx(0.23));
    for (const char* bad : {"", "1", "1:2", "1:2:3:4", "0:0:0", "-1:1:1", "a:b:c", "1:2:", "1,2,3",
                            "nan:1:1", "inf:1:1", "1:2:3 "}) {
      CAPTURE(bad);
      CHECK_THROWS_AS(ParseMix(bad), std::invalid_argument);
    }
  }

  TEST_CASE("kbfload: a trace is replayed in order, gets that follow each other together") {
    const TextFile file("# a comment\nset a 10\nget a\nget b\n\nget c\ndelete a\ntouch b\nset d\n");
    const Trace trace = ReadTrace(file.path(), 1000);
    CHECK(*trace.keys == KeyList{"a", "b", "c", "d"});
    REQUIRE(trace.tasks->size() == 7);
    const auto source = ReplayTrace(trace.tasks)(0);
    std::array<Task, 4> tasks;
    REQUIRE(source->Next(tasks) == 1);
    CHECK(tasks[0].verb == Verb::kSet);
    CHECK(tasks[0].value_bytes == 10);
    REQUIRE(source->Next(tasks) == 3);
    CHECK(tasks[1].key == StoredKey(1));
    CHECK(tasks[2].key == StoredKey(2));
    REQUIRE(source->Next(tasks) == 1);
    CHECK(tasks[0].verb == Verb::kDelete);
    REQUIRE(source->Next(tasks) == 1);
    CHECK(tasks[0].verb == Verb::kTouch);
    REQUIRE(source->Next(tasks) == 1);
    CHECK(tasks[0].value_bytes == Task::kDrawnBytes);
    CHECK(source->Next(tasks) == 0);
    CHECK(source->Next(tasks) == 0);
  }

  TEST_CASE("kbfload: bad traces and key files are refused with the line") {
    const std::vector<std::pair<std::string, std::string>> bad = {
        {"frob a\n", ":1: expected get"},
        {"get\n", ":1: a key has"},
        {"\nget a b\n", ":2: too many words"},
        {"set a 1001\n", ":1: a value has 0 to 1000"},
        {"set a x\n", ":1: a value has"},
        {"set a 1 2\n", ":1: too many words"},
        {"incr a\n", ":1: expected get"},
        {"# nothing\n", "holds no requests"},
        {"get " + std::string(251, 'k') + "\n", ":1: a key has"},
    };
    for (const auto& [text, complaint] : bad) {
      CAPTURE(text);
      const TextFile file(text);
      try {
        ReadTrace(file.path(), 1000);
        FAIL("was not refused");
      } catch (const std::invalid_argument& error) {
        CHECK(std::string(error.what()).find(complaint) != std::string::npos);
      }
    }
    CHECK_THROWS_AS(ReadTrace("/no/such/file", 1000), std::invalid_argument);
    CHECK_THROWS_AS(ReadTrace("/tmp", 1000), std::invalid_argument);
    CHECK(ReadKeys(TextFile("a\nb\r\n#c\n").path())->size() == 2);
    CHECK_THROWS_AS(ReadKeys(TextFile("a\na\n").path()), std::invalid_argument);
    CHECK_THROWS_AS(ReadKeys(TextFile("a b\n").path()), std::invalid_argument);
    CHECK_THROWS_AS(ReadKeys(TextFile("").path()), std::invalid_argument);
  }
}

}  // namespace
}  // namespace load
