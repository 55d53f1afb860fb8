// The engine and its connections against servers that lie, fail, stall or are slow.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "tests/tools/fake_server.h"
#include "tools/kbfload/engine.h"

namespace load {
namespace {

// memcached's text protocol, as far as the tests need it, with a chance to lie.
class TextServer {
 public:
  using Lie = std::function<void(const std::string& key, bool* found, std::string* value)>;
  explicit TextServer(Lie lie = nullptr) : lie_(std::move(lie)) {}

  bool operator()(std::string* in, std::string* out) {
    for (size_t end; (end = in->find("\r\n")) != std::string::npos;) {
      std::istringstream words(in->substr(0, end));
      std::string verb, key;
      words >> verb >> key;
      size_t used = end + 2;
      if (verb == "set") {
        size_t flags = 0, ttl = 0, bytes = 0;
        words >> flags >> ttl >> bytes;
        if (in->size() < used + bytes + 2) return true;
        items_[key] = in->substr(used, bytes);
        used += bytes + 2;
        *out += "STORED\r\n";
      } else if (verb == "delete") {
        *out += items_.erase(key) > 0 ? "DELETED\r\n" : "NOT_FOUND\r\n";
      } else {
        do {
          Get(key, out);
        } while (words >> key);
        *out += "END\r\n";
      }
      in->erase(0, used);
    }
    return true;
  }

 private:
  void Get(const std::string& key, std::string* out) {
    const auto item = items_.find(key);
    bool found = item != items_.end();
    std::string value = found ? item->second : "";
    if (lie_) lie_(key, &found, &value);
    if (!found) return;
    *out += "VALUE " + key + " 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\n";
  }

  Lie lie_;
  std::unordered_map<std::string, std::string> items_;
};

// A busy machine may keep the server's thread waiting for long; only a stall ends by this.
constexpr double kPatience_s = 120;

struct World {
  Workload workload;
  ClientGroup clients;

  explicit World(const Address& server, uint64_t keys = 1000)
      : workload({.seed = 6, .keys = keys, .value_size = "1-300"}) {
    clients.server = server;
    clients.connections = 3;
    clients.pipeline = 7;
    clients.workload = &workload;
  }
  Outcome Fill(const LoadOptions& options = {.timeout_s = kPatience_s}) {
    clients.sources = WalkKeys(Verb::kSet, 0, 2, StoredKey(workload.keys()));
    return RunLoad({clients}, options, nullptr);
  }
  Outcome Verify(const LoadOptions& options = {.timeout_s = kPatience_s}) {
    clients.sources = WalkKeys(Verb::kGet, 0, 1, StoredKey(workload.keys()));
    return RunLoad({clients}, options, nullptr);
  }
  std::string KeyOf(KeyCode code) const {
    std::string key(workload.KeyBytes(code), '\0');
    workload.WriteKey(code, key.data());
    return key;
  }
};

// What the outcome says of a server that answers every request like this.
std::string FailureOf(const FakeServer::Answer& answer, double timeout_s = kPatience_s) {
  const FakeServer server(answer);
  World world(server.address());
  LoadOptions options;
  options.timeout_s = timeout_s;
  return world.Verify(options).failure;
}

FakeServer::Answer Always(const std::string& reply) {
  return [reply](std::string* in, std::string* out) {
    if (!in->empty()) *out += reply;
    in->clear();
    return true;
  };
}

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_SUITE("tools") {
  TEST_CASE("kbfload: an exact server gets no complaints, in any shape of load") {
    for (const unsigned multiget : {1u, 2u, 50u}) {
      for (const unsigned pipeline : {1u, 100u}) {
        CAPTURE(multiget);
        CAPTURE(pipeline);
        const FakeServer server{TextServer()};
        World world(server.address());
        world.clients.multiget = multiget;
        world.clients.pipeline = pipeline;
        const Tally filled = world.Fill().All();
        CHECK(filled.ops[static_cast<size_t>(Verb::kSet)] == 1000);
        const Outcome outcome = world.Verify();
        const Tally tally = outcome.All();
        CHECK(outcome.failure.empty());
        CHECK(tally.AllOps() == 2000);
        CHECK(tally.hits == 1000);
        CHECK(tally.absent_asked == 1000);
        CHECK(tally.misses + tally.wrong + tally.false_positives + tally.AllErrors() == 0);
      }
    }
  }

  TEST_CASE("kbfload: every lie is counted, and as what it is") {
    // Told by the key, so the server and the test agree: the sum of its bytes.
    const auto kind = [](const std::string& key) {
      unsigned sum = 0;
      for (const char c : key) sum += static_cast<unsigned char>(c);
      return sum % 10;
    };
    std::atomic<bool> lying = false;
    const FakeServer server{
        TextServer([&](const std::string& key, bool* found, std::string* value) {
          if (!lying) return;
          if (*found && kind(key) == 0) *found = false;
          if (*found && kind(key) == 1) value->back() = static_cast<char>(value->back() ^ 1);
          if (*found && kind(key) == 2) value->pop_back();
          if (!*found && kind(key) == 3) *found = true;
        })};
    World world(server.address());
    REQUIRE(world.Fill().failure.empty());
    uint64_t lost = 0, changed = 0, invented = 0;
    for (KeyCode code = 0; code < 2000; ++code) {
      const unsigned what = kind(world.KeyOf(code));
      lost += !IsAbsentKey(code) && what == 0;
      changed += !IsAbsentKey(code) && (what == 1 || what == 2);
      invented += IsAbsentKey(code) && what == 3;
    }
    REQUIRE(lost * changed * invented > 0);
    lying = true;
    for (const unsigned multiget : {1u, 13u}) {
      world.clients.multiget = multiget;
      const Tally tally = world.Verify().All();
      CHECK(tally.misses == lost);
      CHECK(tally.wrong == changed);
      CHECK(tally.false_positives == invented);
      CHECK(tally.hits == 1000 - lost - changed);
      CHECK(tally.absent_asked == 1000);
    }
  }

  TEST_CASE("kbfload: read-through stores what was missed") {
    const FakeServer server{TextServer()};
    World world(server.address(), 100);
    MixOptions mix;
    mix.mix = ParseMix("1:0:0");
    mix.ops = 3000;
    world.clients.read_through = true;
    world.clients.connections = 1;
    world.clients.pipeline = 1;
    world.clients.sources = DrawKeys(world.workload, mix, world.clients.connections);
    const Tally tally = RunLoad({world.clients}, {.timeout_s = kPatience_s}, nullptr).All();
    CHECK(tally.misses == 100);
    CHECK(tally.ops[static_cast<size_t>(Verb::kSet)] == 100);
    CHECK(tally.hits == 2900);
    CHECK(tally.wrong == 0);
  }

  TEST_CASE("kbfload: a mix with deletes and sets finds only right values") {
    const FakeServer server{TextServer()};
    World world(server.address(), 500);
    REQUIRE(world.Fill().failure.empty());
    MixOptions mix;
    mix.mix = ParseMix("5:2:1");
    mix.zipf = 0.9;
    mix.ops = 12000;
    world.clients.sources = DrawKeys(world.workload, mix, world.clients.connections);
    const Outcome outcome = RunLoad({world.clients}, {.timeout_s = kPatience_s}, nullptr);
    const Tally tally = outcome.All();
    CHECK(outcome.failure.empty());
    CHECK(tally.AllOps() == 12000);
    CHECK(tally.wrong == 0);
    CHECK(tally.misses > 0);
    CHECK(tally.AllLatency().count() == 12000);
  }

  TEST_CASE("kbfload: threads share a walk, and each answer is counted once") {
    const FakeServer server{TextServer()};
    World world(server.address(), 5000);
    world.clients.connections = 9;
    LoadOptions options;
    options.threads = 3;
    options.timeout_s = kPatience_s;
    CHECK(world.Fill(options).All().AllOps() == 5000);
    const Outcome outcome = world.Verify(options);
    CHECK(outcome.threads == 3);
    CHECK(outcome.All().AllOps() == 10000);
    CHECK(outcome.All().hits == 5000);
    CHECK(outcome.cpu_seconds > 0);
  }

  TEST_CASE("kbfload: garbage, silence, a hang-up and a refusal each get their own sentence") {
    CHECK(Has(FailureOf(Always("HTTP/1.1 400 Bad Request\r\n")), "answers garbage: 'HTTP/1.1"));
    CHECK(Has(FailureOf(Always("VALUE k 0 99999999999\r\n")), "answers garbage"));
    CHECK(Has(FailureOf(Always(""), 0.1), "stalls: no answer"));
    CHECK(Has(FailureOf(Always("VALUE k 0 10\r\nabc"), 0.1), "stalls: no answer"));
    CHECK(Has(FailureOf([](std::string*, std::string*) { return false; }), "connection"));
    const Socket none(socket(AF_INET, SOCK_STREAM, 0));  // bound, and nobody listens
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof name;
    REQUIRE(bind(none.fd(), reinterpret_cast<sockaddr*>(&name), bytes) == 0);
    getsockname(none.fd(), reinterpret_cast<sockaddr*>(&name), &bytes);
    World world(ParseAddress("127.0.0.1:" + std::to_string(ntohs(name.sin_port))));
    CHECK_THROWS_AS(world.Fill(), ServerError);
  }

  TEST_CASE("kbfload: answers to what nobody asked end the run") {
    const std::string unasked = "answers what was not asked";
    CHECK(Has(FailureOf(Always("STORED\r\n")), unasked));
    CHECK(Has(FailureOf(Always("VALUE nobody 0 1\r\nx\r\nEND\r\n")), unasked));
    CHECK(Has(FailureOf(Always("NOT_FOUND\r\n")), unasked));
    // One END too many.
    CHECK(Has(FailureOf([](std::string* in, std::string* out) {
                for (size_t end; (end = in->find('\n')) != std::string::npos;) {
                  in->erase(0, end + 1);
                  *out += "END\r\nEND\r\n";
                }
                return true;
              }),
              unasked));
  }

  TEST_CASE("kbfload: what a full server says before it hangs up is passed on") {
    const std::string failure = FailureOf([](std::string*, std::string* out) {
      *out += "ERROR Too many open connections\r\n";
      return false;
    });
    CAPTURE(failure);
    CHECK(Has(failure, "Too many open connections"));
  }

  TEST_CASE("kbfload: errors are counted by kind and the work goes on") {
    std::atomic<int> turn = 0;
    const FakeServer server([&](std::string* in, std::string* out) {
      constexpr const char* kSays[] = {"ERROR\r\n", "CLIENT_ERROR bad\r\n",
                                       "SERVER_ERROR out of memory\r\n", "END\r\n"};
      for (size_t end; (end = in->find('\n')) != std::string::npos;) {
        in->erase(0, end + 1);
        *out += kSays[turn++ % 4];
      }
      return true;
    });
    World world(server.address(), 1000);
    const Outcome outcome = world.Verify();
    const Tally tally = outcome.All();
    CHECK(outcome.failure.empty());
    CHECK(tally.errors == 500);
    CHECK(tally.client_errors == 500);
    CHECK(tally.server_errors == 500);
    CHECK(tally.AllOps() == 2000);
    CHECK_FALSE(tally.last_error.empty());
  }

  TEST_CASE("kbfload: what was measured before a failure is kept") {
    TextServer good;
    std::atomic<int> left = 50;
    const FakeServer server([&](std::string* in, std::string* out) {
      if (left.fetch_sub(1) <= 0) return false;
      return good(in, out);
    });
    World world(server.address(), 100000);
    const Outcome outcome = world.Fill();
    CHECK(Has(outcome.failure, "connection"));
    CHECK(outcome.All().AllOps() > 0);
    CHECK(outcome.All().AllOps() < 100000);
  }

  TEST_CASE("kbfload: in an open loop a pause is charged to all that should have begun in it") {
    // The server sleeps once, for 300 ms, while 2,000 requests a second are due. In a closed loop
    // one request would be slow; here those due in the first 200 ms are all slower than 100 ms:
    // 400 are expected, whatever the machine does besides, since waiting longer only adds to them.
    TextServer good;
    std::atomic<bool> slept = false;
    const FakeServer server([&](std::string* in, std::string* out) {
      if (!slept.exchange(true)) std::this_thread::sleep_for(std::chrono::milliseconds(300));
      return good(in, out);
    });
    World world(server.address(), 100);
    world.clients.connections = 1;
    world.clients.pipeline = 1000;
    MixOptions mix;
    mix.ops = 1000;
    world.clients.sources = DrawKeys(world.workload, mix, world.clients.connections);
    LoadOptions options;
    options.rate = 2000;
    options.timeout_s = kPatience_s;
    const Histogram latency = RunLoad({world.clients}, options, nullptr).All().AllLatency();
    CHECK(latency.count() == 1000);
    CHECK(latency.CountBetween(100'000'000, Histogram::kLimitNs) > 200);
  }

  TEST_CASE("kbfload: addresses are read, and nonsense refused") {
    CHECK(ParseAddress("localhost").Name() == "localhost:11211");
    CHECK(ParseAddress("10.0.0.1:5").Name() == "10.0.0.1:5");
    CHECK(ParseAddress("[::1]:5").Name() == "[::1]:5");
    CHECK(ParseAddress("[::1]").host == "::1");
    CHECK(ParseAddress("unix:/run/m.sock").path == "/run/m.sock");
    CHECK_FALSE(ParseAddress("host:5").tls);
    const Address tls = ParseAddress("tls:[::1]:5");
    CHECK(tls.tls);
    CHECK(tls.host == "::1");
    CHECK(tls.Name() == "tls:[::1]:5");
    CHECK(ParseAddress("tls:host").Name() == "tls:host:11211");
    CHECK_THROWS_AS(ParseAddress("tls:unix:/path"), std::invalid_argument);
    CHECK_THROWS_AS(ParseAddress("tls:"), std::invalid_argument);
    CHECK(ParseAddress("/run/m.sock").is_unix());
    for (const std::string bad :
         {"", ":5", "host:", "host:0", "host:65536", "host:x", "host:5x", "[::1", "unix:"}) {
      CAPTURE(bad);
      CHECK_THROWS_AS(ParseAddress(bad), std::invalid_argument);
    }
    CHECK_THROWS_AS(ParseAddress("/" + std::string(107, 'x')), std::invalid_argument);
  }
}

}  // namespace
}  // namespace load
