#include "tools/cluster/json.h"

#include <doctest/doctest.h>

#include <string>

using cluster::Json;

TEST_SUITE("cluster") {
  TEST_CASE("a reply of etcd's gateway is read, with its numbers in quotation marks") {
    const auto json = Json::Parse(
        R"({"header":{"revision":"12","raft_term":"2"},"succeeded":true,)"
        R"("responses":[{"response_range":{"kvs":[{"key":"L2E=","mod_revision":"7"}]}}, {}]})");
    REQUIRE(json.has_value());
    CHECK((*json)["header"]["revision"].Number() == 12);
    CHECK((*json)["succeeded"].True());
    REQUIRE((*json)["responses"].items().size() == 2);
    const Json& kvs = (*json)["responses"].items()[0]["response_range"]["kvs"];
    REQUIRE(kvs.items().size() == 1);
    CHECK(kvs.items()[0]["key"].text() == "L2E=");
    CHECK(kvs.items()[0]["mod_revision"].Number() == 7);
    // What etcd leaves out is zero.
    CHECK(kvs.items()[0]["lease"].Number() == 0);
    CHECK((*json)["no"]["such"]["field"].is_null());
  }

  TEST_CASE("escapes are read, and written where they are needed") {
    const auto json = Json::Parse(R"("a\"b\\c\/d\n\u0041\u00e4")");
    REQUIRE(json.has_value());
    CHECK(json->text() == "a\"b\\c/d\nA\xc3\xa4");
    for (const std::string& text :
         {std::string("a\"b\\c\n\x01"), std::string(), std::string("äß")}) {
      CAPTURE(text);
      const auto again = Json::Parse(cluster::Quote(text));
      REQUIRE(again.has_value());
      CHECK(again->text() == text);
    }
  }

  TEST_CASE("what is not JSON gives nothing, at whatever byte it is cut") {
    const std::string good = R"({"a":[1,-2.5e3,"x\u0041",true,false,null,{}],"b":""})";
    REQUIRE(Json::Parse(good).has_value());
    for (size_t length = 0; length < good.size(); ++length) {
      CAPTURE(length);
      CHECK(!Json::Parse(good.substr(0, length)).has_value());
    }
    for (const char* bad :
         {"{}}", "[1,]", "{\"a\"}", "tru", "\"\\x\"", "\"\\u12", "1.2.3", "-", "{1:2}"}) {
      CAPTURE(bad);
      CHECK(!Json::Parse(bad).has_value());
    }
    CHECK(!Json::Parse(std::string(100000, '[')).has_value());
  }
}
