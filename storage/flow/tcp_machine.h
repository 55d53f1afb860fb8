// The states that a TCP flow goes through as a watcher between the two hosts sees them, and what is
// suspicious about a packet in such a state ([kBF] §7; [kBF-conf] §VI).
//
// A flow has two endpoints, "low" and "high"; which is which does not depend on who began. There is
// no state before the first packet and after the last.
//
//   (none) --SYN--> Syn --SYN+ACK--> SynAck --ACK--> Open --FIN--> Fin --FIN--> Last --ACK-->
//   (none) any state --RST--> Reset --SYN--> Syn
//
// Promises:  StepFlow is a pure function and total: it has an answer for any state and any packet.
// Requires:  packets roughly in the order in which they were sent. A capture that begins in the
//            middle of a flow, or sees only one of its directions, raises no alarm: data without a
//            state opens a flow, and so do an ACK of the caller whose SYN+ACK was not seen, and
//            data of the side that was called whose ACK was not seen.
// Departs:   [kBF] takes the TCP flags of a flow's latest packet as its state. Those cannot tell
//            who began, nor whether a FIN was the first one, so they cannot say when a flow ends.
#pragma once

#include <cstdint>
#include <optional>

namespace kbf {

// As in the TCP header.
inline constexpr uint8_t kTcpFin = 0x01;
inline constexpr uint8_t kTcpSyn = 0x02;
inline constexpr uint8_t kTcpRst = 0x04;
inline constexpr uint8_t kTcpPsh = 0x08;
inline constexpr uint8_t kTcpAck = 0x10;
inline constexpr uint8_t kTcpUrg = 0x20;

// Pairs differ in the endpoint that sent it, which is their lowest bit.
enum class FlowState : uint8_t {
  kSynLow,
  kSynHigh,
  kSynAckLow,
  kSynAckHigh,
  kFinLow,  // one side has finished
  kFinHigh,
  kLastLow,  // both have; the second FIN is not acknowledged yet
  kLastHigh,
  kOpen,
  kReset,
};
inline constexpr unsigned kNumFlowStates = 10;

// "open", "reset", "SYN", ... Both of a pair have one name.
const char* FlowStateName(FlowState state);

constexpr bool IsHandshake(FlowState state) { return state <= FlowState::kSynAckHigh; }
constexpr bool IsClosing(FlowState state) {
  return state >= FlowState::kFinLow && state <= FlowState::kLastHigh;
}

struct FlowPacket {
  bool from_high = false;
  bool has_data = false;
  uint8_t flags = 0;
};

// What is suspicious. The last two are not seen in a packet: nothing came for some time.
enum class FlowAlarm : uint8_t {
  kNone,
  kBadFlags,        // flags that no TCP sends together, or none at all
  kSynInOpen,       // SYN in a connection that is open
  kSynAckUnasked,   // SYN+ACK without a SYN of the other side
  kAckBeforeReply,  // the side that was called sends without a SYN+ACK
  kFinBeforeOpen,   // FIN before the handshake
  kReset,
  kHalfOpen,    // the handshake was not completed
  kHalfClosed,  // FIN, and the flow never ended
};
inline constexpr unsigned kNumFlowAlarms = 9;

// A sentence without a full stop.
const char* FlowAlarmText(FlowAlarm alarm);

// Whether a flow is one connection, or all connections of two hosts. Packets of several connections
// mix in the latter, so only alarms that one packet alone can raise are raised there.
enum class FlowKind : uint8_t { kConnection, kHostPair };

struct FlowStep {
  std::optional<FlowState> next;  // nothing: no state, the flow has ended or not begun
  FlowAlarm alarm = FlowAlarm::kNone;
};
FlowStep StepFlow(std::optional<FlowState> state, const FlowPacket& packet, FlowKind kind);

}  // namespace kbf
