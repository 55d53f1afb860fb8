#include "storage/flow/flow_trace.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace kbf {
namespace {

FlowTraceShape Small() {
  FlowTraceShape shape;
  shape.flows = 5000;
  shape.fin = 90;
  shape.reset = 165;
  shape.half_open = 40;
  shape.illegal = 30;
  shape.seconds = 60;
  return shape;
}

std::vector<TracePacket> Packets(const FlowTraceShape& shape) {
  FlowTrace trace(shape);
  std::vector<TracePacket> packets;
  while (const auto packet = trace.Next()) packets.push_back(*packet);
  return packets;
}

TEST_SUITE("storage") {
  TEST_CASE("trace: shapes that cannot be are told apart") {
    CHECK(IsValid(FlowTraceShape{}));
    CHECK(IsValid(Small()));
    for (const auto change : {+[](FlowTraceShape* shape) { shape->flows = 0; },
                              +[](FlowTraceShape* shape) { shape->flows = kTraceFlowsMax + 1; },
                              +[](FlowTraceShape* shape) { shape->fin = 4900; },
                              +[](FlowTraceShape* shape) { shape->reset = ~uint64_t{0}; },
                              +[](FlowTraceShape* shape) { shape->closed_share = 1.1; },
                              +[](FlowTraceShape* shape) { shape->data_packets = 0; },
                              +[](FlowTraceShape* shape) { shape->seconds = 0; }}) {
      FlowTraceShape shape = Small();
      change(&shape);
      CHECK(!IsValid(shape));
    }
  }

  TEST_CASE("trace: packets come in order, and the same ones again") {
    const auto packets = Packets(Small());
    const auto again = Packets(Small());
    REQUIRE(packets.size() == again.size());
    uint64_t differ = 0, backwards = 0;
    for (size_t i = 0; i < packets.size(); ++i) {
      differ += packets[i].time_us != again[i].time_us || packets[i].flow != again[i].flow ||
                packets[i].flags != again[i].flags;
      backwards += i > 0 && packets[i].time_us < packets[i - 1].time_us;
    }
    CHECK(differ == 0);
    CHECK(backwards == 0);
    FlowTraceShape other = Small();
    other.seed = 2;
    CHECK(Packets(other).front().time_us != packets.front().time_us);
  }

  TEST_CASE("trace: exactly as many flows of each kind as were asked for") {
    std::vector<std::optional<FlowState>> states(Small().flows);
    std::map<FlowAlarm, uint64_t> alarms;
    for (const TracePacket& packet : Packets(Small())) {
      auto& state = states.at(packet.flow);
      const FlowStep step = StepFlow(
          state, {!packet.from_caller, packet.data_bytes > 0, packet.flags}, FlowKind::kConnection);
      state = step.next;
      ++alarms[step.alarm];
    }
    CHECK(alarms[FlowAlarm::kReset] == 165);
    CHECK(alarms[FlowAlarm::kBadFlags] == 30);
    alarms.erase(FlowAlarm::kNone);
    CHECK(alarms.size() == 2);
    std::map<std::optional<FlowState>, uint64_t> at_end;
    for (const auto& state : states) ++at_end[state];
    CHECK(at_end[FlowState::kFinLow] + at_end[FlowState::kFinHigh] == 90);
    CHECK(at_end[FlowState::kReset] == 165);
    CHECK(at_end[FlowState::kSynLow] == 40);
    // 0.3 of the other 4,675 close, with a deviation of 31.
    CHECK(at_end[std::nullopt] > 1402 - 157);
    CHECK(at_end[std::nullopt] < 1402 + 157);
    CHECK(at_end[std::nullopt] + at_end[FlowState::kOpen] == 5000 - 90 - 165 - 40);
  }
}

}  // namespace
}  // namespace kbf
