#include "tools/kbfload/report.h"

#include <langinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace load {
namespace {

constexpr double kPlainLineEvery_s = 5;
constexpr int kBarWidth = 40;

// Whether the locale can show more than ASCII; main calls setlocale.
bool Utf8() {
  static const bool utf8 = std::strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
  return utf8;
}

std::string Format(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

void PrintLatencyRow(const std::string& name, uint64_t ops, double seconds,
                     const Histogram& latency, FILE* out) {
  const double rate = seconds > 0 ? static_cast<double>(ops) / seconds : 0;
  std::string line = name;
  line.resize(8, ' ');
  line += Right(Grouped(ops), 14) + Right(Grouped(static_cast<uint64_t>(rate)), 13);
  for (const double share : {0.5, 0.9, 0.99, 0.999}) {
    line += Right(Duration(latency.Percentile(share)), 10);
  }
  line += Right(Duration(static_cast<double>(latency.max_ns())), 10);
  std::fprintf(out, "%s\n", line.c_str());
}

void PrintLatencies(const Result& result, FILE* out) {
  std::fprintf(out, "%-8s%14s%13s%10s%10s%10s%10s%10s\n", "", "ops", "ops/s", "p50", "p90", "p99",
               "p99.9", "max");
  const Tally& tally = result.tally;
  unsigned kinds = 0;
  for (size_t i = 0; i < kVerbs; ++i) {
    if (tally.ops[i] == 0) continue;
    ++kinds;
    PrintLatencyRow(std::string(kVerbNames[i]), tally.ops[i], result.seconds, tally.latency[i],
                    out);
  }
  if (kinds != 1) {
    PrintLatencyRow("all", tally.AllOps(), result.seconds, tally.AllLatency(), out);
  }
}

void PrintAnswers(const Result& result, FILE* out) {
  const Tally& tally = result.tally;
  const auto rate = [](const std::optional<double>& share) {
    return share ? Format(" (%.3g)", *share) : std::string();
  };
  if (tally.StoredGets() > 0) {
    std::fprintf(
        out, "gets     hits %s (%s), misses %s%s, wrong values %s%s\n", Grouped(tally.hits).c_str(),
        Percent(*result.hit_ratio()).c_str(), Grouped(tally.misses).c_str(),
        result.misses_are_errors ? (" = false negatives" + rate(result.false_negative())).c_str()
                                 : "",
        Grouped(tally.wrong).c_str(), rate(result.wrong()).c_str());
  }
  if (tally.absent_asked > 0) {
    std::fprintf(out, "         absent keys asked for %s, false positives %s%s\n",
                 Grouped(tally.absent_asked).c_str(), Grouped(tally.false_positives).c_str(),
                 rate(result.false_positive()).c_str());
  }
  if (tally.not_stored + tally.not_found > 0) {
    std::fprintf(out, "changes  not stored %s, not found %s\n", Grouped(tally.not_stored).c_str(),
                 Grouped(tally.not_found).c_str());
  }
  std::fprintf(out, "errors   ERROR %s, CLIENT_ERROR %s, SERVER_ERROR %s",
               Grouped(tally.errors).c_str(), Grouped(tally.client_errors).c_str(),
               Grouped(tally.server_errors).c_str());
  if (!tally.last_error.empty()) std::fprintf(out, "; the last: %s", tally.last_error.c_str());
  std::fprintf(out, "\n");
}

void PrintCosts(const Result& result, FILE* out) {
  const char* const us = Utf8() ? "µs" : "us";
  std::string line = "cpu      ";
  if (const auto cost = result.server_cpu_us_per_op()) {
    line += "server " + Figure(*cost) + " " + us + "/op";
    if (result.seconds > 0) {
      line += Format(" (%.2f cores)", *result.server_cpu_seconds / result.seconds);
    }
    line += ", ";
  }
  line += "kbfload " + Percent(result.client_cpu_share()) + " of " +
          std::to_string(result.threads) + (result.threads == 1 ? " thread" : " threads");
  std::fprintf(out, "%s\n", line.c_str());
  if (!result.items) return;
  line = "server   " + Grouped(*result.items) + " items";
  if (result.evictions) line += ", " + Grouped(*result.evictions) + " evicted meanwhile";
  if (result.rss_bytes) line += ", " + Bytes(static_cast<double>(*result.rss_bytes)) + " resident";
  if (const auto each = result.rss_bytes_per_key()) line += ", " + Figure(*each) + " bytes/key";
  std::fprintf(out, "%s\n", line.c_str());
}

}  // namespace

std::string Grouped(uint64_t number) {
  std::string text = std::to_string(number);
  for (size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, 1, ',');
  return text;
}

std::string Right(const std::string& text, size_t width) {
  size_t columns = 0;
  for (const char c : text) columns += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  return std::string(columns < width ? width - columns : 0, ' ') + text;
}

std::string Figure(double number) {
  const double size = std::abs(number);
  if (size >= 1000) return Grouped(static_cast<uint64_t>(std::llround(number)));
  if (size > 0 && size < 0.01) return Format("%.2e", number);
  return Format(size >= 100 ? "%.0f" : size >= 10 ? "%.1f" : "%.2f", number);
}

std::string Duration(double ns) {
  if (ns >= 1e9) return Figure(ns / 1e9) + " s";
  if (ns >= 1e6) return Figure(ns / 1e6) + " ms";
  return Figure(ns / 1e3) + (Utf8() ? " µs" : " us");
}

std::string Bytes(double bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  size_t unit = 0;
  for (; bytes >= 1000 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1000;
  return Figure(bytes) + " " + kUnits[unit];
}

std::string Percent(double share) { return Format("%.2f %%", 100 * share); }

void PrintCounts(const Result& result, FILE* out) {
  PrintLatencies(result, out);
  PrintAnswers(result, out);
}

void PrintResult(const Result& result, FILE* out) {
  PrintCounts(result, out);
  PrintCosts(result, out);
  if (result.late_s > 0.1) {
    std::fprintf(out,
                 "late     the server ended %.1f s behind the schedule: the rate is too high\n",
                 result.late_s);
  }
}

void DrawHistogram(const Histogram& latency, FILE* out) {
  if (latency.count() == 0) return;
  struct Step {
    double from_ns, to_ns;
    uint64_t count;
  };
  std::vector<Step> steps;
  uint64_t most = 0;
  const auto longest = static_cast<double>(latency.max_ns());
  double from = 0;
  for (int i = 3 * 3; from <= longest; ++i) {  // from 1 microsecond on
    const double to = std::pow(10, i / 3) * (i % 3 == 0 ? 1 : i % 3 == 1 ? 2 : 5);
    const uint64_t count =
        latency.CountBetween(static_cast<uint64_t>(from), static_cast<uint64_t>(to));
    if (count > 0 || !steps.empty()) steps.push_back({from, to, count});
    most = std::max(most, count);
    from = to;
  }
  const std::string full = Utf8() ? "█" : "#";
  uint64_t sum = 0;
  for (const Step& step : steps) {
    sum += step.count;
    std::string bar;
    // Whatever is there is seen.
    const int length =
        step.count == 0 ? 0
                        : 1 + static_cast<int>((kBarWidth - 1) * static_cast<double>(step.count) /
                                               static_cast<double>(most));
    for (int i = 0; i < length; ++i) bar += full;
    const double all = static_cast<double>(latency.count());
    std::fprintf(out, "%s - %s  %s%s%s\n", Right(Duration(step.from_ns), 8).c_str(),
                 Right(Duration(step.to_ns), 8).c_str(),
                 Right(Percent(static_cast<double>(step.count) / all), 9).c_str(),
                 Right(Percent(static_cast<double>(sum) / all), 10).c_str(),
                 bar.empty() ? "" : ("  " + bar).c_str());
  }
}

// ---- progress ----

Progress::Progress(std::string title, double whole, bool by_ops, bool quiet)
    : title_(std::move(title)),
      whole_(whole),
      by_ops_(by_ops),
      quiet_(quiet),
      terminal_(isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() {
  if (terminal_ && !quiet_) std::fputs("\r\x1b[K", stderr);
}

std::string Progress::Line(const Snapshot& snapshot) const {
  const uint64_t ops = snapshot.tally.AllOps();
  const double done = by_ops_ ? static_cast<double>(ops) : snapshot.seconds;
  std::string line = title_;
  if (whole_ > 0) line += Format("  %3.0f %%", std::min(100.0, 100 * done / whole_));
  line += "  " + Grouped(ops) + " ops  " + Grouped(static_cast<uint64_t>(rate_)) + " ops/s  p99 " +
          Duration(snapshot.tally.AllLatency().Percentile(0.99));
  const uint64_t bad = snapshot.tally.wrong + snapshot.tally.AllErrors();
  if (bad > 0) line += "  " + Grouped(bad) + " bad answers";
  // The mean rate so far: the last one jumps about.
  const double speed = by_ops_ ? done / snapshot.seconds : 1;
  if (whole_ > 0 && speed > 0) {
    line += Format("  ETA %.0f s", std::max(0.0, (whole_ - done) / speed));
  }
  return line;
}

void Progress::Show(const Snapshot& snapshot) {
  if (quiet_) return;
  const uint64_t ops = snapshot.tally.AllOps();
  if (snapshot.seconds > last_s_) {
    rate_ = static_cast<double>(ops - last_ops_) / (snapshot.seconds - last_s_);
  }
  if (terminal_) {
    std::fprintf(stderr, "\r%s\x1b[K", Line(snapshot).c_str());
  } else {
    if (snapshot.seconds - shown_at_s_ < kPlainLineEvery_s) return;
    shown_at_s_ = snapshot.seconds;
    std::fprintf(stderr, "%s\n", Line(snapshot).c_str());
  }
  last_s_ = snapshot.seconds;
  last_ops_ = ops;
}

}  // namespace load
