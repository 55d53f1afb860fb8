#include "src/cluster/node.h"

#include <event2/event.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "src/cluster/agent.h"
#include "src/log.h"
#include "src/process/startup_error.h"
#include "tools/cluster/etcd_client.h"
#include "tools/cluster/handshake.h"

namespace server {
namespace {

using cluster::EtcdReply;

constexpr unsigned kCallMs = 2000;
constexpr unsigned kJoinMs = 10'000;
constexpr unsigned kWaitingMs = 3'600'000;  // of one attempt with --wait-for-etcd

std::string ReadSecret(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  std::string secret = bytes.str();
  while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) secret.pop_back();
  if (!file) throw StartupError("cannot read the secret of the cluster in " + path);
  if (secret.size() < cluster::kSecretBytesMin) {
    throw StartupError("the secret in " + path + " is too short: it needs " +
                       std::to_string(cluster::kSecretBytesMin) + " bytes or more");
  }
  return secret;
}

// What every node must have alike, in words.
std::string AgreedOptions(const Options& options) {
  return "item_size_max=" + std::to_string(options.store.item_bytes_max) +
         " cas=" + (options.store.keep_cas ? "yes" : "no") + " format=1";
}

// The first word that differs, from both.
std::string Difference(const std::string& ours, const std::string& theirs) {
  std::istringstream a(ours);
  std::istringstream b(theirs);
  std::string ours_word;
  std::string theirs_word;
  while (a >> ours_word && b >> theirs_word) {
    if (ours_word != theirs_word) return "it has " + theirs_word + ", this node " + ours_word;
  }
  return "it has \"" + theirs + "\", this node \"" + ours + "\"";
}

// Etcd calls, one after the other, before there is a thread for them.
class Conversation {
 public:
  explicit Conversation(const std::string& etcd)
      : base_(event_base_new(), event_base_free),
        client_(base_.get(), *cluster::ParseEndpoints(etcd)) {}

  EtcdReply Call(std::string_view path, const std::string& body) {
    std::optional<EtcdReply> got;
    client_.Call(path, body, kCallMs, [&](const EtcdReply& reply) {
      got = reply;
      event_base_loopbreak(base_.get());
    });
    while (!got) event_base_loop(base_.get(), EVLOOP_ONCE);
    return *got;
  }
  void Pause(unsigned ms) {
    const timeval pause = {ms / 1000, static_cast<suseconds_t>(ms % 1000) * 1000};
    event_base_loopexit(base_.get(), &pause);
    event_base_dispatch(base_.get());
  }

 private:
  std::unique_ptr<event_base, void (*)(event_base*)> base_;
  cluster::EtcdClient client_;
};

// What there is, after an attempt to be the first.
std::string ReadOrMakeConfig(const Options& options, const cluster::ClusterConfig& mine) {
  const cluster::Keys keys(options.cluster.name);
  Conversation etcd(options.cluster.etcd);
  const uint64_t end = BootTimeMs() + (options.cluster.wait_for_etcd ? kWaitingMs : kJoinMs);
  std::string error;
  bool said = false;
  while (BootTimeMs() < end) {
    cluster::Txn create;
    create.IfCreateRevision(keys.config(), 0).Put(keys.config(), cluster::FormatConfig(mine));
    EtcdReply reply = etcd.Call("/kv/txn", create.body());
    if (reply.ok()) reply = etcd.Call("/kv/range", cluster::RangeBody(keys.config()));
    const auto found = cluster::KeyValuesOf(reply.body);
    if (reply.ok() && found.size() == 1) return found[0].value;
    error = reply.error;
    if (options.cluster.wait_for_etcd && !std::exchange(said, true)) {
      Log(kLogAlways, "waiting for etcd at %s: %s", options.cluster.etcd.c_str(), error.c_str());
    }
    etcd.Pause(200);
  }
  throw StartupError("etcd at " + options.cluster.etcd + " is out of reach (" + error +
                     "): start it, or give --wait-for-etcd");
}

void Add(std::string* lines, std::string_view name, const std::string& value) {
  lines->append(name).append(" ").append(value).append("\n");
}
void Add(std::string* lines, std::string_view name, uint64_t value) {
  Add(lines, name, std::to_string(value));
}

}  // namespace

Node::Node(const Options& options) : options_(options) {}

Node::~Node() = default;

std::unique_ptr<Node> Node::Join(const Options& options) {
  std::unique_ptr<Node> node(new Node(options));
  const ClusterOptions& asked = options.cluster;
  node->secret_ = ReadSecret(asked.secret_file);
  cluster::ClusterConfig mine;
  mine.slabs = asked.slabs;
  mine.hash_secret = kbf::HashSecret::Random().bytes();
  mine.agreed = AgreedOptions(options);
  mine.secret_check = cluster::SecretCheck(node->secret_, asked.name);
  const auto config = cluster::ParseConfig(ReadOrMakeConfig(options, mine));
  if (!config) {
    throw StartupError("the configuration of the cluster \"" + asked.name +
                       "\" in etcd cannot be read: another version has written it");
  }
  if (config->secret_check != mine.secret_check) {
    throw StartupError("the secret in " + asked.secret_file + " is not that of the cluster \"" +
                       asked.name + "\"");
  }
  if (config->agreed != mine.agreed) {
    throw StartupError("this node does not fit the cluster \"" + asked.name +
                       "\": " + Difference(mine.agreed, config->agreed));
  }
  node->config_ = *config;
  node->ownership_ = std::make_unique<Ownership>(config->slabs);
  auto routes = std::make_shared<Routes>();
  routes->owner.assign(config->slabs, Routes::kNobody);
  node->routes_ = std::move(routes);
  return node;
}

void Node::SetStore(kbf::Store* store, const Clock* clock) {
  store_ = store;
  clock_ = clock;
  // Never a number that another life of this node has given out.
  store->RaiseCas(CasOfNow());
  agent_ = std::make_unique<Agent>(
      AgentContext{options_.cluster, secret_, *store, *clock, *ownership_,
                   [this](std::shared_ptr<const Routes> routes) {
                     {
                       const std::lock_guard lock(routes_mutex_);
                       routes_ = std::move(routes);
                     }
                     routes_version_.store(routes_->version, std::memory_order_release);
                   }});
}

void Node::Start() {
  agent_->Register();
  agent_->Run();
}

void Node::Stop() { agent_->Stop(); }

std::shared_ptr<const Routes> Node::routes() const {
  const std::lock_guard lock(routes_mutex_);
  return routes_;
}

std::shared_ptr<FlushTicket> Node::RequestFlush(int64_t at_unix) {
  return agent_->RequestFlush(at_unix);
}
bool Node::BeginCopy(unsigned slab, uint64_t epoch, uint64_t latest_cas) {
  return agent_->BeginCopy(slab, epoch, latest_cas);
}
bool Node::AddItems(unsigned slab, uint64_t epoch, std::string_view items) {
  return agent_->AddItems(slab, epoch, items);
}
bool Node::ClearCopy(unsigned slab, uint64_t epoch) { return agent_->ClearCopy(slab, epoch); }
bool Node::EndCopy(unsigned slab, uint64_t epoch) { return agent_->EndCopy(slab, epoch); }
void Node::LoseCopy(unsigned slab, uint64_t epoch) { agent_->LoseCopy(slab, epoch); }

// ---- what operators read ------------------------------------------------------------------------

std::string Node::StatsLines() const {
  const Agent::Figures figures = agent_->figures();
  std::string lines;
  Add(&lines, "cluster", options_.cluster.name);
  Add(&lines, "node", options_.cluster.node);
  Add(&lines, "etcd", figures.etcd);
  Add(&lines, "leader", figures.leads ? "yes" : "no");
  Add(&lines, "right_to_serve", ownership_->RightLasts() ? "yes" : "no");
  Add(&lines, "nodes", figures.nodes);
  Add(&lines, "slabs", ownership_->slabs());
  Add(&lines, "slabs_owned", figures.slabs_owned);
  Add(&lines, "slabs_moving", figures.slabs_moving);
  Add(&lines, "moves_out", figures.moves_out);
  Add(&lines, "moves_in", figures.moves_in);
  Add(&lines, "moves_failed", figures.moves_failed);
  Add(&lines, "takeovers", figures.takeovers);
  Add(&lines, "items_sent", figures.items_sent);
  Add(&lines, "items_received", figures.items_received);
  Add(&lines, "flushes", figures.flushes);
  Add(&lines, "etcd_reads", figures.polls);
  Add(&lines, "etcd_reads_failed", figures.polls_failed);
  return lines;
}

// Of each slab that this node owns: keys and requests so far.
std::string Node::SlabLines() const {
  std::string lines;
  for (unsigned slab = 0; slab < ownership_->slabs(); ++slab) {
    if (ownership_->gate(slab) == Ownership::Gate::kForeign) continue;
    const kbf::SlabUsage usage = store_->UsageOf(slab);
    Add(&lines, std::to_string(slab) + ":keys", usage.front_items + usage.chain_keys);
    Add(&lines, std::to_string(slab) + ":requests", ownership_->requests(slab));
  }
  return lines;
}

// As clients of Amazon's ElastiCache expect it: a version, then "host|address|port" of each node.
std::string Node::ClientAddresses() const {
  const std::shared_ptr<const Routes> routes = this->routes();
  std::string text = std::to_string(routes->version) + "\n";
  for (const Routes::Peer& peer : routes->peers) {
    const size_t colon = peer.id.rfind(':');
    const std::string host = peer.id.substr(0, colon);
    if (&peer != &routes->peers.front()) text += " ";
    text += host + "|" + host + "|" + peer.id.substr(colon + 1);
  }
  return text + "\n";
}

}  // namespace server
