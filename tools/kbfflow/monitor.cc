#include "tools/kbfflow/monitor.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

namespace flow {

namespace {

using kbf::FlowAlarm;
using kbf::FlowState;

// Which of the states that do not last a state belongs to.
enum class Phase : uint8_t { kLasting, kHandshake, kClosing, kReset };
Phase PhaseOf(FlowState state) {
  if (kbf::IsHandshake(state)) return Phase::kHandshake;
  if (kbf::IsClosing(state)) return Phase::kClosing;
  return state == FlowState::kReset ? Phase::kReset : Phase::kLasting;
}

kbf::KeyHash HashOfFlow(const FlowId& id, const kbf::HashSecret& secret) {
  std::array<char, 37> key;
  char* end = key.data();
  for (const Endpoint* endpoint : {&id.low, &id.high}) {
    std::memcpy(end, endpoint->address.bytes.data(), endpoint->address.bytes.size());
    end += endpoint->address.bytes.size();
    std::memcpy(end, &endpoint->port, sizeof(endpoint->port));
    end += sizeof(endpoint->port);
  }
  *end++ = id.low.address.is_v4 ? '4' : '6';
  return kbf::HashKey(std::string_view(key.data(), end), secret);
}

}  // namespace

KeyedPacket KeyOf(const TcpPacket& packet, uint64_t time_us, kbf::FlowKind kind,
                  const kbf::HashSecret& secret) {
  KeyedPacket keyed;
  Endpoint source{packet.source, packet.source_port};
  Endpoint destination{packet.destination, packet.destination_port};
  // By the ports as well, so that both ends of a flow within one host can be told apart.
  keyed.packet = {destination < source, packet.has_data, packet.flags};
  if (keyed.packet.from_high) std::swap(source, destination);
  if (kind == kbf::FlowKind::kHostPair) source.port = destination.port = 0;
  keyed.id = {source, destination};
  keyed.hash = HashOfFlow(keyed.id, secret);
  keyed.time_us = time_us;
  return keyed;
}

Monitor::Monitor(const MonitorSettings& settings, kbf::FlowGenerations flows, OnReport on_report)
    : settings_(settings), flows_(std::move(flows)), on_report_(std::move(on_report)) {}

kbf::FlowAnswer Monitor::See(const KeyedPacket& keyed) {
  Advance(keyed.time_us);
  const auto [before, step] = kbf::FollowFlow(&flows_, keyed.hash, keyed.packet, settings_.kind);
  if (step.alarm != FlowAlarm::kNone) {
    const bool swapped = keyed.packet.from_high;
    Raise({now_us_, step.alarm, keyed.hash, swapped ? keyed.id.high : keyed.id.low,
           swapped ? keyed.id.low : keyed.id.high, std::nullopt});
  }
  packets_of_unknown_ += before.outcome == kbf::FlowOutcome::kUnknown;
  if (!step.next) return before;
  const Phase phase = PhaseOf(*step.next);
  const bool was_there = before.outcome == kbf::FlowOutcome::kFound;
  if (phase != Phase::kLasting && (!was_there || phase != PhaseOf(before.state))) MakeNote(keyed);
  return before;
}

void Monitor::MakeNote(const KeyedPacket& keyed) {
  if (notes_.size() >= settings_.notes_max) LookAtOldest();
  notes_.push_back({keyed.id, keyed.hash, now_us_, ++notes_made_});
  latest_note_[keyed.hash] = notes_made_;
}

void Monitor::Advance(uint64_t time_us) {
  now_us_ = std::max(now_us_, time_us);
  while (!notes_.empty() && now_us_ - notes_.front().time_us >= settings_.timeout_us) {
    LookAtOldest();
  }
}

void Monitor::Finish() {
  while (!notes_.empty()) LookAtOldest();
}

void Monitor::LookAtOldest() {
  const Note note = notes_.front();
  notes_.pop_front();
  const auto latest = latest_note_.find(note.hash);
  // A later note of the flow replaces this one.
  if (latest == latest_note_.end() || latest->second != note.number) return;
  latest_note_.erase(latest);
  const kbf::FlowAnswer found = flows_.Find(note.hash);
  if (found.outcome != kbf::FlowOutcome::kFound) return;
  if (PhaseOf(found.state) == Phase::kLasting) return;
  if (found.state != FlowState::kReset) ReportLate(note, found.state);
  (void)flows_.Remove(note.hash, found);
}

void Monitor::ReportLate(const Note& note, FlowState state) {
  const bool handshake = kbf::IsHandshake(state);
  // Who sent the SYN or the first FIN: the other one sent what came second.
  bool by_high = (static_cast<unsigned>(state) & 1) != 0;
  if (state == FlowState::kSynAckLow || state == FlowState::kSynAckHigh ||
      state == FlowState::kLastLow || state == FlowState::kLastHigh) {
    by_high = !by_high;
  }
  Raise({now_us_, handshake ? FlowAlarm::kHalfOpen : FlowAlarm::kHalfClosed, note.hash,
         by_high ? note.id.high : note.id.low, by_high ? note.id.low : note.id.high,
         now_us_ - note.time_us});
}

void Monitor::Raise(const Report& report) {
  ++alarms_[static_cast<size_t>(report.alarm)];
  on_report_(report);
}

}  // namespace flow
