// What people read: tables, a drawn histogram, and the line that moves while the work goes on.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "tools/kbfload/engine.h"
#include "tools/kbfload/result.h"

namespace load {

std::string Grouped(uint64_t number);  // 1,234,567
std::string Duration(double ns);       // 312 µs
std::string Bytes(double bytes);       // 331 MB
std::string Percent(double share);     // 97.61 %
std::string Figure(double number);     // three digits or more, whatever the size
// Right-aligned by what is seen: a µ is two bytes and one column.
std::string Right(const std::string& text, size_t width);

// The counts, the latencies, the errors and the costs of one piece of work.
void PrintResult(const Result& result, FILE* out);
// The first two of these only.
void PrintCounts(const Result& result, FILE* out);
// Latencies in steps of 1, 2, 5.
void DrawHistogram(const Histogram& latency, FILE* out);

// On a terminal one line that is written again and again; elsewhere a line now and then. Nothing
// when quiet. It writes to stderr, so results can be piped.
class Progress {
 public:
  // `whole` is what 100 % is: operations where by_ops, else seconds; 0 where nobody knows.
  Progress(std::string title, double whole, bool by_ops, bool quiet);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Show(const Snapshot& snapshot);
  Observer AsObserver() {
    return [this](const Snapshot& snapshot) { Show(snapshot); };
  }

 private:
  std::string Line(const Snapshot& snapshot) const;

  const std::string title_;
  const double whole_;
  const bool by_ops_;
  const bool quiet_;
  const bool terminal_;
  double shown_at_s_ = 0;
  double last_s_ = 0;
  uint64_t last_ops_ = 0;
  double rate_ = 0;
};

}  // namespace load
