#include "src/cluster/ownership.h"

#include <time.h>

#include <chrono>
#include <new>
#include <thread>

namespace server {

uint64_t BootTimeMs() {
  timespec time{};
  clock_gettime(CLOCK_BOOTTIME, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1000 + static_cast<uint64_t>(time.tv_nsec) / 1000000;
}

uint64_t CasOfNow() {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  return (static_cast<uint64_t>(time.tv_sec) * 1000 + static_cast<uint64_t>(time.tv_nsec) / 1000000)
         << 20;
}

Ownership::Entry Ownership::Enter(unsigned slab) {
  SlabGate& gate = gates_[slab];
  // Before the mode is read: either Close sees this request inside, or the request sees the mode.
  gate.inside.fetch_add(1, std::memory_order_seq_cst);
  const Gate mode = gate.mode.load(std::memory_order_seq_cst);
  Entry entry = Entry::kEntered;
  if (mode == Gate::kForeign) {
    entry = Entry::kForeign;
  } else if (mode == Gate::kHeld) {
    entry = Entry::kHeld;
  } else if (!RightLasts()) {
    entry = Entry::kNoRight;
  }
  if (entry != Entry::kEntered) {
    Leave(slab);
    return entry;
  }
  gate.requests.fetch_add(1, std::memory_order_relaxed);
  return entry;
}

void Ownership::NoteChange(unsigned slab, const std::string_view* key) {
  SlabGate& gate = gates_[slab];
  const std::lock_guard lock(gate.mutex);
  try {
    key == nullptr ? void(gate.changes.flushed = true) : void(gate.changes.keys.emplace(*key));
  } catch (const std::bad_alloc&) {
    gate.changes.lost = true;
  }
}

void Ownership::ExtendRight(uint64_t until_ms) {
  if (until_ms > right_ends_ms()) right_ends_ms_.store(until_ms, std::memory_order_release);
}

void Ownership::Open(unsigned slab, bool logged) {
  // Who is inside must leave first: it knows of no log, and would change what was copied already.
  Close(slab, Gate::kHeld);
  (void)TakeChanges(slab);
  gates_[slab].mode.store(logged ? Gate::kLogged : Gate::kOpen, std::memory_order_seq_cst);
}

void Ownership::Close(unsigned slab, Gate gate) {
  gates_[slab].mode.store(gate, std::memory_order_seq_cst);
  // Requests are inside for microseconds.
  while (gates_[slab].inside.load(std::memory_order_seq_cst) != 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

Ownership::Changes Ownership::TakeChanges(unsigned slab) {
  const std::lock_guard lock(gates_[slab].mutex);
  return std::exchange(gates_[slab].changes, {});
}

}  // namespace server
