// What must hold for any capture file: it is refused in one line, or read to its end or to where it
// breaks, with every packet counted as something and every flow followed. The first byte says as
// what link layer the bytes behind it are also read without a file around them.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/fuzz.h"
#include "tools/kbfflow/capture.h"
#include "tools/kbfflow/monitor.h"

namespace flow {

inline const char* FuzzPacket(std::string_view input) {
  if (input.empty()) return nullptr;
  const auto link = static_cast<LinkLayer>(static_cast<unsigned char>(input[0]) % 5);
  // Of its own size, so that the sanitizer sees a read behind its end.
  const std::vector<uint8_t> bytes(input.begin() + 1, input.end());
  for (const size_t wire_bytes : {bytes.size(), bytes.size() + 1000, size_t{0}}) {
    TcpPacket packet;
    packet.flags = 0xff;
    const PacketKind kind = ParsePacket(link, bytes, wire_bytes, &packet);
    if (static_cast<unsigned>(kind) >= kNumPacketKinds) return "a kind that is none";
    if (kind != PacketKind::kTcp && packet.flags != 0xff)
      return "a packet that was not read, written";
    if (kind == PacketKind::kTcp && packet.flags > 0x3f) return "flags that are none";
    if (kind == PacketKind::kTcp && AddressText(packet.source).empty()) return "no address";
  }
  return nullptr;
}

inline const char* FuzzCapturedPackets(Capture* capture) {
  static const kbf::HashSecret secret = kbf::HashSecret::FromSeed(1);
  uint64_t reports = 0;
  Monitor monitor({kbf::FlowKind::kConnection, 1000, 8},
                  kbf::FlowGenerations([] { return std::make_unique<kbf::ExactFlows>(); }),
                  [&](const Report&) { ++reports; });
  CapturedPacket captured;
  Capture::Status status;
  while ((status = capture->Next(&captured)) == Capture::Status::kPacket) {
    TcpPacket packet;
    if (ParsePacket(capture->link_layer(), captured.bytes, captured.wire_bytes, &packet) ==
        PacketKind::kTcp) {
      monitor.See(KeyOf(packet, captured.time_us, kbf::FlowKind::kConnection, secret));
    }
    if (monitor.notes() > 8) return "more notes than allowed";
  }
  if (status == Capture::Status::kNothing) return "a file that waits";
  if ((status == Capture::Status::kBroken) == capture->error().empty()) return "no reason";
  monitor.Finish();
  uint64_t alarms = 0;
  for (unsigned i = 1; i < kbf::kNumFlowAlarms; ++i) {
    alarms += monitor.alarms(static_cast<kbf::FlowAlarm>(i));
  }
  return alarms == reports ? nullptr : "alarms that were not reported";
}

// The fault that was found, or null.
inline const char* FuzzCapture(std::string_view input) {
  if (const char* fault = FuzzPacket(input)) return fault;
  if (input.empty()) return nullptr;
  std::string bytes(input);
  FILE* const file = fmemopen(bytes.data(), bytes.size(), "rb");
  if (file == nullptr) return "no file in memory";
  try {
    Capture capture = Capture::OpenStream(file, "input");
    return FuzzCapturedPackets(&capture);
  } catch (const tools::FileError& error) {
    const std::string_view line = error.what();
    return line.empty() || line.find('\n') != line.npos ? "a refusal that is not one line"
                                                        : nullptr;
  }
}

}  // namespace flow
