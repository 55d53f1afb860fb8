// kbfctl: looks at a cluster of kbfcached servers and moves its slabs. It talks to etcd, and for
// loads to the servers themselves.
//
// Exit codes: 0 done; 1 it cannot be done, or the command line is wrong (one line on stderr).

#include <event2/event.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "config.h"
#include "storage/balance/balance.h"
#include "tools/cluster/etcd_client.h"
#include "tools/cluster/records.h"
#include "tools/wrong_call.h"

namespace {

using cluster::EtcdReply;
using cluster::KeyValue;
using cluster::MapRecord;

constexpr unsigned kCallMs = 3000;
constexpr unsigned kReplyBytesMax = 4 << 20;
constexpr std::chrono::milliseconds kLookAgain(200);

// What cannot be done; main prints it.
struct Failure {
  std::string text;
};

struct Arguments {
  std::string etcd = "127.0.0.1:2379";
  std::string cluster = "kbf";
  bool json = false;
  unsigned slab = 0;
  std::string node;
  std::string rule = "swap-or-move";
  std::string by = "keys";
  unsigned exchanges = 10;
  unsigned timeout_s = 60;
  bool dry_run = false;
};

struct Slab {
  uint64_t epoch = 0;
  MapRecord record;
};

struct State {
  std::map<std::string, cluster::NodeRecord> nodes;
  std::map<unsigned, Slab> slabs;
  std::string leader;  // id
  std::vector<std::string> drained;
  bool exists = false;
};

class Cluster {
 public:
  explicit Cluster(const Arguments& arguments)
      : keys_(arguments.cluster),
        base_(event_base_new(), event_base_free),
        endpoints_(
            cluster::ParseEndpoints(arguments.etcd).value_or(std::vector<cluster::Endpoint>())) {
    if (endpoints_.empty()) throw Failure{"--etcd needs HOST:PORT[,HOST:PORT...]"};
    client_ = std::make_unique<cluster::EtcdClient>(base_.get(), endpoints_);
  }

  const cluster::Keys& keys() const { return keys_; }

  EtcdReply Call(std::string_view path, const std::string& body) {
    EtcdReply last;
    for (size_t i = 0; i < endpoints_.size(); ++i) {
      std::optional<EtcdReply> got;
      client_->Call(path, body, kCallMs, [&](const EtcdReply& reply) {
        got = reply;
        event_base_loopbreak(base_.get());
      });
      while (!got) event_base_loop(base_.get(), EVLOOP_ONCE);
      if (got->ok()) return *got;
      last = *got;
    }
    throw Failure{"etcd does not answer: " + last.error};
  }

  State Read() {
    const EtcdReply reply =
        Call("/kv/range", cluster::RangeBody(keys_.root(), cluster::PrefixEnd(keys_.root())));
    State state;
    for (const KeyValue& each : cluster::KeyValuesOf(reply.body)) {
      if (each.key == keys_.config()) state.exists = true;
      if (each.key == keys_.leader()) state.leader = each.value.substr(0, each.value.find(' '));
      if (each.key.starts_with(keys_.nodes())) {
        if (const auto node = cluster::ParseNode(each.value))
          state.nodes[each.key.substr(keys_.nodes().size())] = *node;
      }
      if (each.key.starts_with(keys_.drains()))
        state.drained.push_back(each.key.substr(keys_.drains().size()));
      if (each.key.starts_with(keys_.map())) {
        const auto record = cluster::ParseMap(each.value);
        const auto slab =
            static_cast<unsigned>(std::strtoul(each.key.c_str() + keys_.map().size(), nullptr, 10));
        if (record) state.slabs[slab] = {each.mod_revision, *record};
      }
    }
    if (!state.exists) throw Failure{"there is no cluster of this name in etcd: see --cluster"};
    return state;
  }

  // Asks the owner to move the slab. False: it has changed meanwhile.
  bool Move(unsigned slab, const Slab& from, const std::string& to, const State& state) {
    MapRecord record = from.record;
    record.target = {to, state.nodes.at(to).incarnation};
    cluster::Txn txn;
    txn.IfModRevision(keys_.slab(slab), from.epoch)
        .Put(keys_.slab(slab), cluster::FormatMap(record));
    return Call("/kv/txn", txn.body()).body["succeeded"].True();
  }

 private:
  cluster::Keys keys_;
  std::unique_ptr<event_base, void (*)(event_base*)> base_;
  std::vector<cluster::Endpoint> endpoints_;
  std::unique_ptr<cluster::EtcdClient> client_;
};

bool IsDrained(const State& state, const std::string& id) {
  return std::ranges::find(state.drained, id) != state.drained.end();
}

void RequireNode(const State& state, const std::string& id) {
  if (!state.nodes.contains(id))
    throw Failure{"there is no node " + id + " that runs: see kbfctl nodes"};
}

// ---- what is shown ------------------------------------------------------------------------------

void ShowNodes(const State& state, bool json) {
  struct Counts {
    unsigned owned = 0, leaving = 0, coming = 0;
  };
  std::map<std::string, Counts> counts;
  for (const auto& [id, node] : state.nodes) counts[id];
  for (const auto& [number, slab] : state.slabs) {
    ++counts[slab.record.owner.id].owned;
    if (slab.record.target.empty()) continue;
    ++counts[slab.record.owner.id].leaving;
    ++counts[slab.record.target.id].coming;
  }
  if (json) std::fputs("[", stdout);
  if (!json)
    std::printf("%-24s %-8s %6s %8s %7s  %s\n", "node", "state", "slabs", "leaving", "coming",
                "role");
  const char* separator = "";
  for (const auto& [id, count] : counts) {
    const char* what = !state.nodes.contains(id) ? "dead" : IsDrained(state, id) ? "drained" : "up";
    const bool leads = id == state.leader;
    if (json) {
      std::printf(
          "%s{\"node\":%s,\"state\":\"%s\",\"slabs\":%u,\"leaving\":%u,\"coming\":%u,\"leader\":%"
          "s}",
          separator, cluster::Quote(id).c_str(), what, count.owned, count.leaving, count.coming,
          leads ? "true" : "false");
      separator = ",\n ";
    } else {
      std::printf("%-24s %-8s %6u %8u %7u  %s\n", id.c_str(), what, count.owned, count.leaving,
                  count.coming, leads ? "leader" : "");
    }
  }
  if (json) std::puts("]");
}

void ShowSlabs(const State& state, bool json) {
  if (json) std::fputs("[", stdout);
  if (!json)
    std::printf("%5s  %-24s %-24s %10s %6s\n", "slab", "owner", "moves to", "epoch", "term");
  const char* separator = "";
  for (const auto& [number, slab] : state.slabs) {
    const MapRecord& record = slab.record;
    if (json) {
      std::printf("%s{\"slab\":%u,\"owner\":%s,\"target\":%s,\"epoch\":%llu,\"term\":%llu}",
                  separator, number, cluster::Quote(record.owner.id).c_str(),
                  record.target.empty() ? "null" : cluster::Quote(record.target.id).c_str(),
                  static_cast<unsigned long long>(slab.epoch),
                  static_cast<unsigned long long>(record.term));
      separator = ",\n ";
    } else {
      std::printf("%5u  %-24s %-24s %10llu %6llu\n", number, record.owner.id.c_str(),
                  record.target.empty() ? "-" : record.target.id.c_str(),
                  static_cast<unsigned long long>(slab.epoch),
                  static_cast<unsigned long long>(record.term));
    }
  }
  if (json) std::puts("]");
}

// ---- moving -------------------------------------------------------------------------------------

template <class Condition>
State WaitUntil(Cluster& cluster, unsigned timeout_s, const std::string& what,
                Condition condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(timeout_s);
  for (;;) {
    State state = cluster.Read();
    if (condition(state)) return state;
    if (std::chrono::steady_clock::now() >= end)
      throw Failure{what + " after " + std::to_string(timeout_s) + " s; it goes on"};
    std::this_thread::sleep_for(kLookAgain);
  }
}

void MoveSlab(Cluster& cluster, unsigned number, const std::string& to, unsigned timeout_s) {
  const State state = cluster.Read();
  RequireNode(state, to);
  const auto at = state.slabs.find(number);
  if (at == state.slabs.end())
    throw Failure{"there is no slab " + std::to_string(number) + ": see kbfctl slabs"};
  const std::string from = at->second.record.owner.id;
  if (from == to) {
    std::printf("slab %u is at %s already\n", number, to.c_str());
    return;
  }
  if (!at->second.record.target.empty())
    throw Failure{"slab " + std::to_string(number) + " is moving already: see kbfctl slabs"};
  if (!cluster.Move(number, at->second, to, state))
    throw Failure{"slab " + std::to_string(number) + " has changed meanwhile: try again"};
  const State after =
      WaitUntil(cluster, timeout_s, "slab " + std::to_string(number) + " has not arrived",
                [&](const State& now) { return now.slabs.at(number).record.target.empty(); });
  if (after.slabs.at(number).record.owner.id != to)
    throw Failure{"slab " + std::to_string(number) + " stays at " + from +
                  ": the move failed, see the log of that node"};
  std::printf("slab %u: %s -> %s\n", number, from.c_str(), to.c_str());
}

void Drain(Cluster& cluster, const Arguments& arguments) {
  const State before = cluster.Read();
  RequireNode(before, arguments.node);
  unsigned others = 0;
  for (const auto& [id, node] : before.nodes)
    others += id != arguments.node && !IsDrained(before, id);
  if (others == 0)
    throw Failure{"there is no other node that could take the slabs of " + arguments.node};
  cluster.Call("/kv/put", cluster::PutBody(cluster.keys().drain(arguments.node), "1"));
  WaitUntil(cluster, arguments.timeout_s, arguments.node + " still has slabs",
            [&](const State& now) {
              return std::ranges::none_of(now.slabs, [&](const auto& each) {
                return each.second.record.owner.id == arguments.node;
              });
            });
  std::printf("%s has no slabs any more; kbfctl undrain %s lets it have some again\n",
              arguments.node.c_str(), arguments.node.c_str());
}

// The statistics of one server. Throws Failure.
std::map<std::string, uint64_t> SlabLoads(const std::string& id) {
  const auto endpoint = cluster::ParseEndpoints(id);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (!endpoint || getaddrinfo((*endpoint)[0].host.c_str(),
                               std::to_string((*endpoint)[0].port).c_str(), &hints, &found) != 0) {
    throw Failure{"cannot find " + id};
  }
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool connected = fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) == 0;
  freeaddrinfo(found);
  std::string text;
  if (connected) {
    constexpr std::string_view kRequest = "stats cluster slabs\r\n";
    const timeval limit = {5, 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    char bytes[4096];
    ssize_t count = send(fd, kRequest.data(), kRequest.size(), MSG_NOSIGNAL);
    while (count > 0 && !text.ends_with("END\r\n") && text.size() < kReplyBytesMax) {
      count = recv(fd, bytes, sizeof(bytes), 0);
      if (count > 0) text.append(bytes, static_cast<size_t>(count));
    }
  }
  if (fd >= 0) close(fd);
  if (!text.ends_with("END\r\n"))
    throw Failure{"node " + id + " does not say how loaded its slabs are"};
  std::map<std::string, uint64_t> loads;
  for (size_t at = text.find("STAT "); at != std::string::npos; at = text.find("STAT ", at + 1)) {
    const size_t space = text.find(' ', at + 5);
    if (space == std::string::npos) break;
    loads[text.substr(at + 5, space - at - 5)] = std::strtoull(text.c_str() + space, nullptr, 10);
  }
  return loads;
}

void Rebalance(Cluster& cluster, const Arguments& arguments) {
  const State state = cluster.Read();
  std::vector<std::string> ids;
  for (const auto& [id, node] : state.nodes) {
    if (!IsDrained(state, id)) ids.push_back(id);
  }
  if (ids.empty()) throw Failure{"no node can take slabs"};
  std::map<std::string, uint64_t> figures;
  for (const std::string& id : ids) figures.merge(SlabLoads(id));
  std::vector<double> loads;
  std::vector<uint32_t> servers;
  std::vector<unsigned> numbers;
  for (const auto& [number, slab] : state.slabs) {
    const auto at = std::ranges::find(ids, slab.record.owner.id);
    if (at == ids.end() || !slab.record.target.empty()) continue;
    numbers.push_back(number);
    servers.push_back(static_cast<uint32_t>(at - ids.begin()));
    loads.push_back(static_cast<double>(
        figures[std::to_string(number) + (arguments.by == "keys" ? ":keys" : ":requests")]));
  }
  kbf::BalanceConfig config;
  config.rule =
      arguments.rule == "printed" ? kbf::BalanceRule::kPrinted : kbf::BalanceRule::kSwapOrMove;
  config.exchanges_max = arguments.exchanges;
  const kbf::BalanceResult result =
      kbf::Balance(loads, servers, static_cast<uint32_t>(ids.size()), config);
  std::printf("imbalance by %s: %.4f now, %.4f after", arguments.by.c_str(),
              result.imbalance_before, result.imbalance_after);
  unsigned moves = 0;
  for (size_t i = 0; i < numbers.size(); ++i) moves += result.server_of[i] != servers[i];
  std::printf(" %u moves\n", moves);
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (result.server_of[i] == servers[i]) continue;
    if (arguments.dry_run) {
      std::printf("slab %u: %s -> %s\n", numbers[i], ids[servers[i]].c_str(),
                  ids[result.server_of[i]].c_str());
    } else {
      MoveSlab(cluster, numbers[i], ids[result.server_of[i]], arguments.timeout_s);
    }
  }
}

[[noreturn]] void Watch(Cluster& cluster, bool json) {
  for (;;) {
    if (!json) std::fputs("\033[H\033[J", stdout);
    ShowNodes(cluster.Read(), json);
    std::fflush(stdout);
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
}

void AddOptions(CLI::App& app, Arguments* arguments) {
  app.add_option("--etcd", arguments->etcd, "host:port of the members of etcd")
      ->capture_default_str();
  app.add_option("--cluster", arguments->cluster, "its name")->capture_default_str();
  app.add_flag("--json", arguments->json, "JSON instead of tables (nodes, slabs, watch)");
  app.add_option("--timeout", arguments->timeout_s, "seconds to wait for a move or a drain")
      ->check(tools::Whole(1, 86400))
      ->capture_default_str();
  app.set_version_flag("-V,--version", "kbfctl " PACKAGE_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
  app.add_subcommand("nodes", "the servers, and how many slabs each has");
  app.add_subcommand("slabs", "the slabs, and where each is and goes");
  app.add_subcommand("watch", "nodes, again every second");
  CLI::App* const move = app.add_subcommand("move", "move a slab to a node");
  move->add_option("SLAB", arguments->slab)
      ->required()
      ->check(tools::Whole(0, cluster::kSlabsMax - 1));
  move->add_option("NODE", arguments->node, "host:port, as nodes prints it")->required();
  for (const auto& [name, help] : {std::pair("drain", "move all slabs of a node to others"),
                                   std::pair("undrain", "a drained node may have slabs again")}) {
    app.add_subcommand(name, help)
        ->add_option("NODE", arguments->node, "host:port, as nodes prints it")
        ->required();
  }
  CLI::App* const balance = app.add_subcommand("balance", "move slabs until the nodes are alike");
  balance
      ->add_option("--rule", arguments->rule, "swap-or-move, or printed: the paper's Algorithm 8")
      ->check(CLI::IsMember({"swap-or-move", "printed"}))
      ->capture_default_str();
  balance->add_option("--by", arguments->by, "what counts: keys, or requests so far")
      ->check(CLI::IsMember({"keys", "requests"}))
      ->capture_default_str();
  balance->add_option("--exchanges", arguments->exchanges, "at most")
      ->check(tools::Whole(1, 10000))
      ->capture_default_str();
  balance->add_flag("--dry-run", arguments->dry_run, "only say what would be moved");
}

void Run(const CLI::App& app, const Arguments& arguments) {
  Cluster cluster(arguments);
  if (app.got_subcommand("nodes")) ShowNodes(cluster.Read(), arguments.json);
  if (app.got_subcommand("slabs")) ShowSlabs(cluster.Read(), arguments.json);
  if (app.got_subcommand("watch")) Watch(cluster, arguments.json);
  if (app.got_subcommand("move"))
    MoveSlab(cluster, arguments.slab, arguments.node, arguments.timeout_s);
  if (app.got_subcommand("drain")) Drain(cluster, arguments);
  if (app.got_subcommand("undrain")) {
    const EtcdReply reply =
        cluster.Call("/kv/deleterange", cluster::DeleteBody(cluster.keys().drain(arguments.node)));
    if (reply.body["deleted"].Number() == 0) throw Failure{arguments.node + " was not drained"};
  }
  if (app.got_subcommand("balance")) Rebalance(cluster, arguments);
}

}  // namespace

int main(int argc, char** argv) try {
  CLI::App app("Looks at a cluster of kbfcached servers and moves its slabs.", "kbfctl");
  Arguments arguments;
  AddOptions(app, &arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return tools::ExplainCall(app, error);
  }
  Run(app, arguments);
  return 0;
} catch (const Failure& failure) {
  std::fprintf(stderr, "kbfctl: %s\n", failure.text.c_str());
  return 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "kbfctl: %s\n", error.what());
  return 1;
}
