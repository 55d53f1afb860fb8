// PackedLayout says how the slots of a packed table (packed_table.h) are divided, and the planner
// here chooses it from a false-positive budget and a number of distinct values.
//
// A slot has check bits, the tag of a window and the number of a value, side by side:
//
//   |check bits c|window tag W|value number V|      slots of a line: 512 / (c + W + V)
//
// The check bits are a part of the key's fingerprint of F = kAddressBits + tail_bits bits; the rest
// of the fingerprint follows from where the slot is. A table of n lines stores
//
//   1 bit             which of the key's two lines this one is
//   log2(2^18 / n)    the remainder of the 18 address bits, rounded up
//   tail_bits         bits that no line number depends on; 16 of them are compared first
//
// so a table with fewer lines has wider slots, and nothing of a fingerprint is lost when it grows
// or shrinks.
//
// Promises:  a plan's false_positive is the chance that an absent key is found in a full segment of
//            kSegmentLinesMax lines; smaller segments and emptier ones have fewer.
//            PlanPacked returns a plan or one sentence that names the limit; it does not throw.
// Requires:  nothing; all functions are pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace kbf {

inline constexpr unsigned kLineBytes = 64;
inline constexpr unsigned kLineBits = 8 * kLineBytes;
// Lines of a segment from which on slots are as narrow as planned, and the most that a segment is
// planned for. A segment is rebuilt in one step: 33,000 entries of 12 a line take about a
// millisecond.
inline constexpr uint32_t kSegmentLinesMin = 2048;
inline constexpr uint32_t kSegmentLinesMax = 2816;
// Bits of the address that are kept at kSegmentLinesMin lines. With 7, the lines of a segment have
// between 46 and 47 of the 2^18 addresses each: the fullest has 2 % more than the emptiest.
inline constexpr unsigned kRemainderBits = 7;
inline constexpr unsigned kAddressBits = 18;
static_assert(uint32_t{1} << (kAddressBits - kRemainderBits) == kSegmentLinesMin);
// Segments have whole pages of lines.
inline constexpr uint32_t kPageLines = 64;

// Bits of a tail that are compared for all slots of a line at once.
inline constexpr unsigned kTagBits = 16;
inline constexpr unsigned kTailBitsMax = 48;
inline constexpr unsigned kCheckBitsMin = 1 + kRemainderBits + kTagBits;      // 24
inline constexpr unsigned kCheckBitsMax = 1 + kRemainderBits + kTailBitsMax;  // 56
inline constexpr unsigned kSlotsMax = 14;
inline constexpr unsigned kSlotsMin = 4;
inline constexpr unsigned kWindowBitsMin = 6;
inline constexpr unsigned kWindowBitsMax = 8;
inline constexpr unsigned kWindowsMax = 1u << kWindowBitsMax;
inline constexpr unsigned kNumberBitsMax = 28;
// Widths of value numbers to choose from.
inline constexpr unsigned kNumberBits[] = {12, 20, 28};

struct PackedLayout {
  unsigned tail_bits = kTagBits;
  unsigned window_bits = kWindowBitsMin;
  unsigned number_bits = kNumberBits[0];

  unsigned CheckBits() const { return 1 + kRemainderBits + tail_bits; }
  unsigned FingerprintBits() const { return kAddressBits + tail_bits; }
  unsigned NumWindows() const { return 1u << window_bits; }
  friend bool operator==(const PackedLayout&, const PackedLayout&) = default;
};

bool IsValid(const PackedLayout& layout);

// How the lines of a segment with so many lines are divided:
//
//   |tag 16| × slots |rest of the check bits| × slots |window and number| × slots |unused|
struct LineShape {
  uint32_t lines = 0;
  uint8_t slots = 0;
  uint8_t remainder_bits = 0;
  uint8_t rest_bits = 0;     // which line, remainder, tail without its tag
  uint8_t payload_bits = 0;  // window and number
  uint16_t rest_start = 0;   // bit of the line
  uint16_t payload_start = 0;
  uint64_t reciprocal = 0;  // 2^64 / lines, rounded up

  uint64_t Slots() const { return uint64_t{lines} * slots; }
};

// REQUIRES: IsValid(layout), 0 < lines <= 2^kAddressBits
LineShape ShapeOf(const PackedLayout& layout, uint32_t lines);

// ---- formulas ----

// The chance that an absent key is found in a segment with so many entries: each has its
// fingerprint with chance 2^-bits. A delete or an overwrite hits another key's entry, and a new key
// has a twin, with the same chance.
double PackedFalsePositive(double entries, unsigned fingerprint_bits);
// The same for a segment: slots compared in two lines · fill · 2^-check bits, where the check bits
// are those of a segment of kSegmentLinesMin lines.
double PackedFalsePositive(unsigned slots, double fill, unsigned check_bits, double lines);

// ---- planner ----

// Most deletes and overwrites that may hit another key's entry, whatever the budget for absent keys
// is.
inline constexpr double kNeighbourHitsMax = 2e-6;

struct PackedPlanRequest {
  double false_positive = 2e-5;
  uint64_t distinct_values = 3000;
};

struct PackedPlan {
  PackedLayout layout;
  unsigned slots = 0;         // of a line
  double bytes_per_key = 0;   // of lines that are full
  double false_positive = 0;  // at most, see above
};

// Exactly one of the two is set.
struct [[nodiscard]] PackedPlanOutcome {
  std::optional<PackedPlan> plan;
  std::string error;
};

// The most slots a line that keep to the budget and have a number for each value; of those the
// layout with the most windows.
PackedPlanOutcome PlanPacked(const PackedPlanRequest& request);

}  // namespace kbf
