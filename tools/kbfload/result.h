// Result is what one measured piece of work came to: the counts, and what follows from them and
// from the server's statistics before and after. Figures that cannot be known are absent.
//
// An operation is a key asked about or changed: a get of 100 keys is 100 operations and one
// request. Rates of errors: false_negative and wrong are shares of the stored keys asked for,
// false_positive of the absent keys.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tools/kbfload/engine.h"
#include "tools/kbfload/json.h"
#include "tools/kbfload/server.h"

namespace load {

struct Result {
  std::string command;
  std::string server;
  std::string server_version;
  Tally tally;
  double seconds = 0;
  unsigned threads = 1;
  double client_cpu_seconds = 0;
  double late_s = 0;
  bool misses_are_errors = false;  // all keys are known to be stored (verify)
  std::optional<double> server_cpu_seconds;
  std::optional<uint64_t> items;
  std::optional<uint64_t> evictions;  // during the work
  std::optional<uint64_t> rss_bytes;
  std::optional<double> rss_growth_bytes;
  std::string failure;
  bool interrupted = false;

  double ops_per_second() const;
  double client_cpu_share() const;  // of the threads' time: at 1 this program is the bottleneck
  std::optional<double> server_cpu_us_per_op() const;
  // By the keys that verify found; elsewhere by the items that the server says it has.
  std::optional<double> rss_bytes_per_key() const;
  std::optional<double> false_negative() const;
  std::optional<double> false_positive() const;
  std::optional<double> wrong() const;
  std::optional<double> hit_ratio() const;

  // All of it under the names of docs/kbfload.md.
  void PutInto(JsonObject* json) const;
};

struct ServerAround {
  std::optional<ServerState> before;
  std::optional<ServerState> after;
};
Result MakeResult(const std::string& command, const Outcome& outcome, const ServerAround& server);

}  // namespace load
