// Monitor follows TCP flows in FlowStates and reports what is suspicious: at once where a packet
// shows it, after a timeout where something did not happen.
//
// Filters hold no keys, so nobody can ask them which flows are half open. So the monitor notes each
// flow that begins a handshake or an end, with the time, and looks at its state again after the
// timeout, or when the capture ends. These notes are few: established flows, which are most, have
// none.
//
// Promises:  reports are those of an exact monitor but for flows whose state was wrong or unknown
//            (storage/flow/flow_states.h says how often). Flows that were reported as half open or
//            half closed, and those that were reset, are forgotten after the timeout.
// Requires:  one thread; See and Advance with times of the capture. Times that go back count as the
//            latest one.
//            (See | Advance | Rotate)* Finish
// Costs:     per packet the look-ups of FollowFlow; about 200 bytes per note.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <unordered_map>

#include "storage/flow/flow_generations.h"
#include "storage/flow/flow_states.h"
#include "storage/flow/tcp_machine.h"
#include "storage/hash.h"
#include "tools/kbfflow/packet.h"

namespace flow {

struct Endpoint {
  Address address;
  uint16_t port = 0;  // 0 where flows are pairs of hosts
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
  friend bool operator<(const Endpoint& a, const Endpoint& b) {
    return a.address == b.address ? a.port < b.port : a.address < b.address;
  }
};
struct FlowId {
  Endpoint low;
  Endpoint high;
};

// A packet with its flow.
struct KeyedPacket {
  FlowId id;
  kbf::KeyHash hash;
  kbf::FlowPacket packet;
  uint64_t time_us = 0;
};
KeyedPacket KeyOf(const TcpPacket& packet, uint64_t time_us, kbf::FlowKind kind,
                  const kbf::HashSecret& secret);

struct Report {
  uint64_t time_us = 0;
  kbf::FlowAlarm alarm = kbf::FlowAlarm::kNone;
  kbf::KeyHash hash;
  Endpoint from;  // who sent the packet, or the SYN or FIN that was waited for
  Endpoint to;
  std::optional<uint64_t> waited_us;  // since then
};

struct MonitorSettings {
  kbf::FlowKind kind = kbf::FlowKind::kHostPair;
  uint64_t timeout_us = 30'000'000;
  uint64_t notes_max = uint64_t{1} << 18;  // then the oldest is looked at early
};

class Monitor {
 public:
  using OnReport = std::function<void(const Report&)>;
  Monitor(const MonitorSettings& settings, kbf::FlowGenerations flows, OnReport on_report);

  // What was known of the packet's flow before it.
  kbf::FlowAnswer See(const KeyedPacket& keyed);
  // Looks at flows whose time is over.
  void Advance(uint64_t time_us);
  void Finish();
  void Rotate() { flows_.Rotate(); }

  const kbf::FlowGenerations& flows() const { return flows_; }
  uint64_t alarms(kbf::FlowAlarm alarm) const { return alarms_[static_cast<size_t>(alarm)]; }
  uint64_t packets_of_unknown() const { return packets_of_unknown_; }
  uint64_t notes() const { return notes_.size(); }

 private:
  // A flow to look at again.
  struct Note {
    FlowId id;
    kbf::KeyHash hash;
    uint64_t time_us;
    uint64_t number;
  };
  struct HashOf {
    size_t operator()(const kbf::KeyHash& hash) const { return hash.lo; }
  };

  void MakeNote(const KeyedPacket& keyed);
  void LookAtOldest();
  void ReportLate(const Note& note, kbf::FlowState state);
  void Raise(const Report& report);

  MonitorSettings settings_;
  kbf::FlowGenerations flows_;
  OnReport on_report_;
  uint64_t now_us_ = 0;
  std::deque<Note> notes_;  // in the order of time
  uint64_t notes_made_ = 0;
  std::unordered_map<kbf::KeyHash, uint64_t, HashOf> latest_note_;  // its number
  std::array<uint64_t, kbf::kNumFlowAlarms> alarms_{};
  uint64_t packets_of_unknown_ = 0;
};

}  // namespace flow
