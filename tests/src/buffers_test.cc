// Input, Output and PlainTransport over a real socket pair.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <random>
#include <string>
#include <utility>

#include "src/io/input.h"
#include "src/io/output.h"
#include "src/io/plain_transport.h"
#include "storage/shared_bytes.h"
#include "tests/src/fake_transport.h"

namespace {

struct Pair {
  Pair() : Pair(Make()) {}
  ~Pair() { close(theirs); }
  static std::array<int, 2> Make() {
    std::array<int, 2> fds;
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds.data()) == 0);
    return fds;
  }
  void Send(std::string_view bytes) const {
    REQUIRE(write(theirs, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  }
  std::string Receive() const {
    std::string all(1 << 20, 0);
    const ssize_t n = read(theirs, all.data(), all.size());
    all.resize(n > 0 ? n : 0);
    return all;
  }

  server::PlainTransport ours;
  const int theirs;

 private:
  explicit Pair(const std::array<int, 2>& fds) : ours(fds[0]), theirs(fds[1]) {}
};

std::string Text(server::Input& input) { return {input.bytes().data(), input.size()}; }

// Shared bytes whose references a test can count.
struct Shared {
  kbf::SharedHeader header;
  char bytes[1];
};
Shared* MakeShared(std::string_view text) {
  auto* shared = static_cast<Shared*>(kbf::AllocateShared(sizeof(Shared) + text.size()));
  new (&shared->header) kbf::SharedHeader;
  memcpy(shared->bytes, text.data(), text.size());
  return shared;
}

}  // namespace

TEST_SUITE("src") {
  TEST_CASE("input: an unfinished request is kept, counted and continued") {
    Pair pair;
    server::ConnectionMemory budget(0);
    server::Input input(budget);
    server::Input::Kept kept;
    size_t received = 0;

    pair.Send("get abc\r\nset ");
    input.Begin(&kept);
    CHECK(input.Read(pair.ours, 1, false, &received) == server::Input::ReadStatus::kDrained);
    CHECK(received == 13);
    CHECK(Text(input) == "get abc\r\nset ");
    input.Consume(9);
    REQUIRE(input.Keep(&kept));
    CHECK(kept.size == 4);
    CHECK(budget.buffer_bytes() == kept.capacity);

    pair.Send("x 0 0 1\r\n");
    input.Begin(&kept);
    CHECK(budget.buffer_bytes() == 0);
    CHECK(input.Read(pair.ours, 5, false, &received) == server::Input::ReadStatus::kDrained);
    CHECK(Text(input) == "set x 0 0 1\r\n");
    CHECK(input.Read(pair.ours, 5, false, &received) == server::Input::ReadStatus::kWantsRead);
    input.Consume(input.size());
    REQUIRE(input.Keep(&kept));
    CHECK(kept.data == nullptr);
    CHECK(budget.buffer_bytes() == 0);
  }

  TEST_CASE(
      "input: a large request arrives whole in any pieces, and takes one buffer of its size") {
    Pair pair;
    server::ConnectionMemory budget(0);
    server::Input input(budget);
    server::Input::Kept kept;
    std::mt19937 random(7);
    std::string sent;
    constexpr size_t kTotal = 700'000;
    size_t received = 0;
    while (sent.size() < kTotal) {
      std::string piece(std::min<size_t>(1 + random() % 20'000, kTotal - sent.size()), 0);
      for (char& c : piece) c = static_cast<char>(random());
      pair.Send(piece);
      sent += piece;
      input.Begin(&kept);
      while (input.size() < sent.size()) {
        REQUIRE(input.Read(pair.ours, kTotal, false, &received) <=
                server::Input::ReadStatus::kDrained);
      }
      REQUIRE(input.Keep(&kept));
      CHECK(budget.buffer_bytes() == kept.capacity);
      CHECK(kept.capacity == kTotal);
    }
    input.Begin(&kept);
    CHECK(Text(input) == sent);
    CHECK(received == kTotal);
    input.Consume(kTotal);
    REQUIRE(input.Keep(&kept));
    CHECK(budget.buffer_bytes() == 0);
  }

  TEST_CASE("input: a large request that does not fit the limit is not read until it fits") {
    Pair pair;
    constexpr size_t kTotal = 200'000;
    // The bytes that have arrived stand in both buffers while one is copied into the other.
    server::ConnectionMemory budget(kTotal + 3500);
    server::Input input(budget);
    server::Input::Kept kept;
    size_t received = 0;
    pair.Send(std::string(3000, 'h'));
    input.Begin(&kept);
    CHECK(input.Read(pair.ours, 1, false, &received) == server::Input::ReadStatus::kDrained);
    budget.Add(3501);  // of another connection
    CHECK(input.Read(pair.ours, kTotal, false, &received) == server::Input::ReadStatus::kNoMemory);
    REQUIRE(input.Keep(&kept));
    CHECK(budget.buffer_bytes() == 3000 + 3501);
    budget.BeginWait();
    CHECK(budget.Excess() == 3001);
    budget.Subtract(3501);

    SUBCASE("one that has waited goes first") {
      input.Begin(&kept);
      CHECK(input.Read(pair.ours, kTotal, false, &received) ==
            server::Input::ReadStatus::kNoMemory);
      CHECK(input.Read(pair.ours, kTotal, true, &received) ==
            server::Input::ReadStatus::kWantsRead);
      REQUIRE(input.Keep(&kept));
      CHECK(kept.capacity == kTotal);
      CHECK(kept.size == 3000);
    }
    SUBCASE("a short request is never made to wait") {
      budget.Add(budget.limit());
      pair.Send(std::string(10'000, 'i'));
      input.Begin(&kept);
      while (input.Read(pair.ours, 20'000, false, &received) == server::Input::ReadStatus::kMore) {
      }
      CHECK(Text(input) == std::string(3000, 'h') + std::string(10'000, 'i'));
      REQUIRE(input.Keep(&kept));
      CHECK(kept.size == 13'000);
      budget.Subtract(budget.limit());
    }
    input.Forget(&kept);
    CHECK(budget.buffer_bytes() == 0);
  }

  TEST_CASE("input: the end of the stream differs from no data yet") {
    Pair pair;
    server::ConnectionMemory budget(0);
    server::Input input(budget);
    server::Input::Kept kept;
    size_t received = 0;
    input.Begin(&kept);
    CHECK(input.Read(pair.ours, 1, false, &received) == server::Input::ReadStatus::kWantsRead);
    shutdown(pair.theirs, SHUT_WR);
    CHECK(input.Read(pair.ours, 1, false, &received) == server::Input::ReadStatus::kEnd);
  }

  TEST_CASE(
      "output: small and large pieces go out in order, also when the socket takes them bit by "
      "bit") {
    Pair pair;
    const int small = 4096;
    setsockopt(pair.ours.fd(), SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    server::Output output;
    std::mt19937 random(11);
    std::string expected, got;
    std::unique_ptr<server::Output::Parked> parked;
    for (int round = 0; round < 200; ++round) {
      output.Load(std::move(parked));
      for (int i = 0; i < 5 && !output.full(); ++i) {
        std::string text(random() % (random() % 4 == 0 ? 40'000 : 300), 0);
        for (char& c : text) c = static_cast<char>(random());
        output.Append("<");
        Shared* shared = MakeShared(text);
        output.AppendShared({shared->bytes, text.size()}, kbf::SharedRef(&shared->header));
        kbf::Release(&shared->header);
        REQUIRE(output.AppendText(text));
        expected += "<" + text + text;
      }
      size_t sent = 0;
      CHECK(output.Flush(pair.ours, &sent) != server::Output::FlushStatus::kBroken);
      parked = output.Park();
      CHECK(output.empty());
      got += pair.Receive();
    }
    while (parked != nullptr) {
      output.Load(std::move(parked));
      size_t sent = 0;
      CHECK(output.Flush(pair.ours, &sent) != server::Output::FlushStatus::kBroken);
      parked = output.Park();
      got += pair.Receive();
    }
    CHECK(got.size() == expected.size());
    CHECK(got == expected);
  }

  TEST_CASE("output: a shared value lives until it is sent, and no longer") {
    Pair pair;
    server::Output output;
    Shared* shared = MakeShared(std::string(server::OutputLimits().copy_max, 'v'));
    output.AppendShared({shared->bytes, server::OutputLimits().copy_max},
                        kbf::SharedRef(&shared->header));
    CHECK(shared->header.refs == 2);
    auto parked = output.Park();
    CHECK(shared->header.refs == 2);
    output.Load(std::move(parked));
    size_t sent = 0;
    CHECK(output.Flush(pair.ours, &sent) == server::Output::FlushStatus::kSent);
    CHECK(sent == server::OutputLimits().copy_max);
    CHECK(shared->header.refs == 1);
    kbf::Release(&shared->header);
  }

  TEST_CASE("output: more than fits makes it fail, and nothing is written outside the buffer") {
    server::Output output({.full_bytes = 100, .copy_max = 10});
    const size_t room = 100 + (server::Output::kBatch + 1) * (10 + server::Output::kReplyBytesMax);
    output.Append(std::string(room, 'x'));
    CHECK(!output.failed());
    CHECK(output.full());
    output.Append("y");
    CHECK(output.failed());
    CHECK(output.overruns() == 1);
    CHECK(output.Park() == nullptr);
    Pair pair;
    size_t sent = 0;
    CHECK(output.Flush(pair.ours, &sent) == server::Output::FlushStatus::kBroken);
    output.Load(nullptr);
    CHECK(!output.failed());
    output.Append(std::string(room - 10, 'x'));
    (void)output.Room(11);
    CHECK(output.failed());
  }

  TEST_CASE("output: many short values that are not copied make it full as well") {
    server::Output output({.full_bytes = 64 << 10, .copy_max = 1});
    Shared* shared = MakeShared("v");
    for (int i = 0; i < 1000 && !output.full(); ++i) {
      output.AppendShared({shared->bytes, 1}, kbf::SharedRef(&shared->header));
    }
    CHECK(output.full());
    // The one that made it full may have been the first of a batch and one more.
    for (size_t i = 0; i < server::Output::kBatch; ++i) {
      output.AppendShared({shared->bytes, 1}, kbf::SharedRef(&shared->header));
    }
    CHECK(!output.failed());
    CHECK(output.overruns() == 0);
    output.Clear();
    CHECK(shared->header.refs == 1);
    kbf::Release(&shared->header);
  }

  TEST_CASE("output: parked bytes are counted, and values that left the store separately") {
    server::Output output;
    const size_t size = 100'000;
    Shared* shared = MakeShared(std::string(size, 'v'));
    output.Append("head");
    output.AppendShared({shared->bytes, size}, kbf::SharedRef(&shared->header));
    auto parked = output.Park();
    CHECK(parked->held_bytes() < 1000);
    CHECK(parked->detached_bytes() == 0);
    const uint64_t before = kbf::DetachedBytes();
    kbf::Detach(&shared->header);
    CHECK(parked->detached_bytes() == size);
    CHECK(kbf::DetachedBytes() - before >= size);
    parked.reset();
    CHECK(kbf::DetachedBytes() == before);
    output.Load(nullptr);
    REQUIRE(output.AppendText(std::string(size, 't')));
    parked = output.Park();
    CHECK(parked->held_bytes() >= size);
    CHECK(parked->detached_bytes() == 0);
  }

  TEST_CASE("output: a flush pauses after its share, and the next ones send the rest in order") {
    using server::Output;
    std::string value;
    for (size_t i = 0; value.size() < 3 * Output::kFlushBytesMax; ++i) {
      value += std::to_string(i) + " ";
    }
    Shared* const shared = MakeShared(value);
    Output output;
    output.Append("before ");
    output.AppendShared({shared->bytes, value.size()}, kbf::SharedRef(&shared->header));
    output.Append(" after");
    kbf::Release(&shared->header);
    server::FakePeer peer;
    server::FakeTransport transport(peer);
    for (size_t left = value.size() + 13; left > 0;) {
      const size_t share = std::min(left, Output::kFlushBytesMax);
      left -= share;
      size_t sent = 0;
      CHECK(output.Flush(transport, &sent) ==
            (left > 0 ? Output::FlushStatus::kPaused : Output::FlushStatus::kSent));
      CHECK(sent == share);
    }
    CHECK(peer.written == "before " + value + " after");
    CHECK(output.empty());
  }

  TEST_CASE("output: a closed connection is reported") {
    Pair pair;
    server::Output output;
    output.Append("x");
    shutdown(pair.theirs, SHUT_RDWR);
    size_t sent = 0;
    CHECK(output.Flush(pair.ours, &sent) == server::Output::FlushStatus::kBroken);
  }
}
