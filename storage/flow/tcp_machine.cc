#include "storage/flow/tcp_machine.h"

namespace kbf {

namespace {

FlowState Of(FlowState low, bool from_high) {
  return static_cast<FlowState>(static_cast<uint8_t>(low) | (from_high ? 1 : 0));
}
// REQUIRES: a state of a pair
bool SentByHigh(FlowState state) { return (static_cast<uint8_t>(state) & 1) != 0; }
FlowState LowOf(FlowState state) {
  return state >= FlowState::kOpen ? state
                                   : static_cast<FlowState>(static_cast<uint8_t>(state) & ~1);
}

bool AreBad(uint8_t flags) {
  const bool syn = (flags & kTcpSyn) != 0, fin = (flags & kTcpFin) != 0;
  const bool rst = (flags & kTcpRst) != 0, ack = (flags & kTcpAck) != 0;
  if (!syn && !fin && !rst && !ack) return true;
  return (syn && fin) || (syn && rst) || (fin && (rst || !ack));
}

FlowStep OnSyn(std::optional<FlowState> state, bool from_high) {
  const FlowState begun = Of(FlowState::kSynLow, from_high);
  if (!state) return {begun};
  switch (LowOf(*state)) {
    case FlowState::kLastLow:  // the same ports again
    case FlowState::kReset:
      return {begun};
    case FlowState::kOpen:
    case FlowState::kFinLow:
      return {state, FlowAlarm::kSynInOpen};
    default:  // sent again, or both sides call at once
      return {state};
  }
}

FlowStep OnSynAck(std::optional<FlowState> state, bool from_high) {
  const FlowState answered = Of(FlowState::kSynAckLow, from_high);
  if (!state) return {answered, FlowAlarm::kSynAckUnasked};
  if (LowOf(*state) != FlowState::kSynLow) return {state};
  if (SentByHigh(*state) == from_high) return {state, FlowAlarm::kSynAckUnasked};
  return {answered};
}

FlowStep OnFin(std::optional<FlowState> state, bool from_high) {
  if (!state) return {};
  switch (LowOf(*state)) {
    case FlowState::kSynLow:
      return {state, FlowAlarm::kFinBeforeOpen};
    case FlowState::kSynAckLow:
    case FlowState::kOpen:
      return {Of(FlowState::kFinLow, from_high)};
    case FlowState::kFinLow:
      return {SentByHigh(*state) == from_high ? *state : Of(FlowState::kLastLow, from_high)};
    default:
      return {state};
  }
}

FlowStep OnAck(std::optional<FlowState> state, const FlowPacket& packet) {
  // An ACK alone may be the last of a flow that has ended.
  if (!state) return packet.has_data ? FlowStep{FlowState::kOpen} : FlowStep{};
  switch (LowOf(*state)) {
    case FlowState::kSynLow:
      if (SentByHigh(*state) != packet.from_high) return {state, FlowAlarm::kAckBeforeReply};
      return {FlowState::kOpen};
    case FlowState::kSynAckLow:
      // Data of the side that was called: it has an ACK that was not seen.
      if (SentByHigh(*state) == packet.from_high && !packet.has_data) return {state};
      return {FlowState::kOpen};
    case FlowState::kLastLow:
      if (SentByHigh(*state) == packet.from_high) return {state};
      return {};
    default:
      return {state};
  }
}

FlowStep OnReset(std::optional<FlowState> state) {
  if (!state || *state == FlowState::kReset) return {state};
  return {FlowState::kReset, FlowAlarm::kReset};
}

FlowStep OnPacket(std::optional<FlowState> state, const FlowPacket& packet) {
  const bool ack = (packet.flags & kTcpAck) != 0;
  if ((packet.flags & kTcpRst) != 0) return OnReset(state);
  if ((packet.flags & kTcpSyn) != 0) {
    return ack ? OnSynAck(state, packet.from_high) : OnSyn(state, packet.from_high);
  }
  if ((packet.flags & kTcpFin) != 0) return OnFin(state, packet.from_high);
  return OnAck(state, packet);
}

}  // namespace

const char* FlowStateName(FlowState state) {
  switch (LowOf(state)) {
    case FlowState::kSynLow:
      return "SYN";
    case FlowState::kSynAckLow:
      return "SYN+ACK";
    case FlowState::kFinLow:
      return "FIN";
    case FlowState::kLastLow:
      return "second FIN";
    case FlowState::kOpen:
      return "open";
    default:
      return "reset";
  }
}

const char* FlowAlarmText(FlowAlarm alarm) {
  switch (alarm) {
    case FlowAlarm::kNone:
      return "nothing";
    case FlowAlarm::kBadFlags:
      return "flags that no TCP sends together";
    case FlowAlarm::kSynInOpen:
      return "SYN in an open connection";
    case FlowAlarm::kSynAckUnasked:
      return "SYN+ACK without a SYN";
    case FlowAlarm::kAckBeforeReply:
      return "ACK in place of a SYN+ACK";
    case FlowAlarm::kFinBeforeOpen:
      return "FIN before the handshake";
    case FlowAlarm::kReset:
      return "reset";
    case FlowAlarm::kHalfOpen:
      return "the handshake was not completed";
    case FlowAlarm::kHalfClosed:
      return "FIN, but the connection did not end";
  }
  return "nothing";
}

FlowStep StepFlow(std::optional<FlowState> state, const FlowPacket& packet, FlowKind kind) {
  if (AreBad(packet.flags)) return {state, FlowAlarm::kBadFlags};
  FlowStep step = OnPacket(state, packet);
  if (kind == FlowKind::kHostPair && step.alarm != FlowAlarm::kReset) step.alarm = FlowAlarm::kNone;
  return step;
}

}  // namespace kbf
