#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "storage/flow/tcp_machine.h"
#include "tests/tools/packets.h"
#include "tools/kbfflow/packet.h"

namespace flow {
namespace {

constexpr uint8_t kSyn = kbf::kTcpSyn;

struct Parsed {
  PacketKind kind;
  TcpPacket packet;
};
Parsed Parse(LinkLayer link, const PacketBytes& bytes, size_t wire_bytes = 0) {
  Parsed parsed{};
  parsed.kind =
      ParsePacket(link, bytes, wire_bytes == 0 ? bytes.size() : wire_bytes, &parsed.packet);
  return parsed;
}
PacketKind KindOf(const PacketBytes& bytes) { return Parse(LinkLayer::kEthernet, bytes).kind; }

struct Form {
  const char* name;
  LinkLayer link;
  PacketBytes bytes;
  bool is_v4;
};
std::vector<Form> Forms() {
  const PacketBytes tcp = TcpHeader(kSyn);
  const PacketBytes cooked = {0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0};
  const PacketBytes cooked2_rest = {0, 0, 0, 0, 0, 2, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0};
  return {
      {"Ethernet, IPv4", LinkLayer::kEthernet, Ethernet(0x0800, Ipv4(tcp)), true},
      {"Ethernet, IPv6", LinkLayer::kEthernet, Ethernet(0x86dd, Ipv6(tcp)), false},
      {"VLAN", LinkLayer::kEthernet,
       Ethernet(0x8100, Joined({{0, 7}, Number16(0x0800), Ipv4(tcp)})), true},
      {"two VLAN tags", LinkLayer::kEthernet,
       Ethernet(0x88a8, Joined({{0, 7}, Number16(0x8100), {0, 9}, Number16(0x86dd), Ipv6(tcp)})),
       false},
      {"IPv4 options", LinkLayer::kEthernet,
       Ethernet(0x0800, Ipv4(tcp, 6, 0, {1, 1, 1, 1, 1, 1, 1, 0})), true},
      {"IPv6 extensions", LinkLayer::kRawIp,
       Ipv6(Joined({{60, 0, 1, 4, 0, 0, 0, 0},
                    {44, 1},
                    PacketBytes(14, 0),
                    {6, 0, 0, 1, 0, 0, 0, 9},
                    tcp}),
            0),
       false},
      {"authentication header", LinkLayer::kRawIp,
       Ipv6(Joined({{6, 4}, PacketBytes(22, 0), tcp}), 51), false},
      {"Linux cooked", LinkLayer::kLinuxCooked, Joined({cooked, Number16(0x0800), Ipv4(tcp)}),
       true},
      {"Linux cooked 2", LinkLayer::kLinuxCooked2,
       Joined({Number16(0x86dd), cooked2_rest, Ipv6(tcp)}), false},
      {"raw", LinkLayer::kRawIp, Ipv4(tcp), true},
      {"loopback", LinkLayer::kLoopback, Joined({{2, 0, 0, 0}, Ipv4(tcp)}), true},
      {"first fragment", LinkLayer::kRawIp, Ipv4(tcp, 6, 0x2000), true},
  };
}

TEST_SUITE("tools") {
  TEST_CASE("kbfflow finds the TCP header behind every link layer") {
    for (const Form& form : Forms()) {
      CAPTURE(form.name);
      const auto [kind, packet] = Parse(form.link, form.bytes);
      REQUIRE(kind == PacketKind::kTcp);
      CHECK(AddressText(packet.source) == (form.is_v4 ? "192.0.2.1" : "2001:db8::1"));
      CHECK(AddressText(packet.destination) == (form.is_v4 ? "198.51.100.2" : "2001:db8::2"));
      CHECK(packet.source_port == 40000);
      CHECK(packet.destination_port == 80);
      CHECK(packet.flags == kSyn);
      CHECK(!packet.has_data);
    }
  }

  TEST_CASE("kbfflow: a packet cut off anywhere is read, too short or broken, never another") {
    for (const Form& form : Forms()) {
      CAPTURE(form.name);
      for (size_t length = 0; length < form.bytes.size(); ++length) {
        CAPTURE(length);
        // Of its own size, so that reading on would be noticed under a sanitizer.
        const PacketBytes part(form.bytes.begin(),
                               form.bytes.begin() + static_cast<ptrdiff_t>(length));
        const auto cut = Parse(form.link, part, form.bytes.size());
        // The flags end six bytes before the TCP header does.
        CHECK(cut.kind ==
              (length + 6 >= form.bytes.size() ? PacketKind::kTcp : PacketKind::kCutShort));
        if (cut.kind == PacketKind::kTcp) CHECK(cut.packet.flags == kSyn);
        CHECK(Parse(form.link, part).kind == PacketKind::kBroken);
      }
    }
  }

  TEST_CASE("kbfflow: data are told from padding and from what was cut off") {
    const PacketBytes bare = Ethernet(0x0800, Ipv4(TcpHeader(kbf::kTcpAck)));
    const PacketBytes padded = Joined({bare, PacketBytes(6, 0)});
    CHECK(!Parse(LinkLayer::kEthernet, padded).packet.has_data);
    const PacketBytes data = Ethernet(0x0800, Ipv4(Joined({TcpHeader(kbf::kTcpAck), {1}})));
    CHECK(Parse(LinkLayer::kEthernet, data).packet.has_data);
    const PacketBytes cut(data.begin(), data.end() - 1);
    CHECK(Parse(LinkLayer::kEthernet, cut, data.size()).packet.has_data);
    // A network card that splits packets itself leaves the length 0.
    PacketBytes unset = data;
    unset[16] = unset[17] = 0;
    CHECK(Parse(LinkLayer::kEthernet, unset).packet.has_data);
  }

  TEST_CASE("kbfflow: what is not TCP, or a later fragment, is counted as such") {
    const PacketBytes tcp = TcpHeader(kSyn);
    CHECK(KindOf(Ethernet(0x0806, PacketBytes(28, 0))) == PacketKind::kOther);
    CHECK(KindOf(Ethernet(0x0800, Ipv4(tcp, 17))) == PacketKind::kOther);
    CHECK(KindOf(Ethernet(0x86dd, Ipv6(tcp, 58))) == PacketKind::kOther);
    CHECK(KindOf(Ethernet(0x0800, Ipv4(tcp, 6, 1))) == PacketKind::kFragment);
    CHECK(KindOf(Ethernet(0x86dd, Ipv6(Joined({{6, 0, 0, 8, 0, 0, 0, 9}, tcp}), 44))) ==
          PacketKind::kFragment);
  }

  TEST_CASE("kbfflow: headers that contradict themselves are broken") {
    const PacketBytes tcp = TcpHeader(kSyn);
    const auto broken_at = [](PacketBytes bytes, size_t at, uint8_t value) {
      bytes[at] = value;
      return KindOf(bytes) == PacketKind::kBroken;
    };
    const PacketBytes v4 = Ethernet(0x0800, Ipv4(tcp)), v6 = Ethernet(0x86dd, Ipv6(tcp));
    CHECK(broken_at(v4, 14, 0x65));  // version
    CHECK(broken_at(v4, 14, 0x44));  // header of 16 bytes
    CHECK(broken_at(v4, 14, 0x4f));  // header of 60 bytes
    CHECK(broken_at(v4, 17, 19));    // total length
    CHECK(broken_at(v4, 46, 0x40));  // TCP header of 16 bytes
    CHECK(broken_at(v4, 46, 0xf0));  // TCP header of 60 bytes
    CHECK(broken_at(v6, 14, 0x45));
    PacketBytes chain;
    for (int i = 0; i < 20; ++i) chain = Joined({chain, {60, 0, 0, 0, 0, 0, 0, 0}});
    CHECK(KindOf(Ethernet(0x86dd, Ipv6(chain, 60))) == PacketKind::kBroken);
    PacketBytes tags;
    for (int i = 0; i < 20; ++i) tags = Joined({tags, {0, 1, 0x81, 0}});
    CHECK(KindOf(Ethernet(0x8100, tags)) == PacketKind::kBroken);
  }

  TEST_CASE("kbfflow: a link type is known or refused") {
    CHECK(LinkLayerOf(1) == LinkLayer::kEthernet);
    CHECK(LinkLayerOf(113) == LinkLayer::kLinuxCooked);
    CHECK(LinkLayerOf(276) == LinkLayer::kLinuxCooked2);
    for (const int type : {-1, 105, 127, 195, 1000000}) CHECK(!LinkLayerOf(type).has_value());
  }
}

}  // namespace
}  // namespace flow
