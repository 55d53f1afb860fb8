#include "tools/kbfload/session.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "tools/kbfload/marker.h"
#include "tools/kbfload/report.h"
#include "tools/kbfload/trace.h"

namespace load {
namespace {

const char* WireName(protocol::Wire wire) {
  switch (wire) {
    case protocol::Wire::kBinary:
      return "binary";
    case protocol::Wire::kMeta:
      return "meta";
    default:
      return "text";
  }
}

std::string Joined(const std::vector<unsigned>& numbers) {
  std::string text;
  for (const unsigned number : numbers) text += (text.empty() ? "" : ",") + std::to_string(number);
  return text;
}

// A run's warm-up must not ask for the very keys that are then measured.
constexpr uint64_t kWarmupPass = uint64_t{1} << 32;

}  // namespace

Session::Session(const Settings& settings)
    : settings_(settings), out_(settings.json_file == "-" ? stderr : stdout) {
  WorkloadOptions options = settings.workload;
  if (!settings.trace_file.empty()) {
    Trace trace = ReadTrace(settings.trace_file, options.value_bytes_max);
    options.names = std::move(trace.keys);
    trace_ = std::move(trace.tasks);
  } else if (!settings.keys_file.empty()) {
    options.names = ReadKeys(settings.keys_file);
  }
  workload_ = std::make_unique<Workload>(std::move(options));
}

// ---- client groups ----

ClientGroup Session::NewClientGroup(const Address& server) const {
  ClientGroup clients;
  clients.server = server;
  clients.wire = settings_.wire;
  clients.connections = settings_.connections.front();
  clients.pipeline = settings_.pipeline.front();
  clients.multiget = settings_.multiget.front();
  clients.ttl = settings_.ttl;
  clients.workload = workload_.get();
  return clients;
}

ClientGroup Session::RunClientGroup(ClientGroup clients) const {
  clients.read_through = settings_.read_through;
  if (trace_ != nullptr) {
    clients.any_size = true;
    clients.sources = ReplayTrace(trace_);
    return clients;
  }
  MixOptions mix = settings_.mix;
  if (settings_.ops > 0) mix.ops = settings_.ops;
  clients.sources = DrawKeys(*workload_, mix, clients.connections);
  return clients;
}

ClientGroup Session::WarmupGroup(const Address& server) const {
  ClientGroup clients = RunClientGroup(server);
  MixOptions mix = settings_.mix;
  mix.pass += kWarmupPass;
  clients.sources = DrawKeys(*workload_, mix, clients.connections);
  return clients;
}

double Session::RunOps() const {
  return static_cast<double>(trace_ != nullptr ? trace_->size() : settings_.ops);
}

// ---- measuring ----

Result Session::MeasureAll(const std::string& command,
                           const std::vector<ClientGroup>& client_groups, const LoadOptions& load,
                           double whole_ops, Outcome* outcome) const {
  const ClientGroup& first = client_groups.front();
  ServerAround around;
  try {
    around.before = AskServer(first.server, first.wire, load.timeout_s);
    Progress progress(command, whole_ops > 0 ? whole_ops : load.seconds, whole_ops > 0,
                      settings_.quiet);
    *outcome = RunLoad(client_groups, load, progress.AsObserver());
    if (outcome->failure.empty()) {
      around.after = AskServer(first.server, first.wire, load.timeout_s);
    }
  } catch (const ServerError& error) {
    if (outcome->failure.empty()) outcome->failure = error.what();
  }
  Result result = MakeResult(command, *outcome, around);
  result.server = first.server.Name();
  return result;
}

Result Session::Measure(const std::string& command, const ClientGroup& clients,
                        double whole_ops) const {
  LoadOptions load = settings_.load;
  if (whole_ops > 0) load.seconds = 0;
  Outcome outcome;
  return MeasureAll(command, {clients}, load, whole_ops, &outcome);
}

void Session::RefuseForeignItems(const Address& server) const {
  if (settings_.force) return;
  const std::string reason = ReasonNotToFill(server, settings_.wire, settings_.load.timeout_s);
  if (!reason.empty()) throw std::invalid_argument(reason);
}

Result Session::Fill(const Address& server, unsigned pipeline) const {
  ClientGroup clients = NewClientGroup(server);
  clients.pipeline = pipeline;
  clients.sources = WalkKeys(Verb::kSet, 0, 2, StoredKey(workload_->keys()));
  LoadOptions load = settings_.load;
  load.seconds = load.rate = 0;
  Result result;
  result.command = "fill";
  result.server = server.Name();
  try {
    RefuseForeignItems(server);
    // Before the keys, so that a fill that was cut short can be repeated; and behind them, so that
    // the marker is not the first item to be evicted.
    StoreMarker(server, settings_.wire, load.timeout_s);
    Outcome outcome;
    result = MeasureAll("fill", {clients}, load, static_cast<double>(workload_->keys()), &outcome);
    if (result.failure.empty()) StoreMarker(server, settings_.wire, load.timeout_s);
  } catch (const ServerError& error) {
    result.failure = error.what();
  }
  return result;
}

std::string Session::WarmUp(const Address& server) const {
  LoadOptions load = settings_.load;
  load.seconds = settings_.warmup_s;
  Outcome outcome;
  return MeasureAll("warm up", {WarmupGroup(server)}, load, 0, &outcome).failure;
}

std::string Session::Prepare(const std::vector<Address>& servers) const {
  // However the work itself is to be asked for, filling should not take long.
  const unsigned pipeline = std::max(settings_.pipeline.front(), 20u);
  try {
    for (const Address& server : servers) {
      // A second server that is down is noticed before the first is loaded.
      AskServer(server, settings_.wire, settings_.load.timeout_s);
      if (settings_.fill_first) RefuseForeignItems(server);
    }
  } catch (const ServerError& error) {
    return error.what();
  }
  for (const Address& server : servers) {
    std::string failure = settings_.fill_first ? Fill(server, pipeline).failure : "";
    const bool warm = settings_.warmup_s > 0 && trace_ == nullptr;
    if (failure.empty() && warm) failure = WarmUp(server);
    if (!failure.empty()) return failure;
  }
  return "";
}

// ---- reporting ----

void Session::PrintHead(const std::string& command, const std::string& server,
                        const std::string& version) const {
  const WorkloadOptions& work = workload_->options();
  std::fprintf(out_, "%s %s%s%s%s: %s, connections %s, threads %u, pipeline %s, multiget %s, %s\n",
               command.c_str(), server.c_str(), version.empty() ? "" : " (", version.c_str(),
               version.empty() ? "" : ")", WireName(settings_.wire),
               Joined(settings_.connections).c_str(), settings_.load.threads,
               Joined(settings_.pipeline).c_str(), Joined(settings_.multiget).c_str(),
               settings_.load.rate > 0
                   ? (Grouped(static_cast<uint64_t>(settings_.load.rate)) + " requests/s").c_str()
                   : "closed loop");
  std::fprintf(out_, "%s keys of size %s, %s values of size %s, seed %llu\n",
               Grouped(work.keys).c_str(), work.names ? "as listed" : work.key_size.c_str(),
               work.values == 0 ? "different" : Grouped(work.values).c_str(),
               work.value_size.c_str(), static_cast<unsigned long long>(work.seed));
  if (command == "fill" || command == "verify") return;
  const auto& share = settings_.mix.mix.share;
  if (trace_ != nullptr) {
    std::fprintf(out_, "the %s requests of %s\n", Grouped(trace_->size()).c_str(),
                 settings_.trace_file.c_str());
  } else {
    std::fprintf(out_, "get:set:delete %g:%g:%g%s, keys drawn %s\n", share[0], share[1], share[2],
                 settings_.read_through ? ", read-through" : "",
                 settings_.mix.zipf > 0
                     ? ("by Zipf " + std::to_string(settings_.mix.zipf).substr(0, 4)).c_str()
                     : "uniformly");
  }
}

JsonObject Session::NewJson() const {
  const WorkloadOptions& work = workload_->options();
  JsonObject workload;
  workload.Put("seed", work.seed).Put("keys", work.keys).Put("key_size", work.key_size);
  workload.Put("values", work.values).Put("value_size", work.value_size);
  workload.Put("value_zipf", work.value_zipf).Put("generation", work.generation);
  workload.Put("zipf", settings_.mix.zipf).Put("absent_asked", settings_.mix.absent_asked);
  workload.Put("scan", settings_.mix.scan).Put("moves_every", settings_.mix.moves_every);
  const auto& share = settings_.mix.mix.share;
  JsonObject mix;
  mix.Put("get", share[0]).Put("set", share[1]).Put("delete", share[2]);
  workload.Put("mix", mix).Put("read_through", settings_.read_through);
  JsonObject load;
  load.Put("protocol", WireName(settings_.wire)).Put("threads", settings_.load.threads);
  load.Put("connections", Joined(settings_.connections));
  load.Put("pipeline", Joined(settings_.pipeline)).Put("multiget", Joined(settings_.multiget));
  load.Put("rate", settings_.load.rate);
  JsonObject json;
  json.Put("kbfload", settings_.version).Put("workload", workload).Put("load", load);
  return json;
}

void Session::WriteJson(const JsonObject& json) const {
  const std::string& path = settings_.json_file;
  if (path.empty()) return;
  FILE* const file = path == "-" ? stdout : std::fopen(path.c_str(), "w");
  const auto refuse = [&path] {
    throw std::invalid_argument("cannot write " + path + ": " + std::strerror(errno));
  };
  if (file == nullptr) refuse();
  const bool written = std::fprintf(file, "%s\n", json.Text().c_str()) > 0 &&
                       (file == stdout ? std::fflush(file) : std::fclose(file)) == 0;
  if (!written) refuse();
}

int Session::Conclude(const std::vector<Result>& results) const {
  int code = kDone;
  for (const Result& result : results) {
    if (!result.failure.empty()) {
      std::fprintf(stderr, "kbfload: %s\n", result.failure.c_str());
      return kServerFailed;
    }
    if (result.interrupted) return kInterrupted;
    const Tally& tally = result.tally;
    const uint64_t misses = result.misses_are_errors ? tally.misses : 0;
    if (settings_.strict && misses + tally.wrong + tally.false_positives + tally.AllErrors() > 0) {
      code = kWrongAnswers;
    }
  }
  if (code == kWrongAnswers) std::fprintf(stderr, "kbfload: there were wrong answers (--strict)\n");
  return code;
}

}  // namespace load
