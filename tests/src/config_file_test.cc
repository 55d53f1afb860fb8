#include "src/config/config_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <random>
#include <string>
#include <vector>

#include "src/process/startup_error.h"
#include "tests/src/temporary.h"

namespace server {
namespace {

using Words = std::vector<std::string>;

std::vector<ConfigLine> Parse(std::string_view text) {
  std::vector<std::string> warnings;
  return ParseConfig(text, "conf", &warnings);
}
std::string ErrorOf(std::string_view text) {
  try {
    Parse(text);
    return "";
  } catch (const StartupError& error) {
    return error.what();
  }
}

}  // namespace

TEST_SUITE("src") {
  TEST_CASE("a configuration as Debian ships it for memcached gives its options") {
    const auto lines = Parse(
        "# memcached default config file\n"
        "\n"
        "# Run memcached as a daemon.\n"
        "-d\n"
        "logfile /var/log/memcached.log\n"
        "# -v\n"
        "-m 64\n"
        "-p 11211\n"
        "-u memcache\n"
        "-l 127.0.0.1\n"
        "-P /var/run/memcached/memcached.pid\n");
    REQUIRE(lines.size() == 5);
    CHECK(lines[0].number == 7);
    CHECK(lines[0].words == Words{"-m", "64"});
    CHECK(lines[4].number == 11);
    CHECK(lines[4].words == Words{"-P", "/var/run/memcached/memcached.pid"});
  }

  TEST_CASE("blanks, comments, line ends and quotes") {
    const std::vector<std::pair<std::string, Words>> table = {
        {"-m 64", {"-m", "64"}},
        {"-m64\r\n", {"-m64"}},
        {" \t-m\t 64  # much\n", {"-m", "64"}},
        {"-m 64#much\n", {"-m", "64"}},
        {"-D '#' -v", {"-D", "#", "-v"}},
        {"-D \\#", {"-D", "#"}},
        {"-s \"/a b\"/c", {"-s", "/a b/c"}},
        {"-s \"a\\\"b\"", {"-s", "a\"b"}},
        {"-s 'a\\b'", {"-s", "a\\b"}},
        {"-u ''", {"-u", ""}},
        {"--listen=a,b", {"--listen=a,b"}},
    };
    for (const auto& [text, words] : table) {
      CAPTURE(text);
      const auto lines = Parse(text);
      REQUIRE(lines.size() == 1);
      CHECK(lines[0].words == words);
    }
    for (const char* nothing :
         {"", "\n", "#", "# x", " \t\r\n\n", "-d", "-d # x\n", "-dv", "-h", "logfile x"}) {
      CAPTURE(nothing);
      CHECK(Parse(nothing).empty());
    }
  }

  TEST_CASE("unknown directives are ignored with a warning that names the line") {
    std::vector<std::string> warnings;
    CHECK(ParseConfig("logfile x\nport 11211\n", "conf", &warnings).empty());
    REQUIRE(warnings.size() == 1);
    CHECK(warnings[0].starts_with("conf:2: 'port'"));
  }

  TEST_CASE("invalid files are refused with file and line") {
    CHECK(ErrorOf(std::string("-m 64\n-t\0 4\n", 12)) == "conf:2: the line holds a NUL byte");
    CHECK(ErrorOf("-m 64\n-s 'x\n-t 4").starts_with("conf:2: the line has a quote"));
    CHECK(ErrorOf("-m 64\\").starts_with("conf:1: the line ends in a backslash"));
    CHECK(ErrorOf("\n-s " + std::string(kConfigLineBytesMax, 'x'))
              .starts_with("conf:2: the line is longer"));
    CHECK(ErrorOf("-s " + std::string(kConfigLineBytesMax - 3, 'x')) == "");
    CHECK(ErrorOf(std::string(kConfigFileBytesMax, '\n')) == "");
    CHECK(ErrorOf(std::string(kConfigFileBytesMax + 1, '\n')).starts_with("conf: larger than"));
  }

  TEST_CASE(
      "files are read byte for byte; other things than files and too large files are refused") {
    const TemporaryDirectory directory;
    const std::string bytes("-m 64\0\n", 7);
    CHECK(ReadConfigFile(directory.Write("some", bytes)) == bytes);
    CHECK(ReadConfigFile(directory.Write("empty", "")).empty());
    const std::string large = ReadConfigFile(directory.Write("large", std::string(1 << 20, '#')));
    CHECK(large.size() == kConfigFileBytesMax + 1);
    CHECK(ErrorOf(large).starts_with("conf: larger than"));
    CHECK_THROWS_AS(ReadConfigFile(directory.path()), StartupError);
    CHECK_THROWS_AS(ReadConfigFile(directory.path() + "/none"), StartupError);
    const std::string fifo = directory.path() + "/fifo";
    REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
    CHECK_THROWS_AS(ReadConfigFile(fifo), StartupError);
  }

  TEST_CASE("any bytes give lines with options or one error line") {
    const unsigned seed = 20240518;
    CAPTURE(seed);
    std::mt19937 random(seed);
    const std::string alphabet("-dmh 6\t\r\n\n#'\"\\\0\xff=,x", 20);
    unsigned refused = 0;
    for (int i = 0; i < 20000; ++i) {
      std::string text(random() % 40, ' ');
      for (char& c : text) c = alphabet[random() % alphabet.size()];
      try {
        for (const ConfigLine& line : Parse(text)) {
          CHECK(!line.words.empty());
          CHECK(line.words[0].starts_with('-'));
        }
      } catch (const StartupError& error) {
        ++refused;
        CHECK(std::string_view(error.what()).find('\n') == std::string_view::npos);
      }
    }
    CHECK(refused > 1000);
    CHECK(refused < 19000);
  }
}

}  // namespace server
