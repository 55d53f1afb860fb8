#include "protocol/stats_format.h"

#include <doctest/doctest.h>

#include <string>

namespace protocol {
namespace {

using std::string_literals::operator""s;

TEST_SUITE("protocol") {
  TEST_CASE("statistics in text are STAT lines and END") {
    Request request{.op = Op::kStats, .wire = Wire::kText};
    std::string out;
    AppendStat(request, "pid", "16947", &out);
    AppendStat(request, "nothing", "", &out);
    AppendStatsEnd(request, &out);
    CHECK(out == "STAT pid 16947\r\nSTAT nothing\r\nEND\r\n");
  }

  // The packets of memcached 1.6.18 to `STAT` with opaque deadbeef.
  TEST_CASE("statistics in binary are a packet each and an empty one") {
    Request request{.op = Op::kStats, .wire = Wire::kBinary};
    request.opcode = 0x10;
    request.opaque = 0xdeadbeef;
    std::string out = "before";
    AppendStat(request, "pid", "16947", &out);
    AppendStat(request, "uptime", "8", &out);
    AppendStatsEnd(request, &out);
    CHECK(out ==
          "before"
          "\x81\x10\0\x03\0\0\0\0\0\0\0\x08\xde\xad\xbe\xef\0\0\0\0\0\0\0\0pid16947"
          "\x81\x10\0\x06\0\0\0\0\0\0\0\x07\xde\xad\xbe\xef\0\0\0\0\0\0\0\0uptime8"
          "\x81\x10\0\0\0\0\0\0\0\0\0\0\xde\xad\xbe\xef\0\0\0\0\0\0\0\0"s);
  }

  TEST_CASE("a long statistic in binary stays whole") {
    Request request{.op = Op::kStats, .wire = Wire::kBinary};
    const std::string name(kStatNameBytesMax, 'n');
    const std::string value(100000, 'v');
    std::string out;
    AppendStat(request, name, value, &out);
    CHECK(out.size() == 24 + name.size() + value.size());
    CHECK(out.substr(24) == name + value);
  }
}

}  // namespace
}  // namespace protocol
