// Rounds of the shedder, without real workers.
#include "src/io/shedder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace {

using server::Holder;
using server::Shedder;
using server::WorstHolders;

constexpr uint64_t kLimit = 1000;

WorstHolders Offered(const std::vector<Holder>& holders) {
  WorstHolders worst;
  for (const Holder& holder : holders) worst.Offer(holder);
  return worst;
}

}  // namespace

TEST_SUITE("src") {
  TEST_CASE("shedder: the worst of more holders than fit are kept, in order") {
    std::mt19937 random(3);
    WorstHolders worst;
    for (int i = 0; i < 1000; ++i) worst.Offer({static_cast<double>(random() % 5000), 1});
    random.seed(3);
    std::vector<double> all;
    for (int i = 0; i < 1000; ++i) all.push_back(static_cast<double>(random() % 5000));
    std::sort(all.rbegin(), all.rend());
    REQUIRE(worst.holders().size() == WorstHolders::kMax);
    for (size_t i = 0; i < WorstHolders::kMax; ++i) CHECK(worst.holders()[i].score == all[i]);
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
    CHECK(shedder.Report(Offered({{1, 100}, {2, 300}, {3, 50}})) == Shedder::Outcome::kDone);
    CHECK(shedder.NextStep(report.number).action == Shedder::Action::kNone);
    CHECK(shedder.Report(Offered({{9, 100}, {2.5, 60}})) == Shedder::Outcome::kWakeWorkers);

    // 200 are to be given back: 100 + 50 + 60 of the scores 9, 3 and 2.5.
    const Shedder::Step close = shedder.NextStep(report.number);
    CHECK(close.action == Shedder::Action::kClose);
    CHECK(close.threshold == 2.5);
    shedder.Closed();
    CHECK(shedder.Begin(300, 2) == Shedder::Outcome::kDone);
    shedder.Closed();
    CHECK(shedder.NextStep(close.number).action == Shedder::Action::kNone);
    CHECK(shedder.Begin(300, 2) == Shedder::Outcome::kWakeWorkers);
  }

  TEST_CASE("shedder: a round that can close no connection ends at once") {
    server::ConnectionMemory memory(kLimit);
    Shedder shedder(memory);
    memory.Add(kLimit + 1);
    REQUIRE(shedder.Begin(100, 1) == Shedder::Outcome::kWakeWorkers);
    CHECK_FALSE(shedder.NextStep(0).spare_moving);  // over the limit
    CHECK(shedder.Report({}) == Shedder::Outcome::kDone);
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
    shedder.Closed();
    CHECK_FALSE(shedder.MustPause());

    memory.Add(kLimit);
    CHECK(shedder.MustPause());
    REQUIRE(shedder.Begin(100, 1) == Shedder::Outcome::kWakeWorkers);  // at once
    REQUIRE(shedder.Report({}) == Shedder::Outcome::kDone);
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
}
