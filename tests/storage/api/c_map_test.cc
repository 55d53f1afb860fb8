// The C interface: what it adds to Map is checks, so those are tested here.
#include <doctest/doctest.h>
#include <kbf/kbf.h>
#include <kbf/map.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>

namespace {

kbf_map* MakeMap(uint64_t capacity) {
  const kbf_map_options options = {capacity, 10, 0, 0, 1};
  kbf_map* map = nullptr;
  REQUIRE(kbf_map_create(&options, &map, nullptr, 0) == KBF_OK);
  return map;
}

TEST_SUITE("storage") {
  TEST_CASE("the C map stores, finds, deletes, joins and compresses") {
    kbf_map* map = MakeMap(100);
    kbf_map* other = nullptr;
    REQUIRE(kbf_map_create_like(map, &other) == KBF_OK);
    CHECK(kbf_map_put(map, "alice", 5, "CH", 2) == KBF_OK);
    CHECK(kbf_map_put(other, "bob", 3, "", 0) == KBF_OK);
    CHECK(kbf_map_join(map, other) == KBF_OK);
    kbf_map_free(other);

    const char* value = nullptr;
    size_t bytes = 0;
    REQUIRE(kbf_map_get(map, "alice", 5, &value, &bytes) == KBF_OK);
    CHECK(std::string(value, bytes) == "CH");
    REQUIRE(kbf_map_get(map, "bob", 3, &value, &bytes) == KBF_OK);
    CHECK(bytes == 0);
    CHECK(kbf_map_compress(map) == KBF_OK);
    CHECK(kbf_map_delete(map, "alice", 5) == KBF_OK);
    CHECK(kbf_map_delete(map, "alice", 5) == KBF_NOT_FOUND);
    CHECK(kbf_map_get(map, "alice", 5, &value, &bytes) == KBF_NOT_FOUND);
    CHECK(value == nullptr);
    CHECK(bytes == 0);

    kbf_map_stats stats;
    REQUIRE(kbf_map_get_stats(map, &stats) == KBF_OK);
    CHECK(stats.size == 1);
    CHECK(stats.capacity == 50);
    CHECK(stats.num_values == 2);
    CHECK(stats.memory_bytes > 0);
    CHECK(stats.false_negative < 2e-3);
    kbf_map_free(map);
  }

  TEST_CASE("null pointers and impossible sizes give an error code from every C function") {
    kbf_map* map = MakeMap(100);
    kbf_map* made = map;
    const kbf_map_options options = {100, 10, 0, 0, 1};
    CHECK(kbf_map_create(nullptr, &made, nullptr, 0) == KBF_BAD_ARGUMENT);
    CHECK(made == nullptr);
    CHECK(kbf_map_create(&options, nullptr, nullptr, 0) == KBF_BAD_ARGUMENT);
    CHECK(kbf_map_create_like(nullptr, &made) == KBF_BAD_ARGUMENT);
    CHECK(kbf_map_create_like(map, nullptr) == KBF_BAD_ARGUMENT);

    CHECK(kbf_map_put(nullptr, "k", 1, "v", 1) == KBF_BAD_ARGUMENT);
    CHECK(kbf_map_put(map, nullptr, 1, "v", 1) == KBF_BAD_ARGUMENT);
    CHECK(kbf_map_put(map, "k", 1, nullptr, 1) == KBF_BAD_ARGUMENT);
    CHECK(kbf_map_put(map, "k", SIZE_MAX, "v", 1) == KBF_BAD_ARGUMENT);
    CHECK(kbf_map_put(map, "k", 1, "v", SIZE_MAX) == KBF_BAD_ARGUMENT);
    CHECK(kbf_map_put(map, "k", 1, "v", size_t{1} << 40) == KBF_TOO_LARGE);
    CHECK(kbf_map_put(map, nullptr, 0, nullptr, 0) == KBF_OK);

    const char* value = "";
    size_t bytes = 1;
    CHECK(kbf_map_get(nullptr, "k", 1, &value, &bytes) == KBF_BAD_ARGUMENT);
    CHECK(value == nullptr);
    CHECK(bytes == 0);
    CHECK(kbf_map_get(map, nullptr, 1, &value, &bytes) == KBF_BAD_ARGUMENT);
    CHECK(kbf_map_get(map, "k", SIZE_MAX, &value, &bytes) == KBF_BAD_ARGUMENT);
    CHECK(kbf_map_get(map, "k", 1, nullptr, &bytes) == KBF_BAD_ARGUMENT);
    CHECK(kbf_map_get(map, "k", 1, &value, nullptr) == KBF_BAD_ARGUMENT);
    CHECK(kbf_map_get(map, nullptr, 0, &value, &bytes) == KBF_OK);

    CHECK(kbf_map_delete(nullptr, "k", 1) == KBF_BAD_ARGUMENT);
    CHECK(kbf_map_delete(map, nullptr, 1) == KBF_BAD_ARGUMENT);
    CHECK(kbf_map_delete(map, "k", SIZE_MAX) == KBF_BAD_ARGUMENT);
    CHECK(kbf_map_join(nullptr, map) == KBF_BAD_ARGUMENT);
    CHECK(kbf_map_join(map, nullptr) == KBF_BAD_ARGUMENT);
    CHECK(kbf_map_join(map, map) == KBF_UNLIKE);
    CHECK(kbf_map_compress(nullptr) == KBF_BAD_ARGUMENT);
    kbf_map_stats stats;
    CHECK(kbf_map_get_stats(nullptr, &stats) == KBF_BAD_ARGUMENT);
    CHECK(kbf_map_get_stats(map, nullptr) == KBF_BAD_ARGUMENT);
    kbf_map_free(map);
    kbf_map_free(nullptr);
  }

  TEST_CASE("the message of kbf_map_create fits whatever buffer is given") {
    const kbf_map_options options = {};
    kbf_map* map = nullptr;
    std::string whole(300, 'x');
    CHECK(kbf_map_create(&options, &map, whole.data(), whole.size()) == KBF_BAD_ARGUMENT);
    CHECK(map == nullptr);
    whole.resize(std::strlen(whole.c_str()));
    CHECK(whole.find("capacity") != std::string::npos);
    for (size_t room = 1; room <= whole.size() + 1; ++room) {
      std::string buffer(room + 1, 'x');
      (void)kbf_map_create(&options, &map, buffer.data(), room);
      CHECK(buffer.c_str() == whole.substr(0, room - 1));
      CHECK(buffer[room] == 'x');
    }
    CHECK(kbf_map_create(&options, &map, nullptr, 10) == KBF_BAD_ARGUMENT);
    char unused = 'x';
    CHECK(kbf_map_create(&options, &map, &unused, 0) == KBF_BAD_ARGUMENT);
    CHECK(unused == 'x');

    const kbf_map_options nan = {1, 1, std::numeric_limits<double>::quiet_NaN(), 0, 0};
    CHECK(kbf_map_create(&nan, &map, nullptr, 0) == KBF_BAD_ARGUMENT);
    const kbf_map_options good = {1, 1, 0, 0, 1};
    REQUIRE(kbf_map_create(&good, &map, whole.data(), whole.size()) == KBF_OK);
    CHECK(whole[0] == '\0');
    kbf_map_free(map);
  }

  TEST_CASE("every status has a message of its own, and any other number has one too") {
    for (int a = KBF_OK; a <= KBF_SYSTEM; ++a) {
      for (int b = KBF_OK; b < a; ++b) {
        CHECK(std::strcmp(kbf_status_message(static_cast<kbf_status>(a)),
                          kbf_status_message(static_cast<kbf_status>(b))) != 0);
      }
    }
    CHECK(std::string(kbf_status_message(static_cast<kbf_status>(12))) == "unknown status");
    CHECK(std::string(kbf_version()).find('.') != std::string::npos);
  }
}

}  // namespace
