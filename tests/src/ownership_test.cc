#include "src/cluster/ownership.h"

#include <doctest/doctest.h>

#include <atomic>
#include <string>
#include <thread>

#include "src/cluster/reply_slots.h"

namespace {

using server::BootTimeMs;
using server::Ownership;
using server::ReplySlots;
using Gate = Ownership::Gate;
using Entry = Ownership::Entry;

constexpr uint64_t kLongMs = 3'600'000;

struct Waiter final : server::ReplyWaiter {
  void OnReplies() override { ++times; }
  unsigned times = 0;
};

}  // namespace

TEST_SUITE("server") {
  TEST_CASE("a gate lets in by its mode, and only while the right lasts") {
    Ownership ownership(2);
    CHECK(ownership.Enter(0) == Entry::kForeign);
    ownership.Open(0, false);
    CHECK(ownership.Enter(0) == Entry::kNoRight);
    ownership.ExtendRight(BootTimeMs() + kLongMs);
    // An older read does not shorten it.
    ownership.ExtendRight(1);
    CHECK(ownership.Enter(0) == Entry::kEntered);
    CHECK(!ownership.IsLogged(0));
    ownership.Leave(0);
    ownership.Close(0, Gate::kHeld);
    CHECK(ownership.Enter(0) == Entry::kHeld);
    CHECK(ownership.Enter(1) == Entry::kForeign);
    CHECK(ownership.requests(0) == 1);
  }

  TEST_CASE("changes are kept from the opening of a logged gate on") {
    Ownership ownership(1);
    const std::string_view key = "k";
    ownership.ExtendRight(BootTimeMs() + kLongMs);
    ownership.NoteChange(0, &key);
    ownership.Open(0, true);
    CHECK(ownership.TakeChanges(0).keys.empty());
    CHECK(ownership.IsLogged(0));
    ownership.NoteChange(0, &key);
    ownership.NoteChange(0, &key);
    ownership.NoteChange(0, nullptr);
    const Ownership::Changes changes = ownership.TakeChanges(0);
    CHECK(changes.keys.size() == 1);
    CHECK(changes.flushed);
    CHECK(ownership.TakeChanges(0).keys.empty());
  }

  TEST_CASE("no request is inside when Close returns, in any thread") {
    Ownership ownership(1);
    ownership.ExtendRight(BootTimeMs() + kLongMs);
    std::atomic<bool> stop{false};
    std::atomic<bool> closed{false};
    std::atomic<unsigned> entered{0};
    std::atomic<unsigned> wrong{0};
    std::thread worker([&] {
      while (!stop) {
        if (ownership.Enter(0) != Entry::kEntered) continue;
        ++entered;
        if (closed) ++wrong;
        ownership.Leave(0);
      }
    });
    for (unsigned round = 0; round < 200; ++round) {
      closed = false;
      ownership.Open(0, round % 2 == 0);
      const unsigned before = entered;
      while (entered == before) std::this_thread::yield();
      ownership.Close(0, Gate::kHeld);
      closed = true;
      std::this_thread::yield();
    }
    stop = true;
    worker.join();
    CHECK(wrong == 0);
  }

  TEST_CASE("replies leave their slots in the order of the requests") {
    Waiter waiter;
    server::ConnectionMemory memory(1 << 20);
    ReplySlots slots(&waiter, memory);
    slots.AddDone("a");
    const uint64_t b = slots.AddPending(7, true, 100);
    const uint64_t c = slots.AddPending(8, false, 10);
    slots.AddDone("d");
    REQUIRE(slots.Front() != nullptr);
    CHECK(*slots.Front() == "a");
    slots.Pop();
    CHECK(slots.Front() == nullptr);
    // Another request of the same slab waits if one of the two changes something.
    CHECK(slots.MustWait(7, false));
    CHECK(!slots.MustWait(8, false));
    CHECK(slots.MustWait(8, true));
    CHECK(!slots.MustWait(9, true));
    CHECK(memory.buffer_bytes() == 111);
    slots.Complete(c, "c");
    CHECK(waiter.times == 0);
    CHECK(slots.Front() == nullptr);
    slots.Complete(b, "b");
    CHECK(waiter.times == 1);
    std::string all;
    for (; slots.Front() != nullptr; slots.Pop()) all += *slots.Front();
    CHECK(all == "bcd");
    CHECK(slots.empty());
    CHECK(memory.buffer_bytes() == 0);
    for (size_t i = 0; i < ReplySlots::kSlotsMax; ++i) slots.AddDone("");
    CHECK(slots.full());
  }
}
