// Session is what the commands share: it reads the settings' files, makes crews, measures a piece
// of work with the server's statistics before and after, and writes the results out.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/kbfload/commands.h"
#include "tools/kbfload/result.h"

namespace load {

class Session {
 public:
  // Reads --keys-file and --trace. Throws std::invalid_argument. `settings` outlives it.
  explicit Session(const Settings& settings);

  const Settings& settings() const { return settings_; }
  const Workload& workload() const { return *workload_; }
  FILE* out() const { return out_; }

  // A crew as the settings have it, with the first of each list, and no sources yet.
  Crew NewCrew(const Address& server) const;
  Crew FillCrew(const Address& server) const;
  // The mix, or the trace.
  Crew RunCrew(const Address& server) const;
  // The same with other keys, for warming up.
  Crew WarmupCrew(const Address& server) const;

  // Never throws: a server that fails leaves its trace in Result::failure. `whole_ops` tells the
  // progress line what 100 % is; 0: the seconds do.
  Result Measure(const std::string& command, const Crew& crew, double whole_ops) const;
  Result MeasureAll(const std::string& command, const std::vector<Crew>& crews,
                    const LoadOptions& load, double whole_ops, Outcome* outcome) const;
  // All keys, once; then a warm-up where the settings ask for one. Empty, or what failed.
  Result FillFirst(const Address& server) const;
  std::string Prepare(const Address& server) const;

  // How many operations the run has, where that is known; 0 where seconds end it.
  double RunOps() const;

  // The server and the shape of the load, the keys, and the mix where there is one.
  void PrintHead(const std::string& command, const std::string& server,
                 const std::string& version) const;
  // Starts a JSON report with the program's version and the settings.
  JsonObject NewJson() const;
  // Writes it where --json says; throws std::invalid_argument where that cannot be written.
  void WriteJson(const JsonObject& json) const;
  // One line for what went wrong, and the exit code.
  int Conclude(const std::vector<Result>& results) const;

 private:
  const Settings& settings_;
  std::shared_ptr<const std::vector<Task>> trace_;
  std::unique_ptr<Workload> workload_;
  FILE* out_;
};

}  // namespace load
