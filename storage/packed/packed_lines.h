// PackedLines reads and changes the lines of one segment of a packed table: where a fingerprint's
// slots are, what they hold, and how a full line gives room. It owns no memory and counts nothing;
// packed_table.h is the class to use.
//
// A fingerprint is an address of kAddressBits bits and a tail. Line i of n has the addresses a with
// floor(a·n / 2^18) = i, so address and n give a key's first line and the remainder, which is the
// address's place among those of its line. The second line is (c - first line) mod n, where c is a
// hash of remainder and tail, which are stored. So either line follows from the other one and a
// slot, which also says which of the two it is in: a slot and n give the whole fingerprint back.
//
// Promises:  Find compares the whole fingerprint: an answer is wrong only where two keys have the
//            same. Place loses no entry that is not offered.
// Requires:  memory for shape.lines lines, zeroed at first; window 0 is that of unused slots.
// Costs:     Find reads one or two cache lines. Place reads the same, and where both are full, up
// to
//            one line for each of their slots.
// Departs:   from partial-key cuckoo hashing (Fan et al., CoNEXT 2014), where the lines are XORed,
//            so that their number must be a power of two, and where a slot does not say which of
//            its two lines it is in, which costs twice the false positives or the bit that we
//            spend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>

#include "storage/packed/line_kernel.h"
#include "storage/packed/packed_layout.h"

namespace kbf {

// What a segment knows of a key.
struct PackedFingerprint {
  uint32_t address = 0;
  uint64_t tail = 0;
  friend bool operator==(const PackedFingerprint&, const PackedFingerprint&) = default;
};

struct PackedEntry {
  PackedFingerprint fingerprint;
  uint32_t window = 0;
  uint32_t number = 0;
};

// What happens to the entries of a window, by its tag.
enum class WindowUse : uint8_t {
  kUnused,   // not found, their slots may be used
  kOffered,  // found until their slots are used
  kHeld,     // found
};

struct PackedSlot {
  uint32_t line = 0;
  uint32_t index = 0;
};

class PackedLines {
 public:
  PackedLines(std::byte* lines, const LineShape& shape, const PackedLayout& layout,
              LineKernel kernel)
      : lines_(lines), shape_(shape), layout_(layout), kernel_(kernel) {}

  // Both lines of a fingerprint, and what its slots hold of it there.
  struct Home {
    uint32_t first = 0;
    uint32_t second = 0;
    uint64_t rest_first = 0;
    uint64_t rest_second = 0;
    uint16_t tag = 0;
  };
  Home HomeOf(const PackedFingerprint& fingerprint) const;
  void Prefetch(const Home& home) const {
    __builtin_prefetch(LineAt(home.first));
    __builtin_prefetch(LineAt(home.second));
  }

  // The slot of this fingerprint whose window is in use; use[tag] says which are.
  std::optional<PackedSlot> Find(const Home& home, const WindowUse* use) const;
  uint32_t WindowOf(const PackedSlot& slot) const {
    return static_cast<uint32_t>(Payload(slot)) & (layout_.NumWindows() - 1);
  }
  uint32_t NumberOf(const PackedSlot& slot) const {
    return static_cast<uint32_t>(Payload(slot) >> layout_.window_bits);
  }
  // REQUIRES: window < NumWindows, number < 2^number_bits
  void SetPayload(const PackedSlot& slot, uint32_t window, uint32_t number) {
    Write(slot, shape_.payload_start, shape_.payload_bits,
          uint64_t{number} << layout_.window_bits | window);
  }
  PackedEntry EntryAt(const PackedSlot& slot) const;

  struct Placed {
    PackedSlot slot;
    uint32_t replaced = 0;  // window of the slot that was used in the end
    uint32_t line = 0;      // where that slot is
  };
  // Puts an entry in one of its lines: in the one with more unused slots; else in the place of an
  // offered entry, of the window that was offered first (rank[tag] is least); else in the place of
  // an entry that moves to an unused or offered slot of its other line. Nothing: there is none.
  std::optional<Placed> Place(const Home& home, uint32_t window, uint32_t number,
                              const WindowUse* use, const uint32_t* rank);
  // The same in lines of which used[line] slots are used, the first ones, and no window is closed:
  // while a segment is rebuilt.
  std::optional<Placed> Append(const Home& home, uint32_t window, uint32_t number, uint8_t* used,
                               const WindowUse* use, const uint32_t* rank);

  // Calls visit(slot, window) for every slot whose window is not 0.
  template <class Visit>
  void ForEach(Visit visit) const {
    for (uint32_t line = 0; line < shape_.lines; ++line) {
      for (uint32_t i = 0; i < shape_.slots; ++i) {
        const PackedSlot slot{line, i};
        if (const uint32_t window = WindowOf(slot); window != 0) visit(slot, window);
      }
    }
  }
  // The same, but one slot of every line after the other, the last slots first, and lines far
  // apart: nearly as keys come in. Entries that came line by line would leave the last lines of a
  // new segment no room from 94 % of its slots on.
  template <class Visit>
  void ForEachScattered(Visit visit) const {
    uint32_t step = shape_.lines / 13 * 8 + 1;
    while (std::gcd(step, shape_.lines) > 1) ++step;
    for (uint32_t i = shape_.slots; i-- > 0;) {
      for (uint32_t count = 0, line = 0; count < shape_.lines; ++count) {
        const PackedSlot slot{line, i};
        if (const uint32_t window = WindowOf(slot); window != 0) visit(slot, window);
        line = (line + step) % shape_.lines;
      }
    }
  }
  const LineShape& shape() const { return shape_; }

 private:
  // Room of a line for one more entry.
  struct Room {
    unsigned unused = 0;  // slots
    uint32_t unused_at = 0;
    uint32_t offered_at = 0;
    uint32_t offered_rank = 0xffffffff;  // of the offered slot that was offered first; else this
    bool any() const { return unused > 0 || offered_rank != 0xffffffff; }
  };

  std::byte* LineAt(uint32_t line) { return lines_ + uint64_t{line} * kLineBytes; }
  const std::byte* LineAt(uint32_t line) const { return lines_ + uint64_t{line} * kLineBytes; }
  uint64_t Read(const PackedSlot& slot, unsigned start, unsigned bits) const;
  void Write(const PackedSlot& slot, unsigned start, unsigned bits, uint64_t value);
  uint64_t Rest(const PackedSlot& slot) const {
    return Read(slot, shape_.rest_start, shape_.rest_bits);
  }
  uint64_t Payload(const PackedSlot& slot) const {
    return Read(slot, shape_.payload_start, shape_.payload_bits);
  }
  uint16_t TagAt(const PackedSlot& slot) const;
  uint64_t SecondBit() const { return uint64_t{1} << (shape_.rest_bits - 1); }
  uint32_t OtherLine(uint32_t line, uint64_t tail, uint32_t remainder) const;
  uint64_t TailOf(uint16_t tag, uint64_t rest) const {
    return (rest & (SecondBit() - 1)) >> shape_.remainder_bits << kTagBits | tag;
  }
  uint32_t RemainderOf(uint64_t rest) const {
    return static_cast<uint32_t>(rest) & ((uint32_t{1} << shape_.remainder_bits) - 1);
  }
  Room RoomOf(uint32_t line, const WindowUse* use, const uint32_t* rank) const;
  void Fill(const PackedSlot& slot, uint16_t tag, uint64_t rest, uint64_t payload);
  std::optional<Placed> FillRoom(uint32_t line, const Room& room, uint16_t tag, uint64_t rest,
                                 uint64_t payload);
  std::optional<Placed> MoveOne(uint32_t line, uint16_t tag, uint64_t rest, uint64_t payload,
                                const WindowUse* use, const uint32_t* rank);

  std::byte* lines_;
  LineShape shape_;
  PackedLayout layout_;
  LineKernel kernel_;
};

}  // namespace kbf
