// Verifier runs an exact monitor beside an approximate one and counts where they differ.
//
// Requires:  See with what the approximate monitor said of the same packet; Raised with each report
//            of it; Rotate and Finish when it does.
// Costs:     56 bytes for each flow, and as much for each report that only one of the two has made.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "tools/kbfflow/monitor.h"

namespace flow {

// Of the packets: what the approximate monitor knew of their flows. [kBF-conf] §VI names these
// kinds of errors.
struct LookUpErrors {
  uint64_t absent = 0;          // packets whose flow had no state
  uint64_t false_positive = 0;  // of those: it knew one, or said that it could not tell
  uint64_t stored = 0;          // packets whose flow had one
  uint64_t unknown = 0;         // of those: it knew none, or could not tell
  uint64_t wrong = 0;           // of those: it knew another one
};

class Verifier {
 public:
  explicit Verifier(const MonitorSettings& settings);

  void See(const KeyedPacket& keyed, const kbf::FlowAnswer& answer);
  void Raised(const Report& report) { Count(report, 1); }
  void Rotate() { exact_.Rotate(); }
  void Finish() { exact_.Finish(); }

  const LookUpErrors& errors() const { return errors_; }
  const Monitor& exact() const { return exact_; }
  // After Finish: reports that only the exact, or only the approximate monitor made.
  uint64_t missed() const { return Sum(-1); }
  uint64_t false_alarms() const { return Sum(1); }

 private:
  void Count(const Report& report, int step);
  uint64_t Sum(int sign) const;

  Monitor exact_;
  LookUpErrors errors_;
  // By flow and kind of alarm: how many more the approximate monitor has made. No zeros.
  std::unordered_map<uint64_t, int64_t> balance_;
};

}  // namespace flow
