#include "storage/flow/state_bloom.h"

#include <cassert>

namespace kbf {

namespace {

constexpr unsigned kCounterStuck = 15;
constexpr unsigned kDontKnow = StateBloom::kStatesMax;

unsigned CountOf(uint8_t cell) { return cell >> 4; }
unsigned StateOf(uint8_t cell) { return cell & 15; }
uint8_t Cell(unsigned count, unsigned state) { return static_cast<uint8_t>(count << 4 | state); }

}  // namespace

std::optional<StateBloom> StateBloom::Create(uint64_t num_cells, unsigned num_hashes,
                                             Sharing sharing) {
  if (num_cells == 0 || num_cells > kCellsMax || num_hashes == 0 || num_hashes > kHashesMax) {
    return std::nullopt;
  }
  return StateBloom((num_cells + num_hashes - 1) / num_hashes, num_hashes, sharing);
}

StateBloom::Answer StateBloom::Query(const KeyHash& key) const {
  Answer answer{Outcome::kUnknown, 0};
  bool shared = false;
  for (unsigned i = 0; i < num_hashes_; ++i) {
    const uint8_t cell = cells_[Position(key, i)];
    if (CountOf(cell) == 0) return {};
    const unsigned state = StateOf(cell);
    shared |= state == kDontKnow;
    if (state == kDontKnow) continue;
    // A stored key never finds two different states.
    if (answer.outcome == Outcome::kFound && answer.state != state) return {};
    answer = {Outcome::kFound, state};
  }
  if (shared && sharing_ == Sharing::kNullIfShared) return {Outcome::kUnknown, 0};
  return answer;
}

void StateBloom::Insert(const KeyHash& key, unsigned state) {
  assert(state < kStatesMax);
  for (unsigned i = 0; i < num_hashes_; ++i) {
    uint8_t& cell = cells_[Position(key, i)];
    const unsigned count = CountOf(cell);
    if (count == 0) {
      cell = Cell(1, state);
      continue;
    }
    const bool stays = sharing_ == Sharing::kEqualStates && StateOf(cell) == state;
    cell = Cell(count < kCounterStuck ? count + 1 : count, stays ? state : kDontKnow);
  }
}

void StateBloom::Change(const KeyHash& key, unsigned state) {
  assert(state < kStatesMax);
  for (unsigned i = 0; i < num_hashes_; ++i) {
    uint8_t& cell = cells_[Position(key, i)];
    const unsigned count = CountOf(cell);
    if (count == 1) {
      cell = Cell(1, state);
    } else if (count > 1 && StateOf(cell) != state) {
      cell = Cell(count, kDontKnow);
    }
  }
}

void StateBloom::Remove(const KeyHash& key) {
  for (unsigned i = 0; i < num_hashes_; ++i) {
    uint8_t& cell = cells_[Position(key, i)];
    const unsigned count = CountOf(cell);
    if (count == 1) cell = 0;
    if (count > 1 && count < kCounterStuck) cell = Cell(count - 1, StateOf(cell));
  }
}

}  // namespace kbf
