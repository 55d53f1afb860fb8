#include "storage/planner.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

namespace kbf {
namespace {

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The error of a request that must have one.
std::string ErrorOf(const PlanRequest& request) {
  const PlanOutcome outcome = MakePlan(request);
  CHECK_FALSE(outcome.plan.has_value());
  CHECK_FALSE(outcome.error.empty());
  CHECK(outcome.error.find('\n') == std::string::npos);
  return outcome.error;
}

Plan PlanOf(const PlanRequest& request) {
  const PlanOutcome outcome = MakePlan(request);
  CAPTURE(outcome.error);
  REQUIRE(outcome.plan.has_value());
  CHECK(outcome.error.empty());
  return *outcome.plan;
}

void CheckPromises(const Plan& plan, const PlanRequest& request) {
  CAPTURE(CellKindName(plan.layout.kind));
  CAPTURE(plan.layout.num_hashes);
  CAPTURE(plan.layout.num_lines);
  CHECK(IsValid(plan.layout));
  CHECK(plan.values_max >= request.distinct_values);
  CHECK(plan.values_max == (uint64_t{1} << (plan.layout.symbol_bits - plan.layout.check_bits)) - 1);
  CHECK(plan.layout.check_bits >= kPlanCheckBitsMin);
  CHECK(plan.layout.check_bits <= kPlanCheckBitsMax);
  CHECK(plan.memory_accesses == plan.layout.num_lines);
  CHECK(plan.bytes_per_key ==
        doctest::Approx(CellBytes(plan.layout.kind) * plan.layout.num_hashes / plan.load));

  // The budgets hold at the planned load and, as a filter fills up to it, at every smaller one.
  const double match = std::exp2(-static_cast<double>(plan.layout.check_bits));
  for (double part : {0.25, 0.5, 0.75, 1.0}) {
    const ErrorRates rates = PredictErrors(plan.layout, part * plan.load, match);
    CHECK(rates.false_negative <= kPlanMargin * request.false_negative);
    CHECK(rates.false_positive <= kPlanMargin * request.false_positive);
  }
  CHECK(plan.predicted.false_negative <= kPlanMargin * request.false_negative);
  CHECK(plan.predicted.false_positive <= kPlanMargin * request.false_positive);
}

}  // namespace

TEST_SUITE("storage") {
  TEST_CASE("the default plan is three triple cells at 21.8 bytes per key") {
    const Plan plan = PlanOf({});
    CHECK(plan.layout == KbfLayout{});
    CHECK(plan.layout == KbfLayout{CellKind::kTriple64, 20, 8, 3, 3});
    CHECK(plan.load == doctest::Approx(1.100).epsilon(0.001));
    CHECK(plan.bytes_per_key == doctest::Approx(21.81).epsilon(0.001));
    CHECK(plan.memory_accesses == 3);
    CHECK(plan.values_max == 4095);
  }

  TEST_CASE("every plan meets its own budgets at every load up to its own") {
    for (const PlanRequest& request : {PlanRequest{}, PlanRequest{1e-2, 1e-3, 100},
                                       PlanRequest{1e-4, 1e-8, 200000}, PlanRequest{0.3, 0.3, 1}}) {
      CheckPromises(PlanOf(request), request);
      for (const Plan& plan : PlanChoices(request)) CheckPromises(plan, request);
    }
  }

  TEST_CASE("a plan's load is the largest: a little more breaks a budget") {
    const PlanRequest request;
    for (const Plan& plan : PlanChoices(request)) {
      const ErrorRates more = PredictErrors(
          plan.layout, plan.load + 1e-4, std::exp2(-static_cast<double>(plan.layout.check_bits)));
      CHECK((more.false_negative > kPlanMargin * request.false_negative ||
             more.false_positive > kPlanMargin * request.false_positive ||
             more.weak > kPlanWeakMax));
    }
  }

  TEST_CASE("choices come smallest first and the plan is nearly the smallest with few accesses") {
    const std::vector<Plan> choices = PlanChoices({});
    const Plan chosen = PlanOf({});
    REQUIRE(choices.size() > 20);
    bool partitioned = false;
    for (size_t i = 0; i < choices.size(); ++i) {
      if (i > 0) CHECK(choices[i - 1].bytes_per_key <= choices[i].bytes_per_key);
      partitioned |= IsPartitioned(choices[i].layout);
      const bool about_as_small =
          choices[i].bytes_per_key <= choices[0].bytes_per_key * (1 + kPlanBytesTolerance);
      if (about_as_small) CHECK(chosen.memory_accesses <= choices[i].memory_accesses);
    }
    CHECK(partitioned);
    CHECK(chosen.bytes_per_key <= choices[0].bytes_per_key * (1 + kPlanBytesTolerance));
  }

  TEST_CASE("tighter budgets cost more bytes") {
    // The chosen plan may be 3 % off the smallest, so the smallest are compared.
    double before = 0;
    for (double budget : {1e-2, 2e-3, 1e-4, 1e-6}) {
      CAPTURE(budget);
      const double now = PlanChoices({budget, 2e-5, 3000}).front().bytes_per_key;
      CHECK(now > before);
      before = now;
    }
    before = 0;
    for (double budget : {1e-5, 1e-7, 1e-9, 1e-12}) {
      CAPTURE(budget);
      const double now = PlanChoices({2e-2, budget, 3000}).front().bytes_per_key;
      CHECK(now > before);
      before = now;
    }
  }

  TEST_CASE("many values get a layout that holds them") {
    CHECK(PlanOf({2e-3, 2e-5, 200'000}).values_max == 262'143);  // 18 + 2 bits of a triple
    CHECK(PlanOf({2e-3, 2e-5, 200'000}).layout.kind == CellKind::kTriple64);
    const Plan huge = PlanOf({2e-3, 2e-5, 100'000'000});
    CHECK(huge.layout.kind == CellKind::kPair64);
    CHECK(huge.layout.check_bits == 3);
    CHECK(huge.values_max == 134'217'727);
    CHECK(PlanOf({2e-3, 2e-5, kPlanValuesMax}).values_max == kPlanValuesMax);
  }

  TEST_CASE("one value more than a block size holds costs a check bit") {
    CHECK(PlanOf({2e-3, 2e-5, 4095}).layout.check_bits == 8);
    for (const Plan& plan : PlanChoices({2e-3, 2e-5, 4096})) {
      CHECK(plan.values_max >= 4096);
      CHECK(plan.layout.kind != CellKind::kPair32);  // 13 + 1 bits: too few check bits
    }
  }

  TEST_CASE("few values are capped in check bits") {
    for (const Plan& plan : PlanChoices({2e-3, 2e-5, 1})) {
      CHECK(plan.layout.check_bits <= kPlanCheckBitsMax);
      CHECK(plan.layout.check_bits < plan.layout.symbol_bits);
    }
  }

  TEST_CASE("budgets outside 0 to 1 are refused by name") {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const double inf = std::numeric_limits<double>::infinity();
    for (double bad : {0.0, -0.0, -1.0, 1.0, 2.0, nan, inf, -inf}) {
      CAPTURE(bad);
      CHECK(Contains(ErrorOf({bad, 2e-5, 3000}),
                     "false-negative budget must be above 0 and below 1"));
      CHECK(Contains(ErrorOf({2e-3, bad, 3000}),
                     "false-positive budget must be above 0 and below 1"));
      CHECK(PlanChoices({bad, 2e-5, 3000}).empty());
      CHECK(PlanChoices({2e-3, bad, 3000}).empty());
    }
  }

  TEST_CASE("no values and too many values are refused with the limit") {
    CHECK(Contains(ErrorOf({2e-3, 2e-5, 0}), "at least 1 distinct value"));
    CHECK(Contains(ErrorOf({2e-3, 2e-5, 268'435'456}), "the limit is 268435455"));
    CHECK(Contains(ErrorOf({2e-3, 2e-5, ~uint64_t{0}}), "the limit is 268435455"));
    CHECK(PlanChoices({2e-3, 2e-5, 0}).empty());
  }

  TEST_CASE("budgets that nothing meets are refused with the nearest within reach") {
    const double denormal = std::numeric_limits<double>::denorm_min();
    for (double tiny : {1e-300, denormal}) {
      const std::string error = ErrorOf({tiny, tiny, 3000});
      CAPTURE(error);
      CHECK(Contains(error, "no layout meets the budgets"));
      CHECK(Contains(error, "nearest within reach are"));
      CHECK_FALSE(Contains(error, "nan"));
      CHECK_FALSE(Contains(error, "inf"));
    }
  }

  TEST_CASE("the total is keys times bytes, and absurd sizes are refused with the limit") {
    const Plan plan = PlanOf({});
    const SizeOutcome million = TotalBytes(plan, 1'000'000);
    REQUIRE(million.bytes.has_value());
    CHECK(million.error.empty());
    CHECK(*million.bytes == static_cast<uint64_t>(std::ceil(plan.bytes_per_key * 1e6)));
    CHECK(TotalBytes(plan, kPlanKeysMax).bytes.has_value());
    for (uint64_t keys : {uint64_t{0}, kPlanKeysMax + 1, ~uint64_t{0}}) {
      CAPTURE(keys);
      const SizeOutcome refused = TotalBytes(plan, keys);
      CHECK_FALSE(refused.bytes.has_value());
      CHECK(Contains(refused.error, "between 1 and 281474976710656"));
    }
    CHECK(Contains(TotalBytes(1e6, kPlanKeysMax).error, "more than 2^63 bytes"));
    CHECK_FALSE(TotalBytes(std::numeric_limits<double>::quiet_NaN(), 1).bytes.has_value());
  }

  TEST_CASE("the papers' setting for one in a thousand is ten hashes and 57.7 bytes per key") {
    const std::optional<PaperSetting> paper = PaperPlan(1e-3);
    REQUIRE(paper.has_value());
    CHECK(paper->num_hashes == 10);
    CHECK(paper->load == doctest::Approx(0.693147));
    CHECK(paper->bytes_per_key == doctest::Approx(57.7).epsilon(0.001));
    CHECK(paper->false_positive == doctest::Approx(1.0 / 1024));
    CHECK(paper->undecodable < 1e-12);
    CHECK(PlanOf({}).bytes_per_key < paper->bytes_per_key / 2);
    for (double bad : {0.0, 1.0, -1.0, std::numeric_limits<double>::quiet_NaN()}) {
      CHECK_FALSE(PaperPlan(bad).has_value());
    }
  }
}

}  // namespace kbf
