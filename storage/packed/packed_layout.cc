#include "storage/packed/packed_layout.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstdio>

namespace kbf {

namespace {

std::string Written(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g", value);
  return text;
}

// The most check bits that so many slots a line leave.
int CheckBitsFor(unsigned slots, unsigned window_bits, unsigned number_bits) {
  return std::min<int>(static_cast<int>(kLineBits / slots) - static_cast<int>(window_bits) -
                           static_cast<int>(number_bits),
                       kCheckBitsMax);
}

std::optional<PackedPlan> PlanFor(double budget, unsigned number_bits) {
  for (unsigned slots = kSlotsMax; slots >= kSlotsMin; --slots) {
    for (unsigned window_bits = kWindowBitsMax; window_bits >= kWindowBitsMin; --window_bits) {
      const int check_bits = CheckBitsFor(slots, window_bits, number_bits);
      if (check_bits < static_cast<int>(kCheckBitsMin)) continue;
      const double rate = PackedFalsePositive(slots, 1, check_bits, kSegmentLinesMax);
      if (rate > budget) continue;
      PackedPlan plan;
      plan.layout = {check_bits - 1 - kRemainderBits, window_bits, number_bits};
      plan.slots = slots;
      plan.bytes_per_key = static_cast<double>(kLineBytes) / slots;
      plan.false_positive = rate;
      return plan;
    }
  }
  return std::nullopt;
}

}  // namespace

bool IsValid(const PackedLayout& layout) {
  return layout.tail_bits >= kTagBits && layout.tail_bits <= kTailBitsMax &&
         layout.window_bits >= kWindowBitsMin && layout.window_bits <= kWindowBitsMax &&
         layout.number_bits >= 1 && layout.number_bits <= kNumberBitsMax;
}

LineShape ShapeOf(const PackedLayout& layout, uint32_t lines) {
  assert(IsValid(layout) && lines > 0 && lines <= uint32_t{1} << kAddressBits);
  constexpr uint32_t kAddresses = uint32_t{1} << kAddressBits;
  LineShape shape;
  shape.lines = lines;
  shape.remainder_bits = static_cast<uint8_t>(std::bit_width((kAddresses + lines - 1) / lines - 1));
  shape.rest_bits = static_cast<uint8_t>(1 + shape.remainder_bits + layout.tail_bits - kTagBits);
  shape.payload_bits = static_cast<uint8_t>(layout.window_bits + layout.number_bits);
  const unsigned slot_bits = kTagBits + shape.rest_bits + shape.payload_bits;
  shape.slots = static_cast<uint8_t>(std::min(kLineBits / slot_bits, kSlotsMax));
  shape.rest_start = static_cast<uint16_t>(shape.slots * kTagBits);
  shape.payload_start =
      static_cast<uint16_t>(shape.rest_start + unsigned{shape.slots} * shape.rest_bits);
  shape.reciprocal = ~uint64_t{0} / lines + 1;
  return shape;
}

double PackedFalsePositive(double entries, unsigned fingerprint_bits) {
  return entries * std::exp2(-static_cast<double>(fingerprint_bits));
}

double PackedFalsePositive(unsigned slots, double fill, unsigned check_bits, double lines) {
  const double fingerprint_bits = check_bits - 1 - kRemainderBits + kAddressBits;
  return slots * fill * lines * std::exp2(-fingerprint_bits);
}

PackedPlanOutcome PlanPacked(const PackedPlanRequest& request) {
  if (!(request.false_positive > 0 && request.false_positive < 1)) {
    return {std::nullopt, "the false-positive budget must lie between 0 and 1"};
  }
  const uint64_t bits =
      request.distinct_values <= 1 ? 1 : std::bit_width(request.distinct_values - 1);
  const auto* width = std::find_if(std::begin(kNumberBits), std::end(kNumberBits),
                                   [bits](unsigned number_bits) { return number_bits >= bits; });
  if (width == std::end(kNumberBits)) {
    return {std::nullopt, "value numbers have 28 bits at most, which is " +
                              std::to_string(uint64_t{1} << kNumberBitsMax) + " distinct values: " +
                              std::to_string(request.distinct_values) + " are too many"};
  }
  const double budget = std::min(request.false_positive, kNeighbourHitsMax);
  if (auto plan = PlanFor(budget, *width)) return {*plan, {}};
  const double least = PackedFalsePositive(kSlotsMin, 1, kCheckBitsMax, kSegmentLinesMax);
  return {std::nullopt, "no slot reaches a false-positive budget of " +
                            Written(request.false_positive) + ": with " +
                            std::to_string(kCheckBitsMax) + " check bits, the most there are, " +
                            Written(least) + " is the least"};
}

}  // namespace kbf
