#include "tools/cluster/records.h"

#include <doctest/doctest.h>

#include <string>

#include "src/io/openssl_memory.h"
#include "tools/cluster/frame.h"
#include "tools/cluster/handshake.h"

TEST_SUITE("cluster") {
  TEST_CASE("what is written to etcd is read again, and nothing else") {
    cluster::ClusterConfig config{16, {}, "item_size_max=1048576 cas=yes", "ab12"};
    for (size_t i = 0; i < config.hash_secret.size(); ++i) {
      config.hash_secret[i] = static_cast<std::byte>(255 - i);
    }
    const auto read = cluster::ParseConfig(cluster::FormatConfig(config));
    REQUIRE(read.has_value());
    CHECK(read->slabs == 16);
    CHECK(read->hash_secret == config.hash_secret);
    CHECK(read->agreed == config.agreed);
    CHECK(read->secret_check == "ab12");

    const cluster::MapRecord record{7, {"10.0.0.1:11211", "aa"}, {"10.0.0.2:11211", "bb"}, 99};
    const auto map = cluster::ParseMap(cluster::FormatMap(record));
    REQUIRE(map.has_value());
    CHECK(map->term == 7);
    CHECK(map->owner == record.owner);
    CHECK(map->target == record.target);
    CHECK(map->copied_in == 99);
    CHECK(cluster::ParseMap(cluster::FormatMap({1, {"a:1", "x"}, {}, 0}))->target.empty());

    const auto node = cluster::ParseNode(cluster::FormatNode({"aa", "h:1"}));
    REQUIRE(node.has_value());
    CHECK(node->inner == "h:1");
    CHECK(cluster::ParseFlush(cluster::FormatFlush(1234567890)) == 1234567890);

    for (const char* bad :
         {"", "{", "{}", "[]", R"({"slabs":3})", R"({"term":1})", R"({"slabs":16})"}) {
      CAPTURE(bad);
      CHECK(!cluster::ParseConfig(bad).has_value());
      CHECK(!cluster::ParseMap(bad).has_value());
      CHECK(!cluster::ParseNode(bad).has_value());
      CHECK(!cluster::ParseFlush(bad).has_value());
    }
  }

  TEST_CASE("items of a copy are read as they were written, and cut ones are refused") {
    std::string items;
    cluster::AppendItem({5, 1, 60, 3, 1, 0}, "key", "value", &items);
    cluster::AppendItem({0, 0, 0, 4, 0, 1}, "gone", "", &items);
    for (size_t length = 0; length <= items.size(); ++length) {
      CAPTURE(length);
      std::string_view rest = std::string_view(items).substr(0, length);
      cluster::ItemHeader header;
      std::string_view key;
      std::string_view value;
      const bool first = cluster::TakeItem(&rest, &header, &key, &value);
      CHECK(first == (length >= 24));
      if (!first) continue;
      CHECK(key == "key");
      CHECK(value == "value");
      CHECK(header.seconds_left == 60);
      CHECK(cluster::TakeItem(&rest, &header, &key, &value) == (length == items.size()));
      if (length == items.size()) CHECK(key == "gone");
    }
  }

  TEST_CASE("a proof needs the secret, is for one role and for one handshake") {
    // OpenSSL takes its allocation functions before its first allocation only; other tests use
    // them.
    server::CountOpenSslMemory();
    const std::string a = cluster::RandomNonce();
    const std::string b = cluster::RandomNonce();
    const std::string proof = cluster::Proof("secret", "client", a, b);
    CHECK(cluster::SameProof(proof, cluster::Proof("secret", "client", a, b)));
    CHECK(!cluster::SameProof(proof, cluster::Proof("Secret", "client", a, b)));
    CHECK(!cluster::SameProof(proof, cluster::Proof("secret", "server", a, b)));
    CHECK(!cluster::SameProof(proof, cluster::Proof("secret", "client", b, a)));
    CHECK(!cluster::SameProof("", ""));
    CHECK(cluster::SecretCheck("secret", "one") != cluster::SecretCheck("secret", "two"));
    CHECK(cluster::SecretCheck("secret", "one") != cluster::SecretCheck("other", "one"));
  }
}
