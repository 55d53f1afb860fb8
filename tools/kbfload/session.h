// Session is what the commands share: it reads the settings' files, makes client groups, measures a
// piece of work with the server's statistics before and after, and writes the results out.
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

  // A client group as the settings have it, with the first of each list, and no sources yet.
  ClientGroup NewClientGroup(const Address& server) const;
  // The mix, or the trace.
  ClientGroup RunClientGroup(const Address& server) const {
    return RunClientGroup(NewClientGroup(server));
  }
  // The same with the connections, pipeline and multiget of this client group.
  ClientGroup RunClientGroup(ClientGroup clients) const;
  // The same with other keys, for warming up.
  ClientGroup WarmupGroup(const Address& server) const;

  // Never throws: a server that fails leaves its trace in Result::failure. `whole_ops` tells the
  // progress line what 100 % is; 0: the seconds do.
  Result Measure(const std::string& command, const ClientGroup& clients, double whole_ops) const;
  Result MeasureAll(const std::string& command, const std::vector<ClientGroup>& client_groups,
                    const LoadOptions& load, double whole_ops, Outcome* outcome) const;
  // Stores all keys, once, and the marker (marker.h); requests are sent `pipeline` at once. Throws
  // std::invalid_argument where the server holds items that kbfload did not store.
  Result Fill(const Address& server, unsigned pipeline) const;
  // What goes before the work where the settings ask for it: a fill and a warm-up of each server.
  // No server is filled when one of them holds items of others, or does not answer. Empty, or what
  // failed.
  std::string Prepare(const std::vector<Address>& servers) const;

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
  void RefuseForeignItems(const Address& server) const;
  std::string WarmUp(const Address& server) const;

  const Settings& settings_;
  std::shared_ptr<const std::vector<Task>> trace_;
  std::unique_ptr<Workload> workload_;
  FILE* out_;
};

}  // namespace load
