#include "tools/kbfflow/trace_writer.h"

#include <array>
#include <bit>
#include <string_view>

#include "storage/hash.h"

namespace flow {

namespace {

constexpr size_t kEthernetBytes = 14;
constexpr size_t kIpBytes = 20;
constexpr size_t kTcpBytes = 20;
constexpr size_t kPacketBytes = kEthernetBytes + kIpBytes + kTcpBytes;
constexpr uint64_t kFirstSecond = 1'700'000'000;  // any time; a capture's begins somewhere

using Packet = std::array<uint8_t, kPacketBytes>;

void Put16(uint8_t* at, uint32_t number) {
  at[0] = static_cast<uint8_t>(number >> 8);
  at[1] = static_cast<uint8_t>(number);
}
void Put32(uint8_t* at, uint32_t number) {
  Put16(at, number >> 16);
  Put16(at + 2, number);
}

// The heads of the file and of each packet are in the machine's byte order, which the first number
// shows.
template <size_t kCount>
void AppendNumbers(tools::Output* output, const std::array<uint32_t, kCount>& numbers) {
  output->Append(std::string_view(reinterpret_cast<const char*>(numbers.data()), sizeof(numbers)));
}

uint16_t IpChecksum(const uint8_t* header) {
  uint32_t sum = 0;
  for (size_t i = 0; i < kIpBytes; i += 2) sum += uint32_t{header[i]} << 8 | header[i + 1];
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

struct Host {
  uint32_t address;
  uint16_t port;
};
// An odd factor permutes the 2^24 addresses.
Host CallerOf(uint64_t flow) {
  const auto low = static_cast<uint32_t>(flow * 0x9e3779b1u) & 0xffffff;
  return {10u << 24 | low, static_cast<uint16_t>(1024 + kbf::Mix64(flow) % 60000)};
}
Host ServerOf(uint64_t flow) {
  constexpr std::array<uint16_t, 4> kPorts = {443, 80, 22, 11211};
  const uint64_t draw = kbf::Mix64(~flow);
  return {172u << 24 | 16u << 16 | static_cast<uint32_t>(draw & 0xfffff), kPorts[draw >> 62]};
}

Packet PacketOf(const kbf::TracePacket& sent) {
  const Host caller = CallerOf(sent.flow), server = ServerOf(sent.flow);
  const Host& from = sent.from_caller ? caller : server;
  const Host& to = sent.from_caller ? server : caller;
  Packet packet{};
  packet[0] = packet[6] = 2;  // locally administered addresses
  packet[5] = sent.from_caller ? 2 : 1;
  packet[11] = sent.from_caller ? 1 : 2;
  Put16(&packet[12], 0x0800);
  uint8_t* const ip = &packet[kEthernetBytes];
  ip[0] = 0x45;
  Put16(ip + 2, static_cast<uint32_t>(kIpBytes + kTcpBytes) + sent.data_bytes);
  ip[8] = 64;
  ip[9] = 6;
  Put32(ip + 12, from.address);
  Put32(ip + 16, to.address);
  Put16(ip + 10, IpChecksum(ip));
  uint8_t* const tcp = ip + kIpBytes;
  Put16(tcp, from.port);
  Put16(tcp + 2, to.port);
  tcp[12] = kTcpBytes / 4 << 4;
  tcp[13] = sent.flags;
  Put16(tcp + 14, 0xffff);
  return packet;
}

}  // namespace

uint64_t WriteTrace(const kbf::FlowTraceShape& shape, tools::Output* output) {
  constexpr uint32_t kMagic = 0xa1b2c3d4, kSnapBytes = 65535;
  constexpr auto kVersion = std::bit_cast<uint32_t>(std::array<uint16_t, 2>{2, 4});
  constexpr uint32_t kEthernet = 1;
  AppendNumbers<6>(output, {kMagic, kVersion, 0, 0, kSnapBytes, kEthernet});
  kbf::FlowTrace trace(shape);
  uint64_t packets = 0;
  while (const auto sent = trace.Next()) {
    const Packet packet = PacketOf(*sent);
    AppendNumbers<4>(output, {static_cast<uint32_t>(kFirstSecond + sent->time_us / 1'000'000),
                              static_cast<uint32_t>(sent->time_us % 1'000'000),
                              static_cast<uint32_t>(packet.size()),
                              static_cast<uint32_t>(packet.size() + sent->data_bytes)});
    output->Append(std::string_view(reinterpret_cast<const char*>(packet.data()), packet.size()));
    ++packets;
  }
  output->Flush();
  return packets;
}

}  // namespace flow
