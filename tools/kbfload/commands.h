// The commands of kbfload, each from settings to an exit code.
//
// Exit codes: 0 done; 1 settings that cannot be followed, or a fill of a server that holds items of
// others (std::invalid_argument, which main prints); 2 the server refused, died, stalled or
// answered garbage: what was measured until then is printed and kept; 3 answers were wrong and
// --strict was given; 130 interrupted.
#pragma once

#include <string>
#include <vector>

#include "tools/kbfload/engine.h"
#include "tools/kbfload/workload.h"

namespace load {

enum ExitCode : int {
  kDone = 0,
  kBadSettings = 1,
  kServerFailed = 2,
  kWrongAnswers = 3,
  kInterrupted = 130  // as shells have it: 128 and the signal's number
};

struct Settings {
  std::vector<std::string> servers = {"127.0.0.1:11211"};
  protocol::Wire wire = protocol::Wire::kText;
  std::vector<unsigned> connections = {50};  // sweep takes several
  std::vector<unsigned> pipeline = {1};
  std::vector<unsigned> multiget = {1};
  LoadOptions load;
  WorkloadOptions workload;
  MixOptions mix;
  uint64_t ops = 0;  // 0: as the seconds say
  Ttl ttl;
  bool read_through = false;
  bool fill_first = false;
  bool force = false;  // fill a server that holds items of others
  double warmup_s = 0;
  unsigned rounds = 5;
  std::string keys_file;
  std::string trace_file;
  std::string crush_file;
  bool seconds_given = false;  // on the command line

  std::string json_file;
  bool quiet = false;
  bool histogram = true;
  bool strict = false;
  std::string version;
};

int Fill(const Settings& settings);
int Verify(const Settings& settings);
int Run(const Settings& settings);
int Sweep(const Settings& settings);
int Crush(const Settings& settings);
int Compare(const Settings& settings);

}  // namespace load
