#include "tools/kbfflow/packet.h"

#include <arpa/inet.h>

#include <algorithm>

namespace flow {

namespace {

using Bytes = std::span<const uint8_t>;

constexpr uint16_t kEtherIpv4 = 0x0800;
constexpr uint16_t kEtherIpv6 = 0x86dd;
constexpr uint8_t kProtocolTcp = 6;
constexpr size_t kTcpHeaderBytes = 20;
constexpr unsigned kVlanTagsMax = 4;
constexpr unsigned kExtensionsMax = 8;

uint16_t Read16(Bytes bytes, size_t at) {
  return static_cast<uint16_t>(bytes[at] << 8 | bytes[at + 1]);
}

bool IsVlanTag(uint16_t type) { return type == 0x8100 || type == 0x88a8 || type == 0x9100; }

// What is left of the packet: bytes that were captured, and how many there were.
struct Rest {
  Bytes bytes;
  size_t wire_bytes;

  bool Has(size_t count) const { return bytes.size() >= count; }
  // REQUIRES: Has(count)
  Rest Behind(size_t count) const {
    return {bytes.subspan(count), wire_bytes - std::min(wire_bytes, count)};
  }
  // What it means that there are fewer bytes than `count`: they were cut off, or never there.
  PacketKind WhyShort(size_t count) const {
    return wire_bytes > bytes.size() && wire_bytes >= count ? PacketKind::kCutShort
                                                            : PacketKind::kBroken;
  }
};

// ---- TCP ----

PacketKind ParseTcp(const Rest& rest, TcpPacket* packet) {
  // Everything up to the flags; options and checksum are not needed.
  constexpr size_t kNeeded = 14;
  if (!rest.Has(kNeeded)) return rest.WhyShort(kTcpHeaderBytes);
  const size_t header = size_t{rest.bytes[12]} >> 4 << 2;
  if (header < kTcpHeaderBytes || header > rest.wire_bytes) return PacketKind::kBroken;
  packet->source_port = Read16(rest.bytes, 0);
  packet->destination_port = Read16(rest.bytes, 2);
  packet->flags = rest.bytes[13] & 0x3f;
  packet->has_data = rest.wire_bytes > header;
  return PacketKind::kTcp;
}

// ---- IP ----

// The IP packet without what the link layer padded it with. A length of 0 comes from network cards
// that split large packets themselves.
Rest WithoutPadding(const Rest& rest, size_t ip_bytes) {
  if (ip_bytes == 0 || ip_bytes > rest.wire_bytes) return rest;
  return {rest.bytes.first(std::min(rest.bytes.size(), ip_bytes)), ip_bytes};
}

PacketKind ParseIpv4(Rest rest, TcpPacket* packet) {
  constexpr size_t kHeaderMin = 20;
  if (!rest.Has(kHeaderMin)) return rest.WhyShort(kHeaderMin);
  const size_t header = (rest.bytes[0] & size_t{15}) * 4;
  const size_t total = Read16(rest.bytes, 2);
  if (rest.bytes[0] >> 4 != 4 || header < kHeaderMin || (total != 0 && total < header)) {
    return PacketKind::kBroken;
  }
  if (rest.bytes[9] != kProtocolTcp) return PacketKind::kOther;
  if ((Read16(rest.bytes, 6) & 0x1fff) != 0) return PacketKind::kFragment;
  for (const auto& [address, at] : {std::pair{&packet->source, 12}, {&packet->destination, 16}}) {
    *address = {};
    std::copy_n(rest.bytes.begin() + at, 4, address->bytes.begin() + 12);
  }
  rest = WithoutPadding(rest, total);
  if (!rest.Has(header)) return rest.WhyShort(header);
  return ParseTcp(rest.Behind(header), packet);
}

// Steps over one extension header of type `*next`. kTcp: go on; else what the packet is.
PacketKind SkipExtension(Rest* rest, uint8_t* next) {
  constexpr uint8_t kFragmentHeader = 44, kAuthentication = 51;
  constexpr size_t kStep = 8;
  if (!rest->Has(kStep)) return rest->WhyShort(kStep);
  size_t length = (size_t{rest->bytes[1]} + 1) * 8;
  if (*next == kAuthentication) length = (size_t{rest->bytes[1]} + 2) * 4;
  if (*next == kFragmentHeader) {
    length = kStep;
    if ((Read16(rest->bytes, 2) & 0xfff8) != 0) return PacketKind::kFragment;
  }
  if (!rest->Has(length)) return rest->WhyShort(length);
  *next = rest->bytes[0];
  *rest = rest->Behind(length);
  return PacketKind::kTcp;
}

bool IsExtension(uint8_t type) {
  return type == 0 || type == 43 || type == 44 || type == 51 || type == 60 || type == 135;
}

PacketKind ParseIpv6(Rest rest, TcpPacket* packet) {
  constexpr size_t kHeader = 40;
  if (!rest.Has(kHeader)) return rest.WhyShort(kHeader);
  if (rest.bytes[0] >> 4 != 6) return PacketKind::kBroken;
  for (const auto& [address, at] : {std::pair{&packet->source, 8}, {&packet->destination, 24}}) {
    address->is_v4 = false;
    std::copy_n(rest.bytes.begin() + at, 16, address->bytes.begin());
  }
  uint8_t next = rest.bytes[6];
  const size_t payload = Read16(rest.bytes, 4);
  rest = WithoutPadding(rest, payload == 0 ? 0 : kHeader + payload).Behind(kHeader);
  for (unsigned i = 0; IsExtension(next); ++i) {
    if (i == kExtensionsMax) return PacketKind::kBroken;
    const PacketKind kind = SkipExtension(&rest, &next);
    if (kind != PacketKind::kTcp) return kind;
  }
  return next == kProtocolTcp ? ParseTcp(rest, packet) : PacketKind::kOther;
}

// By the version in the first byte, for link layers that do not name it.
PacketKind ParseAnyIp(const Rest& rest, TcpPacket* packet) {
  if (!rest.Has(1)) return rest.WhyShort(1);
  const unsigned version = rest.bytes[0] >> 4;
  if (version == 4) return ParseIpv4(rest, packet);
  return version == 6 ? ParseIpv6(rest, packet) : PacketKind::kBroken;
}

PacketKind ParseEtherType(uint16_t type, Rest rest, TcpPacket* packet) {
  for (unsigned tags = 0; IsVlanTag(type); ++tags) {
    if (tags == kVlanTagsMax) return PacketKind::kBroken;
    if (!rest.Has(4)) return rest.WhyShort(4);
    type = Read16(rest.bytes, 2);
    rest = rest.Behind(4);
  }
  if (type == kEtherIpv4) return ParseIpv4(rest, packet);
  return type == kEtherIpv6 ? ParseIpv6(rest, packet) : PacketKind::kOther;
}

// A header of `length` bytes with the type of what follows at `type_at`.
PacketKind ParseTyped(const Rest& rest, size_t length, size_t type_at, TcpPacket* packet) {
  if (!rest.Has(length)) return rest.WhyShort(length);
  return ParseEtherType(Read16(rest.bytes, type_at), rest.Behind(length), packet);
}

// The address family of BSD's loopback has four bytes, and other numbers for IPv6 on each system:
// the IP header says the same.
PacketKind ParseLoopback(const Rest& rest, TcpPacket* packet) {
  if (!rest.Has(4)) return rest.WhyShort(4);
  return ParseAnyIp(rest.Behind(4), packet);
}

}  // namespace

std::optional<LinkLayer> LinkLayerOf(int link_type) {
  switch (link_type) {
    case 1:  // EN10MB
      return LinkLayer::kEthernet;
    case 113:  // LINUX_SLL
      return LinkLayer::kLinuxCooked;
    case 276:  // LINUX_SLL2
      return LinkLayer::kLinuxCooked2;
    case 12:   // RAW, on most systems
    case 14:   // RAW, on OpenBSD
    case 101:  // RAW, in files
    case 228:  // IPV4
    case 229:  // IPV6
      return LinkLayer::kRawIp;
    case 0:    // NULL
    case 108:  // LOOP
      return LinkLayer::kLoopback;
    default:
      return std::nullopt;
  }
}

std::string AddressText(const Address& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.is_v4) {
    inet_ntop(AF_INET, address.bytes.data() + 12, text, sizeof(text));
  } else {
    inet_ntop(AF_INET6, address.bytes.data(), text, sizeof(text));
  }
  return text;
}

PacketKind ParsePacket(LinkLayer link, std::span<const uint8_t> bytes, size_t wire_bytes,
                       TcpPacket* packet) {
  const Rest rest{bytes, std::max(wire_bytes, bytes.size())};
  TcpPacket parsed;
  const auto kind = [&] {
    switch (link) {
      case LinkLayer::kEthernet:
        return ParseTyped(rest, 14, 12, &parsed);
      case LinkLayer::kLinuxCooked:
        return ParseTyped(rest, 16, 14, &parsed);
      case LinkLayer::kLinuxCooked2:
        return ParseTyped(rest, 20, 0, &parsed);
      case LinkLayer::kLoopback:
        return ParseLoopback(rest, &parsed);
      case LinkLayer::kRawIp:
        break;
    }
    return ParseAnyIp(rest, &parsed);
  }();
  if (kind == PacketKind::kTcp) *packet = parsed;
  return kind;
}

}  // namespace flow
