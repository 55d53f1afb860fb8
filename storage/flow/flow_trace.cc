#include "storage/flow/flow_trace.h"

#include <algorithm>
#include <cmath>

namespace kbf {

namespace {

constexpr double kRoundTripSeconds = 0.05;
constexpr uint64_t kMicrosecond = 1'000'000;
// Flows begin in this share of the trace, so that most have sent all their data before its end.
constexpr double kBeginShare = 0.8;
// Between data packets, as a share of the trace.
constexpr double kDataGapShare = 0.02;
constexpr uint32_t kDataPacketsMax = 1000;
constexpr uint32_t kHandshakePackets = 3;

double Uniform(std::mt19937_64& random) {
  return std::ldexp(static_cast<double>(random() >> 11), -53);
}

}  // namespace

bool IsValid(const FlowTraceShape& shape) {
  if (shape.flows == 0 || shape.flows > kTraceFlowsMax) return false;
  uint64_t special = 0;
  for (const uint64_t part : {shape.fin, shape.reset, shape.half_open, shape.illegal}) {
    if (part > shape.flows) return false;
    special += part;
  }
  return special <= shape.flows && shape.closed_share >= 0 && shape.closed_share <= 1 &&
         shape.data_packets >= 1 && shape.data_packets <= 100 && shape.seconds >= 0.001 &&
         shape.seconds <= 1e6;
}

FlowTrace::FlowTrace(const FlowTraceShape& shape)
    : shape_(shape),
      random_(shape.seed),
      special_left_{shape.fin, shape.reset, shape.half_open, shape.illegal} {
  next_begin_us_ = BeginOf(0);
}

std::optional<TracePacket> FlowTrace::Next() {
  if (begun_ < shape_.flows && (waiting_.empty() || next_begin_us_ <= waiting_.top().time_us)) {
    waiting_.push(BeginNext());
  }
  if (waiting_.empty()) return std::nullopt;
  Flow flow = waiting_.top();
  waiting_.pop();
  const Sent sent = SendStep(flow);
  if (!sent.last) {
    ++flow.step;
    // Hosts answer at once; only data, and what ends a flow, lets wait for itself.
    const uint32_t ending = kHandshakePackets + flow.data_packets;
    flow.time_us += DrawGap(flow.step > kHandshakePackets && flow.step <= ending);
    waiting_.push(flow);
  }
  return sent.packet;
}

FlowTrace::Sent FlowTrace::SendStep(const Flow& flow) const {
  const auto packet = [&](bool from_caller, uint8_t flags, uint16_t data_bytes = 0) {
    return TracePacket{flow.time_us, flow.number, from_caller, flags, data_bytes};
  };
  if (flow.step == 0) return {packet(true, kTcpSyn), flow.ending == Ending::kHalfOpen};
  if (flow.step == 1) return {packet(false, kTcpSyn | kTcpAck), false};
  if (flow.step == 2) return {packet(true, kTcpAck), false};
  const uint32_t data = flow.step - kHandshakePackets;
  if (data < flow.data_packets) {
    const bool last = data + 1 == flow.data_packets && flow.ending == Ending::kOpen;
    const auto bytes = static_cast<uint16_t>(1 + Mix64(flow.number ^ uint64_t{data} << 32) % 1400);
    return {packet(data % 2 == 0, kTcpPsh | kTcpAck, bytes), last};
  }
  const bool from_caller = flow.number % 2 == 0;
  switch (flow.ending) {
    case Ending::kReset:
      return {packet(from_caller, kTcpRst | kTcpAck), true};
    case Ending::kIllegal:
      return {packet(from_caller, kTcpSyn | kTcpFin), true};
    case Ending::kFin:
      return {packet(from_caller, kTcpFin | kTcpAck), true};
    default:
      break;
  }
  switch (data - flow.data_packets) {
    case 0:
      return {packet(from_caller, kTcpFin | kTcpAck), false};
    case 1:
      return {packet(!from_caller, kTcpFin | kTcpAck), false};
    default:
      return {packet(from_caller, kTcpAck), true};
  }
}

FlowTrace::Flow FlowTrace::BeginNext() {
  Flow flow;
  flow.number = begun_;
  flow.time_us = next_begin_us_;
  flow.ending = DrawEnding();
  const double more = -std::log1p(-Uniform(random_)) * (shape_.data_packets - 1);
  flow.data_packets = 1 + static_cast<uint32_t>(std::min(more + 0.5, double{kDataPacketsMax}));
  ++begun_;
  if (begun_ < shape_.flows) next_begin_us_ = std::max(next_begin_us_, BeginOf(begun_));
  return flow;
}

// Exact numbers by selection sampling: each of the flows that are left is special with the share
// of special ones that are left.
FlowTrace::Ending FlowTrace::DrawEnding() {
  uint64_t draw = ScaleTo(random_(), shape_.flows - begun_);
  for (size_t i = 0; i < special_left_.size(); ++i) {
    if (draw < special_left_[i]) {
      --special_left_[i];
      return static_cast<Ending>(static_cast<size_t>(Ending::kFin) + i);
    }
    draw -= special_left_[i];
  }
  return Uniform(random_) < shape_.closed_share ? Ending::kClosed : Ending::kOpen;
}

uint64_t FlowTrace::BeginOf(uint64_t number) {
  const double place =
      (static_cast<double>(number) + Uniform(random_)) / static_cast<double>(shape_.flows);
  return static_cast<uint64_t>(place * kBeginShare * shape_.seconds * kMicrosecond);
}

uint64_t FlowTrace::DrawGap(bool data) {
  const double mean = data ? kDataGapShare * shape_.seconds : kRoundTripSeconds;
  return 1 + static_cast<uint64_t>(-std::log1p(-Uniform(random_)) * mean * kMicrosecond);
}

}  // namespace kbf
