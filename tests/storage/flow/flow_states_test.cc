#include "storage/flow/flow_states.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "storage/flow/flow_generations.h"

namespace kbf {
namespace {

KeyHash Flow(uint64_t number) {
  static const HashSecret secret = HashSecret::FromSeed(140);
  return HashKey("flow " + std::to_string(number), secret);
}

std::vector<std::pair<std::string, std::unique_ptr<FlowStates>>> Engines(uint64_t flows) {
  std::vector<std::pair<std::string, std::unique_ptr<FlowStates>>> engines;
  engines.emplace_back("kbf", KbfFlows::Create({flows, 1e-3, 1e-5}));
  engines.emplace_back("sbf", SbfFlows::Create(flows, 1e-3));
  engines.emplace_back("exact", std::make_unique<ExactFlows>());
  engines.emplace_back("generations", std::make_unique<FlowGenerations>([flows] {
                         return KbfFlows::Create({flows, 1e-3, 1e-5});
                       }));
  return engines;
}

FlowPacket Random(std::mt19937_64& random) {
  constexpr std::array<uint8_t, 8> kFlags = {
      kTcpSyn,           kTcpSyn | kTcpAck, kTcpAck,           kTcpAck,
      kTcpPsh | kTcpAck, kTcpFin | kTcpAck, kTcpFin | kTcpAck, kTcpRst};
  const uint64_t draw = random();
  return {(draw & 1) != 0, (draw & 2) != 0, kFlags[draw >> 61]};
}

TEST_SUITE("storage") {
  TEST_CASE("flows: impossible sizes give no engine") {
    CHECK(KbfFlows::Create({0, 1e-3, 1e-5}) == nullptr);
    CHECK(KbfFlows::Create({1000, 0, 1e-5}) == nullptr);
    CHECK(KbfFlows::Create({kCapacityMax + 1, 1e-3, 1e-5}) == nullptr);
    CHECK(SbfFlows::Create(0, 1e-3) == nullptr);
    CHECK(SbfFlows::Create(1000, 1) == nullptr);
    CHECK(SbfFlows::Create(1000, 1e-12) == nullptr);
  }

  TEST_CASE("flows: every engine adds, changes and removes a flow") {
    for (const auto& [name, flows] : Engines(1000)) {
      CAPTURE(name);
      REQUIRE(flows != nullptr);
      CHECK(flows->Find(Flow(1)).outcome == FlowOutcome::kAbsent);
      flows->Add(Flow(1), FlowState::kSynHigh);
      FlowAnswer found = flows->Find(Flow(1));
      REQUIRE(found.outcome == FlowOutcome::kFound);
      CHECK(found.state == FlowState::kSynHigh);
      for (unsigned state = 0; state < kNumFlowStates; ++state) {
        CHECK(flows->Change(Flow(1), found, static_cast<FlowState>(state)));
        found = flows->Find(Flow(1));
        REQUIRE(found.outcome == FlowOutcome::kFound);
        CHECK(found.state == static_cast<FlowState>(state));
      }
      CHECK(flows->size() == 1);
      CHECK(flows->memory_bytes() > 0);
      CHECK(flows->Remove(Flow(1), found));
      CHECK(flows->size() == 0);
      CHECK(flows->Find(Flow(1)).outcome == FlowOutcome::kAbsent);
    }
  }

  TEST_CASE("flows: a packet moves a flow as the machine says") {
    for (const auto& [name, flows] : Engines(1000)) {
      CAPTURE(name);
      const auto follow = [&](bool from_high, uint8_t flags) {
        return FollowFlow(flows.get(), Flow(7), {from_high, false, flags}, FlowKind::kConnection);
      };
      CHECK(follow(false, kTcpSyn).before.outcome == FlowOutcome::kAbsent);
      CHECK(follow(true, kTcpSyn | kTcpAck).step.next == FlowState::kSynAckHigh);
      CHECK(follow(false, kTcpAck).before.state == FlowState::kSynAckHigh);
      CHECK(follow(false, kTcpSyn).step.alarm == FlowAlarm::kSynInOpen);
      CHECK(flows->Find(Flow(7)).state == FlowState::kOpen);
      (void)follow(true, kTcpFin | kTcpAck);
      (void)follow(false, kTcpFin | kTcpAck);
      CHECK(!follow(true, kTcpAck).step.next.has_value());
      CHECK(flows->size() == 0);
    }
  }

  TEST_CASE("flows: a state that cannot be told is left alone but for bad flags") {
    SbfFlows* sbf = nullptr;
    auto flows = SbfFlows::Create(1, 0.5);  // two cells of one hash function at most
    sbf = flows.get();
    REQUIRE(sbf != nullptr);
    for (uint64_t i = 0; i < 10; ++i) sbf->Add(Flow(i), static_cast<FlowState>(i % 5));
    REQUIRE(sbf->Find(Flow(3)).outcome == FlowOutcome::kUnknown);
    const auto reset = FollowFlow(sbf, Flow(3), {false, false, kTcpRst}, FlowKind::kConnection);
    CHECK(reset.before.outcome == FlowOutcome::kUnknown);
    CHECK(reset.step.alarm == FlowAlarm::kNone);
    const auto bad = FollowFlow(sbf, Flow(3), {false, false, 0}, FlowKind::kConnection);
    CHECK(bad.step.alarm == FlowAlarm::kBadFlags);
  }

  // A flow that is unknown is not followed: the model keeps for it what the engine was last told.
  TEST_CASE("flows: engines keep what they were told under random packets (model)") {
    constexpr uint64_t kSeed = 20261119, kFlows = 20'000, kPackets = 400'000;
    CAPTURE(kSeed);
    for (const auto& [name, flows] : Engines(kFlows)) {
      CAPTURE(name);
      std::mt19937_64 random(kSeed);
      std::vector<std::optional<FlowState>> model(kFlows);
      uint64_t known = 0, unknown = 0, wrong = 0, denied = 0, unasked = 0;
      for (uint64_t i = 0; i < kPackets; ++i) {
        const uint64_t flow = random() % kFlows;
        const FlowPacket packet = Random(random);
        const auto followed = FollowFlow(flows.get(), Flow(flow), packet, FlowKind::kConnection);
        const FlowOutcome outcome = followed.before.outcome;
        if (model[flow]) {
          ++known;
          unknown += outcome == FlowOutcome::kUnknown;
          denied += outcome == FlowOutcome::kAbsent;
          wrong += outcome == FlowOutcome::kFound && *model[flow] != followed.before.state;
        } else {
          unasked += outcome != FlowOutcome::kAbsent;
        }
        if (outcome != FlowOutcome::kUnknown) model[flow] = followed.step.next;
      }
      REQUIRE(known > kPackets / 2);
      CHECK(wrong == 0);
      CHECK(denied == 0);
      if (name == "exact") {
        CHECK(unknown + unasked == 0);
      } else if (name != "sbf") {
        // Budgets of 1e-3 and 1e-5 (mean 400 and 4 at most). A flow is asked 20 times on average,
        // and what is unknown once is likely to stay so, hence the larger sigma.
        const auto bound = [](double mean) { return mean + 5 * std::sqrt(20 * mean); };
        CHECK(static_cast<double>(unknown) <= bound(1e-3 * static_cast<double>(known)));
        CHECK(static_cast<double>(unasked) <=
              bound(1e-5 * (kPackets - static_cast<double>(known))));
      } else {
        CHECK(unknown > 0);
      }
    }
  }

  TEST_CASE("flows: a kBF at its capacity misses no more than was asked for") {
    // Sample: 50,000 flows, budget 1e-3: 50 on average at most.
    constexpr uint64_t kFlows = 50'000;
    auto flows = KbfFlows::Create({kFlows, 1e-3, 1e-5});
    REQUIRE(flows != nullptr);
    std::mt19937_64 random(9);
    std::vector<FlowState> states;
    for (uint64_t i = 0; i < kFlows; ++i) {
      states.push_back(random() % 10 < 7 ? FlowState::kOpen
                                         : static_cast<FlowState>(random() % 10));
      flows->Add(Flow(i), states.back());
    }
    uint64_t missed = 0, wrong = 0;
    for (uint64_t i = 0; i < kFlows; ++i) {
      const FlowAnswer found = flows->Find(Flow(i));
      missed += found.outcome != FlowOutcome::kFound;
      wrong += found.outcome == FlowOutcome::kFound && found.state != states[i];
    }
    CHECK(wrong == 0);
    const double mean = flows->Predicted().false_negative * kFlows;
    CHECK(mean <= 1e-3 * kFlows);
    CHECK(static_cast<double>(missed) <= mean + 5 * std::sqrt(mean));
  }

  TEST_CASE("flows: two generations forget what is idle and keep what is not") {
    FlowGenerations flows([] { return KbfFlows::Create({1000, 1e-3, 1e-5}); });
    const auto send = [&](uint64_t flow) {
      return FollowFlow(&flows, Flow(flow), {false, true, kTcpAck}, FlowKind::kConnection)
          .before.outcome;
    };
    CHECK(send(1) == FlowOutcome::kAbsent);
    CHECK(send(2) == FlowOutcome::kAbsent);
    flows.Rotate();
    CHECK(flows.newer_size() == 0);
    CHECK(flows.size() == 2);
    CHECK(send(1) == FlowOutcome::kFound);  // and moves, though its state is the same
    CHECK(flows.newer_size() == 1);
    CHECK(flows.size() == 2);
    flows.Rotate();
    CHECK(flows.rotations() == 2);
    CHECK(flows.size() == 1);
    CHECK(send(1) == FlowOutcome::kFound);
    CHECK(send(2) == FlowOutcome::kAbsent);
  }
}

}  // namespace
}  // namespace kbf
