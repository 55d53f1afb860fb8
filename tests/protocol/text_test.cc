#include "protocol/text.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/text_fuzz.h"
#include "tests/protocol/text_cases.h"

namespace protocol {
namespace {

using namespace std::string_literals;

const std::string kLongestKey(kKeyBytesMax, 'k');
const std::string kTooLongKey(kKeyBytesMax + 1, 'k');
const std::string kBad = "CLIENT_ERROR bad command line format";
const std::string kBadTime = "CLIENT_ERROR invalid exptime argument";
const std::string kBadDelta = "CLIENT_ERROR invalid numeric delta argument";
const std::string kUsage = kBad + ".  Usage: delete <key> [noreply]";

void CheckAll(const std::vector<TextCase>& cases) {
  for (const TextCase& c : cases) CHECK(FaultOf(c) == "");
}

// Everything that `input` says, as it would come off a socket in pieces of at most `piece_max`.
std::vector<std::string> Conversation(std::string_view input, size_t piece_max, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::string> requests;
  std::string buffer;
  uint64_t skip = 0;
  while (!input.empty()) {
    const size_t piece = std::min<size_t>(1 + random() % piece_max, input.size());
    buffer += input.substr(0, piece);
    input.remove_prefix(piece);
    for (;;) {
      const uint64_t dropped = std::min<uint64_t>(skip, buffer.size());
      buffer.erase(0, dropped);
      skip -= dropped;
      if (buffer.empty()) break;
      const ParsedText parsed(buffer);
      if (parsed.result.status == ParseStatus::kNeedMore) break;
      requests.push_back(Describe(parsed.request));
      if (parsed.request.close) return requests;
      skip = parsed.result.consumed;
    }
  }
  return requests;
}

TEST_SUITE("protocol") {
  TEST_CASE("text: gets") {
    CheckAll({
        {"get a\r\n", "get key=a"},
        {"get a\n", "get key=a"},
        {"gets a b\r\n", "get key=a rest=a b with_cas"},
        {"  get   a   b c  \r\n", "get key=a rest=a   b c"},
        {"get a\r\r\n", "get key=a\r"},
        {"get \ta\x01\x7f\xff\r\n", "get key=\ta\x01\x7f\xff"},
        {"get "s + kLongestKey + "\r\n", "get key=" + kLongestKey},
        {"gat 10 a b\r\n", "get key=a rest=a b exptime=10"},
        {"gats -1 a\r\n", "get key=a exptime=-1 with_cas"},
        {"gat 4294967296 a\r\n", "get key=a exptime=0"},
        {"gat 10\r\n", "END"},
        // What follows a NUL is not seen.
        {"get a\0b c\r\n"s, "get key=a"},
        {"get\r\n", "ERROR"},
        {"get  \r\n", "ERROR"},
        {"gat\r\n", "ERROR"},
        {"get\ta\r\n", "ERROR"},
        {"getx a\r\n", "ERROR"},
        {"bget a\r\n", "ERROR"},
        {"GET a\r\n", "ERROR"},
        {"gat x a\r\n", kBadTime},
        {"gat x "s + kTooLongKey + "\r\n", kBadTime},
        {"gat 99999999999999999999 a\r\n", kBadTime},
        {"get "s + kTooLongKey + "\r\n", kBad},
        {"get a b "s + kTooLongKey + " c\r\n", kBad},
        {"gat 0 "s + kTooLongKey + "\r\n", kBad},
    });
  }

  TEST_CASE("text: writes") {
    CheckAll({
        {"set a 1 2 3\r\nabc\r\n", "set key=a value=abc flags=1 exptime=2"},
        {"set a 0 0 0\r\n\r\n", "set key=a exptime=0"},
        {"set a 0 0 2\n\r\n\r\n", "set key=a value=\r\n exptime=0"},
        {"add a 0 -1 1\r\nx\r\n", "add key=a value=x exptime=-1"},
        {"replace a 0 0 1 noreply\r\nx\r\n", "replace key=a value=x quiet exptime=0"},
        {"append a 0 0 1\r\nx\r\n", "append key=a value=x exptime=0"},
        {"prepend a 0 0 1\r\nx\r\n", "prepend key=a value=x exptime=0"},
        {"cas a 0 0 1 7\r\nx\r\n", "cas key=a value=x exptime=0 cas=7 compare"},
        {"cas a 0 0 1 0 noreply\r\nx\r\n", "cas key=a value=x quiet exptime=0 compare"},
        // A last word that is not "noreply" is not looked at.
        {"set a 0 0 1 foo\r\nx\r\n", "set key=a value=x exptime=0"},
        {"set "s + kLongestKey + " 0 0 1\r\nx\r\n",
         "set key=" + kLongestKey + " value=x exptime=0"},
    });
  }

  TEST_CASE("text: the value of a write that cannot be parsed is read as commands") {
    const std::vector<std::pair<std::string, std::string>> lines = {
        {"set\r\n", "ERROR"},
        {"set a 0 0\r\n", "ERROR"},
        {"set a 0 0 1 noreply x\r\n", "ERROR"},
        {"cas a 0 0 1\r\n", "ERROR"},
        {"cas a 0 0 1 noreply\r\n", kBad + " (quiet)"},
        {"cas a 0 0 1 2 3 4\r\n", "ERROR"},
        {"set a x 0 1\r\n", kBad},
        {"set a -1 0 1\r\n", kBad},
        {"set a 0 x 1\r\n", kBad},
        {"set a 0 0 x\r\n", kBad},
        {"set a 0 0 -1\r\n", kBad},
        {"set a 0 0 4294967295\r\n", kBad},
        {"set a 0 0 2147483646\r\n", kBad},
        {"cas a 0 0 1 -1\r\n", kBad},
        {"set "s + kTooLongKey + " 0 0 1\r\n", kBad},
        // `noreply` counts even in the place of a number.
        {"set a 0 0 x noreply\r\n", kBad + " (quiet)"},
        {"set a 0 0 noreply\r\n", kBad + " (quiet)"},
    };
    for (const auto& [line, answer] : lines) {
      CHECK(FaultOf({line + "version\r\n", answer, line.size()}) == "");
    }
  }

  TEST_CASE("text: a value without its CRLF is dropped with two more bytes") {
    CheckAll({
        {"set a 0 0 1\r\nab\r\nversion\r\n", "CLIENT_ERROR bad data chunk", 16},
        {"set a 0 0 1\r\na\n\nversion\r\n", "CLIENT_ERROR bad data chunk", 16},
        {"set a 0 0 1 noreply\r\nabc\r\n", "CLIENT_ERROR bad data chunk (quiet)", 24},
    });
  }

  TEST_CASE("text: a value longer than any item is refused at its line and skipped") {
    const Limits limits{.value_bytes_max = 1000};
    const std::string line = "set a 0 0 1001\r\n";
    CHECK(FaultOf({line, "set key=a too_large exptime=0", line.size() + 1003}, limits) == "");
    CHECK(FaultOf({"set a 0 0 2147483645 noreply\r\n", "set key=a quiet too_large exptime=0",
                   30 + uint64_t{2147483647}},
                  limits) == "");
    const ParsedText fits("set a 0 0 1000\r\n", limits);
    CHECK(fits.result.status == ParseStatus::kNeedMore);
    CHECK(fits.result.needed == 16 + 1002);
  }

  TEST_CASE("text: a write says how many bytes it needs as soon as its line is there") {
    const ParsedText line("set a 0 0 100\r\n");
    CHECK(line.result.status == ParseStatus::kNeedMore);
    CHECK(line.result.needed == 15 + 102);
    const ParsedText half("set a 0 0 10");
    CHECK(half.result.status == ParseStatus::kNeedMore);
    CHECK(half.result.needed == 13);
  }

  TEST_CASE("text: numbers are read as memcached reads them") {
    const auto flags = [](const std::string& token) {
      return Describe(ParsedText("set a " + token + " 0 0\r\n\r\n").request);
    };
    CHECK(flags("4294967295") == "set key=a flags=4294967295 exptime=0");
    CHECK(flags("4294967297") == "set key=a flags=1 exptime=0");
    CHECK(flags("18446744073709551615") == "set key=a flags=4294967295 exptime=0");
    CHECK(flags("18446744073709551616") == kBad);
    CHECK(flags("-18446744073709551615") == "set key=a flags=1 exptime=0");
    CHECK(flags("-0") == "set key=a exptime=0");
    CHECK(flags("+5") == "set key=a flags=5 exptime=0");
    CHECK(flags("\t5") == "set key=a flags=5 exptime=0");
    CHECK(flags("5\tx") == "set key=a flags=5 exptime=0");
    CHECK(flags("5\rx") == "set key=a flags=5 exptime=0");
    for (const std::string token : {"-1", "+-5", "--5", "0x5", "5x", "+", "-", "\t", "1e3"}) {
      CAPTURE(token);
      CHECK(flags(token) == kBad);
    }
    const auto exptime = [](const std::string& token) {
      return Describe(ParsedText("touch a " + token + "\r\n").request);
    };
    CHECK(exptime("9223372036854775807") == "touch key=a exptime=-1");
    CHECK(exptime("-9223372036854775808") == "touch key=a exptime=0");
    CHECK(exptime("9223372036854775808") == kBadTime);
    CHECK(exptime("-9223372036854775809") == kBadTime);
    CHECK(exptime("-18446744073709551615") == kBadTime);
  }

  TEST_CASE("text: incr, decr, touch, delete") {
    CheckAll({
        {"incr n 5\r\n", "number key=n delta=5"},
        {"decr n 1 noreply\r\n", "number key=n quiet down"},
        {"incr n 18446744073709551615\r\n", "number key=n delta=18446744073709551615"},
        {"incr n 1 foo\r\n", "number key=n"},
        {"incr n\r\n", "ERROR"},
        {"incr n 1 2 3\r\n", "ERROR"},
        {"incr n x\r\n", kBadDelta},
        {"incr n -1\r\n", kBadDelta},
        {"incr n noreply\r\n", kBadDelta + " (quiet)"},
        {"incr "s + kTooLongKey + " x\r\n", kBad},
        {"touch a 10\r\n", "touch key=a exptime=10"},
        {"touch a 0 noreply\r\n", "touch key=a quiet exptime=0"},
        {"touch a\r\n", "ERROR"},
        {"touch a x\r\n", kBadTime},
        {"touch "s + kTooLongKey + " 1 noreply\r\n", kBad + " (quiet)"},
        {"delete a\r\n", "delete key=a"},
        {"delete a 0\r\n", "delete key=a"},
        {"delete a noreply\r\n", "delete key=a quiet"},
        {"delete a 0 noreply\r\n", "delete key=a quiet"},
        {"delete noreply\r\n", "delete key=noreply"},
        {"delete\r\n", "ERROR"},
        {"delete a 0 0 0\r\n", "ERROR"},
        {"delete a 1\r\n", kUsage},
        {"delete a 00\r\n", kUsage},
        {"delete a 0 0\r\n", kUsage},
        {"delete a 1 noreply\r\n", kUsage + " (quiet)"},
        {"delete a noreply noreply\r\n", kUsage + " (quiet)"},
        {"delete "s + kTooLongKey + "\r\n", kBad},
        {"delete "s + kTooLongKey + " 1\r\n", kUsage},
    });
  }

  TEST_CASE("text: commands about the server") {
    CheckAll({
        {"version\r\n", "version"},
        {"version foo bar\r\n", "version"},
        {"version\r\r\n", "ERROR"},
        {"quit\r\n", "quit close"},
        {"quit noreply\r\n", "quit close"},
        {"verbosity 1\r\n", "verbosity level=1"},
        {"verbosity 5000000000 noreply\r\n", "verbosity quiet level=705032704"},
        {"verbosity 1 2\r\n", "verbosity level=1"},
        {"verbosity\r\n", "ERROR"},
        {"verbosity 1 2 3\r\n", "ERROR"},
        {"verbosity x\r\n", kBad},
        {"verbosity noreply\r\n", kBad + " (quiet)"},
        {"stats\r\n", "stats"},
        {"stats cachedump 1 0\r\n", "cachedump rest=1 0"},
        {"stats cachedump 63 7 x\r\n", "cachedump rest=63 7"},
        {"stats cachedump\r\n", "cachedump rest=CLIENT_ERROR bad command line\r\n"},
        {"stats cachedump 1\r\n", "cachedump rest=CLIENT_ERROR bad command line\r\n"},
        {"stats cachedump x 0\r\n", "cachedump rest=" + kBad + "\r\n"},
        {"stats cachedump 1 -1\r\n", "cachedump rest=" + kBad + "\r\n"},
        {"stats cachedump 64 0\r\n", "cachedump rest=CLIENT_ERROR Illegal slab id\r\n"},
        {"flush_all\r\n", "flush"},
        {"flush_all noreply\r\n", "flush quiet"},
        {"flush_all 10\r\n", "flush exptime=10"},
        {"flush_all -1 noreply\r\n", "flush quiet exptime=-1"},
        {"flush_all 0 0\r\n", "flush exptime=0"},
        {"flush_all 0 0 0\r\n", "ERROR"},
        // An option may forbid these in the first place, so the error is kept in the request.
        {"flush_all x\r\n", "flush rest=" + kBadTime + "\r\n"},
        {"flush_all noreply noreply\r\n", "flush rest=" + kBadTime + "\r\n quiet"},
        {"shutdown\r\n", "shutdown"},
        {"refresh_certs\r\n", "refresh_certs"},
        {"refresh_certs noreply\r\n", "refresh_certs quiet"},
        {"refresh_certs a b\r\n", "refresh_certs"},
        {"shutdown graceful\r\n", "shutdown graceful"},
        {"shutdown noreply\r\n", "shutdown rest=CLIENT_ERROR invalid shutdown mode\r\n"},
        {"shutdown graceful x\r\n", "shutdown rest=CLIENT_ERROR invalid shutdown mode\r\n"},
    });
  }

  TEST_CASE("text: unknown commands") {
    CheckAll({
        {"\r\n", "ERROR"},
        {"\n", "ERROR"},
        {"   \r\n", "ERROR"},
        {"\0\r\n"s, "ERROR"},
        {"a\r\n", "ERROR"},
        {"versionx\r\n", "ERROR"},
        {"extstore item_size 1\r\n", "ERROR"},
        {"misbehave\r\n", "ERROR"},
        {"debugtime p\r\n", "ERROR"},
    });
  }

  TEST_CASE("text: HTTP closes the connection without a reply") {
    CheckAll({
        {"GET / HTTP/1.0\r\n", "silence (close)"},
        {"POST /x HTTP/1.1 \r\nversion\r\n", "silence (close)", 19},
        {"HTTP/1.1\r\n", "silence (close)"},
        // Only as the last word, and not where memcached does not look.
        {"GET / HTTP/1.0 x\r\n", "ERROR"},
        {"set / HTTP/1.0\r\n", "ERROR"},
        {"get / HTTP/1.0\r\n", "get key=/ rest=/ HTTP/1.0"},
        {"xx HTTP\r\n", "ERROR"},
        // Of the first 23 words.
        {"xx 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 HTTP/1.1 x\r\n",
         "silence (close)"},
        {"xx 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 HTTP/1.1\r\n", "ERROR"},
    });
  }

  TEST_CASE("text: commands that tune memcached internals are checked and answered") {
    const std::string bad_class = "BADCLASS invalid src or dst class id";
    CheckAll({
        {"slabs\r\n", "ERROR"},
        {"slabs automove\r\n", "ERROR"},
        {"slabs automove 2\r\n", "OK"},
        {"slabs automove 3\r\n", "ERROR"},
        {"slabs automove x\r\n", kBad},
        {"slabs automove -1\r\n", kBad},
        {"slabs automove 1 noreply\r\n", "OK (quiet)"},
        {"slabs automove ratio 0.5\r\n", "OK"},
        {"slabs automove ratio\r\n", "ERROR"},
        {"slabs automove ratio x\r\n", "ERROR"},
        // Of memcached 1.6.45.
        {"slabs automove freeratio 0.1\r\n", "OK"},
        {"slabs automove freeratio\r\n", "ERROR"},
        {"slabs automove window 10\r\n", "OK"},
        {"slabs automove window 2\r\n", "CLIENT_ERROR automove window too low or too high"},
        {"slabs automove window 1801\r\n", "CLIENT_ERROR automove window too low or too high"},
        {"slabs automove window\r\n", kBad},
        {"slabs automove window x\r\n", kBad},
        {"slabs reassign 1 2\r\n", "NOSPARE source class has no spare pages"},
        {"slabs reassign 1 1\r\n", "SAME src and dst class are identical"},
        {"slabs reassign 40 1\r\n", bad_class},
        {"slabs reassign 1 -1\r\n", bad_class},
        {"slabs reassign x noreply\r\n", kBad},
        {"slabs reassign 1\r\n", "ERROR"},
        {"slabs reassign 1 2 3\r\n", "ERROR"},
        {"lru\r\n", "ERROR"},
        {"lru mode\r\n", "ERROR"},
        {"lru mode flat\r\n", "OK"},
        {"lru mode segmented noreply\r\n", "OK (quiet)"},
        {"lru mode x\r\n", "ERROR"},
        {"lru temp_ttl -1\r\n", "OK"},
        {"lru temp_ttl x\r\n", "ERROR"},
        {"lru tune 10 25 .5 +2.\r\n", "OK"},
        {"lru tune 10 25 0.1\r\n", "ERROR"},
        {"lru tune 10 25 1e999 2\r\n", "ERROR"},
        {"lru tune 50 40 0.1 2.0\r\n", "ERROR hot and warm pcts must not exceed 80"},
        {"lru tune 10 25 0 2.0\r\n", "ERROR hot/warm age factors must be greater than 0"},
        {"lru noreply\r\n", "ERROR (quiet)"},
        {"lru_crawler\r\n", "ERROR"},
        {"lru_crawler enable\r\n", "OK"},
        {"lru_crawler disable\r\n", "OK"},
        {"lru_crawler enable x\r\n", "ERROR"},
        {"lru_crawler sleep 1000000\r\n", "OK"},
        {"lru_crawler sleep 1000001\r\n", "CLIENT_ERROR sleep must be one second or less"},
        {"lru_crawler sleep x\r\n", kBad},
        {"lru_crawler tocrawl 0\r\n", "OK"},
        {"lru_crawler tocrawl -1\r\n", kBad},
        {"lru_crawler crawl all\r\n", "OK"},
        {"lru_crawler crawl 1,,63\r\n", "OK"},
        {"lru_crawler crawl ,\r\n", "NOTSTARTED no items to crawl"},
        {"lru_crawler crawl 64\r\n", "BADCLASS invalid class id"},
        {"lru_crawler crawl 1,x\r\n", "BADCLASS invalid class id"},
        {"lru_crawler crawl hash\r\n", "ERROR an unknown error happened"},
        {"lru_crawler metadump all\r\n", "metadump rest=all"},
        {"lru_crawler metadump 1,,63\r\n", "metadump rest=1,,63"},
        {"lru_crawler metadump all x\r\n", "ERROR"},
        {"lru_crawler metadump 64\r\n", "metadump rest=64 rest=BADCLASS invalid class id\r\n"},
        {"lru_crawler metadump ,\r\n", "metadump rest=, rest=NOTSTARTED no items to crawl\r\n"},
        {"lru_crawler metadump\r\n", "ERROR"},
        {"lru_crawler mgdump hash\r\n", "mgdump rest=hash"},
        {"lru_crawler mgdump 0\r\n", "mgdump rest=0 rest=BADCLASS invalid class id\r\n"},
        {"cache_memlimit\r\n", "ERROR"},
        {"cache_memlimit x\r\n", "ERROR"},
        {"cache_memlimit 7\r\n", "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m"},
        {"cache_memlimit 64\r\n", "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust"},
        {"cache_memlimit 2000000000\r\n",
         "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes"},
        {"watch\r\n", "CLIENT_ERROR watch commands not allowed"},
        {"watch noreply\r\n", "CLIENT_ERROR watch commands not allowed (quiet)"},
    });
  }

  TEST_CASE("text: every command with 0 to 9 words gets a reply") {
    for (const std::string command : {"get",
                                      "gets",
                                      "gat",
                                      "gats",
                                      "set",
                                      "add",
                                      "replace",
                                      "append",
                                      "prepend",
                                      "cas",
                                      "incr",
                                      "decr",
                                      "touch",
                                      "delete",
                                      "stats",
                                      "version",
                                      "verbosity",
                                      "flush_all",
                                      "quit",
                                      "shutdown",
                                      "slabs",
                                      "slabs automove",
                                      "slabs reassign",
                                      "lru",
                                      "lru mode",
                                      "lru tune",
                                      "lru temp_ttl",
                                      "lru_crawler",
                                      "lru_crawler crawl",
                                      "cache_memlimit",
                                      "watch",
                                      "mg",
                                      "ms",
                                      "md",
                                      "ma",
                                      "me",
                                      "mn"}) {
      for (const std::string word : {" 1", " x", " noreply", " b", "  \t"}) {
        std::string line = command;
        for (int words = 0; words < 10; ++words, line += word) {
          CAPTURE(line);
          const char* fault = FuzzText(line + "\r\nversion\r\n");
          CHECK_MESSAGE(fault == nullptr, fault);
        }
      }
    }
  }

  TEST_CASE("text: a line may have 2,048 bytes before its end, and no more however it arrives") {
    const std::string fits = "version"s + std::string(2041, ' ') + "\n";
    CHECK(Describe(ParsedText(fits).request) == "version");
    CHECK(ParsedText(fits.substr(0, 2048)).result.status == ParseStatus::kNeedMore);
    const std::string longer = "version"s + std::string(2042, ' ') + "\n";
    for (const size_t length : {size_t{2049}, longer.size()}) {
      const ParsedText parsed(longer.substr(0, length));
      CHECK(Describe(parsed.request) == "CLIENT_ERROR line too long (close)");
      CHECK(parsed.result.consumed == length);
    }
    for (const std::string start : {"mg a", "set", "bget a", "getsx", "getx a", ""}) {
      CAPTURE(start);
      CHECK(Describe(ParsedText(start + std::string(3000, ' ')).request) ==
            "CLIENT_ERROR line too long (close)");
    }
  }

  TEST_CASE("text: a long line of gets gives its keys in pieces, whatever its length") {
    for (const std::string start : {"get ", "gets ", "gat 0 ", "gats 0 ", "   get "}) {
      CAPTURE(start);
      std::string line = start;
      std::string expected;
      for (int i = 0; i < 20'000; ++i) {
        line += std::string(1 + i % 7 * (i % 5 == 0), ' ') + "key" + std::to_string(i);
        expected += " key" + std::to_string(i);
      }
      line += " \r\nmn\r\n";
      std::vector<char> bytes(line.begin(), line.end());
      std::span<char> rest(bytes);
      std::string keys;
      KeyList list;
      Request request;
      size_t pieces = 0;
      do {
        const ParseResult result = list.open ? ParseMoreKeys(rest, Limits(), list, &request)
                                             : ParseText(rest, Limits(), &request);
        REQUIRE(result.status != ParseStatus::kNeedMore);
        REQUIRE(result.consumed > 0);
        REQUIRE(result.consumed <= Limits().line_bytes_max);
        if (request.op == Op::kAnswer) {
          REQUIRE(request.reply.empty());
        } else {
          REQUIRE(request.op == Op::kGet);
          CHECK(request.with_cas == (start.find('s') != start.npos));
          CHECK(request.exptime.has_value() == (start.find("gat") != start.npos));
          std::string_view list_of_keys = request.keys;
          while (true) {
            const std::string_view key = NextToken(&list_of_keys);
            if (key.empty()) break;
            keys += " " + std::string(key);
          }
        }
        list = KeyList::After(request);
        rest = rest.subspan(result.consumed);
        ++pieces;
      } while (list.open);
      CHECK((keys == expected));
      CHECK(pieces > line.size() / Limits().line_bytes_max);
      CHECK((std::string_view(rest.data(), rest.size()) == "mn\r\n"));
    }
  }

  TEST_CASE("text: a key that is too long in a later piece skips the rest of its line") {
    std::string line = "get a" + std::string(2500, ' ') + std::string(251, 'k') + " b\r\n";
    std::vector<char> bytes(line.begin(), line.end());
    std::span<char> rest(bytes);
    Request request;
    ParseResult result = ParseText(rest, Limits(), &request);
    CHECK(request.more_keys);
    bool refused = false;
    while (request.more_keys || request.skip_line) {
      rest = rest.subspan(result.consumed);
      result = ParseMoreKeys(rest, Limits(), KeyList::After(request), &request);
      REQUIRE(result.status != ParseStatus::kNeedMore);
      refused = refused || request.op == Op::kAnswer;
    }
    CHECK(refused);
    CHECK(rest.size() == result.consumed);
  }

  TEST_CASE("text: runs of spaces count as one space") {
    for (const size_t run : {1, 2, 100, 200, 2000}) {
      const std::string spaces(run, ' ');
      CHECK(Describe(ParsedText("get" + spaces + "a" + "\r\n").request) == "get key=a");
      CHECK(Describe(ParsedText("get a" + spaces + "\n").request) == "get key=a");
      CHECK(Describe(ParsedText(spaces + "mg a" + "\r\n").request) == "get key=a");
    }
  }

  TEST_CASE("text: a pipeline gives the same requests in any pieces") {
    const std::string input =
        "set a 0 0 3\r\nabc\r\nget a b\r\nms YQ== 1 b k\r\nx\r\nset b 0 0 1\r\ntoolong\r\n"
        "set c 0 0 2000000 noreply\r\n" +
        std::string(2000000, 'v') +
        "\r\nmg YQ== b v\r\nms a 5 z\r\nquit\r\r\nmg a\n\r\nincr a 1\r\nquit\r\nversion\r\n";
    const std::vector<std::string> expected = {"set key=a value=abc exptime=0",
                                               "get key=a rest=a b",
                                               "set key=a value=x rest= b k base64",
                                               "CLIENT_ERROR bad data chunk",
                                               "ERROR",
                                               "set key=c quiet too_large exptime=0",
                                               "get key=a rest= b v base64 wants_value",
                                               "CLIENT_ERROR invalid flag",
                                               "get key=a",
                                               "ERROR",
                                               "number key=a",
                                               "quit close"};
    CHECK(Conversation(input, 4 << 20, 1) == expected);
    for (unsigned seed = 1; seed <= 20; ++seed) {
      CAPTURE(seed);
      CHECK(Conversation(input, 100000, seed) == expected);
    }
    const std::string small =
        input.substr(0, input.find("set c")) + input.substr(input.find("mg "));
    std::vector<std::string> fewer = expected;
    fewer.erase(fewer.begin() + 5);
    for (unsigned seed = 1; seed <= 20; ++seed) {
      CAPTURE(seed);
      CHECK(Conversation(small, seed, seed) == fewer);
    }
  }

  TEST_CASE("text: replies") {
    const std::string set = "set a 0 0 1\r\nx\r\n";
    const std::string silent = "set a 0 0 1 noreply\r\nx\r\n";
    const Response number{.number = UINT64_MAX};
    const Response item{.flags = 7, .cas = 99, .key = "b", .value = "hello"};
    const auto only = [](Status status) { return Response{.status = status}; };
    const Response forbidden{.status = Status::kNotAllowed, .text = "CLIENT_ERROR no\r\n"};
    const std::vector<ReplyCase> cases = {
        {"get a b\r\n", item, "VALUE b 7 5\r\nhello\r\n"},
        {"gats 0 b\r\n", item, "VALUE b 7 5 99\r\nhello\r\n"},
        {"get a b\r\n", only(Status::kNotFound), ""},
        {set, {}, "STORED\r\n"},
        {set, only(Status::kNotStored), "NOT_STORED\r\n"},
        {set, only(Status::kExists), "EXISTS\r\n"},
        {set, only(Status::kNotFound), "NOT_FOUND\r\n"},
        {set, only(Status::kTooLarge), "SERVER_ERROR object too large for cache\r\n"},
        {set, only(Status::kNoMemory), "SERVER_ERROR out of memory storing object\r\n"},
        {silent, {}, ""},
        {silent, only(Status::kTooLarge), ""},
        {"incr n 1\r\n", number, "18446744073709551615\r\n"},
        {"incr n 1\r\n", only(Status::kNotFound), "NOT_FOUND\r\n"},
        {"incr n 1\r\n", only(Status::kNotNumber),
         "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"},
        {"incr n 1\r\n", only(Status::kNoMemory), "SERVER_ERROR out of memory\r\n"},
        {"decr n 1 noreply\r\n", number, ""},
        {"touch a 0\r\n", {}, "TOUCHED\r\n"},
        {"touch a 0\r\n", only(Status::kNotFound), "NOT_FOUND\r\n"},
        {"delete a\r\n", {}, "DELETED\r\n"},
        {"delete a\r\n", only(Status::kNotFound), "NOT_FOUND\r\n"},
        {"flush_all\r\n", {}, "OK\r\n"},
        {"flush_all x\r\n", {}, "CLIENT_ERROR invalid exptime argument\r\n"},
        {"flush_all x\r\n", forbidden, "CLIENT_ERROR no\r\n"},
        {"flush_all noreply\r\n", forbidden, ""},
        {"verbosity 1\r\n", {}, "OK\r\n"},
        {"version\r\n", {.text = "1.6.18 ours"}, "VERSION 1.6.18 ours\r\n"},
        {"shutdown\r\n", {}, ""},
        {"shutdown\r\n", forbidden, "CLIENT_ERROR no\r\n"},
        {"shutdown x\r\n", {}, "CLIENT_ERROR invalid shutdown mode\r\n"},
        {"quit\r\n", {}, ""},
        {"bogus\r\n", {}, "ERROR\r\n"},
        {"set a 0 0 x noreply\r\n", {}, ""},
        {"GET / HTTP/1.1\r\n", {}, ""},
        {"gat 0\r\n", {}, "END\r\n"},
    };
    for (const ReplyCase& c : cases) {
      CAPTURE(c.input);
      CHECK(ReplyTo(c.input, c.response) == c.reply);
    }
  }

  TEST_CASE("text: the longest head fits") {
    const Response response{
        .flags = UINT32_MAX, .cas = UINT64_MAX, .key = kLongestKey, .value = "v"};
    CHECK(ReplyTo("gets " + kLongestKey + "\r\n", response) ==
          "VALUE " + kLongestKey + " 4294967295 1 18446744073709551615\r\nv\r\n");
  }

  TEST_CASE("text: lines made of the protocol's own words show no fault") {
    constexpr unsigned kSeed = 20;
    CAPTURE(kSeed);
    std::mt19937 random(kSeed);
    const std::vector<std::string> words = {
        "get", "gats", "set",     "cas", "incr", "delete",    "touch", "mg",    "ms",
        "md",  "ma",   "me",      "a",   "YQ==", "====",      "0",     "1",     "3",
        "-1",  "40",   "noreply", "b",   "k",    "v",         "q",     "Oabc",  "T30",
        "N0",  "C5",   "ME",      "MX",  "F",    "flush_all", "lru",   "stats", "x",
        "",    "\t",   "\r\n",    "\n",  "\r",   "abc\r\n"};
    for (int round = 0; round < 3000; ++round) {
      std::string input;
      for (unsigned i = random() % 12; i > 0; --i) {
        input += words[random() % words.size()] + (random() % 8 == 0 ? "\r\n" : " ");
      }
      input += "\r\n";
      CAPTURE(input);
      const char* fault = FuzzText(input);
      REQUIRE_MESSAGE(fault == nullptr, fault);
    }
  }
}

}  // namespace
}  // namespace protocol
