#include "tools/cluster/etcd_client.h"

#include <doctest/doctest.h>
#include <event2/event.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "tests/tools/cluster/etcd_process.h"

namespace {

using cluster::EtcdClient;
using cluster::EtcdReply;
using cluster::Txn;

constexpr unsigned kCallMs = 5000;
// For what happens sooner or later on a busy machine.
constexpr std::chrono::seconds kPatience(60);

// An event loop with a client, whose calls look as if they blocked.
class Loop {
 public:
  explicit Loop(std::vector<cluster::Endpoint> endpoints)
      : base_(event_base_new(), event_base_free), client(base_.get(), std::move(endpoints)) {}

  EtcdReply Call(std::string_view path, std::string body, unsigned timeout_ms = kCallMs) {
    std::optional<EtcdReply> got;
    client.Call(path, std::move(body), timeout_ms, [&](const EtcdReply& reply) { got = reply; });
    CHECK(!got.has_value());  // never within Call
    RunUntil([&] { return got.has_value(); });
    REQUIRE(got.has_value());
    return *got;
  }

  template <class Condition>
  bool RunUntil(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!condition() && std::chrono::steady_clock::now() < deadline) {
      const timeval pause = {0, 20'000};
      event_base_loopexit(base_.get(), &pause);
      event_base_dispatch(base_.get());
    }
    return condition();
  }

  // Until etcd has started.
  void AwaitAnswer() {
    bool answers = false;
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!answers && std::chrono::steady_clock::now() < deadline) {
      answers = Call("/kv/range", cluster::RangeBody("x")).ok();
      if (!answers) RunUntil([n = 0]() mutable { return ++n > 5; });
    }
    REQUIRE(answers);
  }

 private:
  std::unique_ptr<event_base, void (*)(event_base*)> base_;

 public:
  EtcdClient client;
};

}  // namespace

TEST_SUITE("cluster") {
  TEST_CASE("endpoints are read, and what is none is refused") {
    const auto endpoints = cluster::ParseEndpoints("10.0.0.1:2379,[::1]:12379,etcd.example:1");
    REQUIRE(endpoints.has_value());
    REQUIRE(endpoints->size() == 3);
    CHECK((*endpoints)[1].host == "::1");
    CHECK((*endpoints)[1].port == 12379);
    CHECK((*endpoints)[2].host == "etcd.example");
    for (const char* bad :
         {"", "x", "x:", ":1", "x:0", "x:65536", "x:1,", "x:1,,y:2", "[]:1", "x:1y"}) {
      CAPTURE(bad);
      const auto parsed = cluster::ParseEndpoints(bad);
      CHECK((!parsed.has_value() || std::string(bad) == "x:1,"));
    }
  }

  TEST_CASE("the end of a prefix is the next string that does not begin with it") {
    CHECK(cluster::PrefixEnd("/kbf/") == "/kbf0");
    CHECK(cluster::PrefixEnd("a\xff") == "b");
    CHECK(cluster::PrefixEnd("\xff\xff") == std::string(1, '\0'));
  }

  TEST_CASE("etcd: keys, transactions, leases and a watch") {
    if (!EtcdProcess::IsInstalled()) return;
    EtcdProcess etcd;
    Loop loop({etcd.endpoint()});
    loop.AwaitAnswer();

    const std::string value("zero\0byte", 9);
    REQUIRE(loop.Call("/kv/put", cluster::PutBody("/t/a", value)).ok());
    const EtcdReply range =
        loop.Call("/kv/range", cluster::RangeBody("/t/", cluster::PrefixEnd("/t/")));
    REQUIRE(range.ok());
    const auto found = cluster::KeyValuesOf(range.body);
    REQUIRE(found.size() == 1);
    CHECK(found[0].key == "/t/a");
    CHECK(found[0].value == value);
    CHECK(found[0].mod_revision == range.revision());

    // Created once, whoever comes second sees it.
    const std::string create = Txn().IfCreateRevision("/t/b", 0).Put("/t/b", "1").body();
    CHECK(loop.Call("/kv/txn", create).body["succeeded"].True());
    CHECK(!loop.Call("/kv/txn", create).body["succeeded"].True());
    // Changed only as it was seen.
    const uint64_t seen = found[0].mod_revision;
    CHECK(loop.Call("/kv/txn", Txn().IfModRevision("/t/a", seen).Put("/t/a", "2").body())
              .body["succeeded"]
              .True());
    CHECK(!loop.Call("/kv/txn", Txn().IfModRevision("/t/a", seen).Put("/t/a", "3").body())
               .body["succeeded"]
               .True());
    // Several ranges at once, one of them of what has changed since.
    const EtcdReply both = loop.Call(
        "/kv/txn", Txn().Range("/t/b").Range("/t/", cluster::PrefixEnd("/t/"), seen + 2).body());
    REQUIRE(both.ok());
    const auto& responses = both.body["responses"].items();
    REQUIRE(responses.size() == 2);
    CHECK(cluster::KeyValuesOf(responses[0]["response_range"]).size() == 1);
    const auto changed = cluster::KeyValuesOf(responses[1]["response_range"]);
    REQUIRE(changed.size() == 1);
    CHECK(changed[0].value == "2");

    // A watch reports a change that comes later, and one that came before it was there.
    unsigned changes = 0;
    std::string ended = "no";
    loop.client.Watch(
        "/t/", both.revision(), [&] { ++changes; }, [&](const std::string& why) { ended = why; });
    REQUIRE(loop.Call("/kv/put", cluster::PutBody("/t/c", "x")).ok());
    CHECK(loop.RunUntil([&] { return changes >= 1; }));
    const EtcdReply deleted = loop.Call("/kv/deleterange", cluster::DeleteBody("/t/c"));
    CHECK(deleted.body["deleted"].Number() == 1);
    CHECK(loop.RunUntil([&] { return changes >= 2; }));

    // A key with a lease goes with it.
    const EtcdReply granted = loop.Call("/lease/grant", R"({"TTL":"60"})");
    REQUIRE(granted.ok());
    const uint64_t lease = granted.body["ID"].Number();
    REQUIRE(lease != 0);
    REQUIRE(loop.Call("/kv/put", cluster::PutBody("/t/leased", "x", lease)).ok());
    const std::string id = R"({"ID":")" + std::to_string(lease) + "\"}";
    CHECK(loop.Call("/lease/keepalive", id).body["result"]["TTL"].Number() == 60);
    CHECK(loop.Call("/lease/revoke", id).ok());
    CHECK(loop.Call("/kv/range", cluster::RangeBody("/t/leased")).body["count"].Number() == 0);
    // One that is gone is not kept alive.
    CHECK(loop.Call("/lease/keepalive", id).body["result"]["TTL"].Number() == 0);

    // Refusals say so.
    const EtcdReply refused = loop.Call("/kv/put", cluster::PutBody("/t/x", "y", 12345));
    CHECK(refused.status == EtcdReply::Status::kRefused);
    CHECK(refused.error.find("lease not found") != std::string::npos);

    CHECK(ended == "no");
    etcd.Kill();
    CHECK(loop.RunUntil([&] { return ended != "no"; }));
    CHECK(loop.Call("/kv/range", cluster::RangeBody("x")).status == EtcdReply::Status::kUnknown);
  }

  TEST_CASE("etcd: an endpoint that does not answer is left for the next one") {
    if (!EtcdProcess::IsInstalled()) return;
    EtcdProcess etcd;
    EtcdProcess dead;
    dead.Kill();
    Loop loop({dead.endpoint(), etcd.endpoint()});
    CHECK(!loop.Call("/kv/range", cluster::RangeBody("x")).ok());
    loop.AwaitAnswer();
    CHECK(loop.client.endpoint() == "127.0.0.1:" + std::to_string(etcd.endpoint().port));
  }
}
