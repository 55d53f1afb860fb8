#include "storage/flow/tcp_machine.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kbf {
namespace {

constexpr uint8_t kSynAck = kTcpSyn | kTcpAck;
constexpr uint8_t kFinAck = kTcpFin | kTcpAck;

// A packet of a conversation in which the low endpoint is the caller unless `swapped`.
struct Line {
  bool from_caller;
  uint8_t flags;
  bool has_data = false;
};

struct Told {
  std::optional<FlowState> state;
  std::vector<FlowAlarm> alarms;
};
Told Tell(const std::vector<Line>& lines, FlowKind kind = FlowKind::kConnection,
          bool swapped = false) {
  Told told;
  for (const Line& line : lines) {
    const FlowStep step =
        StepFlow(told.state, {line.from_caller == swapped, line.has_data, line.flags}, kind);
    told.state = step.next;
    if (step.alarm != FlowAlarm::kNone) told.alarms.push_back(step.alarm);
  }
  return told;
}

const std::vector<Line> kHandshake = {{true, kTcpSyn}, {false, kSynAck}, {true, kTcpAck}};
std::vector<Line> Opened(std::vector<Line> more) {
  std::vector<Line> lines = kHandshake;
  lines.insert(lines.end(), more.begin(), more.end());
  return lines;
}

using Alarms = std::vector<FlowAlarm>;

TEST_SUITE("storage") {
  TEST_CASE("a flow from SYN to the last ACK raises no alarm and leaves no state") {
    for (const FlowKind kind : {FlowKind::kConnection, FlowKind::kHostPair}) {
      for (const bool swapped : {false, true}) {
        const auto told = Tell(Opened({{true, kTcpPsh | kTcpAck, true},
                                       {false, kTcpAck},
                                       {false, kTcpAck, true},
                                       {true, kFinAck},
                                       {false, kTcpAck},
                                       {false, kFinAck},
                                       {true, kTcpAck}}),
                               kind, swapped);
        CHECK(!told.state.has_value());
        CHECK(told.alarms.empty());
      }
    }
  }

  TEST_CASE("each step of a flow has the state that its name says") {
    const std::vector<Line> whole =
        Opened({{true, kTcpAck, true}, {false, kFinAck}, {true, kFinAck}, {false, kTcpAck}});
    const std::vector<std::optional<FlowState>> expected = {
        FlowState::kSynLow,  FlowState::kSynAckHigh, FlowState::kOpen, FlowState::kOpen,
        FlowState::kFinHigh, FlowState::kLastLow,    std::nullopt};
    for (size_t i = 0; i < expected.size(); ++i) {
      CAPTURE(i);
      const std::vector<Line> part(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(i) + 1);
      CHECK(Tell(part).state == expected[i]);
    }
    CHECK(Tell({{true, kTcpSyn}}, FlowKind::kConnection, true).state == FlowState::kSynHigh);
  }

  TEST_CASE("packets that are sent again change nothing") {
    const auto told = Tell({{true, kTcpSyn},
                            {true, kTcpSyn},
                            {false, kSynAck},
                            {false, kSynAck},
                            {true, kTcpSyn},
                            {true, kTcpAck},
                            {false, kSynAck},
                            {true, kFinAck},
                            {true, kFinAck},
                            {false, kFinAck},
                            {false, kFinAck},
                            {true, kFinAck},
                            {true, kTcpAck}});
    CHECK(!told.state.has_value());
    CHECK(told.alarms.empty());
  }

  TEST_CASE("a capture that begins late or sees one direction raises no alarm") {
    CHECK(Tell({{true, kTcpAck, true}}).state == FlowState::kOpen);
    CHECK(!Tell({{true, kTcpAck}}).state.has_value());
    CHECK(!Tell({{true, kFinAck}, {false, kFinAck}, {true, kTcpAck}}).state.has_value());
    CHECK(!Tell({{true, kTcpRst}}).state.has_value());
    const auto caller =
        Tell({{true, kTcpSyn}, {true, kTcpAck}, {true, kTcpAck, true}, {true, kFinAck}});
    CHECK(caller.state == FlowState::kFinLow);
    CHECK(caller.alarms.empty());
    const Told called =
        Tell({{false, kSynAck}, {false, kTcpAck}, {false, kTcpAck, true}}, FlowKind::kHostPair);
    CHECK(called.state == FlowState::kOpen);
    CHECK(called.alarms.empty());
  }

  TEST_CASE("a reset is reported once, and a SYN begins anew after it") {
    const auto reset =
        Tell(Opened({{false, kTcpRst}, {false, kTcpRst | kTcpAck}, {true, kTcpAck, true}}));
    CHECK(reset.state == FlowState::kReset);
    CHECK(reset.alarms == Alarms{FlowAlarm::kReset});
    CHECK(Tell({{true, kTcpSyn}, {false, kTcpRst | kTcpAck}, {true, kTcpSyn}}).state ==
          FlowState::kSynLow);
    // As does one with the ports of a flow that is about to end.
    CHECK(Tell(Opened({{true, kFinAck}, {false, kFinAck}, {true, kTcpSyn}})).state ==
          FlowState::kSynLow);
  }

  TEST_CASE("flags that no TCP sends are reported in every state and change none") {
    for (const uint8_t flags :
         {0, int{kTcpPsh}, int{kTcpUrg}, kTcpSyn | kTcpFin, kTcpSyn | kTcpRst,
          kTcpFin | kTcpRst | kTcpAck, int{kTcpFin}, kTcpFin | kTcpPsh | kTcpUrg}) {
      for (unsigned state = 0; state <= kNumFlowStates; ++state) {
        const auto before =
            state < kNumFlowStates ? std::optional(static_cast<FlowState>(state)) : std::nullopt;
        for (const FlowKind kind : {FlowKind::kConnection, FlowKind::kHostPair}) {
          const FlowStep step = StepFlow(before, {false, false, flags}, kind);
          CHECK(step.next == before);
          CHECK(step.alarm == FlowAlarm::kBadFlags);
        }
      }
    }
  }

  TEST_CASE("packets that cannot come in a state are reported in connections, not in host pairs") {
    const struct {
      std::vector<Line> lines;
      FlowAlarm alarm;
    } cases[] = {
        {Opened({{true, kTcpSyn}}), FlowAlarm::kSynInOpen},
        {Opened({{true, kFinAck}, {false, kTcpSyn}}), FlowAlarm::kSynInOpen},
        {{{false, kSynAck}}, FlowAlarm::kSynAckUnasked},
        {{{true, kTcpSyn}, {true, kSynAck}}, FlowAlarm::kSynAckUnasked},
        {{{true, kTcpSyn}, {false, kTcpAck}}, FlowAlarm::kAckBeforeReply},
        {{{true, kTcpSyn}, {true, kFinAck}}, FlowAlarm::kFinBeforeOpen},
    };
    for (const auto& [lines, alarm] : cases) {
      CAPTURE(FlowAlarmText(alarm));
      CHECK(Tell(lines).alarms == Alarms{alarm});
      CHECK(Tell(lines, FlowKind::kHostPair).alarms.empty());
      CHECK(Tell(lines).state == Tell(lines, FlowKind::kHostPair).state);
    }
  }

  TEST_CASE("every state answers every packet with a state, and sides are interchangeable") {
    const auto other_side = [](std::optional<FlowState> state) {
      if (!state || *state >= FlowState::kOpen) return state;
      return std::optional(static_cast<FlowState>(static_cast<unsigned>(*state) ^ 1));
    };
    for (unsigned state = 0; state <= kNumFlowStates; ++state) {
      const auto before =
          state < kNumFlowStates ? std::optional(static_cast<FlowState>(state)) : std::nullopt;
      for (unsigned bits = 0; bits < 256; ++bits) {
        const FlowPacket packet{(bits & 64) != 0, (bits & 128) != 0,
                                static_cast<uint8_t>(bits & 63)};
        const FlowPacket mirrored{!packet.from_high, packet.has_data, packet.flags};
        const FlowStep step = StepFlow(before, packet, FlowKind::kConnection);
        const FlowStep mirror = StepFlow(other_side(before), mirrored, FlowKind::kConnection);
        REQUIRE(mirror.next == other_side(step.next));
        REQUIRE(mirror.alarm == step.alarm);
        if (step.next) REQUIRE(static_cast<unsigned>(*step.next) < kNumFlowStates);
      }
    }
  }
}

}  // namespace
}  // namespace kbf
