// Packets and capture files for the tests of kbfflow, built byte by byte.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace flow {

using PacketBytes = std::vector<uint8_t>;

inline PacketBytes Joined(std::initializer_list<PacketBytes> parts) {
  PacketBytes whole;
  for (const PacketBytes& part : parts) whole.insert(whole.end(), part.begin(), part.end());
  return whole;
}
inline PacketBytes Number16(unsigned number) {
  return {static_cast<uint8_t>(number >> 8), static_cast<uint8_t>(number)};
}

inline PacketBytes TcpHeader(uint8_t flags, unsigned source_port = 40000,
                             unsigned destination_port = 80) {
  return Joined({Number16(source_port),
                 Number16(destination_port),
                 {0, 0, 0, 1, 0, 0, 0, 2, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0}});
}
// From 192.0.2.1 to 198.51.100.2.
inline PacketBytes Ipv4(const PacketBytes& payload, uint8_t protocol = 6, unsigned fragment = 0,
                        const PacketBytes& options = {}) {
  const auto words = static_cast<uint8_t>(5 + options.size() / 4);
  return Joined({{static_cast<uint8_t>(0x40 | words), 0},
                 Number16(static_cast<unsigned>(words * 4 + payload.size())),
                 {0, 0},
                 Number16(fragment),
                 {64, protocol, 0, 0, 192, 0, 2, 1, 198, 51, 100, 2},
                 options,
                 payload});
}
// From 2001:db8::1 to 2001:db8::2.
inline PacketBytes Ipv6(const PacketBytes& payload, uint8_t next = 6) {
  PacketBytes source = {0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  PacketBytes destination = source;
  destination.back() = 2;
  return Joined({{0x60, 0, 0, 0},
                 Number16(static_cast<unsigned>(payload.size())),
                 {next, 64},
                 source,
                 destination,
                 payload});
}
inline PacketBytes Ethernet(unsigned type, const PacketBytes& payload) {
  return Joined({{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2}, Number16(type), payload});
}

// A pcap file of little-endian numbers with one packet a second.
class PcapFile {
 public:
  explicit PcapFile(uint32_t link_type = 1, uint32_t magic = 0xa1b2c3d4) {
    Number(magic);
    Number(4u << 16 | 2);
    for (const uint32_t number : {0u, 0u, 65535u, link_type}) Number(number);
  }
  PcapFile& Add(const PacketBytes& packet, size_t captured = SIZE_MAX) {
    Number(1'700'000'000 + packets_++);
    Number(0);
    captured = captured < packet.size() ? captured : packet.size();
    Number(static_cast<uint32_t>(captured));
    Number(static_cast<uint32_t>(packet.size()));
    bytes_.append(reinterpret_cast<const char*>(packet.data()), captured);
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void Number(uint32_t number) {
    for (int i = 0; i < 4; ++i) bytes_ += static_cast<char>(number >> 8 * i);
  }
  std::string bytes_;
  uint32_t packets_ = 0;
};

}  // namespace flow
