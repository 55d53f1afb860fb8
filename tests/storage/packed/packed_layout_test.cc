#include "storage/packed/packed_layout.h"

#include <doctest/doctest.h>

#include <cmath>

namespace kbf {
namespace {

TEST_SUITE("storage/packed") {
  TEST_CASE("the planner puts as many slots in a line as budget and values allow") {
    struct Row {
      double budget;
      uint64_t values;
      unsigned slots;
      unsigned check_bits;
      unsigned number_bits;
    };
    const Row rows[] = {
        {2e-5, 3000, 12, 24, 12},    {2e-6, 4096, 12, 24, 12},   {1e-10, 3000, 9, 38, 12},
        {1e-12, 3000, 8, 45, 12},    {1e-15, 3000, 7, 55, 12},   {2e-5, 4097, 10, 24, 20},
        {1e-12, 1 << 20, 7, 45, 20}, {2e-5, 1 << 21, 8, 28, 28}, {1e-15, 1 << 28, 5, 56, 28},
        {2e-5, 1, 12, 24, 12},
    };
    for (const Row& row : rows) {
      CAPTURE(row.budget);
      CAPTURE(row.values);
      const PackedPlanOutcome outcome = PlanPacked({row.budget, row.values});
      REQUIRE(outcome.plan);
      const PackedPlan& plan = *outcome.plan;
      CHECK(plan.slots == row.slots);
      CHECK(plan.layout.CheckBits() == row.check_bits);
      CHECK(plan.layout.number_bits == row.number_bits);
      CHECK(plan.false_positive <= row.budget);
      CHECK(plan.false_positive <= kNeighbourHitsMax);
      CHECK(IsValid(plan.layout));
      CHECK(ShapeOf(plan.layout, kSegmentLinesMin).slots == row.slots);
      CHECK(ShapeOf(plan.layout, kSegmentLinesMax).slots == row.slots);
    }
  }

  TEST_CASE("a plan that cannot be kept is refused with the limit") {
    CHECK(PlanPacked({1e-17, 3000}).error ==
          "no slot reaches a false-positive budget of 1e-17: with 56 check bits, the most there "
          "are, 1.53e-16 is the least");
    CHECK(PlanPacked({2e-5, (uint64_t{1} << 28) + 1}).error ==
          "value numbers have 28 bits at most, which is 268435456 distinct values: 268435457 are "
          "too many");
    for (const double budget : {0.0, -1.0, 1.0, std::nan("")}) {
      CHECK(PlanPacked({budget, 3000}).error ==
            "the false-positive budget must lie between 0 and 1");
    }
  }

  TEST_CASE("a line is never overfull, whatever the layout and the number of lines") {
    for (const unsigned tail_bits : {16u, 30u, 48u}) {
      for (const unsigned window_bits : {6u, 8u}) {
        for (const unsigned number_bits : kNumberBits) {
          const PackedLayout layout{tail_bits, window_bits, number_bits};
          for (uint32_t lines = kPageLines; lines <= 1u << 17; lines += lines / 3) {
            CAPTURE(lines);
            const LineShape shape = ShapeOf(layout, lines);
            CHECK(shape.payload_start + unsigned{shape.slots} * shape.payload_bits <= kLineBits);
            CHECK(shape.slots >= 4);
            // Fields are read as words of 64 bits, which may begin seven bits before them.
            CHECK(shape.rest_bits <= 57);
            CHECK(shape.payload_bits <= 57);
            // Every remainder fits: the largest is one less than the addresses of a line.
            CHECK(std::ceil(std::exp2(kAddressBits) / lines) <= std::exp2(shape.remainder_bits));
          }
        }
      }
    }
  }

  TEST_CASE("both formulas of false positives agree") {
    const PackedPlan plan = *PlanPacked({2e-5, 3000}).plan;
    const double lines = 2500;
    const double fill = 0.9;
    CHECK(PackedFalsePositive(plan.slots * fill * lines, plan.layout.FingerprintBits()) ==
          doctest::Approx(PackedFalsePositive(plan.slots, fill, plan.layout.CheckBits(), lines)));
    // With kSegmentLinesMin lines: slots of two lines, each equal with chance 2^-check bits.
    CHECK(PackedFalsePositive(12, 1, 24, kSegmentLinesMin) ==
          doctest::Approx(2 * 12 * std::exp2(-24)));
  }
}

}  // namespace
}  // namespace kbf
