#include "protocol/peek.h"

#include <doctest/doctest.h>

#include <random>
#include <string>

namespace protocol {
namespace {

using std::string_literals::operator""s;

struct Case {
  std::string bytes;
  std::string key;
  bool reads;
};

const Case kCases[] = {
    {"get key\r\n", "key", true},
    {"get key\n", "key", true},
    {"gets first second third\r\n", "first", true},
    {"mg key v\r\n", "key", true},
    {"set key 0 0 3\r\nval\r\n", "key", false},
    {"ms key 3\r\nval\r\n", "key", false},
    {"delete key\r\n", "key", false},
    {"\x80\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x03"s + std::string(12, '\0') + "key", "key",
     true},
    {"\x80\x01\x00\x03\x08\x00\x00\x00\x00\x00\x00\x0e"s + std::string(12 + 8, '\0') + "keyval",
     "key", false},
    {"", "", false},
    {"get", "", false},
    {"get ", "", false},
    {"get half_a_ke", "", false},
    {"version\r\n", "", false},
    {"a_word_that_is_no_command_at_all key\r\n", "", false},
    {"\x80\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x03"s + std::string(12, '\0') + "ke", "", false},
    {"\x80\x00\x00", "", false},
};

}  // namespace

TEST_SUITE("protocol") {
  TEST_CASE("the first key is found, and whether it is read") {
    for (const Case& each : kCases) {
      CAPTURE(each.bytes);
      const PeekedKey peeked = PeekKey(each.bytes);
      CHECK(peeked.key == each.key);
      if (!each.key.empty()) CHECK(peeked.reads == each.reads);
    }
  }

  TEST_CASE("a key that is peeked at lies within the bytes, whatever they are") {
    constexpr unsigned kSeed = 1;
    std::mt19937 random(kSeed);
    const std::string alphabet = "\x80\x00\x01\x10 \r\ngmkey"s;
    for (int i = 0; i < 20'000; ++i) {
      // Of exactly this size, so that a sanitizer sees what is read behind it.
      std::string bytes(random() % 64, '\0');
      for (char& byte : bytes) byte = alphabet[random() % alphabet.size()];
      const std::string copy(bytes.begin(), bytes.end());
      const std::string_view key = PeekKey(copy).key;
      if (key.empty()) continue;
      CHECK(key.data() >= copy.data());
      CHECK(key.data() + key.size() <= copy.data() + copy.size());
    }
  }
}

}  // namespace protocol
