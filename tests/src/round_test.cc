// Rounds over socket pairs and over calls whose outcome a test chooses, and a worker whose
// connections are ready at the same time.
#include "src/io/round.h"

#include <doctest/doctest.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/io/round_transport.h"
#include "src/net/worker.h"

namespace server {
namespace {

// Both ends of a connected stream socket; the server's does not block.
class Pair {
 public:
  explicit Pair(int send_bytes = 0) {
    int fds[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    server_ = fds[0];
    client_ = fds[1];
    REQUIRE(fcntl(server_, F_SETFL, O_NONBLOCK) == 0);
    if (send_bytes != 0) {
      REQUIRE(setsockopt(server_, SOL_SOCKET, SO_SNDBUF, &send_bytes, sizeof(send_bytes)) == 0);
    }
  }
  Pair(Pair&& other) noexcept
      : server_(std::exchange(other.server_, -1)), client_(std::exchange(other.client_, -1)) {}
  Pair& operator=(Pair&&) = delete;
  ~Pair() {
    if (server_ >= 0) close(server_);
    CloseClient();
  }

  int server() const { return server_; }
  // Somebody else closes it.
  int ReleaseServer() { return std::exchange(server_, -1); }
  void CloseClient() {
    if (client_ >= 0) close(std::exchange(client_, -1));
  }
  void HalfCloseClient() { shutdown(client_, SHUT_WR); }

  void Send(std::string_view bytes) {
    REQUIRE(write(client_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  }
  // What has come; waits for `size` bytes, or for the end.
  std::string Receive(size_t size) {
    std::string bytes;
    while (bytes.size() < size) {
      char buffer[4096];
      pollfd wait = {client_, POLLIN, 0};
      REQUIRE(poll(&wait, 1, 60'000) == 1);
      const ssize_t n = read(client_, buffer, std::min(sizeof(buffer), size - bytes.size()));
      if (n <= 0) break;
      bytes.append(buffer, static_cast<size_t>(n));
    }
    return bytes;
  }
  // Until the server's socket takes no more; says how many bytes that were.
  size_t Fill() {
    const std::string bytes(1000, 'x');
    size_t sum = 0;
    for (;;) {
      const ssize_t n = send(server_, bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (n <= 0) return sum;
      sum += static_cast<size_t>(n);
    }
  }

 private:
  int server_ = -1;
  int client_ = -1;
};

std::unique_ptr<SocketCalls> RingOrNull() {
  int error = 0;
  std::unique_ptr<SocketCalls> calls = MakeRingCalls(&error);
  if (calls == nullptr) MESSAGE("io_uring is not available here: ", strerror(error));
  return calls;
}

// Runs the test by plain calls and, where it is there, by io_uring.
template <class Test>
void WithEachCalls(Test test) {
  SUBCASE("plain calls") { test(std::make_unique<PlainCalls>()); }
  SUBCASE("io_uring") {
    if (auto calls = RingOrNull()) test(std::move(calls));
  }
}

// Outcomes by descriptor; 0 and up: so many bytes are sent, into `sent`.
class ScriptedCalls final : public SocketCalls {
 public:
  void Receive(std::span<SocketCall> calls) override {
    for (SocketCall& call : calls) call.result = -EAGAIN;
  }
  void Send(std::span<SocketCall> calls) override {
    for (SocketCall& call : calls) {
      const auto outcome = outcomes.find(call.fd);
      call.result = outcome == outcomes.end() ? static_cast<int>(call.size) : outcome->second;
      if (call.result > 0) sent[call.fd].append(call.data, static_cast<size_t>(call.result));
    }
  }

  std::map<int, int> outcomes;
  std::map<int, std::string> sent;
};

bool DeferText(Round* round, size_t member, int fd, std::string text) {
  const size_t half = text.size() / 2;
  const iovec pieces[] = {{text.data(), half}, {text.data() + half, text.size() - half}};
  round->Turn(member);
  return round->Defer(fd, pieces);
}

std::string Take(Round* round, size_t member, int fd, IoStatus expected) {
  char into[Round::kSliceBytes];
  round->Turn(member);
  const std::optional<IoResult> result = round->TakeReceived(fd, into);
  REQUIRE(result.has_value());
  CHECK(result->status == expected);
  return {into, result->bytes};
}

}  // namespace

TEST_SUITE("src") {
  TEST_CASE("round: reads ahead what each socket has, and says what each is like") {
    WithEachCalls([](std::unique_ptr<SocketCalls> calls) {
      Round round(std::move(calls));
      Pair data, nothing, ended, long_data, not_asked;
      const int no_socket = eventfd(0, EFD_CLOEXEC);
      data.Send("get a\r\n");
      ended.CloseClient();
      const std::string bytes(Round::kSliceBytes + 1, 'b');
      long_data.Send(bytes);
      not_asked.Send("later");
      for (int rounds = 0; rounds < 3; ++rounds) {
        round.Begin(6);
        round.Ask(0, data.server());
        round.Ask(1, nothing.server());
        round.Ask(2, ended.server());
        round.Ask(3, long_data.server());
        round.Ask(4, no_socket);
        round.Receive();
        if (rounds == 0) {
          CHECK(std::string(round.Received(0).data(), round.Received(0).size()) == "get a\r\n");
          CHECK(round.Received(1).empty());
          CHECK(round.Received(5).empty());
          CHECK(Take(&round, 0, data.server(), IoStatus::kOk) == "get a\r\n");
          CHECK(Take(&round, 3, long_data.server(), IoStatus::kOk) ==
                bytes.substr(0, Round::kSliceBytes));
        } else if (rounds == 1) {
          CHECK(Take(&round, 0, data.server(), IoStatus::kWantsRead).empty());
          CHECK(Take(&round, 3, long_data.server(), IoStatus::kOk) == "b");
        }
        CHECK(Take(&round, 1, nothing.server(), IoStatus::kWantsRead).empty());
        CHECK(Take(&round, 2, ended.server(), IoStatus::kEnd).empty());
        CHECK(Take(&round, 4, no_socket, IoStatus::kBroken).empty());
        round.Turn(5);
        char into[Round::kSliceBytes];
        CHECK(!round.TakeReceived(not_asked.server(), into));
        round.End();
      }
      close(no_socket);
    });
  }

  TEST_CASE("round: what was read is given once, and only to its member") {
    Round round(std::make_unique<PlainCalls>());
    Pair one, other;
    one.Send("1");
    other.Send("2");
    char into[Round::kSliceBytes];
    CHECK(!round.TakeReceived(one.server(), into));
    round.Begin(2);
    round.Ask(0, one.server());
    round.Ask(1, other.server());
    round.Receive();
    CHECK(!round.TakeReceived(one.server(), into));  // nobody's turn
    round.Turn(0);
    CHECK(!round.TakeReceived(other.server(), into));
    CHECK(Take(&round, 0, one.server(), IoStatus::kOk) == "1");
    CHECK(!round.TakeReceived(one.server(), into));
    round.Drop(other.server());
    round.Turn(1);
    CHECK(!round.TakeReceived(other.server(), into));
    round.End();
  }

  TEST_CASE("round: sends together, and gives back what was not sent") {
    WithEachCalls([](std::unique_ptr<SocketCalls> calls) {
      Round round(std::move(calls));
      Pair good, full(4096), gone, good_too;
      const size_t filled = full.Fill();
      gone.CloseClient();
      round.Begin(4);
      CHECK(DeferText(&round, 0, good.server(), "first"));
      CHECK(DeferText(&round, 1, full.server(), "second"));
      CHECK(DeferText(&round, 2, gone.server(), "third"));
      CHECK(DeferText(&round, 3, good_too.server(), "fourth"));
      const std::span<const Round::Sent> sent = round.Send();
      REQUIRE(sent.size() == 4);
      CHECK(sent[0].status == IoStatus::kOk);
      CHECK(sent[0].bytes == 5);
      CHECK(sent[0].rest.empty());
      CHECK(sent[1].status == IoStatus::kWantsWrite);
      CHECK(sent[1].bytes == 0);
      CHECK(sent[1].rest == "second");
      CHECK(sent[2].status == IoStatus::kBroken);
      for (size_t i = 0; i < sent.size(); ++i) CHECK(sent[i].member == i);
      CHECK(good.Receive(5) == "first");
      CHECK(good_too.Receive(6) == "fourth");
      CHECK(full.Receive(filled) == std::string(filled, 'x'));
      CHECK(round.Send().empty());  // nothing twice
      round.End();
    });
  }

  TEST_CASE("round: short sends give back the end, in every place") {
    const std::string text = "VALUE a 0 3\r\none\r\nEND\r\n";
    for (size_t taken = 0; taken < text.size(); ++taken) {
      auto calls = std::make_unique<ScriptedCalls>();
      ScriptedCalls& script = *calls;
      Round round(std::move(calls));
      script.outcomes[7] = taken == 0 ? -EAGAIN : static_cast<int>(taken);
      round.Begin(2);
      CHECK(DeferText(&round, 0, 5, text));
      CHECK(DeferText(&round, 1, 7, text));
      const std::span<const Round::Sent> sent = round.Send();
      REQUIRE(sent.size() == 2);
      CHECK(sent[0].status == IoStatus::kOk);
      CHECK(sent[1].status == IoStatus::kWantsWrite);
      CHECK(sent[1].bytes == taken);
      CHECK(script.sent[7] + std::string(sent[1].rest) == text);
      round.End();
    }
  }

  TEST_CASE("round: a socket that was closed in between gets nothing, nor does its successor") {
    auto calls = std::make_unique<ScriptedCalls>();
    ScriptedCalls& script = *calls;
    Round round(std::move(calls));
    round.Begin(3);
    CHECK(DeferText(&round, 0, 5, "zero"));
    CHECK(DeferText(&round, 1, 6, "one"));
    round.Drop(5);
    CHECK(DeferText(&round, 2, 7, "two"));
    size_t members = 0;
    for (const Round::Sent& sent : round.Send()) members |= size_t{1} << sent.member;
    CHECK(members == 0b110);
    CHECK(script.sent == std::map<int, std::string>{{6, "one"}, {7, "two"}});
    round.End();
  }

  TEST_CASE("round: defers no more than there is room for, and nothing outside of a round") {
    auto calls = std::make_unique<ScriptedCalls>();
    ScriptedCalls& script = *calls;
    Round round(std::move(calls));
    CHECK(!DeferText(&round, 0, 5, "early"));
    for (int rounds = 0; rounds < 2; ++rounds) {
      script.sent.clear();
      round.Begin(Round::kMembersMax);
      CHECK(!DeferText(&round, 0, 99, std::string(Round::kDeferBytesMax + 1, 'x')));
      size_t deferred = 0;
      for (size_t i = 0; i < Round::kMembersMax; ++i) {
        const std::string text(Round::kDeferBytesMax, static_cast<char>('A' + i));
        if (DeferText(&round, i, 100 + static_cast<int>(i), text)) ++deferred;
      }
      CHECK(deferred == Round::kSendBytes / Round::kDeferBytesMax);
      CHECK(round.Send().size() == deferred);
      for (const auto& [fd, text] : script.sent) {
        CHECK(text == std::string(Round::kDeferBytesMax, static_cast<char>('A' + fd - 100)));
      }
      CHECK(DeferText(&round, 1, 5, "there is room again"));
      CHECK(round.Send().size() == 1);
      round.End();
    }
    CHECK(!DeferText(&round, 0, 5, "late"));
  }

  TEST_CASE("round: a transport reads on behind a full slice, and then by itself") {
    Round round(std::make_unique<PlainCalls>());
    Pair pair;
    RoundTransport transport(pair.ReleaseServer(), round);
    std::string bytes;
    for (int i = 0; bytes.size() < 2 * Round::kSliceBytes; ++i) bytes += std::to_string(i) + ' ';
    std::vector<char> into(4 * Round::kSliceBytes);
    const auto serve = [&] {
      round.Begin(1);
      transport.ReadAhead(0);
      round.Receive();
      const size_t ahead = round.Received(0).size();
      round.Turn(0);
      const IoResult result = transport.Read(into);
      round.End();
      CHECK(result.status == IoStatus::kOk);
      return std::pair(ahead, std::string(into.data(), result.bytes));
    };
    pair.Send(bytes);
    CHECK(serve() == std::pair(Round::kSliceBytes, bytes));
    pair.Send(bytes);
    CHECK(serve() == std::pair(size_t{0}, bytes));
    pair.Send("get a\r\n");
    CHECK(serve() == std::pair(size_t{0}, std::string("get a\r\n")));
    pair.Send("get b\r\n");
    CHECK(serve() == std::pair(size_t{7}, std::string("get b\r\n")));
    const std::string slice = bytes.substr(0, Round::kSliceBytes);
    pair.Send(slice);
    CHECK(serve() == std::pair(Round::kSliceBytes, slice));
    pair.CloseClient();
    round.Begin(1);
    transport.ReadAhead(0);
    round.Receive();
    round.Turn(0);
    CHECK(transport.Read(into).status == IoStatus::kEnd);
    round.End();
  }
}

// ---- a worker ----------------------------------------------------------------------------------

namespace {

// A worker that serves what it is given once Start was called: all of it is ready then.
class BusyWorker {
 public:
  explicit BusyWorker(bool io_uring) : options_(OptionsWith(io_uring)), state_(options_, Store()) {
    worker_ = std::make_unique<Worker>(state_);
  }
  ~BusyWorker() {
    if (started_) Stop();
  }
  void Adopt(Pair* pair) {
    state_.connections.current.fetch_add(1);
    worker_->Adopt(pair->ReleaseServer());
  }
  void Start() {
    started_ = true;
    worker_->Start();
  }
  void Stop() {
    started_ = false;
    worker_->Stop();
    worker_->Join();
  }
  uint64_t num_connections() const { return state_.connections.current.load(); }
  uint64_t bytes_held() const { return state_.connection_memory.buffer_bytes(); }
  const WorkerCounters& counters() const { return worker_->counters(); }

 private:
  static Options OptionsWith(bool io_uring) {
    Options options;
    options.store.memory_bytes = 16 << 20;
    options.io_uring = io_uring;
    return options;
  }
  std::unique_ptr<kbf::Store> Store() const {
    return std::move(kbf::Store::Create(options_.store, kbf::HashSecret::FromSeed(1)).store);
  }

  const Options options_;
  State state_;
  std::unique_ptr<Worker> worker_;
  bool started_ = false;
};

template <class Test>
void WithEachMode(Test test) {
  SUBCASE("--io-uring off") { test(false); }
  SUBCASE("--io-uring auto") { test(true); }
}

std::string SetOf(size_t i) {
  const std::string value(i % 100 * 50, static_cast<char>('a' + i % 26));
  return "set key" + std::to_string(i) + " 0 0 " + std::to_string(value.size()) + "\r\n" + value +
         "\r\n";
}

std::string AnswerOf(size_t i) {
  const std::string value(i % 100 * 50, static_cast<char>('a' + i % 26));
  return "VALUE key" + std::to_string(i) + " 0 " + std::to_string(value.size()) + "\r\n" + value +
         "\r\nEND\r\n";
}

}  // namespace

TEST_SUITE("src") {
  TEST_CASE("round: more connections than a round has room for, in a thread, answer in order") {
    WithEachMode([](bool io_uring) {
      BusyWorker worker(io_uring);
      std::vector<Pair> pairs(3 * Round::kMembersMax + 7);
      for (size_t i = 0; i < pairs.size(); ++i) {
        pairs[i].Send(SetOf(i));
        worker.Adopt(&pairs[i]);
      }
      worker.Start();
      for (Pair& pair : pairs) CHECK(pair.Receive(8) == "STORED\r\n");
      for (int rounds = 0; rounds < 5; ++rounds) {
        for (size_t i = 0; i < pairs.size(); ++i) {
          pairs[i].Send("get key" + std::to_string(i) + "\r\n");
        }
        for (size_t i = 0; i < pairs.size(); ++i) {
          const std::string answer = AnswerOf(i);
          CHECK(pairs[i].Receive(answer.size()) == answer);
        }
      }
      const bool has_ring = io_uring && RingOrNull() != nullptr;
      CHECK((worker.counters().io_uring_rounds.value() > 0) == has_ring);
      worker.Stop();
      CHECK(worker.num_connections() == 0);
      CHECK(worker.bytes_held() == 0);
    });
  }

  TEST_CASE("round: connections in a thread end in the middle of a round in every way") {
    WithEachMode([](bool io_uring) {
      BusyWorker worker(io_uring);
      std::vector<Pair> pairs(100);
      uint64_t bytes_to_live_ones = 0;
      for (size_t i = 0; i < pairs.size(); ++i) {
        Pair& pair = pairs[i];
        switch (i % 5) {
          case 0:
            pair.Send("mn\r\n");
            break;
          case 1:
            pair.Send("mn\r\nquit\r\nmn\r\n");
            break;
          case 2:  // a reply to it finds nobody
            pair.Send("mn\r\n");
            pair.CloseClient();
            break;
          case 3:
            pair.Send("mn\r\n");
            pair.HalfCloseClient();
            break;
          case 4:
            pair.CloseClient();
            break;
        }
        worker.Adopt(&pair);
      }
      worker.Start();
      for (size_t i = 0; i < pairs.size(); ++i) {
        if (i % 5 == 0) CHECK(pairs[i].Receive(4) == "MN\r\n");
        if (i % 5 == 1 || i % 5 == 3) CHECK(pairs[i].Receive(100) == "MN\r\n");
        if (i % 5 == 0 || i % 5 == 1 || i % 5 == 3) bytes_to_live_ones += 4;
      }
      for (size_t i = 0; i < pairs.size(); i += 5) {
        pairs[i].Send("mn\r\n");
        CHECK(pairs[i].Receive(4) == "MN\r\n");
        bytes_to_live_ones += 4;
      }
      worker.Stop();
      CHECK(worker.counters().bytes_written.value() == bytes_to_live_ones);
      CHECK(worker.num_connections() == 0);
    });
  }

  TEST_CASE("round: clients of a thread that read late get every reply once") {
    WithEachMode([](bool io_uring) {
      constexpr size_t kRequests = 40;  // for more than the socket takes
      constexpr int kSendBytes = 4608;
      BusyWorker worker(io_uring);
      std::vector<Pair> pairs;
      for (size_t i = 0; i < 20; ++i) pairs.emplace_back(kSendBytes);
      std::vector<Pair> others(1);
      others[0].Send(SetOf(50));
      worker.Adopt(&others[0]);
      for (Pair& pair : pairs) {
        pair.Send("mn\r\n");
        worker.Adopt(&pair);
      }
      worker.Start();
      CHECK(others[0].Receive(8) == "STORED\r\n");
      for (Pair& pair : pairs) CHECK(pair.Receive(4) == "MN\r\n");
      const std::string answer = AnswerOf(50);
      for (size_t request = 0; request < kRequests; ++request) {
        for (Pair& pair : pairs) pair.Send("get key50\r\n");
        // By the time of its second answer the worker has read what came before.
        for (int i = 0; i < 2; ++i) {
          others[0].Send("mn\r\n");
          CHECK(others[0].Receive(4) == "MN\r\n");
        }
      }
      for (Pair& pair : pairs) {
        for (size_t request = 0; request < kRequests; ++request) {
          REQUIRE(pair.Receive(answer.size()) == answer);
        }
      }
      const uint64_t sent = pairs.size() * (4 + kRequests * answer.size()) + 8 + 8 * kRequests;
      worker.Stop();
      CHECK(worker.counters().bytes_written.value() == sent);
      CHECK(worker.bytes_held() == 0);
    });
  }
}

}  // namespace server
