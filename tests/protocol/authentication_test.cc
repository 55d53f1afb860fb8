#include "protocol/authentication.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "protocol/binary.h"
#include "protocol/request_parser.h"
#include "protocol/text.h"

namespace protocol {
namespace {

using namespace std::string_literals;

// One packet of the binary protocol, with opaque 7.
std::string Packet(uint8_t opcode, const std::string& key = "", const std::string& value = "") {
  std::string packet = "\x80"s + static_cast<char>(opcode) + "\0"s;
  packet += static_cast<char>(key.size());
  const auto body = static_cast<uint32_t>(key.size() + value.size());
  packet += std::string(4, '\0');
  for (const int shift : {24, 16, 8, 0}) packet += static_cast<char>(body >> shift);
  return packet + "\0\0\0\7"s + std::string(8, '\0') + key + value;
}

// What a locked parser makes of `bytes`, as a line per request: the reply, or the credentials.
std::vector<std::string> Answers(std::string bytes, WireChoice wire, bool sasl = true) {
  std::vector<std::string> answers;
  RequestParser parser(wire, true);
  while (!bytes.empty()) {
    Request request;
    const ParseResult result = parser.Parse(bytes, {.sasl = sasl}, &request);
    if (result.status == ParseStatus::kNeedMore) {
      answers.push_back("needs " + std::to_string(result.needed));
      break;
    }
    parser.Accept(request);
    std::string answer(request.reply);
    if (request.op == Op::kAnswer && parser.is_binary()) {
      answer = "status " + std::to_string(request.binary_status);
    }
    if (request.op == Op::kSaslList) answer = "list";
    if (request.op == Op::kAuthenticate || request.op == Op::kSaslStep) {
      const bool step = request.op == Op::kSaslStep;
      answer = (step ? "step " : "auth ") + std::string(request.key) + "|" +
               (request.too_large ? "too large" : std::string(request.value));
    }
    if (request.close) answer += " close";
    answers.push_back(answer);
    if (request.close) break;
    bytes.erase(0, result.consumed);
  }
  return answers;
}
using Lines = std::vector<std::string>;
Lines Text(const std::string& bytes) { return Answers(bytes, WireChoice::kText); }
Lines Binary(const std::string& bytes, bool sasl = true) {
  return Answers(bytes, WireChoice::kBinary, sasl);
}

const std::string kNo = "CLIENT_ERROR unauthenticated\r\n";

TEST_SUITE("protocol") {
  TEST_CASE("authentication: a set with any key carries user and password") {
    for (const char* line : {"set k 0 0 9\r\n", "set k 0 0 9\n", "set k b c 9\r\n",
                             "set k 0 0 9 noreply\r\n", " set  k 0 0 9 x y z\r\n"}) {
      CAPTURE(line);
      CHECK(Text(line + "user pass\r\n"s) == Lines{"auth |user pass"});
    }
    const std::string long_key(300, 'k');
    CHECK(Text("set " + long_key + " 0 0 9\r\nuser pass\r\n") == Lines{"auth |user pass"});
  }

  TEST_CASE("authentication: every other line is refused and nothing of it is carried out") {
    for (const char* line : {"get a\r\n",
                             "gets a b\r\n",
                             "mg a v\r\n",
                             "mn\r\n",
                             "version\r\n",
                             "quit\r\n",
                             "shutdown\r\n",
                             "stats\r\n",
                             "flush_all\r\n",
                             "refresh_certs\r\n",
                             "verbosity 1\r\n",
                             "\r\n",
                             "\n",
                             "   \r\n",
                             "   \n",
                             "add k 0 0 9\r\n",
                             "set\r\n",
                             "set k 0 0\r\n",
                             "set k 0 0 x\r\n",
                             "set k 0 0 -1\r\n",
                             "set k 0 0 9x\r\n",
                             "sets k 0 0 9\r\n",
                             "GET / HTTP/1.0\r\n"}) {
      CAPTURE(line);
      CHECK(Text(line) == Lines{kNo});
    }
    CHECK(Text("set k\0 0 0 9\r\n"s) == Lines{kNo});
    CHECK(Text("get a\r\nmn\r\n") == Lines{kNo, kNo});
    CHECK(Text("add k 0 0 9\r\nuser pass\r\n") == Lines{kNo, kNo});
  }

  TEST_CASE("authentication: what is no user and password is told so") {
    CHECK(Text("set k 0 0 4\r\nuser\r\n") ==
          Lines{"CLIENT_ERROR bad authentication token format\r\n"});
    CHECK(Text("set k 0 0 0\r\n\r\n") == Lines{"CLIENT_ERROR bad authentication token format\r\n"});
    CHECK(Text("set k 0 0 9\r\nuser passxx") ==
          Lines{"CLIENT_ERROR bad command line termination\r\n"});
    // The whole value is skipped, however long, and not parsed as lines.
    const std::string value(kCredentialBytesMax + 1, '\n');
    CHECK(Text("set k 0 0 1025\r\n" + value + "\r\nmn\r\n") ==
          Lines{"CLIENT_ERROR auth token too long\r\n", kNo});
    // A length that no value can have is refused with its line alone, as in memcached 1.6.45.
    CHECK(Text("set k 0 0 2147483646\r\nmn\r\n") ==
          Lines{"CLIENT_ERROR auth token too long\r\n", kNo});
    const std::string longest = "u " + std::string(kCredentialBytesMax - 2, 'p');
    CHECK(Text("set k 0 0 1024\r\n" + longest + "\r\n") == Lines{"auth |" + longest});
  }

  TEST_CASE("authentication: lines without an end and binary bytes are hung up on") {
    CHECK(Text("set k 0 0 9") == Lines{"needs 12"});
    CHECK(Text("set k 0 0 9\r\nuser pas") == Lines{"needs 24"});
    CHECK(Text(std::string(2048, 'x')) == Lines{"needs 2049"});
    CHECK(Text(std::string(2049, 'x')) == Lines{"CLIENT_ERROR line too long\r\n close"});
    // A long get is a list of keys only for those who may ask.
    std::string get = "get";
    while (get.size() < 2100) get += " key";
    CHECK(Text(get) == Lines{"CLIENT_ERROR line too long\r\n close"});
    CHECK(Text(Packet(0x0a)) == Lines{" close"});
    CHECK(Text("\x80") == Lines{" close"});
  }

  TEST_CASE("authentication: SASL is all that the binary wire takes") {
    CHECK(Binary(Packet(0x20)) == Lines{"list"});
    CHECK(Binary(Packet(0x21, "PLAIN", "\0u\0p"s)) == Lines{"auth PLAIN|\0u\0p"s});
    CHECK(Binary(Packet(0x22, "PLAIN", "\0u\0p"s)) == Lines{"step PLAIN|\0u\0p"s});
    CHECK(Binary(Packet(0x21, "PLAIN", std::string(1025, 'x')) + Packet(0x20)) ==
          Lines{"auth PLAIN|too large", "list"});
    for (int opcode = 0; opcode < 256; ++opcode) {
      if (opcode >= 0x20 && opcode <= 0x22) continue;
      CAPTURE(opcode);
      // The header is enough: what is refused is not waited for.
      CHECK(Binary(Packet(static_cast<uint8_t>(opcode), "key", "value").substr(0, 24)) ==
            Lines{"status 32 close"});
    }
    CHECK(Binary("get a\r\n") == Lines{"status 0 close"});
    CHECK(Binary(Packet(0x20), false) == Lines{"status 129"});
    CHECK(Binary(Packet(0x21, "PLAIN", "\0u\0p"s), false) == Lines{"status 129"});
  }

  TEST_CASE("authentication: a parser that is unlocked takes everything, and SASL again") {
    RequestParser parser(WireChoice::kAuto, true);
    Request request;
    const auto op = [&](std::string bytes) {
      (void)parser.Parse(bytes, {.sasl = true}, &request);
      return request.op;
    };
    CHECK(op(Packet(0x0b)) == Op::kAnswer);
    parser.SetLocked(false);
    CHECK(op(Packet(0x0b)) == Op::kVersion);
    CHECK(op(Packet(0x21, "PLAIN", "x")) == Op::kAuthenticate);
    parser.SetLocked(true);
    CHECK(op(Packet(0x0b)) == Op::kAnswer);
  }

  TEST_CASE("authentication: credentials are split at the first space, or at the NULs of PLAIN") {
    const auto text = SplitTextCredentials("user pass word ");
    REQUIRE(text);
    CHECK(text->user == "user");
    CHECK(text->password == "pass word ");
    CHECK_FALSE(SplitTextCredentials("user"));
    CHECK_FALSE(SplitTextCredentials(""));

    const std::string message = "\0user\0pa\0ss"s;
    const auto plain = SplitPlainCredentials(message);
    REQUIRE(plain);
    CHECK(plain->user == "user");
    CHECK(plain->password == "pa\0ss"s);
    CHECK(SplitPlainCredentials("user\0user\0p"s));
    CHECK_FALSE(SplitPlainCredentials("root\0user\0p"s));
    CHECK_FALSE(SplitPlainCredentials("\0user"s));
    CHECK_FALSE(SplitPlainCredentials("user"));
    CHECK_FALSE(SplitPlainCredentials(""));
  }

  TEST_CASE("authentication: replies") {
    std::string out(kHeadBytesMax, '\0');
    Request request;
    request.op = Op::kAuthenticate;
    const auto text = [&](const Response& response) {
      return out.substr(0, FormatText(request, response, out.data()).bytes);
    };
    CHECK(text({}) == "STORED\r\n");
    CHECK(text({.status = Status::kNotAllowed, .text = "no\r\n"}) == "no\r\n");
    request.wire = Wire::kBinary;
    const auto binary = [&](const Response& response) {
      const std::string reply = out.substr(0, FormatBinary(request, response, out.data()).bytes);
      return std::to_string(static_cast<uint8_t>(reply.at(7))) + " " +
             reply.substr(kBinaryHeaderBytes);
    };
    CHECK(binary({}) == "0 Authenticated");
    CHECK(binary({.status = Status::kNotAllowed}) == "32 Auth failure.");
    request.op = Op::kSaslList;
    CHECK(binary({}) == "0 PLAIN");
    request.op = Op::kAnswer;
    request.binary_status = kBinaryAuthContinue;
    CHECK(binary({}) == "33 ");
  }
}

}  // namespace
}  // namespace protocol
