// What the programs that reproduce a figure share: one table format, so that one script can draw
// and compare all of them, a quick mode, and numbered keys.
//
// Columns, with "-" where there is nothing to say:
//   figure        which figure or table of which paper
//   series        a line of the figure, or a row of the table
//   x             the value on the figure's axis; the head of the program names it
//   theory        by the closed form
//   ours          measured on this code
//   deviation     one standard deviation of `ours`
//   paper_theory  the paper's number by its closed form
//   paper         the paper's measured number
//   bits_per_key  memory
#pragma once

#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "bench/bench.h"
#include "storage/hash.h"

namespace bench {

inline constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// --quick, or KBF_QUICK in the environment: smaller samples, the same rows. Says so in the head.
inline bool QuickRun(int argc, char** argv) {
  bool quick = std::getenv("KBF_QUICK") != nullptr;
  for (int i = 1; i < argc; ++i) quick |= std::string_view(argv[i]) == "--quick";
  if (quick) std::printf("# quick run\n");
  return quick;
}

struct FigureRow {
  std::string series;
  double x = kNone;
  double theory = kNone;
  double ours = kNone;
  double deviation = kNone;
  double paper_theory = kNone;
  double paper = kNone;
  double bits_per_key = kNone;
};

inline void PrintFigureColumns() {
  std::printf("figure\tseries\tx\ttheory\tours\tdeviation\tpaper_theory\tpaper\tbits_per_key\n");
}

inline void PrintFigureRow(std::string_view figure, const FigureRow& row) {
  std::printf("%.*s\t%s", static_cast<int>(figure.size()), figure.data(), row.series.c_str());
  for (const double value : {row.x, row.theory, row.ours, row.deviation, row.paper_theory,
                             row.paper, row.bits_per_key}) {
    if (std::isnan(value)) {
      std::printf("\t-");
    } else {
      std::printf("\t%.6g", value);
    }
  }
  std::printf("\n");
  std::fflush(stdout);
}

// Different for every pair of numbers and seeds.
inline kbf::KeyHash FigureKey(uint64_t seed, uint64_t number) {
  return {kbf::Mix64(number + seed), kbf::Mix64(~number * 0x9e3779b97f4a7c15u + seed)};
}

// Of a rate that was measured with so many independent questions.
inline double RateDeviation(double rate, double asked) {
  return std::sqrt(rate * (1 - rate) / asked);
}

// Mean and the deviation of the mean of numbers that are added one by one.
class Running {
 public:
  void Add(double value) {
    ++count_;
    sum_ += value;
    squares_ += value * value;
  }
  double mean() const { return sum_ / count_; }
  double deviation() const {
    if (count_ < 2) return kNone;
    const double variance = squares_ / count_ - mean() * mean();
    return std::sqrt(std::max(0.0, variance) / (count_ - 1));
  }

 private:
  double count_ = 0;
  double sum_ = 0;
  double squares_ = 0;
};

// CPU time of this thread: machines are shared.
inline double CpuSecondsOf(auto&& work) {
  const auto now = [] {
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double start = now();
  work();
  return now() - start;
}

// Like MeasureSeconds, but CPU time.
inline Spread MeasureCpuSeconds(int repeats, auto&& work) {
  work();
  std::vector<double> seconds;
  for (int i = 0; i < repeats; ++i) seconds.push_back(CpuSecondsOf(work));
  std::sort(seconds.begin(), seconds.end());
  return {seconds[seconds.size() / 2], seconds.front(), seconds.back()};
}

}  // namespace bench
