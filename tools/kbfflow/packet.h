// Finds the TCP header in a captured packet: link layer, VLAN tags, IPv4 or IPv6, TCP.
//
// Promises:  reads no byte outside of `bytes`, whatever they are, and says of every packet what it
//            is. A TCP packet is only reported with all of its header's fixed fields; how much data
//            it had follows from the IP header's length, so a short snap length does no harm.
// Requires:  nothing; pure functions.
// Limits:    fragments but the first have no TCP header, and tunnels are not looked into (both are
//            counted, not followed).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace flow {

// How a packet begins.
enum class LinkLayer : uint8_t { kEthernet, kLinuxCooked, kLinuxCooked2, kRawIp, kLoopback };

// Of a capture's link type, as pcap_datalink gives it or a file has it; nothing where it is not
// known here.
std::optional<LinkLayer> LinkLayerOf(int link_type);

struct Address {
  std::array<uint8_t, 16> bytes{};  // IPv4 in the last four
  bool is_v4 = true;
  friend bool operator==(const Address&, const Address&) = default;
  friend bool operator<(const Address& a, const Address& b) {
    return a.is_v4 != b.is_v4 ? a.is_v4 : a.bytes < b.bytes;
  }
};
// "192.0.2.1", "2001:db8::1"
std::string AddressText(const Address& address);

struct TcpPacket {
  Address source;
  Address destination;
  uint16_t source_port = 0;
  uint16_t destination_port = 0;
  uint8_t flags = 0;  // as in storage/flow/tcp_machine.h
  bool has_data = false;
};

enum class PacketKind : uint8_t {
  kTcp,
  kOther,     // another protocol
  kFragment,  // of an IP packet, and not the first one
  kCutShort,  // the snap length cut off what is needed
  kBroken,    // its lengths or versions contradict each other
};
inline constexpr unsigned kNumPacketKinds = 5;

// `wire_bytes` is the packet's length before it was cut to the snap length. *packet is only written
// for kTcp.
PacketKind ParsePacket(LinkLayer link, std::span<const uint8_t> bytes, size_t wire_bytes,
                       TcpPacket* packet);

}  // namespace flow
