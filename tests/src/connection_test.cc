// Connections over a transport without a socket, which refuses, stops short and fails wherever a
// test wants it to.
#include "src/net/connection.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "src/process/version.h"
#include "tests/src/fake_transport.h"

namespace server {
namespace {

Options SmallOptions() {
  Options options;
  options.store.memory_bytes = 16 << 20;
  return options;
}

// In place of a worker: one connection, and its turns.
class Host final : private ConnectionOwner {
 public:
  explicit Host(FakePeer& peer, const Options& options = SmallOptions())
      : state(options,
              std::move(kbf::Store::Create(options.store, kbf::HashSecret::FromSeed(1)).store)),
        context(state),
        connection_(new ConnectionOver<FakeTransport>(context, *this, peer)) {
    connection_->Start();
  }
  ~Host() { delete connection_; }

  // Until the connection ends; false: it does not, after very many turns.
  bool RunToEnd() {
    for (int turns = 0; turns < 1'000'000; ++turns) {
      if (connection_ == nullptr) return true;
      RunOnce();
    }
    return false;
  }
  void RunOnce() {
    event_base_loop(context.base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
    for (Connection* each : std::exchange(waiting_, {})) each->Resume();
  }
  Connection* connection() { return connection_; }

  State state;
  WorkerContext context;
  unsigned yields = 0;

 private:
  bool ResumeLater(Connection* connection) override {
    ++yields;
    waiting_.push_back(connection);
    return true;
  }
  bool RetryLater(Connection* connection) override { return ResumeLater(connection); }
  void BeginShedding() override {}
  void Remove(Connection* connection) override {
    REQUIRE(connection == connection_);
    std::erase(waiting_, connection);
    delete std::exchange(connection_, nullptr);
  }

  std::vector<Connection*> waiting_;
  Connection* connection_;
};

struct Conversation {
  std::string requests;
  std::string replies;
};

// Requests of all kinds, with values that are copied and values that are not.
Conversation Talk() {
  Conversation talk;
  const std::string large(9000, 'L');
  const auto add = [&talk](const std::string& request, const std::string& reply) {
    talk.requests += request;
    talk.replies += reply;
  };
  add("set a 0 0 3\r\none\r\n", "STORED\r\n");
  add("set b 0 0 9000\r\n" + large + "\r\n", "STORED\r\n");
  add("get a b none a\r\n",
      "VALUE a 0 3\r\none\r\nVALUE b 0 9000\r\n" + large + "\r\nVALUE a 0 3\r\none\r\nEND\r\n");
  add("set c 0 0 2000000\r\n" + std::string(2'000'000, 'x') + "\r\n",
      "SERVER_ERROR object too large for cache\r\n");
  add("nonsense\r\n", "ERROR\r\n");
  add("mg b v\r\n", "VA 9000\r\n" + large + "\r\n");
  add("incr a 1\r\n", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n");
  add("version\r\n", "VERSION " + std::string(kMemcachedVersion) + "\r\n");
  std::string line = "get";
  std::string values;
  for (int i = 0; i < 1000; ++i) {  // a line that is parsed in pieces
    line += " none" + std::to_string(i) + " a";
    values += "VALUE a 0 3\r\none\r\n";
  }
  add(line + "\r\n", values + "END\r\n");
  add("quit\r\nget a\r\n", "");
  return talk;
}

// A shorter one, for tests that repeat it for each call.
Conversation ShortTalk() {
  Conversation talk;
  const std::string large(5000, 'L');
  talk.requests = "set a 0 0 5000\r\n" + large + "\r\nget a\r\ndelete a\r\nquit\r\n";
  talk.replies = "STORED\r\nVALUE a 0 5000\r\n" + large + "\r\nEND\r\nDELETED\r\n";
  return talk;
}

FakePeer PeerOf(const Conversation& talk, size_t read_max = SIZE_MAX, size_t write_max = SIZE_MAX) {
  FakePeer peer;
  peer.to_read = talk.requests;
  peer.read_max = read_max;
  peer.write_max = write_max;
  return peer;
}

unsigned CallsOf(const Conversation& talk, size_t read_max, size_t write_max) {
  FakePeer peer = PeerOf(talk, read_max, write_max);
  Host host(peer);
  REQUIRE(host.RunToEnd());
  return peer.calls;
}

}  // namespace

TEST_SUITE("src") {
  TEST_CASE("connection: replies are the same however few bytes are read and written at a time") {
    const Conversation talk = Talk();
    for (const size_t read_max : {SIZE_MAX, size_t{100'000}, size_t{4096}, size_t{100}}) {
      for (const size_t write_max : {SIZE_MAX, size_t{10'000}, size_t{7}}) {
        CAPTURE(read_max);
        CAPTURE(write_max);
        FakePeer peer = PeerOf(talk, read_max, write_max);
        Host host(peer);
        REQUIRE(host.RunToEnd());
        CHECK((peer.written == talk.replies));
        CHECK(peer.shut_down);
        CHECK(peer.closed);
        CHECK(host.state.connection_memory.buffer_bytes() == 0);
        CHECK(host.context.counters.bytes_written.value() == talk.replies.size());
      }
    }
  }

  TEST_CASE("connection: single bytes in, single bytes out") {
    const Conversation talk = ShortTalk();
    FakePeer peer = PeerOf(talk, 1, 1);
    Host host(peer);
    REQUIRE(host.RunToEnd());
    CHECK((peer.written == talk.replies));
  }

  TEST_CASE("connection: any call may want to read or to write first") {
    const Conversation talk = ShortTalk();
    constexpr size_t kReadMax = 700, kWriteMax = 900;
    const unsigned calls = CallsOf(talk, kReadMax, kWriteMax);
    REQUIRE(calls > 15);  // a handshake, 8 reads, 6 writes, a shutdown, a last read
    for (const IoStatus status : {IoStatus::kWantsRead, IoStatus::kWantsWrite}) {
      for (unsigned call = 0; call < calls; ++call) {
        CAPTURE(call);
        FakePeer peer = PeerOf(talk, kReadMax, kWriteMax);
        peer.odd_call = call;
        peer.odd_status = status;
        Host host(peer);
        REQUIRE(host.RunToEnd());
        CHECK((peer.written == talk.replies));
        CHECK(peer.shut_down);
        CHECK(peer.calls > calls);
      }
    }
  }

  TEST_CASE("connection: any call may fail, and nothing is left behind") {
    const Conversation talk = ShortTalk();
    constexpr size_t kReadMax = 700, kWriteMax = 900;
    const unsigned calls = CallsOf(talk, kReadMax, kWriteMax);
    for (unsigned call = 0; call < calls; ++call) {
      CAPTURE(call);
      FakePeer peer = PeerOf(talk, kReadMax, kWriteMax);
      peer.odd_call = call;
      peer.odd_status = IoStatus::kBroken;
      Host host(peer);
      REQUIRE(host.RunToEnd());
      CHECK(peer.closed);
      CHECK((talk.replies.starts_with(peer.written)));
      CHECK(host.state.connection_memory.buffer_bytes() == 0);
    }
  }

  TEST_CASE("connection: received bytes that no event announces are served all the same") {
    const Conversation talk = Talk();
    for (const size_t read_max : {size_t{1000}, size_t{100'000}}) {
      FakePeer peer = PeerOf(talk, read_max);
      peer.announced = false;
      Host host(peer);
      for (int turns = 0; turns < 100'000 && peer.written.size() < talk.replies.size(); ++turns) {
        host.RunOnce();
      }
      CHECK((peer.written == talk.replies));
      CHECK(host.yields > 0);
    }
  }

  TEST_CASE("connection: after requests_per_event requests others have their turn") {
    Options options = SmallOptions();
    options.requests_per_event = 10;
    Conversation talk;
    for (int i = 0; i < 95; ++i) talk.requests += "mn\r\n";
    FakePeer peer = PeerOf(talk);
    Host host(peer, options);
    for (int i = 0; i < 50; ++i) host.RunOnce();
    CHECK(host.yields == 9);
    CHECK(peer.written.size() == 4 * 95);
    CHECK(host.context.counters.conn_yields.value() == 9);
  }

  TEST_CASE("connection: a client that does not read is not read from") {
    Conversation talk;
    talk.requests = "set a 0 0 20000\r\n" + std::string(20'000, 'v') + "\r\n";
    for (int i = 0; i < 1000; ++i) talk.requests += "get a\r\n";
    FakePeer peer = PeerOf(talk, 50);
    peer.reads = false;
    Host host(peer);
    for (int i = 0; i < 1000; ++i) host.RunOnce();
    REQUIRE(host.connection() != nullptr);
    CHECK(host.connection()->state() == ConnectionState::kWriting);
    const size_t unread = peer.to_read.size();
    CHECK(unread > 0);
    for (int i = 0; i < 100; ++i) host.RunOnce();
    CHECK(peer.to_read.size() == unread);
    CHECK(host.connection()->HeldBytes() > 0);
  }

  TEST_CASE("connection: a client that closes gets the replies to what it has sent") {
    FakePeer peer;
    peer.to_read = "set a 0 0 1\r\n1\r\nget a\r\nget";
    peer.ends = true;
    Host host(peer);
    REQUIRE(host.RunToEnd());
    CHECK(peer.written == "STORED\r\nVALUE a 0 1\r\n1\r\nEND\r\n");
    CHECK_FALSE(peer.shut_down);  // closed at once: nothing can come behind the end
  }

  TEST_CASE("connection: at the end of the server received requests are answered") {
    FakePeer peer;
    peer.to_read = "mn\r\n";
    Host host(peer);
    SUBCASE("an open connection") {
      host.connection()->Finish();
      CHECK(peer.written == "MN\r\n");
      CHECK(host.RunToEnd());
      CHECK(peer.shut_down);
    }
    SUBCASE("it happens once") {
      host.connection()->Finish();
      if (host.connection() != nullptr) host.connection()->Finish();
      CHECK(peer.written == "MN\r\n");
      CHECK(host.RunToEnd());
    }
  }

  TEST_CASE("connection: a handshake that does not finish is given up like any stalled request") {
    FakePeer peer;
    peer.odd_call = 0;
    peer.odd_status = IoStatus::kWantsRead;
    Host host(peer);
    REQUIRE(host.connection() != nullptr);
    CHECK(host.connection()->state() == ConnectionState::kHandshaking);
    CHECK_FALSE(host.connection()->TimedOut(host.context.now + 59));
    CHECK(host.connection()->TimedOut(host.context.now + 60));
    host.connection()->Finish();
    CHECK(host.connection() == nullptr);
    CHECK(peer.written.empty());
  }
}

}  // namespace server
