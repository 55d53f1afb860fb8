#include "protocol/meta.h"

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

#include "protocol/base64.h"
#include "tests/fuzz/text_fuzz.h"
#include "tests/protocol/text_cases.h"

namespace protocol {
namespace {

using namespace std::string_literals;

const std::string kLongestKey(kKeyBytesMax, 'k');
const std::string kTooLongKey(kKeyBytesMax + 1, 'k');
const std::string kBad = "CLIENT_ERROR bad command line format";
const std::string kBadToken = "CLIENT_ERROR bad token in command line format";
const std::string kBadFlag = "CLIENT_ERROR invalid or duplicate flag";
const std::string kOpaque31 = "O" + std::string(31, '1');
const std::string kOpaque32 = "O" + std::string(32, '1');

void CheckAll(const std::vector<TextCase>& cases) {
  for (const TextCase& c : cases) CHECK(FaultOf(c) == "");
}

void CheckReplies(const std::vector<ReplyCase>& cases) {
  for (const ReplyCase& c : cases) {
    CAPTURE(c.input);
    CHECK(ReplyTo(c.input, c.response) == c.reply);
  }
}

std::string Encoded(std::string_view bytes) {
  std::string text(Base64Bytes(bytes.size()), '?');
  CHECK(EncodeBase64(bytes, text.data()) == text.size());
  return text;
}

std::optional<std::string> Decoded(std::string text) {
  const auto length = DecodeBase64(text, text.data());
  if (!length) return std::nullopt;
  return text.substr(0, *length);
}

TEST_SUITE("protocol") {
  TEST_CASE("base64: what is encoded is decoded, and known texts are as the standard has them") {
    CHECK(Encoded("f") == "Zg==");
    CHECK(Encoded("fo") == "Zm8=");
    CHECK(Encoded("foobar") == "Zm9vYmFy");
    CHECK(Encoded("\xff\xfe\xfd") == "//79");
    std::mt19937 random(3);
    for (size_t length = 1; length <= 200; ++length) {
      std::string bytes(length, '\0');
      for (char& c : bytes) c = static_cast<char>(random());
      CAPTURE(length);
      REQUIRE(Decoded(Encoded(bytes)) == bytes);
    }
  }

  TEST_CASE("base64: memcached's leniency") {
    CHECK(Decoded("Y!Q==") == "a");
    CHECK(Decoded("YQ==YWJj") == "a");
    CHECK(Decoded("Y==a") == "`");
    CHECK(Decoded("AA==") == "\0"s);
    for (const std::string text : {"", "Y", "YQ", "YQ=", "====", "Y===", "!!!!", "YQ==Y"}) {
      CAPTURE(text);
      CHECK(Decoded(text) == std::nullopt);
    }
  }

  TEST_CASE("meta: mg") {
    CheckAll({
        {"mg a\r\n", "get key=a"},
        {"mg a\n", "get key=a"},
        {"  mg  a   v \r\n", "get key=a rest=   v  wants_value"},
        {"mg a s v f c t h l k u q Oabc P L\r\n",
         "get key=a rest= s v f c t h l k u q Oabc P L quiet no_bump wants_value"},
        {"mg a T30\r\n", "get key=a rest= T30 exptime=30"},
        {"mg a N30 R-1\r\n", "get key=a rest= N30 R-1 vivify=30 recache=-1"},
        // Where an item is created, the later of N and T counts.
        {"mg a N30 T10\r\n", "get key=a rest= N30 T10 exptime=10 vivify=10"},
        {"mg a T10 N30\r\n", "get key=a rest= T10 N30 exptime=10 vivify=30"},
        // Flags of other commands are known, and flags may have tails.
        {"mg a C1 MX sx vfoo\r\n", "get key=a rest= C1 MX sx vfoo cas=1 compare wants_value"},
        {"mg YQBi b k\r\n", "get key=a\0b rest= b k base64"s},
        {"mg "s + kLongestKey + " "s + kOpaque31 + "\r\n",
         "get key=" + kLongestKey + " rest= " + kOpaque31},
        {"mg a\0 v\r\n"s, "get key=a"},
        {"mg\r\n", "ERROR"},
        {"mgg a\r\n", "ERROR"},
        {"mx a\r\n", "ERROR"},
        {"mg "s + kTooLongKey + " q\r\n", kBad},
        {"mg a "s + kOpaque32 + "\r\n", "CLIENT_ERROR opaque token too long"},
        {"mg a q "s + kOpaque32 + "\r\n", "CLIENT_ERROR opaque token too long"},
        {"mg a v v\r\n", "CLIENT_ERROR duplicate flag"},
        {"mg a O1 O2\r\n", "CLIENT_ERROR duplicate flag"},
        {"mg a \x7f\r\n", "CLIENT_ERROR duplicate flag"},
        {"mg a \x80\r\n", "CLIENT_ERROR duplicate flag"},
        {"mg a s 3\r\n", "CLIENT_ERROR invalid flag"},
        {"mg a S1\r\n", "CLIENT_ERROR invalid flag"},
        {"mg a E1 N5\r\n", "get key=a rest= E1 N5 new_cas=1 vivify=5"},
        {"mg a v C7\r\n", "get key=a rest= v C7 cas=7 compare wants_value"},
        {"mg a y\r\n", "CLIENT_ERROR invalid flag"},
        {"mg YQ b\r\n", "CLIENT_ERROR error decoding key"},
    });
  }

  TEST_CASE("meta: flags with bad arguments; of several errors the last is sent") {
    CheckAll({
        {"mg a T\r\n", kBadToken},
        {"mg a Nx\r\n", kBadToken},
        {"mg a R99999999999999999999\r\n", kBadToken},
        {"mg a C\r\n", kBadToken},
        {"mg a F\r\n", kBad},
        {"mg a M\r\n", "CLIENT_ERROR incorrect length for M token"},
        {"mg a MXX\r\n", "CLIENT_ERROR incorrect length for M token"},
        {"mg a Jx\r\n", "CLIENT_ERROR invalid numeric initial value"},
        {"mg a D-1\r\n", "CLIENT_ERROR invalid numeric delta value"},
        {"mg a Jx Tx\r\n", kBadToken},
        {"mg a Tx Jx\r\n", "CLIENT_ERROR invalid numeric initial value"},
        {"mg a Tx Fx\r\n", kBadToken},
        {"mg a Fx Tx\r\n", kBadToken},
        {"mg a Tx b\r\n", "CLIENT_ERROR error decoding key"},
        {"mg a Tx y\r\n", "CLIENT_ERROR invalid flag"},
        {"mg a Tx q "s + kOpaque32 + "\r\n", kBadToken},
    });
  }

  TEST_CASE("meta: no more than 19 words, whatever they are") {
    const auto words = [](size_t count, const std::string& word) {
      std::string text;
      while (count-- > 0) text += " " + word;
      return text + "\r\n";
    };
    CheckAll({
        {"mg a"s + words(17, "s"), "CLIENT_ERROR duplicate flag"},
        {"mg a"s + words(18, "s"), "CLIENT_ERROR options flags are too long"},
        {"mg a"s + words(40, "x"), "CLIENT_ERROR options flags are too long"},
        {"md a"s + words(17, "s"), kBadFlag},
        {"md a"s + words(18, "s"), "CLIENT_ERROR options flags too long"},
        {"ma a"s + words(18, "s"), "CLIENT_ERROR options flags too long"},
        {"ms a"s + words(18, "1"), "CLIENT_ERROR options flags too long"},
        {"ms a 1"s + words(16, "s") + "x\r\n", "CLIENT_ERROR duplicate flag"},
        {"mg a s v f c t h l k u q O P L T0 R1 C1 D1\r\n",
         "get key=a rest= s v f c t h l k u q O P L T0 R1 C1 D1 quiet exptime=0 cas=1 compare "
         "no_bump "
         "recache=1 wants_value"},
        {"mn"s + words(40, "x"), "noop"},
    });
  }

  TEST_CASE("meta: ms") {
    CheckAll({
        {"ms a 2\r\nxy\r\n", "set key=a value=xy"},
        {"ms a 0 q\n\r\n", "set key=a rest= q quiet"},
        {"ms a 1 T30 F5 c k Oabc\r\nx\r\n",
         "set key=a value=x rest= T30 F5 c k Oabc flags=5 exptime=30"},
        {"ms a 1 ME\r\nx\r\n", "add key=a value=x rest= ME"},
        {"ms a 1 MA\r\nx\r\n", "append key=a value=x rest= MA"},
        {"ms a 1 MP C7\r\nx\r\n", "prepend key=a value=x rest= MP C7 cas=7"},
        {"ms a 1 MR\r\nx\r\n", "replace key=a value=x rest= MR"},
        {"ms a 1 MS\r\nx\r\n", "set key=a value=x rest= MS"},
        // A number to compare makes a cas of set and replace, and nothing of add.
        {"ms a 1 C7\r\nx\r\n", "cas key=a value=x rest= C7 cas=7 compare"},
        {"ms a 1 C0 MR\r\nx\r\n", "cas key=a value=x rest= C0 MR compare"},
        {"ms a 1 C7 ME\r\nx\r\n", "add key=a value=x rest= C7 ME"},
        {"ms a 1 C7 I\r\nx\r\n", "cas key=a value=x rest= C7 I cas=7 compare invalidate"},
        {"ms a 1 I\r\nx\r\n", "set key=a value=x rest= I"},
        {"ms YQ== 1 b\r\nx\r\n", "set key=a value=x rest= b base64"},
        {"ms a 1\tz k\r\nx\r\n", "set key=a value=x rest= k"},
        {"ms a 4294967297\r\nx\r\n", "set key=a value=x"},
        {"ms\r\n", "ERROR"},
    });
  }

  TEST_CASE(
      "meta: the value of an ms without a valid size is parsed as commands, others are skipped") {
    for (const std::string& line :
         {"ms a\r\n"s, "ms a x\r\n"s, "ms a S1\r\n"s, "ms a -1 q\r\n"s, "ms a 2147483646\r\n"s,
          "ms YQ== b 1\r\n"s, "ms " + kTooLongKey + " 1\r\n"}) {
      CHECK(FaultOf({line + "version\r\n", kBad, line.size()}) == "");
    }
    const std::vector<std::pair<std::string, std::string>> flags = {
        {"z", "CLIENT_ERROR invalid flag"},
        {"q q", "CLIENT_ERROR duplicate flag"},
        {"Fx", kBad},
        {"Cx", kBadToken},
        {"b", "CLIENT_ERROR error decoding key"},
        {"q MX", "CLIENT_ERROR invalid mode for ms M token"},
        {"Me", "CLIENT_ERROR invalid mode for ms M token"},
        {"MX " + kOpaque32, "CLIENT_ERROR invalid mode for ms M token"},
        {kOpaque32 + " q", "CLIENT_ERROR opaque token too long"},
    };
    for (const auto& [bad, answer] : flags) {
      // The bytes that are dropped need not end in CRLF.
      const std::string input = "ms a 7 " + bad + "\r\nversion!!";
      CHECK(FaultOf({input + "mn\r\n", answer, input.size()}) == "");
    }
  }

  TEST_CASE("meta: values that are too long or badly ended") {
    const Limits limits{.value_bytes_max = 1000};
    CHECK(FaultOf({"ms YQ== 1001 b k q\r\n", "set key=a rest= b k q quiet too_large base64", 1023},
                  limits) == "");
    CHECK(
        FaultOf({"ms a 2000000000 MX\r\n", "CLIENT_ERROR invalid mode for ms M token", 2000000022},
                limits) == "");
    // q keeps no error quiet.
    CHECK(FaultOf({"ms a 1 q\r\nxyz\r\n", "CLIENT_ERROR bad data chunk", 13}) == "");
    CHECK(ParsedText("ms a 10 T0\r\n").result.needed == 12 + 12);
  }

  TEST_CASE("meta: a base64 key stays as it is until the request is complete") {
    const std::string line = "ms YWJj 3 b\r\nxy";
    const ParsedText part(line);
    CHECK(part.result.status == ParseStatus::kNeedMore);
    CHECK(std::string(part.bytes.begin(), part.bytes.end()) == line);
  }

  TEST_CASE("meta: md, ma, me, mn") {
    CheckAll({
        {"md a\r\n", "delete key=a"},
        {"md a q k O1 C5\r\n", "delete key=a rest= q k O1 C5 quiet cas=5 compare"},
        {"md a C0\r\n", "delete key=a rest= C0 compare"},
        {"md a I T30\r\n", "delete key=a rest= I T30 exptime=30 invalidate"},
        {"md YQ== b\r\n", "delete key=a rest= b base64"},
        {"md\r\n", "ERROR"},
        {"md a z\r\n", kBadFlag},
        {"md a k k\r\n", kBadFlag},
        {"md a Cx q\r\n", kBadFlag},
        {"md YQ b\r\n", kBadFlag},
        {"md a "s + kOpaque32 + "\r\n", "CLIENT_ERROR opaque token too long"},
        {"md "s + kTooLongKey + "\r\n", kBad},
        {"ma n\r\n", "number key=n"},
        {"ma n D5 MD v\r\n", "number key=n rest= D5 MD v delta=5 down wants_value"},
        {"ma n M-\r\n", "number key=n rest= M- down"},
        {"ma n M+ C3\r\n", "number key=n rest= M+ C3 cas=3"},
        {"ma n MI T9\r\n", "number key=n rest= MI T9 exptime=9"},
        {"ma n J7\r\n", "number key=n rest= J7"},
        {"ma n N60\r\n", "number key=n rest= N60 initial=0 initial_exptime=60"},
        {"ma n J7 N60 q\r\n", "number key=n rest= J7 N60 q quiet initial=7 initial_exptime=60"},
        {"ma n N60 T9\r\n", "number key=n rest= N60 T9 exptime=9 initial=0 initial_exptime=9"},
        {"ma\r\n", "ERROR"},
        {"ma n M\r\n", kBadFlag},
        {"ma n MX\r\n", "CLIENT_ERROR invalid mode for ma M token"},
        {"ma n Md\r\n", "CLIENT_ERROR invalid mode for ma M token"},
        {"ma n MX "s + kOpaque32 + "\r\n", "CLIENT_ERROR invalid mode for ma M token"},
        {"ma n Dx\r\n", kBadFlag},
        {"me a\r\n", "debug key=a"},
        {"me YQ== b x\r\n", "debug key=a base64"},
        {"me YQ== x b q q\r\n", "debug key=YQ=="},
        {"me YQ b\r\n", kBad},
        {"me\r\n", kBad},
        {"me "s + kTooLongKey + "\r\n", kBad},
        {"mn\r\n", "noop"},
        {"mn q\r\n", "noop"},
        {"mn\r\r\n", "ERROR"},
    });
  }

  TEST_CASE("meta: replies of mg") {
    const Response hit{
        .fetched = true, .flags = 5, .ttl = 30, .idle = 4, .cas = 99, .key = "a", .value = "hello"};
    const Response miss{.status = Status::kNotFound};
    CheckReplies({
        {"mg a\r\n", hit, "HD\r\n"},
        {"mg a v\r\n", hit, "VA 5\r\nhello\r\n"},
        {"mg a q v\r\n", hit, "VA 5\r\nhello\r\n"},
        {"mg a s v f c t h l k Oabc\r\n", hit, "VA 5 s5 f5 c99 t30 h1 l4 ka Oabc\r\nhello\r\n"},
        {"mg a k O f C1 s P F3\r\n", hit, "HD ka O f5 s5\r\n"},
        {"mg a sx kfoo\r\n", hit, "HD s5 ka\r\n"},
        {"mg a t\r\n", Response{}, "HD t-1\r\n"},
        {"mg a h\r\n", Response{}, "HD h0\r\n"},
        {"mg a\r\n", miss, "EN\r\n"},
        {"mg a v s k Oabc t\r\n", miss, "EN ka Oabc\r\n"},
        {"mg a k q\r\n", miss, ""},
        {"mg YQBi Ox b k\r\n", miss, "EN Ox kYQBi b\r\n"},
        {"mg YQ== b k s\r\n", hit, "HD kYQ== b s5\r\n"},
        // Z and X and W stand behind the flags.
        {"mg a s\r\n", Response{.stale = true, .win = true, .value = "v"}, "HD s1 X W\r\n"},
        {"mg a s\r\n", Response{.stale = true, .win_sent = true, .value = "v"}, "HD s1 Z X\r\n"},
        {"mg a v\r\n", Response{.win = true, .created = true}, "VA 0 W\r\n\r\n"},
    });
    // If it is known how the item's key was stored, it is shown that way.
    Response plain = hit;
    plain.base64_key = false;
    CHECK(ReplyTo("mg YQ== b k\r\n", plain) == "HD ka\r\n");
    plain.base64_key = true;
    CHECK(ReplyTo("mg a k\r\n", plain) == "HD kYQ== b\r\n");
    // But a key that is not one word of a line is always base64.
    plain.base64_key = false;
    CHECK(ReplyTo("mg a\t\x7f k\r\n", plain) == "HD ka\t\x7f\r\n");
    for (const std::string& key : {"a b"s, "a\nb"s, "a\0b"s}) {
      CHECK(ReplyTo("mg " + Encoded(key) + " b k\r\n", plain) == "HD k" + Encoded(key) + " b\r\n");
    }
  }

  TEST_CASE("meta: t shows the time to live as it was at its place among the flags") {
    const Response touched{.ttl = 50, .ttl_before = 100};
    CHECK(ReplyTo("mg a t T50\r\n", touched) == "HD t100\r\n");
    CHECK(ReplyTo("mg a T50 t\r\n", touched) == "HD t50\r\n");
    CHECK(ReplyTo("mg a N9 t\r\n", touched) == "HD t100\r\n");
    const Response created{.win = true, .created = true, .ttl = 30};
    CHECK(ReplyTo("mg a N30 t\r\n", created) == "HD t30 W\r\n");
    CHECK(ReplyTo("mg a t N30\r\n", created) == "HD t-1 W\r\n");
    CHECK(ReplyTo("ma a t N30\r\n", created) == "HD t-1\r\n");
  }

  TEST_CASE("meta: replies of ms and md") {
    const Response ok{.cas = 99};
    const auto only = [](Status status) { return Response{.status = status, .cas = 5}; };
    const std::string too_large = "SERVER_ERROR object too large for cache\r\n";
    const std::string no_memory = "SERVER_ERROR out of memory storing object\r\n";
    CheckReplies({
        {"ms a 1\r\nx\r\n", ok, "HD\r\n"},
        {"ms a 1 k c s t f v O1\r\nx\r\n", ok, "HD ka c99 s0 O1\r\n"},
        {"ms YQ== 1 c b k\r\nx\r\n", ok, "HD c99 kYQ== b\r\n"},
        {"ms a 1 q k\r\nx\r\n", ok, ""},
        {"ms a 1 q k c\r\nx\r\n", only(Status::kExists), "EX ka c0\r\n"},
        {"ms a 1 q O1\r\nx\r\n", only(Status::kNotFound), "NF O1\r\n"},
        {"ms a 1 q\r\nx\r\n", only(Status::kNotStored), "NS\r\n"},
        {"ms a 1 q k\r\nx\r\n", only(Status::kTooLarge), too_large},
        {"ms a 1 q k\r\nx\r\n", only(Status::kNoMemory), no_memory},
        {"md a k O1 s c\r\n", ok, "HD ka O1\r\n"},
        {"md a q\r\n", ok, ""},
        {"md a q k\r\n", only(Status::kNotFound), "NF ka\r\n"},
        {"md a q\r\n", only(Status::kExists), "EX\r\n"},
    });
  }

  TEST_CASE("meta: replies of ma, me, mn and errors") {
    const Response number{.ttl = 30, .cas = 99, .number = 1234};
    const auto only = [](Status status) { return Response{.status = status}; };
    const std::string not_number =
        "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
    CheckReplies({
        {"ma n\r\n", number, "HD\r\n"},
        {"ma n t c k Oq s f\r\n", number, "HD t30 c99 kn Oq\r\n"},
        {"ma n v c\r\n", number, "VA 4 c99\r\n1234\r\n"},
        {"ma bg== b v k\r\n", number, "VA 4 kbg== b\r\n1234\r\n"},
        {"ma n v q\r\n", number, ""},
        // What N creates is never quiet.
        {"ma n N0 q\r\n", Response{.created = true}, "HD\r\n"},
        {"ma n v k q\r\n", only(Status::kNotFound), "NF kn\r\n"},
        {"ma n v O1 c q\r\n", only(Status::kExists), "EX O1\r\n"},
        {"ma n q\r\n", only(Status::kNotNumber), not_number},
        {"ma n q\r\n", only(Status::kNoMemory), "SERVER_ERROR out of memory\r\n"},
        {"mn\r\n", {}, "MN\r\n"},
        {"mg\r\n", {}, "ERROR\r\n"},
        {"mg a q z\r\n", {}, "CLIENT_ERROR invalid flag\r\n"},
        {"me a\r\n", only(Status::kNotFound), "EN\r\n"},
    });
    Response item{.fetched = true, .ttl = 56, .idle = 3, .cas = 83};
    item.item_bytes = 63;
    CHECK(ReplyTo("me nn\r\n", item) == "ME nn exp=-56 la=3 cas=83 fetch=yes cls=0 size=63\r\n");
    item.ttl = -1;
    item.fetched = false;
    CHECK(ReplyTo("me YmI= b\r\n", item) ==
          "ME YmI= exp=-1 la=3 cas=83 fetch=no cls=0 size=63\r\n");
  }

  TEST_CASE("meta: every byte as a flag, with every kind of argument, gets a reply") {
    const std::string arguments[] = {
        "", "x", "-1", "1", "=", std::string(25, '9'), std::string(200, 'y')};
    for (const std::string command : {"mg YQ==", "ms YQ== 1", "md YQ==", "ma YQ==", "me YQ=="}) {
      for (int byte = 0; byte < 256; ++byte) {
        for (const std::string& argument : arguments) {
          const std::string input =
              command + " " + static_cast<char>(byte) + argument + " k\r\nx\r\n";
          CAPTURE(input);
          const char* fault = FuzzText(input);
          REQUIRE_MESSAGE(fault == nullptr, fault);
        }
      }
    }
  }

  TEST_CASE("meta: the longest head fits") {
    Response response{.fetched = true,
                      .stale = true,
                      .win = true,
                      .win_sent = true,
                      .flags = UINT32_MAX,
                      .ttl = INT64_MIN + 1,
                      .idle = UINT32_MAX,
                      .cas = UINT64_MAX,
                      .value = "v"};
    response.base64_key = true;
    const std::string reply =
        ReplyTo("mg " + kLongestKey + " s v f c t h l k " + kOpaque31 + "\r\n", response);
    CHECK(reply.size() <= kHeadBytesMax);
    CHECK(reply.find(" k" + Encoded(kLongestKey) + " b " + kOpaque31 + " Z X W\r\n") != reply.npos);
  }
}

}  // namespace
}  // namespace protocol
