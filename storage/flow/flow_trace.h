// FlowTrace makes up the packets of many TCP flows in the order in which a watcher would see them,
// in place of the CAIDA traces of [kBF] §7, which are not public: exact numbers of flows that end
// in a reset, stop after a FIN, are never answered or send what no TCP sends; the others open, send
// data, and close or stay open.
//
// Promises:  the same shape and seed give the same packets. Flows begin in the order of their
//            numbers, evenly over the trace; packets come in the order of time.
// Costs:     32 bytes per flow that has packets to come; O(log flows) per packet.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <random>
#include <vector>

#include "storage/flow/tcp_machine.h"
#include "storage/hash.h"

namespace kbf {

struct FlowTraceShape {
  uint64_t flows = 908'522;  // [kBF] §7; 246,539 in Fig. 19
  uint64_t fin = 900;        // stop after one FIN
  uint64_t reset = 1'658;
  uint64_t half_open = 500;   // a SYN without an answer
  uint64_t illegal = 100;     // open, then a packet with SYN and FIN
  double closed_share = 0.3;  // of the others: they close
  double data_packets = 3;    // of a flow, on average; 1 at least
  double seconds = 3600;
  uint64_t seed = 1;
};
inline constexpr uint64_t kTraceFlowsMax = uint64_t{1} << 24;

// True if the special flows are not more than all, and all numbers are in range.
bool IsValid(const FlowTraceShape& shape);

struct TracePacket {
  uint64_t time_us = 0;  // from the beginning of the trace
  uint64_t flow = 0;     // its number, from 0
  bool from_caller = true;
  uint8_t flags = 0;
  uint16_t data_bytes = 0;
};

class FlowTrace {
 public:
  // REQUIRES: IsValid(shape)
  explicit FlowTrace(const FlowTraceShape& shape);

  // Nothing at the end.
  std::optional<TracePacket> Next();

 private:
  enum class Ending : uint8_t { kOpen, kClosed, kFin, kReset, kHalfOpen, kIllegal };
  struct Flow {
    uint64_t time_us = 0;  // of its next packet
    uint64_t number = 0;
    uint32_t step = 0;
    uint32_t data_packets = 0;
    Ending ending = Ending::kOpen;
    friend bool operator>(const Flow& a, const Flow& b) {
      return a.time_us != b.time_us ? a.time_us > b.time_us : a.number > b.number;
    }
  };
  // What a flow sends at its step, and whether that was the last.
  struct Sent {
    TracePacket packet;
    bool last;
  };
  Sent SendStep(const Flow& flow) const;
  Flow BeginNext();
  Ending DrawEnding();
  uint64_t BeginOf(uint64_t number);
  uint64_t DrawGap(bool data);

  FlowTraceShape shape_;
  std::mt19937_64 random_;
  uint64_t begun_ = 0;
  uint64_t next_begin_us_ = 0;
  std::array<uint64_t, 4> special_left_;  // kFin ... kIllegal
  std::priority_queue<Flow, std::vector<Flow>, std::greater<>> waiting_;
};

}  // namespace kbf
