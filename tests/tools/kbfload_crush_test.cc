// Crush files: how lines are read, and what each key of a line makes a server see.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/tools/fake_server.h"
#include "tests/tools/text_file.h"
#include "tools/kbfload/commands.h"
#include "tools/kbfload/crush.h"

namespace load {
namespace {

const Address kNowhere = ParseAddress("127.0.0.1:9");

// The text and binary protocols as far as crush speaks them, and a list of what was asked. Quiet
// sets of keys that end in 7 are refused.
class Recorder {
 public:
  bool operator()(std::string* in, std::string* out) {
    const size_t before = lines.size() + packets.size();
    while (!in->empty()) {
      const size_t used = (*in)[0] == '\x80' ? Packet(*in, out) : Line(*in, out);
      if (used == 0) break;
      in->erase(0, used);
    }
    batches.push_back(lines.size() + packets.size() - before);
    return true;
  }

  struct Seen {
    int opcode;
    std::string key;
    std::string extras;
    size_t value_bytes;
  };
  std::vector<std::string> lines;   // without data blocks
  std::vector<std::string> values;  // data blocks
  std::vector<Seen> packets;
  std::vector<size_t> batches;  // requests that came at once

 private:
  static size_t Big(const std::string& in, size_t at, size_t bytes) {
    size_t number = 0;
    for (size_t i = 0; i < bytes; ++i) number = number << 8 | static_cast<uint8_t>(in[at + i]);
    return number;
  }

  size_t Line(const std::string& in, std::string* out) {
    const size_t end = in.find("\r\n");
    if (end == std::string::npos) return 0;
    std::istringstream words(in.substr(0, end));
    std::string verb, key;
    words >> verb >> key;
    if (verb == "set") {
      size_t flags = 0, expire = 0, bytes = 0;
      words >> flags >> expire >> bytes;
      if (in.size() < end + 4 + bytes) return 0;
      lines.push_back(in.substr(0, end));
      values.push_back(in.substr(end + 2, bytes));
      *out += "STORED\r\n";
      return end + 4 + bytes;
    }
    lines.push_back(in.substr(0, end));
    if (verb == "incr" || verb == "decr") {
      *out += "5  \r\n";
    } else if (verb == "mg") {
      *out += key.back() == '0' ? "EN\r\n" : "HD\r\n";
    } else {
      *out += verb == "touch" ? "TOUCHED\r\n" : verb == "delete" ? "DELETED\r\n" : "END\r\n";
    }
    return end + 2;
  }

  size_t Packet(const std::string& in, std::string* out) {
    if (in.size() < 24 || in.size() < 24 + Big(in, 8, 4)) return 0;
    const size_t extras = Big(in, 4, 1);
    const std::string key = in.substr(24 + extras, Big(in, 2, 2));
    packets.push_back({static_cast<uint8_t>(in[1]), key, in.substr(24, extras),
                       Big(in, 8, 4) - extras - key.size()});
    const bool quiet = in[1] == 0x11;
    const bool refused = quiet && key.back() == '7';
    if (!quiet || refused) {
      std::string reply(24, '\0');
      reply[0] = '\x81';
      reply[1] = in[1];
      if (refused) reply[7] = 0x03;  // too large
      reply.replace(12, 4, in.substr(12, 4));
      *out += reply;
    }
    return 24 + Big(in, 8, 4);
  }
};

struct Ran {
  Recorder seen;
  Outcome outcome;

  Tally all() const { return outcome.All(); }
  // The word at a place of every line, as a number behind the prefix; and how often.
  std::map<std::string, int> Words(size_t place) const {
    std::map<std::string, int> count;
    for (const std::string& line : seen.lines) {
      std::istringstream words(line);
      std::string word;
      for (size_t i = 0; i <= place; ++i) words >> word;
      ++count[word];
    }
    return count;
  }
};

// What one line does to a server, and what was counted.
Ran RunLine(const std::string& line) {
  Ran ran;
  {
    const FakeServer server(
        [&ran](std::string* in, std::string* out) { return ran.seen(in, out); });
    CrushLine crush = ParseCrushLine(line, server.address());
    const Workload workload(crush.workload);
    crush.clients.workload = &workload;
    crush.clients.sources = CycleKeys(crush.cycle);
    ran.outcome = RunLoad({crush.clients}, {.timeout_s = 120}, nullptr);
  }
  CAPTURE(ran.outcome.failure);
  CHECK(ran.outcome.failure.empty());
  return ran;
}

uint64_t OpsOf(const Ran& ran, Verb verb) { return ran.all().ops[static_cast<size_t>(verb)]; }

TEST_SUITE("tools") {
  TEST_CASE("kbfload: crush lines are read") {
    const CrushLine get = ParseCrushLine(
        "send=ascii_mget,recv=blind_read,conns=50,key_prefix=foobar,key_count=1000,value_size=100,"
        "pipelines=8,mget_count=500000,key_prealloc=1,key_randomize=1",
        kNowhere);
    CHECK(get.cycle.verb == Verb::kGet);
    CHECK(get.clients.wire == protocol::Wire::kText);
    CHECK(get.clients.connections == 50);
    CHECK(get.clients.pipeline == 8);
    CHECK(get.clients.multiget == 500000);
    CHECK_FALSE(get.clients.check_values);
    CHECK(get.cycle.order == KeyOrder::kShuffled);
    CHECK(get.cycle.keys == 1000);
    CHECK(get.workload.keys == 1000);
    CHECK(get.workload.key_prefix == "foobar");
    CHECK(get.workload.value_size == "100");
    CHECK(get.clients.server.Name() == "127.0.0.1:9");
    const CrushLine set = ParseCrushLine("send=binary_set,value=hi,expire=60,port=99", kNowhere);
    CHECK(set.cycle.verb == Verb::kSet);
    CHECK(set.clients.wire == protocol::Wire::kBinary);
    CHECK(set.clients.check_values);
    CHECK(set.clients.ttl.low_s == 60);
    CHECK(set.clients.ttl.high_s == 60);
    CHECK(set.workload.value == "hi");
    CHECK(set.clients.server.Name() == "127.0.0.1:99");
    CHECK(set.cycle.group_ops == UINT64_MAX);
    CHECK(set.clients.every_us == 0);
    CHECK(set.clients.own_threads == 0);
    CHECK(ParseCrushLine("send=meta_get", kNowhere).clients.wire == protocol::Wire::kMeta);
    CHECK_FALSE(ParseCrushLine("send=meta_get", kNowhere).clients.meta_flags.has_value());
    CHECK_FALSE(ParseCrushLine("send=bin_set,recv=blind_recv", kNowhere).clients.check_values);
    CHECK(ParseCrushLine("send=bin_getq", kNowhere).clients.multiget == 2);
    const CrushLine zipf = ParseCrushLine("send=ascii_get,live_rand_zipf=1", kNowhere);
    CHECK(zipf.cycle.order == KeyOrder::kZipf);
    CHECK(zipf.cycle.zipf_skew == 0.25);
    // 0 is what these are without the pair.
    const CrushLine zero = ParseCrushLine(
        "send=bin_touch,stop_after=0,usleep=0,thread=0,live_rand=0,live_rand_zipf=0,flags=0",
        kNowhere);
    CHECK(zero.cycle.group_ops == UINT64_MAX);
    CHECK(zero.cycle.order == KeyOrder::kInTurn);
    CHECK(zero.cycle.groups == 1);
  }

  TEST_CASE("kbfload: crush lines with a mistake are refused, and say which") {
    const std::vector<std::pair<std::string, std::string>> bad = {
        {"conns=5", "send= is missing"},
        {"send=ascii_frob", "send=ascii_frob is not known"},
        {"send=ascii_get,frob=1", "'frob' is not known here; there are send recv thread conns"},
        {"send=ascii_get,recv=ascii_read", "recv=ascii_read is not known"},
        {"send=ascii_get,conns=0", "conns must be a number from 1"},
        {"send=ascii_get,conns=many", "not 'many'"},
        {"send=ascii_get,conns=1,conns=2", "'conns' is given twice"},
        {"send=ascii_get,nothing", "'nothing' is not name=value"},
        {"send=ascii_get,=5", "is not name=value"},
        {"send=ascii_get,mget_count=5", "'mget_count' is not known"},
        {"send=ascii_mget,mget_count=1000001", "mget_count must be a number from 1 to 1000000"},
        {"send=ascii_get,key_prefix=", "key_prefix has 1 to 250 bytes"},
        {"send=ascii_get,key_prefix=a b", "no spaces or control characters"},
        {"send=ascii_get,key_prefix=a\x03", "no spaces or control characters"},
        {"send=ascii_get,host=/tmp/socket", "host must be a name"},
        {"send=ascii_get,port=70000", "the port is a number"},
        {"send=ascii_get,stop_after=-1", "stop_after must be a number"},
        {"send=ascii_get,usleep=1ms", "usleep must be a number"},
        {"send=ascii_get,thread=1025", "thread must be a number from 0 to 1024"},
        {"send=ascii_get,live_rand=2", "live_rand must be a number from 0 to 1"},
        {"send=ascii_get,live_rand=1,live_rand_zipf=1", "exclude each other"},
        {"send=ascii_get,key_randomize=1,live_rand=1", "exclude each other"},
        {"send=ascii_get,zipf_skew=-1", "zipf_skew must be a number from 0 to 10, not '-1'"},
        {"send=ascii_get,zipf_skew=nan", "zipf_skew must be"},
        {"send=ascii_get,zipf_skew=0.5x", "zipf_skew must be"},
        {"send=ascii_set,flags=4294967296", "flags must be a number from 0 to 4294967295"},
        {"send=ascii_set,value_range=9-5", "value_range is A-B"},
        {"send=ascii_set,value_range=1-1048577", "value_range is A-B"},
        {"send=ascii_set,value_size=20,value_range=10", "not below value_size"},
        {"send=ascii_set,value_range=few", "not 'few'"},
        {"send=ascii_set,value_range=5,value=x", "exclude each other"},
        {"send=ascii_get,cmd_postfix=v", "'cmd_postfix' is not known"},
        {"send=ascii_mg,cmd_postfix=v q", "must not have the flag q"},
        {"send=ascii_mg,cmd_postfix=q", "must not have the flag q"},
        {"send=ascii_mg,cmd_postfix=v\tk", "no control characters"},
    };
    for (const auto& [line, complaint] : bad) {
      CAPTURE(line);
      try {
        ParseCrushLine(line, kNowhere);
        FAIL("was not refused");
      } catch (const std::invalid_argument& error) {
        CAPTURE(error.what());
        CHECK(std::string(error.what()).find(complaint) != std::string::npos);
      }
    }
  }

  TEST_CASE("kbfload: a mistake in a crush file is told with its line") {
    const TextFile file("# two lines\nsend=ascii_get\n\nsend=ascii_get,colour=red\n");
    try {
      ReadCrush(file.path(), kNowhere);
      FAIL("was not refused");
    } catch (const std::invalid_argument& error) {
      CHECK(std::string(error.what()).find(":4: 'colour' is not known") != std::string::npos);
    }
    CHECK_THROWS_AS(ReadCrush(TextFile("# nothing\n").path(), kNowhere), std::invalid_argument);
    CHECK(ReadCrush(TextFile("send=ascii_get\nsend=bin_setq").path(), kNowhere).size() == 2);
  }

  TEST_CASE("kbfload: crush ends a line after stop_after keys, whatever the shape") {
    for (const char* shape : {"conns=1", "conns=7,pipelines=3", "conns=2,pipelines=50"}) {
      const Ran ran = RunLine("send=ascii_set,key_count=40,stop_after=101," + std::string(shape));
      CAPTURE(shape);
      CHECK(OpsOf(ran, Verb::kSet) == 101);
      CHECK(ran.seen.lines.size() == 101);
      // The connections go round the keys together: 101 of 40 are two rounds and 21 keys.
      for (const auto& [key, count] : ran.Words(1)) {
        CHECK(count == (std::stoi(key.substr(3)) < 21 ? 3 : 2));
      }
    }
    const Ran gets = RunLine("send=ascii_mget,mget_count=7,stop_after=20");
    CHECK(gets.seen.lines.size() == 3);
    CHECK(gets.seen.lines[2] == "get foo14 foo15 foo16 foo17 foo18 foo19");
    CHECK(gets.all().misses == 20);
  }

  TEST_CASE("kbfload: crush gives a line with thread its own threads, and each of them the whole") {
    const Ran ran = RunLine("send=ascii_set,key_count=10,conns=2,thread=3,stop_after=10");
    CHECK(ran.outcome.threads == 3);
    CHECK(OpsOf(ran, Verb::kSet) == 30);
    for (const auto& [key, count] : ran.Words(1)) CHECK(count == 3);
    CHECK(ran.Words(1).size() == 10);
  }

  TEST_CASE("kbfload: lines of crush with and without threads of their own run side by side") {
    const FakeServer server{Recorder()};
    std::vector<ClientGroup> client_groups;
    std::vector<std::unique_ptr<Workload>> workloads;
    for (const char* line :
         {"send=ascii_set,conns=3,stop_after=50,thread=1", "send=ascii_touch,conns=2,stop_after=60",
          "send=ascii_delete,conns=1,stop_after=70,thread=2"}) {
      const CrushLine crush = ParseCrushLine(line, server.address());
      workloads.push_back(std::make_unique<Workload>(crush.workload));
      client_groups.push_back(crush.clients);
      client_groups.back().workload = workloads.back().get();
      client_groups.back().sources = CycleKeys(crush.cycle);
    }
    const Outcome outcome = RunLoad(client_groups, {.threads = 2, .timeout_s = 120}, nullptr);
    CHECK(outcome.failure.empty());
    CHECK(outcome.threads == 2 + 1 + 2);
    CHECK(outcome.client_groups[0].AllOps() == 50);
    CHECK(outcome.client_groups[1].AllOps() == 60);
    CHECK(outcome.client_groups[2].AllOps() == 140);
  }

  TEST_CASE("kbfload: crush with usleep sends one batch a pause, however fast the answers come") {
    // Ten batches of three have nine pauses of 4 ms between them; a slow machine only takes longer.
    const auto start = std::chrono::steady_clock::now();
    const Ran ran = RunLine("send=ascii_set,pipelines=3,usleep=4000,stop_after=30");
    CHECK(std::chrono::steady_clock::now() - start >= std::chrono::milliseconds(9 * 4));
    CHECK(OpsOf(ran, Verb::kSet) == 30);
    for (const size_t batch : ran.seen.batches) CHECK(batch <= 3);
    // Quiet sets are not gathered: a batch is what the file says, and the no-op.
    const Ran quiet = RunLine("send=bin_setq,pipelines=2,usleep=1000,stop_after=6");
    CHECK(quiet.seen.packets.size() == 6 + 3);
  }

  TEST_CASE("kbfload: crush with usleep charges a pause of the server to the batches due in it") {
    // The server sleeps once, for 200 ms, while a batch is due every 2 ms: those of the first half
    // of its sleep are late by 100 ms or more. 50 are expected.
    Recorder good;
    std::atomic<bool> slept = false;
    const FakeServer server([&](std::string* in, std::string* out) {
      if (!slept.exchange(true)) std::this_thread::sleep_for(std::chrono::milliseconds(200));
      return good(in, out);
    });
    CrushLine crush = ParseCrushLine("send=ascii_set,usleep=2000,stop_after=110", server.address());
    const Workload workload(crush.workload);
    crush.clients.workload = &workload;
    crush.clients.sources = CycleKeys(crush.cycle);
    const Histogram latency =
        RunLoad({crush.clients}, {.timeout_s = 120}, nullptr).All().AllLatency();
    CHECK(latency.count() == 110);
    CHECK(latency.CountBetween(100'000'000, Histogram::kLimitNs) > 40);
  }

  TEST_CASE("kbfload: crush draws keys with live_rand, and skewed ones with live_rand_zipf") {
    const Ran uniform =
        RunLine("send=ascii_get,conns=2,pipelines=50,key_count=1000,live_rand=1,stop_after=4000");
    const Ran zipf = RunLine(
        "send=ascii_get,conns=2,pipelines=50,key_count=1000,live_rand_zipf=1,zipf_skew=1.5,"
        "stop_after=4000");
    // A number is drawn 4 times on average: e^-4 of 1,000 never, 18 +- 5 * 4.3 of them.
    CHECK(uniform.Words(1).size() > 940);
    CHECK(uniform.Words(1).size() < 1000);
    CHECK(uniform.Words(1)["foo0"] < 4 + 5 * 4);
    // Key 0 has 1 / 2.55 of all draws: 1,568 +- 5 * 31.
    CHECK(zipf.Words(1)["foo0"] > 1568 - 5 * 31);
    CHECK(zipf.Words(1)["foo0"] < 1568 + 5 * 31);
    const Ran gentle =
        RunLine("send=ascii_get,pipelines=50,key_count=1000,live_rand_zipf=1,stop_after=4000");
    CHECK(gentle.Words(1)["foo0"] < 200);  // 0.25 where nothing is said: 17 +- 5 * 4
  }

  TEST_CASE("kbfload: crush sets flags, expiry and values of random sizes") {
    const Ran ran = RunLine(
        "send=ascii_set,flags=77,expire=50,key_count=300,value_range=5-60,pipelines=20,"
        "stop_after=600");
    CHECK(ran.Words(2) == std::map<std::string, int>{{"77", 600}});
    CHECK(ran.Words(3) == std::map<std::string, int>{{"50", 600}});
    std::set<size_t> sizes;
    for (const std::string& value : ran.seen.values) sizes.insert(value.size());
    CHECK(*sizes.begin() >= 5);
    CHECK(*sizes.rbegin() <= 60);
    CHECK(sizes.size() > 40);  // of 56; 300 keys miss a size with e^-5.4
    // The same key has the same value again, so that it can be checked.
    CHECK(std::vector(ran.seen.values.begin(), ran.seen.values.begin() + 300) ==
          std::vector(ran.seen.values.begin() + 300, ran.seen.values.end()));
    const Ran from = RunLine("send=ascii_set,value_size=8,value_range=12,stop_after=200");
    sizes.clear();
    for (const std::string& value : from.seen.values) sizes.insert(value.size());
    CHECK(sizes == std::set<size_t>{8, 9, 10, 11, 12});
    const Ran binary = RunLine("send=bin_set,flags=77,expire=50,value_size=9,stop_after=5");
    for (const auto& packet : binary.seen.packets) {
      CHECK(packet.opcode == 0x01);
      CHECK(packet.extras == std::string("\0\0\0\x4d\0\0\0\x32", 8));
      CHECK(packet.value_bytes == 9);
    }
  }

  TEST_CASE("kbfload: crush asks what its senders are named after") {
    CHECK(RunLine("send=ascii_decr,stop_after=1").seen.lines[0] == "decr foo0 1");
    CHECK(OpsOf(RunLine("send=ascii_decr,stop_after=9"), Verb::kDecr) == 9);
    CHECK(RunLine("send=ascii_incr,stop_after=1").seen.lines[0] == "incr foo0 1");
    CHECK(RunLine("send=ascii_touch,expire=8,stop_after=1").seen.lines[0] == "touch foo0 8");
    const Ran touch = RunLine("send=bin_touch,expire=50,stop_after=4,key_prefix=t");
    CHECK(touch.all().not_found == 0);
    CHECK(OpsOf(touch, Verb::kTouch) == 4);
    for (const auto& packet : touch.seen.packets) {
      CHECK(packet.opcode == 0x1c);
      CHECK(packet.extras == std::string("\0\0\0\x32", 4));
      CHECK(packet.value_bytes == 0);
    }
    CHECK(touch.seen.packets[3].key == "t3");
  }

  TEST_CASE("kbfload: crush asks mg with the flags of cmd_postfix, and a hit needs no value") {
    const Ran plain = RunLine("send=ascii_mg,stop_after=10,key_count=10");
    CHECK(plain.seen.lines[3] == "mg foo3");
    CHECK(plain.all().hits == 9);  // all but foo0
    CHECK(plain.all().misses == 1);
    const Ran flags = RunLine("send=ascii_mg,cmd_postfix=s t,pipelines=4,stop_after=10");
    CHECK(flags.seen.lines[9] == "mg foo9 s t");
    CHECK(flags.all().hits == 9);
  }

  TEST_CASE("kbfload: crush checks the value of mg where there is one, and flags where asked for") {
    for (const bool with_flags : {false, true}) {
      for (const std::string reply :
           {"VA 2 f7\r\nhi\r\n", "VA 2 f8\r\nhi\r\n", "VA 2 f7\r\nho\r\n"}) {
        CAPTURE(reply);
        const FakeServer server([&reply](std::string* in, std::string* out) {
          for (size_t end; (end = in->find('\n')) != std::string::npos; in->erase(0, end + 1)) {
            *out += reply;
          }
          return true;
        });
        CrushLine crush = ParseCrushLine(
            std::string("send=ascii_mg,value=hi,flags=7,stop_after=3,cmd_postfix=v") +
                (with_flags ? " f" : ""),
            server.address());
        const Workload workload(crush.workload);
        crush.clients.workload = &workload;
        crush.clients.sources = CycleKeys(crush.cycle);
        const Tally tally = RunLoad({crush.clients}, {.timeout_s = 120}, nullptr).All();
        const bool right = reply.ends_with("hi\r\n") && (!with_flags || reply[6] == '7');
        CHECK(tally.hits == (right ? 3 : 0));
        CHECK(tally.wrong == (right ? 0 : 3));
      }
    }
  }

  TEST_CASE("kbfload: quiet sets of crush are counted, and those that are refused as errors") {
    for (const char* shape : {"conns=1", "conns=3,pipelines=100", "conns=2,pipelines=7"}) {
      CAPTURE(shape);
      const Ran ran = RunLine("send=bin_setq,key_count=100,stop_after=1000," + std::string(shape));
      CHECK(OpsOf(ran, Verb::kSet) == 1000);
      CHECK(ran.all().client_errors == 100);  // keys that end in 7
      CHECK(ran.all().AllErrors() == 100);
      CHECK(ran.all().AllLatency().count() == 1000);
      const auto noops =
          std::count_if(ran.seen.packets.begin(), ran.seen.packets.end(),
                        [](const Recorder::Seen& one) { return one.opcode == 0x0a; });
      CHECK(ran.seen.packets.size() == 1000 + static_cast<size_t>(noops));
      CHECK(noops <= 1000 / 64 + 3);  // one for 64 sets or more, and the last of each connection
    }
  }

  TEST_CASE("kbfload: replies that no quiet set can have end the run") {
    const auto reply_with = [](uint8_t opcode, uint32_t opaque) {
      std::string reply(24, '\0');
      reply[0] = '\x81';
      reply[1] = static_cast<char>(opcode);
      for (int i = 0; i < 4; ++i) reply[12 + i] = static_cast<char>(opaque >> (24 - 8 * i));
      return reply;
    };
    // A no-op that was not sent, a set that was not, a success that should be quiet.
    for (const std::string& reply :
         {reply_with(0x0a, 1), reply_with(0x11, 1 << 20), reply_with(0x11, 3)}) {
      const FakeServer server([&reply](std::string* in, std::string* out) {
        if (!in->empty()) *out += reply;
        in->clear();
        return true;
      });
      CrushLine crush = ParseCrushLine("send=bin_setq,stop_after=10", server.address());
      const Workload workload(crush.workload);
      crush.clients.workload = &workload;
      crush.clients.sources = CycleKeys(crush.cycle);
      const Outcome outcome = RunLoad({crush.clients}, {.timeout_s = 120}, nullptr);
      CHECK(outcome.failure.find("what was not asked") != std::string::npos);
    }
  }

  TEST_CASE("kbfload: a request of crush can have as many keys as mc-crusher's largest") {
    const Ran ran =
        RunLine("send=ascii_mget,mget_count=500000,key_prefix=foobar,stop_after=600000");
    REQUIRE(ran.seen.lines.size() == 2);
    CHECK(std::count(ran.seen.lines[0].begin(), ran.seen.lines[0].end(), ' ') == 500000);
    CHECK(ran.seen.lines[0].starts_with("get foobar0 foobar1 "));
    CHECK(ran.all().misses == 600000);
  }

  TEST_CASE("kbfload: a key twice in a binary group is settled by its number, not by its name") {
    // The first of two foo0 misses, and the second, stored in between, hits.
    const FakeServer server([](std::string* in, std::string* out) {
      if (in->size() < 3 * 28 + 24) return true;
      std::string hit(24, '\0');
      hit[0] = '\x81';
      hit[1] = 0x0d;
      hit[3] = 4;                         // the key
      hit[4] = 4;                         // extras
      hit[11] = 4 + 4 + 10;               // body
      hit.replace(12, 4, "\0\0\0\2", 4);  // the third
      std::string noop(24, '\0');
      noop[0] = '\x81';
      noop[1] = 0x0a;
      *out += hit + std::string(4, '\0') + "foo0" + std::string(10, 'x') + noop;
      in->clear();
      return true;
    });
    CrushLine crush = ParseCrushLine(
        "send=bin_getq,recv=blind_read,mget_count=3,key_count=2,stop_after=3", server.address());
    const Workload workload(crush.workload);
    crush.clients.workload = &workload;
    crush.clients.sources = CycleKeys(crush.cycle);
    const Outcome outcome = RunLoad({crush.clients}, {.timeout_s = 120}, nullptr);
    CHECK(outcome.failure.empty());
    CHECK(outcome.All().hits == 1);
    CHECK(outcome.All().misses == 2);
  }
}

}  // namespace
}  // namespace load
