// Writes a generated trace (storage/flow/flow_trace.h) as a pcap file: Ethernet, IPv4, TCP.
//
// Callers are in 10.0.0.0/8, one for each flow, servers in 172.16.0.0/12, so pairs of hosts and
// connections are the same flows. Packets are cut off behind the TCP header; sequence numbers and
// TCP checksums are 0.
#pragma once

#include <cstdint>

#include "storage/flow/flow_trace.h"
#include "tools/files.h"

namespace flow {

// Packets that were written. Throws tools::FileError.
uint64_t WriteTrace(const kbf::FlowTraceShape& shape, tools::Output* output);

}  // namespace flow
