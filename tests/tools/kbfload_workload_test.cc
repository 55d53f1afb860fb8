#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <unordered_set>
#include <vector>

#include "tools/kbfload/mix_bits.h"
#include "tools/kbfload/workload.h"

namespace load {
namespace {

std::string KeyOf(const Workload& workload, KeyCode code) {
  std::string key(workload.KeyBytes(code), '\0');
  workload.WriteKey(code, key.data());
  return key;
}

std::string ValueOf(const Workload& workload, KeyCode code) {
  const ValueId id = workload.ValueOf(code);
  std::string value(id.bytes, '\0');
  workload.WriteValue(id, value.data());
  return value;
}

std::string Hex(const std::string& bytes) {
  std::string hex;
  for (const char c : bytes) {
    for (const int shift : {4, 0}) hex += "0123456789abcdef"[static_cast<uint8_t>(c) >> shift & 15];
  }
  return hex;
}

TEST_SUITE("tools") {
  TEST_CASE(
      "kbfload: keys and values are pinned: other bytes would not find what was filled before") {
    const Workload workload({.seed = 1});
    CHECK(KeyOf(workload, StoredKey(0)) == "Zqw_T5w3zrMjbAQCfvvKOPlPhkPZl11cv9zYClEXFhQ");
    CHECK(KeyOf(workload, AbsentKey(7)) == "qPyFCxFAbtFAert2m4af4bg1eHs3i-DYqtXHYiYc_");
    CHECK(workload.ValueOf(StoredKey(0)).number == 2499);
    const std::string value = ValueOf(workload, StoredKey(0));
    CHECK(value.size() == 576);
    CHECK(Hex(value.substr(0, 8)) == "f97835ab2991cb2d");
    CHECK(Hex(value.substr(568)) == "ee35ad3ae6ba7c65");
  }

  TEST_CASE("kbfload: stored keys and absent keys are all different, whatever their sizes") {
    for (const char* size : {"etc", "4", "3-5", "11", "12", "250"}) {
      CAPTURE(size);
      const uint64_t keys = std::string(size) == "3-5" ? 100000 : 200000;
      const Workload workload({.seed = 9, .keys = keys, .key_size = size});
      std::unordered_set<std::string> seen;
      for (KeyCode code = 0; code < 2 * keys; ++code) {
        const std::string key = KeyOf(workload, code);
        CHECK(seen.insert(key).second);
        if (code < 1000) {
          CHECK(std::all_of(key.begin(), key.end(),
                            [](char c) { return std::isalnum(c) || c == '-' || c == '_'; }));
        }
      }
    }
  }

  TEST_CASE("kbfload: another seed gives other keys and values") {
    const Workload one({.seed = 1});
    const Workload other({.seed = 2});
    int same = 0;
    for (KeyCode code = 0; code < 1000; ++code) same += KeyOf(one, code) == KeyOf(other, code);
    CHECK(same == 0);
  }

  TEST_CASE("kbfload: there are as many values as asked for, and each is used") {
    for (const double zipf : {0.0, 0.9}) {
      const Workload workload(
          {.seed = 3, .keys = 50000, .value_size = "12", .values = 100, .value_zipf = zipf});
      std::set<std::string> values;
      for (uint64_t i = 0; i < 50000; ++i) values.insert(ValueOf(workload, StoredKey(i)));
      CHECK(values.size() == 100);
    }
    // Two bytes have room for 3,000 values, one has not.
    const Workload two({.seed = 3, .value_size = "2", .values = 3000});
    std::set<std::string> values;
    for (uint64_t i = 0; i < 100000; ++i) values.insert(ValueOf(two, StoredKey(i)));
    CHECK(values.size() == 3000);
    const Workload own({.seed = 3, .value_size = "20", .values = 0});
    values.clear();
    for (uint64_t i = 0; i < 10000; ++i) values.insert(ValueOf(own, StoredKey(i)));
    CHECK(values.size() == 10000);
  }

  TEST_CASE("kbfload: a value is recognised, and nothing else is taken for it") {
    const Workload workload({.seed = 5, .values = 0});
    for (uint64_t i = 0; i < 2000; ++i) {
      const ValueId id = workload.ValueOf(StoredKey(i));
      std::string value = ValueOf(workload, StoredKey(i));
      CHECK(workload.IsValue(id, value));
      CHECK_FALSE(workload.IsValue(id, value + "x"));
      if (value.empty()) continue;
      CHECK_FALSE(workload.IsValue(id, std::string_view(value).substr(1)));
      for (const size_t at : {size_t{0}, value.size() / 2, value.size() - 1}) {
        value[at] = static_cast<char>(value[at] ^ 1);
        CHECK_FALSE(workload.IsValue(id, value));
        value[at] = static_cast<char>(value[at] ^ 1);
      }
    }
  }

  TEST_CASE("kbfload: sessions are different, of known sizes, and recognised in any size") {
    const Workload workload({.seed = 5, .value_size = "json", .values = 0});
    std::set<std::string> values;
    size_t bytes = 0;
    for (uint64_t i = 0; i < 10000; ++i) {
      const ValueId id = workload.ValueOf(StoredKey(i));
      std::string value = ValueOf(workload, StoredKey(i));
      CHECK(workload.IsValue(id, value));
      CHECK(value.starts_with("{\"id\":"));
      CHECK(value.ends_with("\"}"));
      CHECK(value.size() >= 235);
      CHECK(value.size() <= 385);
      bytes += value.size();
      values.insert(value);
      value[i % value.size()] = static_cast<char>(value[i % value.size()] ^ 1);
      CHECK_FALSE(workload.IsValue(id, value));
    }
    CHECK(values.size() == 10000);
    // 305 on average; the deviation of one is 26.
    CHECK(std::abs(static_cast<double>(bytes) / 10000 - 305) < 5 * 26 / 100.0);
    for (const uint32_t size : {0u, 1u, 100u, 600u, 5000u}) {
      const ValueId id = Workload::Resized(workload.ValueOf(StoredKey(1)), size);
      std::string value(size, '\0');
      workload.WriteValue(id, value.data());
      CHECK(workload.IsValue(id, value));
      if (size == 0) continue;
      value.back() = '!';
      CHECK_FALSE(workload.IsValue(id, value));
    }
  }

  TEST_CASE("kbfload: another generation gives nearly every key another value") {
    const Workload first({.seed = 5, .values = 3000});
    const Workload second({.seed = 5, .values = 3000, .generation = 1});
    int same = 0;
    for (uint64_t i = 0; i < 30000; ++i) {
      CHECK(KeyOf(first, StoredKey(i)) == KeyOf(second, StoredKey(i)));
      same += first.ValueOf(StoredKey(i)).number == second.ValueOf(StoredKey(i)).number;
    }
    // By chance one in 3,000: 10, and 5 sigma.
    CHECK(same <= 10 + 5 * 3.2);
  }

  TEST_CASE("kbfload: keys can come from a list or be a prefix with a number") {
    auto names = std::make_shared<std::vector<std::string>>(
        std::vector<std::string>{"first", "second:key", "x"});
    const Workload listed({.names = names});
    CHECK(listed.keys() == 3);
    for (uint64_t i = 0; i < 3; ++i) CHECK(KeyOf(listed, StoredKey(i)) == (*names)[i]);
    CHECK(KeyOf(listed, AbsentKey(0)).size() >= 11);
    const Workload numbered({.keys = 100, .key_prefix = "foo"});
    CHECK(KeyOf(numbered, StoredKey(0)) == "foo0");
    CHECK(KeyOf(numbered, StoredKey(99)) == "foo99");
    CHECK(KeyOf(numbered, AbsentKey(0)) == "foo100");
    const Workload fixed({.value = "hi"});
    CHECK(ValueOf(fixed, StoredKey(4)) == "hi");
    CHECK(fixed.IsValue(fixed.ValueOf(StoredKey(4)), "hi"));
    CHECK_FALSE(fixed.IsValue(fixed.ValueOf(StoredKey(4)), "ho"));
  }

  TEST_CASE("kbfload: workloads that cannot be are refused with a sentence") {
    const std::vector<WorkloadOptions> bad = {
        {.keys = 0},
        {.keys = kKeysMax + 1},
        {.keys = 100, .key_size = "1"},
        {.key_size = "0"},
        {.value_size = "2000000"},
        {.value_bytes_max = kValueBytesLimit + 1},
        {.value_zipf = -1},
        {.key_prefix = std::string(245, 'x')},
    };
    for (const WorkloadOptions& options : bad) {
      CHECK_THROWS_AS(Workload{options}, std::invalid_argument);
    }
  }

  TEST_CASE("kbfload: bits are mixed one to one at every width, and numbers below every bound") {
    for (unsigned bits = 0; bits <= 16; ++bits) {
      std::vector<bool> seen(size_t{1} << bits);
      for (uint64_t x = 0; x < seen.size(); ++x) {
        const uint64_t y = MixBits(x, bits);
        REQUIRE(y < seen.size());
        CHECK_FALSE(seen[y]);
        seen[y] = true;
      }
    }
    for (const uint64_t n : {1, 2, 3, 5, 64, 1000, 4097}) {
      const Permutation place(n, 12345);
      std::set<uint64_t> seen;
      for (uint64_t i = 0; i < n; ++i) seen.insert(place(i));
      CHECK(seen.size() == n);
      CHECK(*seen.rbegin() == n - 1);
    }
  }
}

}  // namespace
}  // namespace load
