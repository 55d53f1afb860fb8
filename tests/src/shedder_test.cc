// Rounds of the shedder, without real workers.
#include "src/io/shedder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

namespace {

using server::HeldByScore;
using server::Shedder;

constexpr uint64_t kLimit = 1000;

struct Holder {
  double score;
  uint64_t bytes;
};

HeldByScore Offered(const std::vector<Holder>& holders) {
  HeldByScore held;
  for (const Holder& holder : holders) held.Add(holder.score, holder.bytes);
  return held;
}

}  // namespace

TEST_SUITE("src") {
  TEST_CASE("shedder: the threshold is that of the worst, to a quarter") {
    std::mt19937 random(3);
    std::uniform_real_distribution<double> exponents(-30, 30);
    std::vector<Holder> all;
    HeldByScore one;
    HeldByScore other;
    for (int i = 0; i < 10'000; ++i) {
      all.push_back({std::exp2(exponents(random)), 1 + random() % 1000});
      (i % 2 == 0 ? one : other).Add(all.back().score, all.back().bytes);
    }
    one.Add(other);
    std::ranges::sort(all, std::greater{}, &Holder::score);
    uint64_t sum = 0;
    for (const Holder& holder : all) {
      sum += holder.bytes;
      const double threshold = one.ThresholdFor(sum);
      REQUIRE(threshold <= holder.score);
      REQUIRE(threshold > holder.score / 1.2500001);
    }
    CHECK(one.ThresholdFor(sum + 1) <= all.back().score);
    CHECK(one.ThresholdFor(0) == std::numeric_limits<double>::infinity());
    CHECK(HeldByScore().ThresholdFor(1) == std::numeric_limits<double>::infinity());
  }

  TEST_CASE("shedder: scores beyond all classes count as the first and the last") {
    HeldByScore held;
    held.Add(1e-300, 5);
    CHECK(held.ThresholdFor(5) == 0);
    held.Add(1e300, 7);
    CHECK(held.ThresholdFor(7) > 1e9);
    CHECK(held.ThresholdFor(8) == 0);
  }

  TEST_CASE("shedder: nothing happens while there is memory") {
    server::ConnectionMemory memory(kLimit);
    Shedder shedder(memory);
    memory.Add(kLimit / 4 * 3);
    CHECK(shedder.Begin(1, 2) == Shedder::Outcome::kDone);
    CHECK(shedder.NextStep(0).action == Shedder::Action::kNone);
  }

  TEST_CASE(
      "shedder: the threshold is that of the worst of all workers, and gives the excess back") {
    server::ConnectionMemory memory(kLimit);
    Shedder shedder(memory);
    memory.Add(950);
    REQUIRE(shedder.Begin(100, 2) == Shedder::Outcome::kWakeWorkers);
    CHECK(shedder.Begin(200, 2) == Shedder::Outcome::kDone);  // one is running

    const Shedder::Step report = shedder.NextStep(0);
    CHECK(report.action == Shedder::Action::kReport);
    CHECK(report.time_ms == 100);
    CHECK(report.spare_moving);
    CHECK(shedder.Report(Offered({{1, 100}, {2, 300}, {3.5, 50}})) == Shedder::Outcome::kDone);
    CHECK(shedder.NextStep(report.number).action == Shedder::Action::kNone);
    CHECK(shedder.Report(Offered({{9, 100}, {2.5, 60}})) == Shedder::Outcome::kWakeWorkers);

    // 200 are to be given back: 100 + 50 + 60 of the scores 9, 3.5 and 2.5.
    const Shedder::Step close = shedder.NextStep(report.number);
    CHECK(close.action == Shedder::Action::kClose);
    CHECK(close.threshold == 2.5);
    CHECK(shedder.Closed() == Shedder::Outcome::kDone);
    CHECK(shedder.Begin(300, 2) == Shedder::Outcome::kDone);
    CHECK(shedder.Closed() == Shedder::Outcome::kWakeWorkers);
    CHECK(shedder.NextStep(close.number).action == Shedder::Action::kNone);
    CHECK(shedder.Begin(300, 2) == Shedder::Outcome::kWakeWorkers);
  }

  TEST_CASE("shedder: a round that can close no connection ends at once") {
    server::ConnectionMemory memory(kLimit);
    Shedder shedder(memory);
    memory.Add(kLimit + 1);
    REQUIRE(shedder.Begin(100, 1) == Shedder::Outcome::kWakeWorkers);
    CHECK_FALSE(shedder.NextStep(0).spare_moving);                // over the limit
    CHECK(shedder.Report({}) == Shedder::Outcome::kWakeWorkers);  // requests need not pause
    CHECK(shedder.NextStep(1).action == Shedder::Action::kNone);
    CHECK(shedder.Begin(101, 1) == Shedder::Outcome::kDone);  // too early
    CHECK(shedder.Begin(200, 1) == Shedder::Outcome::kWakeWorkers);
  }

  TEST_CASE("shedder: requests pause while a round runs, and over the limit until one has ended") {
    server::ConnectionMemory memory(kLimit);
    Shedder shedder(memory);
    memory.Add(800);
    CHECK_FALSE(shedder.MustPause());  // nobody has begun a round yet
    REQUIRE(shedder.Begin(100, 1) == Shedder::Outcome::kWakeWorkers);
    CHECK(shedder.MustPause());
    REQUIRE(shedder.Report(Offered({{5, 250}})) == Shedder::Outcome::kWakeWorkers);
    CHECK(shedder.MustPause());
    memory.Subtract(250);
    CHECK(shedder.Closed() == Shedder::Outcome::kWakeWorkers);
    CHECK_FALSE(shedder.MustPause());

    memory.Add(kLimit);
    CHECK(shedder.MustPause());
    REQUIRE(shedder.Begin(100, 1) == Shedder::Outcome::kWakeWorkers);  // at once
    REQUIRE(shedder.Report({}) == Shedder::Outcome::kWakeWorkers);
    CHECK_FALSE(shedder.MustPause());  // nobody can be closed, so waiting does not help
  }

  TEST_CASE("shedder: as much is given back as the largest waiting request needs") {
    server::ConnectionMemory memory(kLimit);
    Shedder shedder(memory);
    memory.Add(500);
    CHECK_FALSE(memory.Reserve(800, false));
    CHECK_FALSE(memory.IsShort());
    memory.BeginWait();
    CHECK(memory.IsShort());
    CHECK(memory.Excess() == 300);
    REQUIRE(shedder.Begin(100, 1) == Shedder::Outcome::kWakeWorkers);
    const Shedder::Step report = shedder.NextStep(0);
    REQUIRE(shedder.Report(Offered({{5, 250}, {4, 50}, {3, 200}})) ==
            Shedder::Outcome::kWakeWorkers);
    CHECK(shedder.NextStep(report.number).threshold == 4);
    memory.EndWait();
  }

  TEST_CASE("shedder: thousands of small unfinished requests are closed in a few large rounds") {
    constexpr uint64_t kBytes = 16 << 10;
    constexpr uint64_t kMemory = 16 << 20;
    server::ConnectionMemory memory(kMemory);
    Shedder shedder(memory);
    uint64_t left = 8000;
    uint64_t held = 0;
    unsigned rounds = 0;
    uint64_t now_ms = 100;
    while (left > 0) {
      // The next arrive while a round runs, as long as memory is not short.
      for (; left > 0 && !memory.IsShort(); --left, ++held) memory.Add(kBytes);
      if (left == 0) break;
      REQUIRE(shedder.Begin(now_ms, 1) == Shedder::Outcome::kWakeWorkers);
      HeldByScore all;
      for (uint64_t i = 0; i < held; ++i) all.Add(1000, kBytes);
      REQUIRE(shedder.Report(all) == Shedder::Outcome::kWakeWorkers);
      const Shedder::Step step = shedder.NextStep(0);
      REQUIRE(step.action == Shedder::Action::kClose);
      for (; held > 0 && memory.Excess(step.pressure) > 0; --held) memory.Subtract(kBytes);
      REQUIRE(shedder.Closed() == Shedder::Outcome::kWakeWorkers);
      ++rounds;
      now_ms += 10;
    }
    // A quarter of the limit each, but for the first few.
    CHECK(rounds >= 8000 * kBytes / (kMemory / 4) - 4);
    CHECK(rounds <= 8000 * kBytes / (kMemory / 4) + 4);
  }

  TEST_CASE("shedder: a round long after another gives back the excess alone") {
    server::ConnectionMemory memory(16'000);
    Shedder shedder(memory);
    uint64_t now_ms = 100;
    for (int i = 0; i < 5; ++i, now_ms += 1000) {
      memory.Add(15'000 - memory.buffer_bytes());
      REQUIRE(shedder.Begin(now_ms, 1) == Shedder::Outcome::kWakeWorkers);
      REQUIRE(shedder.Report(Offered({{1, 15'000}})) == Shedder::Outcome::kWakeWorkers);
      const Shedder::Step step = shedder.NextStep(0);
      CHECK(memory.Excess(step.pressure) == 3000);
      memory.Subtract(3000);
      REQUIRE(shedder.Closed() == Shedder::Outcome::kWakeWorkers);
    }
    // Soon after it, a sixteenth of the limit more each time, and a quarter at most.
    now_ms -= 990;
    for (const uint64_t more : {1, 2, 3, 4, 4, 4}) {
      memory.Add(15'000 - memory.buffer_bytes());
      REQUIRE(shedder.Begin(now_ms, 1) == Shedder::Outcome::kWakeWorkers);
      REQUIRE(shedder.Report(Offered({{1, 15'000}})) == Shedder::Outcome::kWakeWorkers);
      CHECK(memory.Excess(shedder.NextStep(0).pressure) == 3000 + 1000 * more);
      memory.Subtract(3000 + 1000 * more);
      REQUIRE(shedder.Closed() == Shedder::Outcome::kWakeWorkers);
      now_ms += 10;
    }
  }
}
