#include "protocol/binary.h"

#include <doctest/doctest.h>

#include <array>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/binary_fuzz.h"
#include "tests/protocol/binary_exchanges.h"

namespace protocol {
namespace {

constexpr Limits kLimits{.value_bytes_max = 1000};

int Digit(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

// Hexadecimal digits, and text between single quotes.
std::string Bytes(std::string_view notation) {
  std::string bytes;
  for (size_t i = 0; i < notation.size(); ++i) {
    if (notation[i] == ' ') continue;
    if (notation[i] == '\'') {
      const size_t end = notation.find('\'', i + 1);
      bytes += notation.substr(i + 1, end - i - 1);
      i = end;
    } else {
      bytes += static_cast<char>(Digit(notation[i]) << 4 | Digit(notation[i + 1]));
      ++i;
    }
  }
  return bytes;
}

std::string Hex(std::string_view bytes) {
  std::string digits;
  for (const char c : bytes) {
    digits += "0123456789abcdef"[static_cast<uint8_t>(c) >> 4];
    digits += "0123456789abcdef"[c & 15];
  }
  return digits;
}

std::string Number(uint64_t number, int bytes) {
  std::string out;
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) {
    out += static_cast<char>(number >> shift & 0xff);
  }
  return out;
}

struct Packet {
  uint8_t opcode = 0;
  std::string extras = {};
  std::string key = {};
  std::string value = {};
  uint64_t cas = 0;
  std::optional<uint32_t> body = {};  // the true length unless given
  std::string Encode() const {
    const size_t true_body = extras.size() + key.size() + value.size();
    return Number(0x80, 1) + Number(opcode, 1) + Number(key.size(), 2) + Number(extras.size(), 1) +
           Number(0, 3) + Number(body.value_or(static_cast<uint32_t>(true_body)), 4) +
           Number(0xa1b2c3d4, 4) + Number(cas, 8) + extras + key + value;
  }
};

// Owns exactly the bytes that were parsed, so that a sanitizer sees any step outside.
struct Parsed {
  explicit Parsed(std::string_view input) : bytes(input.begin(), input.end()) {
    result = ParseBinary(bytes, kLimits, &request);
  }
  Parsed(const Parsed&) = delete;
  Parsed& operator=(const Parsed&) = delete;

  std::vector<char> bytes;
  Request request;
  ParseResult result;
};

std::string Format(const Request& request, const Response& response) {
  std::array<char, kHeadBytesMax> out;
  const Head head = FormatBinary(request, response, out.data());
  std::string reply(out.data(), head.bytes);
  if (head.with_value) reply += response.value;
  return reply;
}

TEST_SUITE("protocol") {
  TEST_CASE("binary: requests and replies are memcached's, byte for byte") {
    for (const Exchange& exchange : kExchanges) {
      CAPTURE(std::string(exchange.name));
      const std::string input = Bytes(exchange.request);
      const Parsed parsed(input);
      REQUIRE(parsed.result.status == ParseStatus::kOk);
      CHECK(parsed.request.wire == Wire::kBinary);
      CHECK(parsed.request.close == exchange.close);
      CHECK(Hex(Format(parsed.request, exchange.response)) == Hex(Bytes(exchange.reply)));
    }
  }

  TEST_CASE("binary: every request waits for as much as it says and no more, at every split") {
    for (const Exchange& exchange : kExchanges) {
      CAPTURE(std::string(exchange.name));
      const std::string input = Bytes(exchange.request);
      const Parsed whole(input);
      uint64_t needed = 1;
      for (size_t length = 1; length <= input.size(); ++length) {
        CAPTURE(length);
        const Parsed part(std::string_view(input).substr(0, length));
        if (length < needed) {
          CHECK(part.result.status == ParseStatus::kNeedMore);
          CHECK(part.result.needed == needed);
        } else if (part.result.status == ParseStatus::kNeedMore) {
          CHECK(part.result.needed > length);
          needed = part.result.needed;
        } else {
          CHECK(part.result.consumed == whole.result.consumed);
          CHECK(SameRequest(part.request, whole.request));
        }
      }
      CHECK(needed <= input.size());
    }
  }

  TEST_CASE("binary: bytes after a request do not change it") {
    for (const Exchange& exchange : kExchanges) {
      CAPTURE(std::string(exchange.name));
      const std::string input = Bytes(exchange.request);
      const Parsed alone(input);
      const Parsed followed(input + Packet{.opcode = 0x0a}.Encode());
      CHECK(followed.result.consumed == alone.result.consumed);
      if (!alone.request.too_large) CHECK(SameRequest(followed.request, alone.request));
    }
  }

  TEST_CASE("binary: a write has flags, exptime, key, value, cas and opaque") {
    const std::string extras = Number(0x01020304, 4) + Number(0xffffffff, 4);
    struct Row {
      uint8_t opcode;
      Op op;
      bool quiet;
    };
    for (const Row& row : {Row{0x01, Op::kSet, false}, Row{0x11, Op::kSet, true},
                           Row{0x02, Op::kAdd, false}, Row{0x12, Op::kAdd, true},
                           Row{0x03, Op::kReplace, false}, Row{0x13, Op::kReplace, true}}) {
      CAPTURE(row.opcode);
      Packet packet{.opcode = row.opcode, .extras = extras, .key = "a key", .value = "va\r\n"};
      const Parsed parsed(packet.Encode());
      CHECK(parsed.result.consumed == 24 + 8 + 5 + 4);
      CHECK(parsed.request.op == row.op);
      CHECK(parsed.request.quiet == row.quiet);
      CHECK(parsed.request.opcode == row.opcode);
      CHECK(parsed.request.opaque == 0xa1b2c3d4);
      CHECK(parsed.request.flags == 0x01020304);
      CHECK(parsed.request.exptime == 0xffffffff);
      CHECK(parsed.request.key == "a key");
      CHECK(parsed.request.value == "va\r\n");
      CHECK(parsed.request.cas == 0);

      packet.cas = 0x1122334455667788;
      const Parsed with_cas(packet.Encode());
      CHECK(with_cas.request.op == Op::kCas);
      CHECK(with_cas.request.compare_cas);
      CHECK(with_cas.request.cas == 0x1122334455667788);
    }
  }

  TEST_CASE("binary: append and prepend keep their op beside a cas") {
    struct Row {
      uint8_t opcode;
      Op op;
      bool quiet;
    };
    for (const Row& row : {Row{0x0e, Op::kAppend, false}, Row{0x19, Op::kAppend, true},
                           Row{0x0f, Op::kPrepend, false}, Row{0x1a, Op::kPrepend, true}}) {
      CAPTURE(row.opcode);
      const Packet packet{.opcode = row.opcode, .key = "k", .value = "piece", .cas = 7};
      const Parsed parsed(packet.Encode());
      CHECK(parsed.request.op == row.op);
      CHECK(parsed.request.quiet == row.quiet);
      CHECK(parsed.request.key == "k");
      CHECK(parsed.request.value == "piece");
      CHECK(parsed.request.cas == 7);
      CHECK_FALSE(parsed.request.exptime.has_value());
    }
  }

  TEST_CASE("binary: reads and touches") {
    struct Row {
      uint8_t opcode;
      Op op;
      bool quiet;
      bool with_exptime;
    };
    for (const Row& row : {Row{0x00, Op::kGet, false, false}, Row{0x09, Op::kGet, true, false},
                           Row{0x0c, Op::kGet, false, false}, Row{0x0d, Op::kGet, true, false},
                           Row{0x1d, Op::kGet, false, true}, Row{0x1e, Op::kGet, true, true},
                           Row{0x23, Op::kGet, false, true}, Row{0x24, Op::kGet, true, true},
                           Row{0x1c, Op::kTouch, false, true}}) {
      CAPTURE(row.opcode);
      const std::string key("a b\0\n", 5);
      const Packet packet{
          .opcode = row.opcode, .extras = row.with_exptime ? Number(99, 4) : "", .key = key};
      const Parsed parsed(packet.Encode());
      CHECK(parsed.request.op == row.op);
      CHECK(parsed.request.quiet == row.quiet);
      CHECK(parsed.request.key == key);
      CHECK(parsed.request.keys.empty());
      CHECK(parsed.request.exptime.has_value() == row.with_exptime);
      if (row.with_exptime) CHECK(parsed.request.exptime == 99);
    }
  }

  TEST_CASE("binary: arithmetic creates unless the exptime is all ones") {
    struct Row {
      uint8_t opcode;
      bool decrement;
      bool quiet;
    };
    for (const Row& row : {Row{0x05, false, false}, Row{0x06, true, false}, Row{0x15, false, true},
                           Row{0x16, true, true}}) {
      CAPTURE(row.opcode);
      const std::string numbers = Number(0x0102030405060708, 8) + Number(~uint64_t{0}, 8);
      const Packet packet{.opcode = row.opcode, .extras = numbers + Number(60, 4), .key = "n"};
      const Parsed creates(packet.Encode());
      CHECK(creates.request.op == Op::kArithmetic);
      CHECK(creates.request.decrement == row.decrement);
      CHECK(creates.request.quiet == row.quiet);
      CHECK(creates.request.delta == 0x0102030405060708);
      CHECK(creates.request.initial == ~uint64_t{0});
      CHECK(creates.request.initial_exptime == 60);
      const Packet never{
          .opcode = row.opcode, .extras = numbers + Number(0xffffffff, 4), .key = "n"};
      CHECK_FALSE(Parsed(never.Encode()).request.initial.has_value());
    }
  }

  TEST_CASE("binary: requests about the server") {
    CHECK(Parsed(Packet{.opcode = 0x0a}.Encode()).request.op == Op::kNoop);
    CHECK(Parsed(Packet{.opcode = 0x0b}.Encode()).request.op == Op::kVersion);
    for (const uint8_t opcode : {0x07, 0x17}) {
      const Parsed parsed(Packet{.opcode = opcode}.Encode());
      CHECK(parsed.request.op == Op::kQuit);
      CHECK(parsed.request.close);
      CHECK(parsed.request.quiet == (opcode == 0x17));
    }
    for (const uint8_t opcode : {0x08, 0x18}) {
      const Parsed now(Packet{.opcode = opcode}.Encode());
      CHECK(now.request.op == Op::kFlushAll);
      CHECK(now.request.quiet == (opcode == 0x18));
      CHECK_FALSE(now.request.exptime.has_value());
      const Parsed later(Packet{.opcode = opcode, .extras = Number(30, 4)}.Encode());
      CHECK(later.request.op == Op::kFlushAll);
      CHECK(later.request.exptime == 30);
    }
    const Parsed all(Packet{.opcode = 0x10}.Encode());
    CHECK(all.request.op == Op::kStats);
    CHECK(all.request.arguments.empty());
    const Parsed some(Packet{.opcode = 0x10, .key = "detail dump"}.Encode());
    CHECK(some.request.op == Op::kStats);
    CHECK(some.request.arguments == "detail dump");
  }

  TEST_CASE("binary: a value that is too large is announced as soon as the key is there") {
    struct Row {
      uint8_t opcode;
      Op op;
    };
    for (const Row& row : {Row{0x01, Op::kSet}, Row{0x11, Op::kSet}, Row{0x12, Op::kAdd},
                           Row{0x03, Op::kReplace}, Row{0x0e, Op::kAppend}}) {
      CAPTURE(row.opcode);
      const bool appends = row.op == Op::kAppend;
      Packet packet{
          .opcode = row.opcode, .extras = std::string(appends ? 0 : 8, '\0'), .key = "k", .cas = 5};
      const uint32_t before_value = static_cast<uint32_t>(packet.extras.size()) + 1;
      packet.body = before_value + 1001;
      const Parsed parsed(packet.Encode());
      REQUIRE(parsed.result.status == ParseStatus::kOk);
      CHECK(parsed.result.consumed == 24 + before_value + 1001);
      CHECK(parsed.request.op == row.op);  // also with a cas
      CHECK(parsed.request.too_large);
      CHECK_FALSE(parsed.request.close);
      CHECK(parsed.request.key == "k");
      CHECK(parsed.request.value.empty());

      packet.body = before_value + 1000;
      const Parsed fits(packet.Encode());
      CHECK(fits.result.status == ParseStatus::kNeedMore);
      CHECK(fits.result.needed == 24 + before_value + 1000);

      packet.body = 0x7fffffff;
      const Parsed largest(packet.Encode());
      CHECK(largest.request.too_large);
      CHECK(largest.result.consumed == uint64_t{24} + 0x7fffffff);
    }
  }

  TEST_CASE("binary: a body of 2 GiB or more is an error and the end of the connection") {
    for (int opcode = 0; opcode < 256; ++opcode) {
      for (const uint32_t body : {0x80000000u, 0xfffffff0u, 0xffffffffu}) {
        for (const size_t extras : {0, 4, 8, 20}) {
          CAPTURE(opcode);
          CAPTURE(body);
          CAPTURE(extras);
          const Packet packet{.opcode = static_cast<uint8_t>(opcode),
                              .extras = std::string(extras, '\0'),
                              .key = "k",
                              .body = body};
          const Parsed parsed(packet.Encode());
          REQUIRE(parsed.result.status == ParseStatus::kOk);
          CHECK(parsed.request.op == Op::kAnswer);
          CHECK(parsed.request.close);
          CHECK(parsed.request.binary_status != 0);
          CHECK(Format(parsed.request, {}).size() > 24);
        }
      }
    }
    const std::string extras(8, '\0');
    const Packet set{.opcode = 0x01, .extras = extras, .key = "k", .body = 0x80000000};
    CHECK(Parsed(set.Encode()).request.binary_status == 0x03);
    const Packet append{.opcode = 0x0e, .key = "k", .body = 0xffffffff};
    CHECK(Parsed(append.Encode()).request.binary_status == 0x03);
    const Packet get{.opcode = 0x00, .key = "k", .body = 0xffffffff};
    CHECK(Parsed(get.Encode()).request.binary_status == 0x04);
    const Packet sasl{.opcode = 0x21, .key = "k", .body = 0xffffffff};
    CHECK(Parsed(sasl.Encode()).request.binary_status == 0x81);
    const Packet unknown{.opcode = 0x30, .body = 0xffffffff};
    CHECK(Parsed(unknown.Encode()).request.binary_status == 0x81);
  }

  TEST_CASE("binary: a wrong magic closes the connection without a reply") {
    for (const char magic : {'\x81', '\x00', 'g', '\xff'}) {
      std::string input = Packet{.opcode = 0x0a}.Encode();
      input[0] = magic;
      for (const size_t length : {size_t{1}, size_t{24}}) {
        const Parsed parsed(std::string_view(input).substr(0, length));
        REQUIRE(parsed.result.status == ParseStatus::kOk);
        CHECK(parsed.request.op == Op::kAnswer);
        CHECK(parsed.request.close);
        CHECK(Format(parsed.request, {}).empty());
      }
    }
  }

  TEST_CASE("binary: an unknown command's body is skipped, whatever its parts are") {
    const Packet unknown{.opcode = 0x30, .extras = "1234", .key = "key", .value = "value"};
    const std::string next = Packet{.opcode = 0x0a}.Encode();
    const std::string input = unknown.Encode() + next;
    const Parsed parsed(input);
    CHECK(parsed.request.binary_status == 0x81);
    CHECK_FALSE(parsed.request.close);
    REQUIRE(parsed.result.consumed == input.size() - next.size());
    // The header is enough for an answer.
    const Parsed header(std::string_view(input).substr(0, 24));
    CHECK(header.result.status == ParseStatus::kOk);
    CHECK(header.result.consumed == parsed.result.consumed);
  }

  // What memcached 1.6.18 does with a header, recorded: for extras of 0, 4, 8, 20, 255 bytes
  // (blocks of 12), in each for keys of 0, 1, 250, 251 (blocks of 3), and in each for a body that
  // is one byte too short, fits, and has three bytes more. r: obeys. q: obeys and closes. u:
  // unknown command, goes on. c: unknown command, closes. i: invalid arguments, closes. -: there
  // is no such body. Where memcached loses its place, D stands for i and U for u: our choice.
  struct GridRow {
    std::vector<uint8_t> opcodes;
    std::string_view decisions;
  };
  const GridRow kGrid[] = {
      {{0x00, 0x04, 0x09, 0x0c, 0x0d, 0x14},
       "-iicricricii"
       "ciiciiciicii"
       "ciiciiciicii"
       "ciiciiciicii"
       "ciiciiciicii"},
      {{0x01, 0x02, 0x03, 0x11, 0x12, 0x13},
       "-iiciiciicii"
       "ciiciiciicii"
       "ciicrrcrrcii"
       "ciiciiciicii"
       "ciiciiciicii"},
      {{0x05, 0x06, 0x15, 0x16},
       "-iiciiciicii"
       "ciiciiciicii"
       "ciiciiciicii"
       "ciicricricii"
       "ciiciiciicii"},
      {{0x07, 0x17},
       "-qiciiciicii"
       "ciiciiciicii"
       "ciiciiciicii"
       "ciiciiciicii"
       "ciiciiciicii"},
      {{0x08, 0x18},
       "-riciiciicii"
       "criciiciicii"
       "ciiciiciicii"
       "ciiciiciicii"
       "ciiciiciicii"},
      {{0x0a, 0x0b},
       "-riciiciicii"
       "ciiciiciicii"
       "ciiciiciicii"
       "ciiciiciicii"
       "ciiciiciicii"},
      {{0x0e, 0x0f, 0x19, 0x1a},
       "-iicrrcrrcii"
       "ciiciiciicii"
       "ciiciiciicii"
       "ciiciiciicii"
       "ciiciiciicii"},
      {{0x10},
       "-rDcrDcrDcii"
       "ciiciiciicii"
       "ciiciiciicii"
       "ciiciiciicii"
       "ciiciiciicii"},
      {{0x1c, 0x1d, 0x1e, 0x23, 0x24},
       "-iiciiciicii"
       "ciicrDcrDcii"
       "ciiciiciicii"
       "ciiciiciicii"
       "ciiciiciicii"},
      {{0x20},
       "-uiciiciicii"
       "ciiciiciicii"
       "ciiciiciicii"
       "ciiciiciicii"
       "ciiciiciicii"},
      {{0x21, 0x22},
       "-iicuucuucii"
       "ciiciiciicii"
       "ciiciiciicii"
       "ciiciiciicii"
       "ciiciiciicii"},
  };
  constexpr std::string_view kUnknownRow =
      "-uucUUcUUcii"
      "cUUcUUcUUcii"
      "cUUcUUcUUcii"
      "cUUcUUcUUcii"
      "cUUcUUcUUcii";

  char Decision(const Parsed& parsed) {
    const Request& request = parsed.request;
    if (request.op != Op::kAnswer) return request.close ? 'q' : 'r';
    if (request.binary_status == 0x81) return request.close ? 'c' : 'u';
    return request.binary_status == 0x04 && request.close ? 'i' : '?';
  }

  TEST_CASE("binary: every opcode decides on every mix of lengths as memcached does") {
    std::array<std::string_view, 256> expected;
    expected.fill(kUnknownRow);
    for (const GridRow& row : kGrid) {
      for (const uint8_t opcode : row.opcodes) expected[opcode] = row.decisions;
    }
    for (int opcode = 0; opcode < 256; ++opcode) {
      CAPTURE(opcode);
      std::string decisions;
      for (const size_t extras : {0, 4, 8, 20, 255}) {
        for (const size_t key : {0, 1, 250, 251}) {
          for (const int more : {-1, 0, 3}) {
            const char wanted = expected[static_cast<size_t>(opcode)][decisions.size()];
            const int64_t body = static_cast<int64_t>(extras + key) + more;
            if (body < 0) {
              decisions += '-';
              continue;
            }
            const Packet packet{.opcode = static_cast<uint8_t>(opcode),
                                .extras = std::string(extras, '\0'),
                                .key = std::string(key, 'k'),
                                .value = std::string(more > 0 ? 3 : 0, 'v'),
                                .body = static_cast<uint32_t>(body)};
            const Parsed parsed(packet.Encode());
            REQUIRE(parsed.result.status == ParseStatus::kOk);
            const char got = Decision(parsed);
            if (!parsed.request.close) {
              CHECK(parsed.result.consumed == static_cast<uint64_t>(24 + body));
            }
            decisions +=
                (wanted == 'D' && got == 'i') || (wanted == 'U' && got == 'u') ? wanted : got;
          }
        }
      }
      CHECK(decisions == expected[static_cast<size_t>(opcode)]);
    }
  }

  TEST_CASE("binary: an empty value and the longest key make a whole reply") {
    const Packet packet{.opcode = 0x0c, .key = std::string(250, 'k')};
    const Parsed parsed(packet.Encode());
    const std::string reply = Format(parsed.request, {.flags = 1, .cas = 2});
    CHECK(reply ==
          Bytes("810c 00fa 0400 0000 000000fe a1b2c3d4 0000000000000002 00000001") + packet.key);
  }
}

}  // namespace
}  // namespace protocol
