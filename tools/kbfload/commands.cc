#include "tools/kbfload/commands.h"

#include <algorithm>
#include <cstdio>

#include "tools/kbfload/report.h"
#include "tools/kbfload/session.h"

namespace load {
namespace {

// What fill, verify and run say at the end: tables, the histogram, JSON.
int Report(const Session& session, const Result& result) {
  // Where nothing was asked there are no figures: the failure says everything.
  if (result.failure.empty() || result.tally.AllOps() > 0) {
    session.PrintHead(result.command, result.server, result.server_version);
    std::fprintf(session.out(), "\n");
    PrintResult(result, session.out());
  }
  if (session.settings().histogram && result.tally.AllOps() > 0) {
    std::fprintf(session.out(), "\n");
    DrawHistogram(result.tally.AllLatency(), session.out());
  }
  JsonObject json = session.NewJson();
  result.PutInto(&json);
  session.WriteJson(json);
  return session.Conclude({result});
}

Result Failed(const std::string& command, const Address& server, const std::string& failure) {
  Result result;
  result.command = command;
  result.server = server.Name();
  result.failure = failure;
  return result;
}

// The first failure of several results, or null.
void PutFailure(const std::vector<Result>& results, JsonObject* json) {
  for (const Result& result : results) {
    if (!result.failure.empty()) {
      json->Put("failure", result.failure);
      return;
    }
  }
  json->PutNull("failure");
}

Address FirstServer(const Settings& settings) { return ParseAddress(settings.servers.front()); }

}  // namespace

int Fill(const Settings& settings) {
  const Session session(settings);
  return Report(session, session.Fill(FirstServer(settings), settings.pipeline.front()));
}

int Verify(const Settings& settings) {
  const Session session(settings);
  ClientGroup clients = session.NewClientGroup(FirstServer(settings));
  const KeyCode end = StoredKey(session.workload().keys());
  clients.sources = WalkKeys(Verb::kGet, 0, 1, end);
  Result result = session.Measure("verify", clients, static_cast<double>(end));
  result.misses_are_errors = true;
  return Report(session, result);
}

int Run(const Settings& settings) {
  const Session session(settings);
  const Address server = FirstServer(settings);
  if (const std::string failure = session.Prepare({server}); !failure.empty()) {
    return Report(session, Failed("run", server, failure));
  }
  // A limit of seconds holds also where operations are counted: whichever comes first.
  Outcome outcome;
  const Result result = session.MeasureAll("run", {session.RunClientGroup(server)}, settings.load,
                                           session.RunOps(), &outcome);
  return Report(session, result);
}

// ---- sweep ----

namespace {

void PrintSweepHead(FILE* out) {
  std::fprintf(out, "%11s %8s %8s %12s %7s %8s %9s %9s %9s %8s\n", "connections", "pipeline",
               "multiget", "ops/s", "hits %", "cpu/op", "p50", "p99", "p99.9", "own cpu");
}

void PrintSweepRow(const ClientGroup& clients, const Result& result, FILE* out) {
  const Histogram latency = result.tally.AllLatency();
  const auto cpu = result.server_cpu_us_per_op();
  std::fprintf(
      out, "%11u %8u %8u %12s %7.2f %s %s %s %s %7.0f%%\n", clients.connections, clients.pipeline,
      clients.multiget, Grouped(static_cast<uint64_t>(result.ops_per_second())).c_str(),
      100 * result.hit_ratio().value_or(0), Right(cpu ? Duration(1000 * *cpu) : "-", 8).c_str(),
      Right(Duration(latency.Percentile(0.5)), 9).c_str(),
      Right(Duration(latency.Percentile(0.99)), 9).c_str(),
      Right(Duration(latency.Percentile(0.999)), 9).c_str(), 100 * result.client_cpu_share());
  std::fflush(out);
}

// Every combination, in the order of the lists.
std::vector<ClientGroup> SweepGroups(const Session& session, const Address& server) {
  const Settings& settings = session.settings();
  std::vector<ClientGroup> client_groups;
  for (const unsigned connections : settings.connections) {
    for (const unsigned pipeline : settings.pipeline) {
      for (const unsigned multiget : settings.multiget) {
        ClientGroup clients = session.NewClientGroup(server);
        clients.connections = connections;
        clients.pipeline = pipeline;
        clients.multiget = multiget;
        client_groups.push_back(session.RunClientGroup(std::move(clients)));
      }
    }
  }
  return client_groups;
}

}  // namespace

int Sweep(const Settings& settings) {
  const Session session(settings);
  const Address server = FirstServer(settings);
  std::vector<Result> results;
  std::vector<JsonObject> cells;
  // Checked here, because sweeps of a server that is down would print a table of zeros.
  if (const std::string failure = session.Prepare({server}); !failure.empty()) {
    return Report(session, Failed("sweep", server, failure));
  }
  session.PrintHead("sweep", server.Name(), "");
  std::fprintf(session.out(), "\n");
  PrintSweepHead(session.out());
  for (const ClientGroup& clients : SweepGroups(session, server)) {
    const Result result = session.Measure("sweep", clients, session.RunOps());
    PrintSweepRow(clients, result, session.out());
    JsonObject cell;
    cell.Put("connections", clients.connections).Put("pipeline", clients.pipeline);
    cell.Put("multiget", clients.multiget);
    result.PutInto(&cell);
    cells.push_back(cell);
    results.push_back(result);
    if (!result.failure.empty() || result.interrupted) break;
  }
  JsonObject json = session.NewJson();
  json.Put("command", "sweep").Put("cells", cells);
  PutFailure(results, &json);
  session.WriteJson(json);
  return session.Conclude(results);
}

// ---- compare ----

namespace {

struct Spread {
  double median = 0;
  double low = 0;
  double high = 0;
};

Spread SpreadOf(std::vector<double> numbers) {
  std::sort(numbers.begin(), numbers.end());
  const size_t half = numbers.size() / 2;
  const double median =
      numbers.size() % 2 == 1 ? numbers[half] : 0.5 * (numbers[half - 1] + numbers[half]);
  return {median, numbers.front(), numbers.back()};
}

using Rounds = std::array<std::vector<Result>, 2>;

// A figure that both servers have, and how it is taken from a result.
struct Compared {
  const char* name;
  const char* title;
  std::optional<double> (*of)(const Result&);
};
constexpr Compared kCompared[] = {
    {"ops_per_second", "ops/s",
     [](const Result& result) { return std::optional(result.ops_per_second()); }},
    {"server_cpu_us_per_op", "server CPU, us/op",
     [](const Result& result) { return result.server_cpu_us_per_op(); }},
    {"latency_us_p50", "p50, us",
     [](const Result& result) {
       return std::optional(result.tally.AllLatency().Percentile(0.5) / 1000);
     }},
    {"latency_us_p99", "p99, us",
     [](const Result& result) {
       return std::optional(result.tally.AllLatency().Percentile(0.99) / 1000);
     }},
    {"hit_ratio", "hit ratio", [](const Result& result) { return result.hit_ratio(); }},
    {"wrong", "wrong values", [](const Result& result) { return result.wrong(); }},
    {"rss_bytes_per_key", "RSS bytes/key",
     [](const Result& result) { return result.rss_bytes_per_key(); }},
    {"client_cpu_share", "kbfload's CPU share",
     [](const Result& result) { return std::optional(result.client_cpu_share()); }},
};

std::vector<double> FiguresOf(const std::vector<Result>& rounds, const Compared& compared) {
  std::vector<double> figures;
  for (const Result& result : rounds) {
    if (!result.failure.empty()) continue;
    if (const auto figure = compared.of(result)) figures.push_back(*figure);
  }
  return figures;
}

// Prints a row and gives the same as JSON: medians of A and B, and B/A round by round.
JsonObject CompareRow(const Rounds& rounds, const Compared& compared, FILE* out) {
  const std::vector<double> a = FiguresOf(rounds[0], compared);
  const std::vector<double> b = FiguresOf(rounds[1], compared);
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i] > 0) ratios.push_back(b[i] / a[i]);
  }
  JsonObject json;
  const auto put = [&json](const char* name, const std::vector<double>& figures) {
    if (figures.empty()) return std::string("-");
    const Spread spread = SpreadOf(figures);
    JsonObject inner;
    inner.Put("median", spread.median).Put("min", spread.low).Put("max", spread.high);
    json.Put(name, inner);
    return Figure(spread.median);
  };
  const std::string in_a = put("a", a);
  const std::string in_b = put("b", b);
  const std::string ratio = put("ratio", ratios);
  std::string spread = "-";
  if (!ratios.empty()) {
    const Spread all = SpreadOf(ratios);
    spread = Figure(all.low) + " .. " + Figure(all.high);
  }
  std::fprintf(out, "%-20s %14s %14s %10s   %s\n", compared.title, in_a.c_str(), in_b.c_str(),
               ratio.c_str(), spread.c_str());
  return json;
}

// A then B, then B then A: a machine that gets slower favours neither.
Rounds CompareRounds(const Session& session, const std::array<Address, 2>& servers) {
  const Settings& settings = session.settings();
  Rounds rounds;
  if (const std::string unready = session.Prepare({servers[0], servers[1]}); !unready.empty()) {
    rounds[0].push_back(Failed("compare", servers[0], unready));
    return rounds;
  }
  for (unsigned round = 0; round < settings.rounds; ++round) {
    for (unsigned turn = 0; turn < 2; ++turn) {
      const unsigned which = (round + turn) % 2;
      Outcome outcome;
      const std::string title =
          std::string("round ") + std::to_string(round + 1) + (which == 0 ? " A" : " B");
      Result result = session.MeasureAll(title, {session.RunClientGroup(servers[which])},
                                         settings.load, session.RunOps(), &outcome);
      result.command = "compare";
      rounds[which].push_back(result);
      if (!result.failure.empty() || result.interrupted) return rounds;
    }
  }
  return rounds;
}

std::vector<JsonObject> RoundsJson(const Rounds& rounds) {
  std::vector<JsonObject> list;
  for (size_t i = 0; i < std::max(rounds[0].size(), rounds[1].size()); ++i) {
    JsonObject round;
    for (size_t which = 0; which < 2; ++which) {
      if (i >= rounds[which].size()) continue;
      JsonObject json;
      rounds[which][i].PutInto(&json);
      round.Put(which == 0 ? "a" : "b", json);
    }
    list.push_back(round);
  }
  return list;
}

// Prints the table, unless the servers could not be prepared, and gives the same as JSON.
JsonObject CompareTable(const Session& session, const std::array<Address, 2>& servers,
                        const Rounds& rounds) {
  JsonObject figures;
  const bool prepared = rounds[0].empty() || rounds[0].front().failure.empty() ||
                        rounds[0].front().tally.AllOps() > 0 || !rounds[1].empty();
  if (!prepared) return figures;
  session.PrintHead("compare", "A " + servers[0].Name() + ", B " + servers[1].Name(), "");
  FILE* const out = session.out();
  std::fprintf(out, "\n%-20s %14s %14s %10s   %s\n", "median of rounds", "A", "B", "B/A",
               "B/A by round");
  for (const Compared& compared : kCompared) {
    figures.Put(compared.name, CompareRow(rounds, compared, out));
  }
  return figures;
}

}  // namespace

int Compare(const Settings& settings) {
  const Session session(settings);
  const std::array<Address, 2> servers = {ParseAddress(settings.servers.at(0)),
                                          ParseAddress(settings.servers.at(1))};
  const Rounds rounds = CompareRounds(session, servers);
  const JsonObject figures = CompareTable(session, servers, rounds);
  JsonObject json = session.NewJson();
  json.Put("command", "compare").Put("a", servers[0].Name()).Put("b", servers[1].Name());
  json.Put("compared", figures).Put("rounds", RoundsJson(rounds));
  std::vector<Result> all = rounds[0];
  all.insert(all.end(), rounds[1].begin(), rounds[1].end());
  PutFailure(all, &json);
  session.WriteJson(json);
  return session.Conclude(all);
}

}  // namespace load
