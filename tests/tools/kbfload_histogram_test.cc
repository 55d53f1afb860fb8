#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "storage/hash.h"
#include "tools/kbfload/distribution.h"
#include "tools/kbfload/histogram.h"

namespace load {
namespace {

constexpr uint64_t kSeed = 20261118;

// The smallest that `share` of all do not exceed.
double Exact(const std::vector<uint64_t>& sorted, double share) {
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return static_cast<double>(sorted[std::max<size_t>(rank, 1) - 1]);
}

TEST_SUITE("tools") {
  TEST_CASE("kbfload: percentiles are within 1 % of the exact ones, from nanoseconds to minutes") {
    // Log-normal around 100 us, exponential of 1 ms, Pareto with a heavy tail.
    const auto log_normal = [](double u, double v) {
      return 1e5 * std::exp(1.5 * std::sqrt(-2 * std::log(1 - u)) * std::cos(6.2831853 * v));
    };
    const auto exponential = [](double u, double) { return -1e6 * std::log(1 - u); };
    const auto pareto = [](double u, double) { return 50 * std::pow(1 - u, -1.2); };
    for (int kind = 0; kind < 3; ++kind) {
      CAPTURE(kind);
      Histogram histogram;
      std::vector<uint64_t> all;
      double sum = 0;
      for (uint64_t i = 0; i < 300000; ++i) {
        const double u = Unit(kbf::Mix64(kSeed + 2 * i));
        const double v = Unit(kbf::Mix64(kSeed + 2 * i + 1));
        const double ns = kind == 0   ? log_normal(u, v)
                          : kind == 1 ? exponential(u, v)
                                      : pareto(u, v);
        all.push_back(static_cast<uint64_t>(std::min(ns, 1e12)));
        histogram.Add(all.back());
        sum += static_cast<double>(all.back());
      }
      std::sort(all.begin(), all.end());
      for (const double share : {0.0, 0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0}) {
        CAPTURE(share);
        const double exact = Exact(all, share);
        CHECK(std::abs(histogram.Percentile(share) - exact) <= 0.01 * exact);
      }
      CHECK(histogram.count() == all.size());
      CHECK(histogram.min_ns() == all.front());
      CHECK(histogram.max_ns() == all.back());
      CHECK(histogram.mean_ns() == doctest::Approx(sum / static_cast<double>(all.size())));
    }
  }

  TEST_CASE("kbfload: every single duration is kept to half a percent, small ones exactly") {
    for (uint64_t ns = 0; ns < 256; ++ns) {
      Histogram histogram;
      histogram.Add(ns);
      CHECK(histogram.Percentile(0.5) == static_cast<double>(ns));
    }
    // One among many others, so that min and max do not help.
    for (double ns = 300; ns < 1e12; ns *= 1.37) {
      Histogram histogram;
      histogram.Add(0);
      histogram.Add(static_cast<uint64_t>(ns));
      histogram.Add(Histogram::kLimitNs);
      CHECK(std::abs(histogram.Percentile(0.5) - ns) <= 0.005 * ns);
    }
  }

  TEST_CASE("kbfload: merged histograms are the histogram of both") {
    Histogram one, other, both;
    for (uint64_t i = 0; i < 10000; ++i) {
      const uint64_t ns = kbf::Mix64(i) % 1000000;
      (i % 3 == 0 ? one : other).Add(ns);
      both.Add(ns);
    }
    one.Merge(other);
    one.Merge(Histogram());
    CHECK(one.count() == both.count());
    CHECK(one.min_ns() == both.min_ns());
    CHECK(one.max_ns() == both.max_ns());
    for (const double share : {0.01, 0.5, 0.99}) {
      CHECK(one.Percentile(share) == both.Percentile(share));
    }
  }

  TEST_CASE("kbfload: an empty histogram and endless durations do no harm") {
    Histogram histogram;
    CHECK(histogram.Percentile(0.99) == 0);
    CHECK(histogram.min_ns() == 0);
    CHECK(histogram.max_ns() == 0);
    CHECK(histogram.mean_ns() == 0);
    histogram.Add(UINT64_MAX);
    CHECK(histogram.count() == 1);
    CHECK(histogram.max_ns() == UINT64_MAX);
    CHECK(histogram.CountBetween(0, Histogram::kLimitNs) == 1);
  }

  TEST_CASE("kbfload: counts between bounds add up to all") {
    Histogram histogram;
    for (uint64_t i = 0; i < 1000; ++i) histogram.Add(i * 1000);
    uint64_t sum = 0;
    for (uint64_t from = 0; from < 2000000; from += 100000) {
      sum += histogram.CountBetween(from, from + 100000);
    }
    CHECK(sum == 1000);
  }
}

}  // namespace
}  // namespace load
