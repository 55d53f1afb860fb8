// The dispatcher over a small store: what each operation of each protocol does and answers, and
// when requests are carried out.
#include <doctest/doctest.h>

#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "protocol/binary.h"
#include "protocol/request_parser.h"
#include "src/dispatch/dispatcher.h"
#include "src/process/version.h"
#include "tests/src/fake_transport.h"

namespace server {
namespace {

Options SmallOptions() {
  Options options;
  options.store.memory_bytes = 16 << 20;
  options.prefix_delimiter = ':';
  return options;
}

// A dispatcher, its store, and the connection that it answers.
class Desk {
 public:
  explicit Desk(const Options& options = SmallOptions(), const OutputLimits& limits = {})
      : state(options,
              std::move(kbf::Store::Create(options.store, kbf::HashSecret::FromSeed(1)).store)),
        output(limits),
        dispatcher(state, counters, output) {
    output.Load(nullptr);
    dispatcher.Begin(&session, state.clock.Now());
  }

  // Submits the requests in `bytes` until one is not taken. Returns what Submit said last; `rest`
  // is what was not taken.
  Dispatcher::Next Submit(const std::string& bytes) {
    input = bytes;
    return SubmitRest();
  }
  Dispatcher::Next SubmitRest() {
    while (!input.empty()) {
      // What is held must not move: each request stays in a string of its own.
      held.push_back(std::move(input));
      const std::span<char> bytes(held.back());
      protocol::Request request;
      const protocol::ParseResult result = parser.Parse(bytes, {}, &request);
      REQUIRE(result.status == protocol::ParseStatus::kOk);
      const Dispatcher::Next next = dispatcher.Submit(&request, &budget);
      const bool taken = next != Dispatcher::Next::kOutputFull;
      size_t used = 0;
      if (taken) {
        used = std::min<size_t>(result.consumed, bytes.size());
        parser.Accept(request);
      } else {
        used = parser.AcceptPart(request, bytes);
      }
      input.assign(bytes.data() + used, bytes.size() - used);
      if (next != Dispatcher::Next::kTaken) return next;
    }
    return Dispatcher::Next::kTaken;
  }
  // What is in the output.
  std::string Sent() {
    FakePeer peer;
    FakeTransport transport(peer);
    Output::FlushStatus status = Output::FlushStatus::kPaused;
    while (status == Output::FlushStatus::kPaused) {
      size_t sent = 0;
      status = output.Flush(transport, &sent);
    }
    REQUIRE(status == Output::FlushStatus::kSent);
    return peer.written;
  }
  // The replies to all of these.
  std::string Ask(const std::string& bytes) {
    REQUIRE(Submit(bytes) == Dispatcher::Next::kTaken);
    dispatcher.Finish();
    std::string sent = Sent();
    held.clear();
    return sent;
  }
  void Check(const std::string& request, const std::string& reply) {
    CAPTURE(request);
    CHECK(Ask(request) == reply);
  }

  State state;
  WorkerCounters counters;
  Output output;
  Dispatcher dispatcher;
  Dispatcher::Session session;
  protocol::RequestParser parser{protocol::WireChoice::kAuto};
  unsigned budget = 1000;
  std::string input;
  std::vector<std::string> held;
};

std::string Set(const std::string& key, const std::string& value) {
  return "set " + key + " 0 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\n";
}

std::string Values(const std::vector<std::string>& keys, const std::string& value) {
  std::string reply;
  for (const std::string& key : keys) {
    reply += "VALUE " + key + " 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\n";
  }
  return reply + "END\r\n";
}

std::string BigEndian(uint64_t number, int bytes) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) text += static_cast<char>(number >> (8 * i));
  return text;
}

std::string Packet(uint8_t opcode, const std::string& extras, const std::string& key,
                   const std::string& value, uint64_t cas = 0) {
  return "\x80" + BigEndian(opcode, 1) + BigEndian(key.size(), 2) + BigEndian(extras.size(), 1) +
         BigEndian(0, 3) + BigEndian(extras.size() + key.size() + value.size(), 4) +
         BigEndian(opcode, 4) + BigEndian(cas, 8) + extras + key + value;
}

// The parts of one binary reply that tests compare.
struct BinaryReply {
  unsigned status = 0xffff;
  std::string body;
  uint64_t cas = 0;
};

BinaryReply ReplyTo(Desk& desk, const std::string& packet) {
  const std::string reply = desk.Ask(packet);
  REQUIRE(reply.size() >= protocol::kBinaryHeaderBytes);
  const auto number = [&reply](size_t from, size_t bytes) {
    uint64_t read = 0;
    for (size_t i = from; i < from + bytes; ++i) read = read << 8 | static_cast<uint8_t>(reply[i]);
    return read;
  };
  CHECK(reply[1] == packet[1]);
  CHECK(number(8, 4) == reply.size() - protocol::kBinaryHeaderBytes);
  CHECK(number(12, 4) == static_cast<uint8_t>(packet[1]));  // the opaque
  return {static_cast<unsigned>(number(6, 2)), reply.substr(protocol::kBinaryHeaderBytes),
          number(16, 8)};
}

}  // namespace

TEST_SUITE("src") {
  TEST_CASE("dispatch: every operation of the text protocol") {
    Options options = SmallOptions();
    options.enable_shutdown = true;
    Desk desk(options);
    desk.Check("get a\r\n", "END\r\n");
    desk.Check(Set("a", "one"), "STORED\r\n");
    desk.Check("get a\r\n", Values({"a"}, "one"));
    desk.Check("gets a\r\n", "VALUE a 0 3 1\r\none\r\nEND\r\n");
    desk.Check("add a 0 0 1\r\nx\r\n", "NOT_STORED\r\n");
    desk.Check("add b 5 0 1\r\nx\r\n", "STORED\r\n");
    desk.Check("replace c 0 0 1\r\nx\r\n", "NOT_STORED\r\n");
    desk.Check("replace b 6 0 1\r\ny\r\n", "STORED\r\n");
    desk.Check("append a 0 0 1\r\n!\r\n", "STORED\r\n");
    desk.Check("prepend a 0 0 1\r\n<\r\n", "STORED\r\n");
    desk.Check("get a b\r\n", "VALUE a 0 5\r\n<one!\r\nVALUE b 6 1\r\ny\r\nEND\r\n");
    desk.Check("cas b 0 0 1 1\r\nz\r\n", "EXISTS\r\n");
    desk.Check("cas none 0 0 1 1\r\nz\r\n", "NOT_FOUND\r\n");
    desk.Check("touch a 100\r\ntouch none 1\r\n", "TOUCHED\r\nNOT_FOUND\r\n");
    desk.Check("gat 100 a none\r\n", Values({"a"}, "<one!"));
    desk.Check(Set("n", "41"), "STORED\r\n");
    desk.Check("incr n 1\r\ndecr n 2\r\nincr none 1\r\n", "42\r\n40\r\nNOT_FOUND\r\n");
    desk.Check("incr a 1\r\n", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n");
    desk.Check("delete b\r\ndelete b\r\n", "DELETED\r\nNOT_FOUND\r\n");
    desk.Check("verbosity 0\r\n", "OK\r\n");
    desk.Check("version\r\n", "VERSION " + std::string(kMemcachedVersion) + "\r\n");
    desk.Check("stats sizes\r\n", "STAT sizes_status disabled\r\nEND\r\n");
    desk.Check("bogus\r\n", "ERROR\r\n");
    desk.Check("shutdown now\r\n", "CLIENT_ERROR invalid shutdown mode\r\n");
    desk.Check("flush_all x\r\n", "CLIENT_ERROR invalid exptime argument\r\n");
    desk.Check("flush_all\r\nget a n\r\n", "OK\r\nEND\r\n");
    CHECK(desk.Submit("quit\r\n") == Dispatcher::Next::kClose);

    const std::map<std::string_view, uint64_t> expected = {
        {"cmd_set", 10},     {"cmd_get", 7},       {"get_hits", 4},    {"get_misses", 3},
        {"cmd_touch", 4},    {"touch_hits", 2},    {"cas_badval", 1},  {"cas_misses", 1},
        {"touch_misses", 2}, {"incr_hits", 1},     {"incr_misses", 1}, {"decr_hits", 1},
        {"delete_hits", 1},  {"delete_misses", 1}, {"cmd_flush", 1}};
    for (const auto& [name, field] : kWorkerCounters) {
      const auto wanted = expected.find(name);
      CAPTURE(name);
      CHECK((desk.counters.*field).value() == (wanted == expected.end() ? 0 : wanted->second));
    }
  }

  TEST_CASE("dispatch: commands that options forbid") {
    Options options = SmallOptions();
    options.disable_flush = true;
    Desk desk(options);
    desk.Check("flush_all\r\n", "CLIENT_ERROR flush_all not allowed\r\n");
    desk.Check("shutdown\r\n", "ERROR: shutdown not enabled\r\n");
  }

  TEST_CASE("dispatch: every meta command") {
    Desk desk;
    desk.Check("mg a v\r\n", "EN\r\n");
    desk.Check("ms a 3 T100 F7 c\r\none\r\n", "HD c1\r\n");
    desk.Check("mg a v f t k\r\n", "VA 3 f7 t100 ka\r\none\r\n");
    desk.Check("mg a\r\n", "HD\r\n");
    desk.Check("ms a 1 ME\r\nx\r\n", "NS\r\n");
    desk.Check("ms a 1 MA\r\n!\r\n", "HD\r\n");
    desk.Check("ms a 1 C99\r\nx\r\n", "EX\r\n");
    desk.Check("mg a T5 t v\r\n", "VA 4 t5\r\none!\r\n");
    desk.Check("mg b N30 t\r\nmg b\r\n", "HD t30 W\r\nHD Z\r\n");
    desk.Check("ma n N0 J7 v\r\nma n D3 v\r\nma n MD v\r\n",
               "VA 1\r\n7\r\nVA 2\r\n10\r\nVA 1\r\n9\r\n");
    desk.Check("md a q\r\nmd a\r\n", "NF\r\n");
    desk.Check("me a\r\n", "EN\r\n");
    CHECK(desk.Ask("me n\r\n").starts_with("ME n exp=-1 la=0 cas="));
    desk.Check("mg none v q\r\nmg n v q\r\nmn\r\n", "VA 2\r\n9 \r\nMN\r\n");
  }

  TEST_CASE("dispatch: every binary operation") {
    Desk desk;
    const std::string flags_exptime = BigEndian(7, 4) + BigEndian(0, 4);
    const auto number = [](uint64_t delta, uint64_t initial, uint32_t exptime) {
      return BigEndian(delta, 8) + BigEndian(initial, 8) + BigEndian(exptime, 4);
    };
    const auto status = [&desk](const std::string& packet) { return ReplyTo(desk, packet).status; };
    CHECK(status(Packet(0x00, "", "a", "")) == 1);
    const BinaryReply stored = ReplyTo(desk, Packet(0x01, flags_exptime, "a", "one"));
    CHECK(stored.status == 0);
    CHECK(stored.cas == 1);
    const BinaryReply got = ReplyTo(desk, Packet(0x0c, "", "a", ""));
    CHECK(got.body == BigEndian(7, 4) + "aone");
    CHECK(got.cas == 1);
    CHECK(status(Packet(0x02, flags_exptime, "a", "x")) == 2);
    CHECK(status(Packet(0x03, flags_exptime, "none", "x")) == 1);
    CHECK(status(Packet(0x01, flags_exptime, "a", "x", 99)) == 2);
    CHECK(status(Packet(0x0e, "", "a", "!")) == 0);
    CHECK(status(Packet(0x0f, "", "a", "<")) == 0);
    CHECK(ReplyTo(desk, Packet(0x1d, BigEndian(100, 4), "a", "")).body ==
          BigEndian(7, 4) + "<one!");
    CHECK(status(Packet(0x1c, BigEndian(100, 4), "a", "")) == 0);
    CHECK(ReplyTo(desk, Packet(0x05, number(1, 5, 0), "n", "")).body == BigEndian(5, 8));
    CHECK(ReplyTo(desk, Packet(0x06, number(2, 5, 0), "n", "")).body == BigEndian(3, 8));
    CHECK(status(Packet(0x05, number(1, 0, 0xffffffff), "none", "")) == 1);
    CHECK(status(Packet(0x05, number(1, 0, 0), "a", "")) == 6);
    CHECK(status(Packet(0x04, "", "a", "")) == 0);
    CHECK(status(Packet(0x04, "", "a", "")) == 1);
    CHECK(ReplyTo(desk, Packet(0x0b, "", "", "")).body == kMemcachedVersion);
    CHECK(status(Packet(0x0a, "", "", "")) == 0);
    CHECK(status(Packet(0x55, "", "", "")) == 0x81);
    CHECK(status(Packet(0x10, "", "items x", "")) == 1);
    CHECK(status(Packet(0x08, "", "", "")) == 0);
    // Quiet: a set and misses say nothing, the noop behind them does.
    CHECK(desk.Ask(Packet(0x11, flags_exptime, "q", "1") + Packet(0x09, "", "none", "") +
                   Packet(0x0a, "", "", ""))
              .size() == protocol::kBinaryHeaderBytes);
    CHECK(desk.Submit(Packet(0x07, "", "", "")) == Dispatcher::Next::kClose);
  }

  TEST_CASE("dispatch: requests see what came before them, and replies keep their order") {
    Desk desk;
    desk.Check(Set("a", "1") + "get a\r\n" + Set("a", "2") + Set("b", "3") +
                   "get a b\r\nincr a 1\r\n" + "mg a v\r\ndelete a\r\nget a\r\n",
               "STORED\r\n" + Values({"a"}, "1") +
                   "STORED\r\nSTORED\r\nVALUE a 0 1\r\n2\r\nVALUE b 0 1\r\n3\r\nEND\r\n3\r\n"
                   "VA 1\r\n3\r\nDELETED\r\nEND\r\n");
  }

  TEST_CASE("dispatch: gets and writes are held until the batch is full or Finish") {
    Desk desk;
    REQUIRE(desk.Submit(Set("a", "1")) == Dispatcher::Next::kTaken);
    CHECK(desk.output.empty());
    CHECK_FALSE(desk.state.store->Get("a", desk.state.clock.Now()).hit);
    for (size_t i = 1; i < Batch::kMax; ++i) {
      REQUIRE(desk.Submit(Set("a", "1")) == Dispatcher::Next::kTaken);
    }
    CHECK(desk.output.empty());
    REQUIRE(desk.Submit(Set("b", "1")) == Dispatcher::Next::kTaken);
    CHECK_FALSE(desk.output.empty());
    CHECK(desk.state.store->Get("a", desk.state.clock.Now()).hit);
    CHECK_FALSE(desk.state.store->Get("b", desk.state.clock.Now()).hit);
    desk.dispatcher.Finish();
    CHECK(desk.state.store->Get("b", desk.state.clock.Now()).hit);

    SUBCASE("a connection that ends drops what is held") {
      REQUIRE(desk.Submit(Set("c", "1")) == Dispatcher::Next::kTaken);
      desk.dispatcher.Abandon();
      desk.dispatcher.Finish();
      CHECK_FALSE(desk.state.store->Get("c", desk.state.clock.Now()).hit);
    }
  }

  TEST_CASE("dispatch: every batch of keys but the first costs one request of the budget") {
    Desk desk;
    for (const size_t keys : {1u, 32u, 33u, 64u, 65u, 320u}) {
      std::string line = "get";
      for (size_t i = 0; i < keys; ++i) line += " k" + std::to_string(i);
      desk.budget = 1000;
      desk.Check(line + "\r\n", "END\r\n");
      CHECK(desk.budget == 1000 - (keys - 1) / Batch::kMax);
    }
    desk.budget = 0;
    std::string line = "get";
    for (size_t i = 0; i < 100; ++i) line += " k" + std::to_string(i);
    desk.Check(line + "\r\n", "END\r\n");
    CHECK(desk.budget == 0);
  }

  TEST_CASE("dispatch: a list of keys is written in pieces and names each item once") {
    constexpr size_t kKeys = 3000;
    const OutputLimits limits{.full_bytes = 2000, .copy_max = 4096};
    Desk desk(SmallOptions(), limits);
    for (size_t i = 0; i < kKeys; ++i) (void)desk.Ask(Set("k" + std::to_string(i), "v"));
    struct Case {
      const char* command;
      std::string_view first, begin, behind_key, end;
    };
    constexpr Case kCases[] = {{"lru_crawler metadump all", "", "key=", " exp=-1 la=", "END\r\n"},
                               {"lru_crawler mgdump hash", "OK\r\n", "mg ", "\r\n", "EN\r\n"},
                               {"stats cachedump 1 0", "", "ITEM ", " [1 b; 0 s]\r\n", "END\r\n"}};
    for (const Case& one : kCases) {
      CAPTURE(one.command);
      Dispatcher::Next next = desk.Submit(std::string(one.command) + "\r\n");
      std::string sent;
      size_t pieces = 1;
      for (; next == Dispatcher::Next::kOutputFull; ++pieces) {
        std::string piece = desk.Sent();
        // A step is begun while the output is not full.
        CHECK(piece.size() <= limits.full_bytes + kbf::kListedMax * protocol::kKeyRowBytesMax);
        sent += piece;
        desk.budget = 1000;
        next = desk.SubmitRest();
      }
      sent += desk.Sent();
      CHECK(pieces > 2);
      REQUIRE(sent.starts_with(one.first));
      REQUIRE(sent.ends_with(one.end));
      std::map<std::string, int> listed;
      size_t at = one.first.size();
      while (at + one.end.size() < sent.size()) {
        REQUIRE(sent.compare(at, one.begin.size(), one.begin) == 0);
        const size_t key = at + one.begin.size();
        const size_t behind = sent.find(one.behind_key, key);
        REQUIRE(behind != sent.npos);
        ++listed[sent.substr(key, behind - key)];
        at = sent.find('\n', key) + 1;
      }
      CHECK(listed.size() == kKeys);
      for (const auto& [key, times] : listed) CHECK(times == 1);
      desk.Check("mn\r\n", "MN\r\n");
    }
  }

  TEST_CASE("dispatch: a list of keys takes its budget also where it finds nothing") {
    Desk desk;
    for (size_t i = 0; i < 3000; ++i) {
      (void)desk.Ask("set k" + std::to_string(i) + " 0 -1 1\r\nv\r\n");
    }
    desk.budget = 0;
    CHECK(desk.Submit("lru_crawler metadump all\r\n") == Dispatcher::Next::kOutputFull);
    CHECK(desk.Sent().empty());
    Dispatcher::Next next = Dispatcher::Next::kOutputFull;
    while (next == Dispatcher::Next::kOutputFull) {
      desk.budget = 1;
      next = desk.SubmitRest();
    }
    CHECK(desk.Sent() == "END\r\n");
  }

  TEST_CASE("dispatch: a multiget stops when the output is full and goes on where it stopped") {
    constexpr size_t kKeys = 500;
    const std::string value(100, 'v');
    for (const size_t full_bytes : {1u, 1000u, 8000u}) {
      CAPTURE(full_bytes);
      Desk desk(SmallOptions(), {.full_bytes = full_bytes, .copy_max = 4096});
      std::vector<std::string> keys;
      std::string line = "get";
      for (size_t i = 0; i < kKeys; ++i) {
        keys.push_back("k" + std::to_string(i));
        line += " " + keys.back();
        (void)desk.Ask(Set(keys.back(), value));
      }
      Dispatcher::Next next = desk.Submit(line + "\r\n");
      std::string sent;
      size_t pieces = 1;
      for (; next == Dispatcher::Next::kOutputFull; ++pieces) {
        REQUIRE(desk.output.full());
        sent += desk.Sent();
        next = desk.SubmitRest();
      }
      desk.dispatcher.Finish();
      sent += desk.Sent();
      CHECK(next == Dispatcher::Next::kTaken);
      CHECK((sent == Values(keys, value)));
      CHECK(pieces >= kKeys / (Batch::kMax + full_bytes / value.size() + 1));
    }
  }

  TEST_CASE("dispatch: nothing is carried out while the output is full") {
    Desk desk(SmallOptions(), {.full_bytes = 1, .copy_max = 4096});
    REQUIRE(desk.Submit("version\r\n") == Dispatcher::Next::kTaken);
    REQUIRE(desk.output.full());
    for (const std::string& request :
         {Set("a", "1"), std::string("get a\r\n"), std::string("flush_all\r\n"),
          std::string("stats\r\n"), Packet(0x04, "", "a", "")}) {
      desk.parser = protocol::RequestParser(protocol::WireChoice::kAuto);
      CHECK(desk.Submit(request) == Dispatcher::Next::kOutputFull);
      CHECK(request.ends_with(desk.input));  // of the get, only the command's name is gone
      CHECK(desk.input.size() + 4 >= request.size());
    }
    CHECK(desk.Sent() == "VERSION " + std::string(kMemcachedVersion) + "\r\n");
  }

  TEST_CASE("dispatch: batches get smaller while their values are long, and larger again") {
    Desk desk;
    const std::string value(Batch::kValueBytesMax / 4, 'v');
    for (int i = 0; i < 40; ++i) (void)desk.Ask(Set("k" + std::to_string(i), value));
    std::string line = "get";
    std::vector<std::string> keys;
    for (int i = 0; i < 40; ++i) {
      keys.push_back("k" + std::to_string(i));
      line += " " + keys.back();
    }
    Dispatcher::Next next = desk.Submit(line + "\r\n");
    // The first batch is as large as any. The second holds as many values as fit.
    CHECK(next == Dispatcher::Next::kOutputFull);
    std::string sent = desk.Sent();
    CHECK((sent.size() > Batch::kMax * value.size()));
    next = desk.SubmitRest();
    const std::string second = desk.Sent();
    CHECK((second.size() > 4 * value.size()));
    CHECK((second.size() < 5 * value.size()));
    sent += second;
    while (next == Dispatcher::Next::kOutputFull) {
      next = desk.SubmitRest();
      desk.dispatcher.Finish();
      sent += desk.Sent();
    }
    CHECK((sent == Values(keys, value)));
    desk.held.clear();
    for (int i = 0; i < 3; ++i) (void)desk.Ask("get none\r\n");
    desk.budget = 10;
    desk.Check("get" + std::string(" none none none none none none none none") + "\r\n", "END\r\n");
    CHECK(desk.budget == 10);  // one batch
  }

  TEST_CASE("dispatch: a long dump of prefixes comes in pieces") {
    Options options = SmallOptions();
    options.stats_detail = true;
    Desk desk(options, {.full_bytes = 500, .copy_max = 4096});
    constexpr size_t kPrefixes = 300;
    for (size_t i = 0; i < kPrefixes; ++i) {
      (void)desk.Ask("get prefix" + std::to_string(i) + ":k\r\n");
    }
    std::string sent;
    size_t pieces = 1;
    Dispatcher::Next next = desk.Submit("stats detail dump\r\nmn\r\n");
    for (; next == Dispatcher::Next::kOutputFull; ++pieces) {
      sent += desk.Sent();
      next = desk.SubmitRest();
    }
    sent += desk.Sent();
    CHECK(std::ranges::count(sent, '\n') == kPrefixes + 2);
    for (size_t i = 0; i < kPrefixes; ++i) {
      const std::string line = "PREFIX prefix" + std::to_string(i) + " get 1 hit 0 set 0 del 0\r\n";
      CHECK(sent.find(line) != sent.npos);
    }
    CHECK(sent.ends_with("END\r\nMN\r\n"));
    CHECK(pieces > 5);
    // The next dump begins at the beginning.
    CHECK(desk.Submit("stats detail dump\r\n") == Dispatcher::Next::kOutputFull);
    CHECK(sent.starts_with(desk.Sent()));
  }

  TEST_CASE("dispatch: a value that is too large is refused, and the old one is gone") {
    Options options = SmallOptions();
    Desk desk(options);
    desk.Check(Set("a", "1") + Set("b", "1"), "STORED\r\nSTORED\r\n");
    CHECK(desk.Submit("set a 0 0 1048577\r\n") == Dispatcher::Next::kTaken);
    CHECK(desk.Submit("append b 0 0 1048577\r\n") == Dispatcher::Next::kTaken);
    const std::string line = "SERVER_ERROR object too large for cache\r\n";
    CHECK(desk.Sent() == line + line);
    desk.Check("get a b\r\n", Values({"b"}, "1"));
    CHECK(desk.counters.store_too_large.value() == 2);
  }

  // Of a value of exactly -I the header alone does not show that it is too large.
  TEST_CASE("dispatch: a binary SET that is too large drops the old value, with a cas number too") {
    for (const size_t size : {size_t{1} << 20, (size_t{1} << 20) + 1}) {
      for (const uint64_t cas : {0, 99}) {
        CAPTURE(size);
        CAPTURE(cas);
        Desk desk;
        const std::string value(size, 'v');
        const auto refused = [&](uint8_t opcode, const std::string& key) {
          return ReplyTo(desk, Packet(opcode, std::string(8, 0), key, value, cas)).status == 3;
        };
        CHECK(ReplyTo(desk, Packet(0x01, std::string(8, 0), "a", "1")).status == 0);
        CHECK(ReplyTo(desk, Packet(0x01, std::string(8, 0), "b", "1")).status == 0);
        CHECK(refused(0x01, "a"));
        CHECK(refused(0x03, "b"));
        CHECK(ReplyTo(desk, Packet(0x00, "", "a", "")).status == 1);
        CHECK(ReplyTo(desk, Packet(0x00, "", "b", "")).status == 0);
      }
    }
  }
}

}  // namespace server
