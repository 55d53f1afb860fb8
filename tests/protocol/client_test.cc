#include "protocol/client.h"

#include <doctest/doctest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "protocol/binary.h"
#include "protocol/text.h"

namespace protocol {
namespace {

using namespace std::string_literals;

// A frame with key and value put in.
std::string Framed(Wire wire, ClientRequest request, std::string_view key,
                   std::string_view value = "") {
  request.key_bytes = key.size();
  request.value_bytes = value.size();
  std::string bytes(kFrameBytesMax + key.size() + value.size(), '?');
  const RequestFrame frame = FrameRequest(wire, request, bytes.data());
  std::memcpy(frame.key, key.data(), key.size());
  if (!value.empty()) std::memcpy(frame.value, value.data(), value.size());
  bytes.resize(static_cast<size_t>(frame.end - bytes.data()));
  return bytes;
}

std::string FramedGets(Wire wire, const std::vector<std::string>& keys) {
  std::string bytes;
  const auto append = [&bytes](auto&& frame) {
    char room[2 * kFrameBytesMax];
    bytes.append(room, static_cast<size_t>(frame(room) - room));
  };
  append([&](char* out) { return FrameGetsBegin(wire, out); });
  for (uint32_t i = 0; i < keys.size(); ++i) {
    append([&](char* out) {
      const RequestFrame frame = FrameGetsKey(wire, keys[i].size(), i, out);
      std::memcpy(frame.key, keys[i].data(), keys[i].size());
      return frame.end;
    });
  }
  append([&](char* out) { return FrameGetsEnd(wire, 9, out); });
  return bytes;
}

// Bytes of a binary packet.
std::string Packet(uint8_t magic, uint8_t opcode, uint16_t status, uint32_t opaque, uint64_t cas,
                   const std::string& extras, const std::string& key, const std::string& value) {
  std::string bytes;
  const auto put = [&bytes](uint64_t number, int count) {
    while (count-- > 0) bytes += static_cast<char>(number >> (8 * count));
  };
  put(magic, 1);
  put(opcode, 1);
  put(key.size(), 2);
  put(extras.size(), 1);
  put(0, 1);
  put(status, 2);
  put(extras.size() + key.size() + value.size(), 4);
  put(opaque, 4);
  put(cas, 8);
  return bytes + extras + key + value;
}

std::string ReplyPacket(uint8_t opcode, uint16_t status, const std::string& extras = "",
                        const std::string& key = "", const std::string& value = "") {
  return Packet(0x81, opcode, status, 0x01020304, 77, extras, key, value);
}

struct ReplyCase {
  Wire wire;
  std::string bytes;
  ReplyKind kind;
  std::string key;
  std::string value;
};

const std::vector<ReplyCase>& GoodReplies() {
  static const std::vector<ReplyCase> cases = {
      {Wire::kText, "VALUE k 5 3\r\nabc\r\n", ReplyKind::kValue, "k", "abc"},
      {Wire::kText, "VALUE key 0 0 12\r\n\r\n", ReplyKind::kValue, "key", ""},
      {Wire::kText, "VALUE k 0 6\r\na\r\nEND\r\n", ReplyKind::kValue, "k", "a\r\nEND"},
      {Wire::kText, "END\r\n", ReplyKind::kEnd, "", ""},
      {Wire::kText, "STORED\r\n", ReplyKind::kStored, "", ""},
      {Wire::kText, "NOT_STORED\r\n", ReplyKind::kNotStored, "", ""},
      {Wire::kText, "EXISTS\r\n", ReplyKind::kExists, "", ""},
      {Wire::kText, "NOT_FOUND\r\n", ReplyKind::kNotFound, "", ""},
      {Wire::kText, "DELETED\r\n", ReplyKind::kDeleted, "", ""},
      {Wire::kText, "TOUCHED\r\n", ReplyKind::kTouched, "", ""},
      {Wire::kText, "OK\r\n", ReplyKind::kOk, "", ""},
      {Wire::kText, "RESET\r\n", ReplyKind::kOk, "", ""},
      {Wire::kText, "VERSION 1.6.18\r\n", ReplyKind::kVersion, "", "1.6.18"},
      {Wire::kText, "STAT pid 12\r\n", ReplyKind::kStat, "pid", "12"},
      {Wire::kText, "STAT empty \r\n", ReplyKind::kStat, "empty", ""},
      {Wire::kText, "ERROR\r\n", ReplyKind::kError, "", ""},
      {Wire::kText, "ERROR Too many open connections\r\n", ReplyKind::kError, "", ""},
      {Wire::kText, "CLIENT_ERROR bad\r\n", ReplyKind::kClientError, "", ""},
      {Wire::kText, "SERVER_ERROR out of memory\r\n", ReplyKind::kServerError, "", ""},
      {Wire::kMeta, "VA 3 f5 kkey\r\nabc\r\n", ReplyKind::kValue, "key", "abc"},
      {Wire::kMeta, "VA 0\r\n\r\n", ReplyKind::kValue, "", ""},
      {Wire::kMeta, "HD\r\n", ReplyKind::kOk, "", ""},
      {Wire::kMeta, "HD c12 kkey\r\n", ReplyKind::kOk, "key", ""},
      {Wire::kMeta, "EN\r\n", ReplyKind::kNotFound, "", ""},
      {Wire::kMeta, "EN kkey Oopaque\r\n", ReplyKind::kNotFound, "key", ""},
      {Wire::kMeta, "NF\r\n", ReplyKind::kNotFound, "", ""},
      {Wire::kMeta, "NS\r\n", ReplyKind::kNotStored, "", ""},
      {Wire::kMeta, "EX\r\n", ReplyKind::kExists, "", ""},
      {Wire::kMeta, "MN\r\n", ReplyKind::kEnd, "", ""},
      {Wire::kBinary, ReplyPacket(0x0c, 0, "\0\0\0\5"s, "key", "abc"), ReplyKind::kValue, "key",
       "abc"},
      {Wire::kBinary, ReplyPacket(0x00, 0, "\0\0\0\5"s, "", ""), ReplyKind::kValue, "", ""},
      {Wire::kBinary, ReplyPacket(0x0c, 1, "", "", "Not found"), ReplyKind::kNotFound, "",
       "Not found"},
      {Wire::kBinary, ReplyPacket(0x01, 0), ReplyKind::kStored, "", ""},
      {Wire::kBinary, ReplyPacket(0x01, 2), ReplyKind::kExists, "", ""},
      {Wire::kBinary, ReplyPacket(0x01, 5), ReplyKind::kNotStored, "", ""},
      {Wire::kBinary, ReplyPacket(0x04, 0), ReplyKind::kDeleted, "", ""},
      {Wire::kBinary, ReplyPacket(0x1c, 0), ReplyKind::kTouched, "", ""},
      {Wire::kBinary, ReplyPacket(0x0a, 0), ReplyKind::kEnd, "", ""},
      {Wire::kBinary, ReplyPacket(0x10, 0, "", "pid", "12"), ReplyKind::kStat, "pid", "12"},
      {Wire::kBinary, ReplyPacket(0x10, 0), ReplyKind::kEnd, "", ""},
      {Wire::kBinary, ReplyPacket(0x01, 0x82, "", "", "Out of memory"), ReplyKind::kServerError, "",
       "Out of memory"},
      {Wire::kBinary, ReplyPacket(0x7f, 0x81, "", "", "Unknown"), ReplyKind::kError, "", "Unknown"},
      {Wire::kBinary, ReplyPacket(0x01, 0x04, "", "", "Invalid"), ReplyKind::kClientError, "",
       "Invalid"},
  };
  return cases;
}

TEST_SUITE("protocol") {
  TEST_CASE("client: text requests, byte by byte") {
    const Wire text = Wire::kText;
    CHECK(Framed(text, {.op = Op::kGet}, "key") == "get key\r\n");
    CHECK(Framed(text, {.op = Op::kSet, .flags = 7, .exptime = 60}, "key", "a\r\nb") ==
          "set key 7 60 4\r\na\r\nb\r\n");
    CHECK(Framed(text, {.op = Op::kSet}, "key") == "set key 0 0 0\r\n\r\n");
    CHECK(Framed(text, {.op = Op::kAdd}, "key", "v") == "add key 0 0 1\r\nv\r\n");
    CHECK(Framed(text, {.op = Op::kReplace}, "key", "v") == "replace key 0 0 1\r\nv\r\n");
    CHECK(Framed(text, {.op = Op::kDelete}, "key") == "delete key\r\n");
    CHECK(Framed(text, {.op = Op::kTouch, .exptime = 9}, "key") == "touch key 9\r\n");
    CHECK(Framed(text, {.op = Op::kArithmetic, .delta = UINT64_MAX}, "key") ==
          "incr key 18446744073709551615\r\n");
    CHECK(Framed(text, {.op = Op::kArithmetic, .decrement = true}, "key") == "decr key 1\r\n");
    CHECK(Framed(text, {.op = Op::kVersion}, "") == "version\r\n");
    CHECK(Framed(text, {.op = Op::kStats}, "") == "stats\r\n");
    CHECK(Framed(text, {.op = Op::kStats}, "kbf") == "stats kbf\r\n");
    CHECK(FramedGets(text, {"a", "bc"}) == "get a bc\r\n");
  }

  TEST_CASE("client: meta requests, byte by byte") {
    const Wire meta = Wire::kMeta;
    CHECK(Framed(meta, {.op = Op::kGet}, "key") == "mg key f v\r\n");
    CHECK(Framed(meta, {.op = Op::kSet}, "key", "abc") == "ms key 3\r\nabc\r\n");
    CHECK(Framed(meta, {.op = Op::kSet, .flags = 7, .exptime = 60}, "key", "abc") ==
          "ms key 3 F7 T60\r\nabc\r\n");
    CHECK(Framed(meta, {.op = Op::kAdd}, "key", "v") == "ms key 1 ME\r\nv\r\n");
    CHECK(Framed(meta, {.op = Op::kReplace}, "key", "v") == "ms key 1 MR\r\nv\r\n");
    CHECK(Framed(meta, {.op = Op::kDelete}, "key") == "md key\r\n");
    CHECK(Framed(meta, {.op = Op::kTouch, .exptime = 9}, "key") == "mg key T9\r\n");
    CHECK(Framed(meta, {.op = Op::kArithmetic, .delta = 5}, "key") == "ma key v D5\r\n");
    CHECK(Framed(meta, {.op = Op::kArithmetic, .decrement = true}, "key") == "ma key v MD D1\r\n");
    CHECK(Framed(meta, {.op = Op::kGet, .meta_flags = "s v"}, "key") == "mg key s v\r\n");
    CHECK(Framed(meta, {.op = Op::kGet, .meta_flags = ""}, "key") == "mg key\r\n");
    CHECK(FramedGets(meta, {"a", "bc"}) == "mg a f k q v\r\nmg bc f k q v\r\nmn\r\n");
  }

  TEST_CASE("client: binary requests, byte by byte") {
    const Wire binary = Wire::kBinary;
    const auto request = [](uint8_t opcode, uint32_t opaque, const std::string& extras,
                            const std::string& key, const std::string& value = "") {
      return Packet(0x80, opcode, 0, opaque, 0, extras, key, value);
    };
    CHECK(Framed(binary, {.op = Op::kGet, .opaque = 5}, "key") == request(0x0c, 5, "", "key"));
    CHECK(Framed(binary, {.op = Op::kSet, .flags = 0x01020304, .exptime = 60}, "key", "abc") ==
          request(0x01, 0, "\1\2\3\4\0\0\0\x3c"s, "key", "abc"));
    CHECK(Framed(binary, {.op = Op::kDelete}, "key") == request(0x04, 0, "", "key"));
    CHECK(Framed(binary, {.op = Op::kTouch, .exptime = 9}, "k") ==
          request(0x1c, 0, "\0\0\0\x09"s, "k"));
    CHECK(Framed(binary, {.op = Op::kArithmetic, .delta = 2}, "k") ==
          request(0x05, 0, "\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\0\xff\xff\xff\xff"s, "k"));
    CHECK(Framed(binary, {.op = Op::kArithmetic, .delta = 2, .decrement = true}, "k")[1] == 0x06);
    CHECK(Framed(binary, {.op = Op::kSet, .flags = 1, .quiet = true}, "key", "abc") ==
          request(0x11, 0, "\0\0\0\1\0\0\0\0"s, "key", "abc"));
    CHECK(Framed(binary, {.op = Op::kNoop}, "") == request(0x0a, 0, "", ""));
    CHECK(Framed(binary, {.op = Op::kStats}, "") == request(0x10, 0, "", ""));
    CHECK(FramedGets(binary, {"a", "bc"}) ==
          request(0x0d, 0, "", "a") + request(0x0d, 1, "", "bc") + request(0x0a, 9, "", ""));
  }

  TEST_CASE("client: the server's parsers read what the client frames") {
    const std::vector<Op> ops = {Op::kGet,   Op::kSet,        Op::kAdd,  Op::kReplace, Op::kDelete,
                                 Op::kTouch, Op::kArithmetic, Op::kNoop, Op::kVersion, Op::kStats};
    for (const Wire wire : {Wire::kText, Wire::kMeta, Wire::kBinary}) {
      for (const Op op : ops) {
        CAPTURE(static_cast<int>(wire));
        CAPTURE(static_cast<int>(op));
        const bool keyed = op != Op::kNoop && op != Op::kVersion && op != Op::kStats;
        const bool valued = op == Op::kSet || op == Op::kAdd || op == Op::kReplace;
        const std::string key = keyed ? "some-key" : "";
        const std::string value = valued ? "a\r\nvalue" : "";
        std::string bytes = Framed(
            wire, {.op = op, .flags = 5, .exptime = 77, .delta = 3, .opaque = 9}, key, value);
        Request request;
        const ParseResult result = wire == Wire::kBinary ? ParseBinary(bytes, Limits(), &request)
                                                         : ParseText(bytes, Limits(), &request);
        REQUIRE(result.status == ParseStatus::kOk);
        CHECK(result.consumed == bytes.size());
        // Meta touches with a get that wants no value.
        CHECK(request.op == (wire == Wire::kMeta && op == Op::kTouch ? Op::kGet : op));
        CHECK(request.key == key);
        CHECK(request.value == value);
        CHECK_FALSE(request.quiet);
        if (valued) CHECK(request.flags == 5);
        if (valued || op == Op::kTouch) CHECK(request.exptime == 77);
        if (op == Op::kArithmetic) CHECK(request.delta == 3);
        if (wire == Wire::kBinary) CHECK(request.opaque == 9);
      }
    }
  }

  TEST_CASE("client: replies are parsed, alone and with more bytes after them") {
    for (const ReplyCase& one : GoodReplies()) {
      CAPTURE(one.bytes);
      for (const char* behind : {"", "x", "VALUE"}) {
        const std::string bytes = one.bytes + behind;
        Reply reply;
        const ReplyResult result = ParseReply(one.wire, bytes, &reply);
        CHECK(result.status == ReplyStatus::kOk);
        CHECK(result.consumed == one.bytes.size());
        CHECK(reply.kind == one.kind);
        CHECK(reply.key == one.key);
        CHECK(reply.value == one.value);
      }
    }
  }

  TEST_CASE("client: a reply that is cut anywhere is incomplete, never wrong") {
    for (const ReplyCase& one : GoodReplies()) {
      CAPTURE(one.bytes);
      for (size_t cut = 0; cut < one.bytes.size(); ++cut) {
        // A copy of exactly these bytes, so that a sanitizer sees any read outside.
        const std::vector<char> begin(one.bytes.begin(), one.bytes.begin() + cut);
        Reply reply;
        const ReplyResult result = ParseReply(one.wire, {begin.data(), cut}, &reply);
        CHECK(result.status == ReplyStatus::kNeedMore);
        CHECK(result.needed > cut);
        CHECK(result.needed <= one.bytes.size());
      }
    }
  }

  TEST_CASE("client: numbers, flags, cas and opaque are passed on") {
    Reply reply;
    REQUIRE(ParseReply(Wire::kText, "VALUE k 4294967295 1 18446744073709551615\r\nx\r\n", &reply)
                .status == ReplyStatus::kOk);
    CHECK(reply.flags == UINT32_MAX);
    CHECK(reply.cas == UINT64_MAX);
    REQUIRE(ParseReply(Wire::kText, "18446744073709551615\r\n", &reply).status == ReplyStatus::kOk);
    CHECK(reply.kind == ReplyKind::kNumber);
    CHECK(reply.number == UINT64_MAX);
    // A number that decr made shorter is padded.
    REQUIRE(ParseReply(Wire::kText, "9  \r\n", &reply).status == ReplyStatus::kOk);
    CHECK(reply.number == 9);
    REQUIRE(ParseReply(Wire::kMeta, "VA 1 c55 f9 s1 t-1\r\nx\r\n", &reply).status ==
            ReplyStatus::kOk);
    CHECK(reply.cas == 55);
    CHECK(reply.flags == 9);
    const std::string packet = ReplyPacket(0x05, 0, "", "", "\0\0\0\0\0\0\1\0"s);
    REQUIRE(ParseReply(Wire::kBinary, packet, &reply).status == ReplyStatus::kOk);
    CHECK(reply.kind == ReplyKind::kNumber);
    CHECK(reply.number == 256);
    CHECK(reply.opaque == 0x01020304);
    CHECK(reply.cas == 77);
    REQUIRE(ParseReply(Wire::kText, "SERVER_ERROR out of memory\r\n", &reply).status ==
            ReplyStatus::kOk);
    CHECK(reply.text == "SERVER_ERROR out of memory");
  }

  TEST_CASE("client: bytes that no server sends are broken, not incomplete") {
    const std::vector<std::pair<Wire, std::string>> cases = {
        {Wire::kText, "\n"},
        {Wire::kText, "\r\n"},
        {Wire::kText, "END\n"},
        {Wire::kText, "end\r\n"},
        {Wire::kText, "HTTP/1.1 400 Bad Request\r\n"},
        {Wire::kText, "VALUE\r\n"},
        {Wire::kText, "VALUE k\r\n"},
        {Wire::kText, "VALUE k 0\r\n"},
        {Wire::kText, "VALUE k 0 x\r\n"},
        {Wire::kText, "VALUE k 0 -1\r\n"},
        {Wire::kText, "VALUE k 4294967296 1\r\nx\r\n"},
        {Wire::kText, "VALUE k 0 18446744073709551615\r\n"},
        {Wire::kText, "VALUE k 0 18446744073709551616\r\n"},
        {Wire::kText, "VALUE k 0 1073741825\r\n"},
        {Wire::kText, "VALUE k 0 1 x\r\nx\r\n"},
        {Wire::kText, "VALUE k 0 1\r\nxyz"},
        {Wire::kText, "VALUE  0 1\r\nx\r\n"},
        {Wire::kText, "STAT\r\n"},
        {Wire::kText, "18446744073709551616\r\n"},
        {Wire::kText, "-5\r\n"},
        {Wire::kText, std::string(kReplyLineBytesMax, 'x')},
        {Wire::kMeta, "VA\r\n"},
        {Wire::kMeta, "VA x\r\n"},
        {Wire::kMeta, "VA 1 fx\r\na\r\n"},
        {Wire::kMeta, "VA 99999999999999999999\r\n"},
        {Wire::kMeta, "HD  k\r\n"},
        {Wire::kBinary, "\x80"},
        {Wire::kBinary, "STORED\r\n"},
        // Key longer than the body; a body of 4 GB; a value without flags; a number of 7 bytes.
        {Wire::kBinary,
         "\x81\x0c\x00\x05\x00\x00\x00\x00\x00\x00\x00\x04"s + std::string(12, '\0')},
        {Wire::kBinary,
         "\x81\x0c\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff"s + std::string(12, '\0')},
        {Wire::kBinary, ReplyPacket(0x0c, 0, "", "", "value")},
        {Wire::kBinary, ReplyPacket(0x05, 0, "", "", "1234567")},
    };
    for (const auto& [wire, bytes] : cases) {
      CAPTURE(bytes);
      Reply reply;
      CHECK(ParseReply(wire, bytes, &reply).status == ReplyStatus::kBroken);
    }
  }

  TEST_CASE("client: random changes to replies never make it read outside them") {
    std::mt19937_64 random(20261118);
    for (int round = 0; round < 20000; ++round) {
      const ReplyCase& one = GoodReplies()[random() % GoodReplies().size()];
      std::string bytes = one.bytes;
      for (uint64_t changes = random() % 4; changes > 0; --changes) {
        bytes[random() % bytes.size()] = static_cast<char>(random());
      }
      const std::vector<char> exact(bytes.begin(), bytes.end());
      Reply reply;
      const ReplyResult result = ParseReply(one.wire, {exact.data(), exact.size()}, &reply);
      if (result.status == ReplyStatus::kOk) {
        CHECK(result.consumed > 0);
        CHECK(result.consumed <= exact.size());
        for (const std::string_view view : {reply.key, reply.value, reply.text}) {
          CHECK((view.empty() || (view.data() >= exact.data() &&
                                  view.data() + view.size() <= exact.data() + exact.size())));
        }
      } else if (result.status == ReplyStatus::kNeedMore) {
        CHECK(result.needed > exact.size());
      }
    }
  }
}

}  // namespace
}  // namespace protocol
