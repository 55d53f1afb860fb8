#include "src/cluster/agent.h"

#include <netdb.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "src/log.h"
#include "src/process/startup_error.h"
#include "src/process/thread.h"
#include "tools/cluster/handshake.h"

namespace server {
namespace {

using cluster::EtcdReply;
using cluster::KeyValue;
using cluster::KeyValuesOf;
using cluster::MapRecord;
using cluster::SlabActions;
using cluster::SlabRecord;
using cluster::SlabRole;

constexpr timeval kTickInterval = {0, 20'000};
constexpr uint64_t kPollMs = 1000;
constexpr uint64_t kPollAgainMs = 200;  // after one that failed
constexpr uint64_t kKeepAliveMs = 1000;
constexpr unsigned kCallMs = 1500;
constexpr unsigned kLeaseSeconds = 3;
constexpr unsigned kRegisterMs = 20'000;
// No two owners of a slab may give out one CAS number: a new owner goes this far ahead.
constexpr uint64_t kCasStep = uint64_t{1} << 32;

std::string Hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    char digits[4];
    std::snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned char>(byte));
    text += digits;
  }
  return text;
}

// The address of a node's inner port. Names are looked up, which may take a while.
void FindAddress(const std::string& inner, Routes::Peer* peer) {
  const auto endpoint = cluster::ParseEndpoints(inner);
  if (!endpoint || endpoint->size() != 1) return;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo((*endpoint)[0].host.c_str(), std::to_string((*endpoint)[0].port).c_str(), &hints,
                  &found) != 0) {
    return;
  }
  std::memcpy(&peer->address, found->ai_addr, found->ai_addrlen);
  peer->address_bytes = found->ai_addrlen;
  freeaddrinfo(found);
}

}  // namespace

Agent::Agent(const AgentContext& context)
    : context_(context),
      keys_(context.options.name),
      me_{context.options.node, Hex(cluster::RandomNonce().substr(0, 8))},
      base_(event_base_new(), event_base_free),
      map_(context.ownership.slabs()) {
  if (base_ == nullptr) throw StartupError("cannot make an event loop");
  etcd_ = std::make_unique<cluster::EtcdClient>(base_.get(),
                                                *cluster::ParseEndpoints(context.options.etcd));
  wake_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  wake_ = event_new(base_.get(), wake_fd_, EV_READ | EV_PERSIST, OnWake, this);
  tick_ = event_new(base_.get(), -1, EV_PERSIST, OnTick, this);
  if (wake_fd_ < 0 || wake_ == nullptr || tick_ == nullptr || event_add(wake_, nullptr) != 0) {
    throw StartupError("cannot watch events");
  }
  const ServerNumber me = NumberOf(me_);
  roles_.assign(map_.size(), SlabRole(me));
}

Agent::~Agent() {
  Stop();
  senders_.clear();
  finished_senders_.clear();
  etcd_.reset();
  event_free(wake_);
  event_free(tick_);
  close(wake_fd_);
}

// ---- the thread ---------------------------------------------------------------------------------

template <class Condition>
bool Agent::RunLoopUntil(Condition condition, unsigned timeout_ms) {
  const uint64_t end = BootTimeMs() + timeout_ms;
  while (!condition() && BootTimeMs() < end) {
    const timeval pause = {0, 10'000};
    event_base_loopexit(base_.get(), &pause);
    event_base_dispatch(base_.get());
  }
  return condition();
}

void Agent::Register() {
  // A former life of this node may hold the key until its lease ends.
  bool done = false;
  bool taken = false;
  const uint64_t end = BootTimeMs() + kRegisterMs;
  while (!done && BootTimeMs() < end) {
    bool over = false;
    GrantLease([&](bool granted) {
      if (!granted) {
        over = true;
        return;
      }
      const cluster::NodeRecord record{
          me_.incarnation,
          context_.options.inner_host + ":" + std::to_string(context_.options.inner_port)};
      cluster::Txn txn;
      txn.IfCreateRevision(keys_.node(me_.id), 0)
          .Put(keys_.node(me_.id), cluster::FormatNode(record), lease_);
      etcd_->Call("/kv/txn", txn.body(), kCallMs, [&](const EtcdReply& reply) {
        done = reply.ok() && reply.body["succeeded"].True();
        taken = reply.ok() && !done;
        over = true;
      });
    });
    RunLoopUntil([&] { return over; }, 4 * kCallMs);
    if (!done) RunLoopUntil([] { return false; }, 300);
  }
  if (done) return;
  throw StartupError(taken ? "another server of the cluster runs as " + me_.id +
                                 ": stop it, or give --node another address"
                           : "etcd at " + context_.options.etcd + " is out of reach");
}

void Agent::Run() {
  thread_ = StartThread([this] {
    event_add(tick_, &kTickInterval);
    event_base_dispatch(base_.get());
  });
}

void Agent::Stop() {
  if (!thread_.joinable()) return;
  // The key goes with the lease, so the others need not wait for its end.
  Post([this] {
    event_del(tick_);
    for (unsigned slab = 0; slab < context_.ownership.slabs(); ++slab) {
      context_.ownership.Close(slab, Ownership::Gate::kForeign);
    }
    etcd_->Call("/lease/revoke", "{\"ID\":\"" + std::to_string(lease_) + "\"}", kCallMs,
                [this](const EtcdReply&) { event_base_loopbreak(base_.get()); });
  });
  thread_.join();
}

void Agent::Post(std::function<void()> job) {
  {
    const std::lock_guard lock(jobs_mutex_);
    jobs_.push_back(std::move(job));
  }
  const uint64_t one = 1;
  (void)!write(wake_fd_, &one, sizeof(one));
}

void Agent::OnWake(evutil_socket_t fd, short, void* agent) noexcept try {
  auto* const self = static_cast<Agent*>(agent);
  uint64_t count;
  (void)!read(fd, &count, sizeof(count));
  std::vector<std::function<void()>> jobs;
  {
    const std::lock_guard lock(self->jobs_mutex_);
    jobs.swap(self->jobs_);
  }
  for (const auto& job : jobs) job();
} catch (const std::bad_alloc&) {
  Log(kLogAlways, "cluster: no memory");
}

void Agent::OnTick(evutil_socket_t, short, void* agent) noexcept try {
  static_cast<Agent*>(agent)->Tick();
} catch (const std::bad_alloc&) {
  Log(kLogAlways, "cluster: no memory");
}

void Agent::Tick() {
  const uint64_t now_ms = BootTimeMs();
  if (now_ms >= next_poll_ms_) Poll();
  if (now_ms >= next_keep_alive_ms_) KeepAlive();
  finished_senders_.clear();
  std::erase_if(flushes_, [&](const PendingFlush& flush) {
    if (now_ms < flush.done_ms) return false;
    flush.ticket->state.store(FlushTicket::State::kDone, std::memory_order_release);
    return true;
  });
  {
    const std::lock_guard lock(mutex_);
    for (unsigned slab = 0; slab < roles_.size(); ++slab) Act(slab, roles_[slab].OnTime(now_ms));
  }
  // A sender may end in its step.
  std::vector<unsigned> sending;
  for (const auto& [slab, sender] : senders_) sending.push_back(slab);
  for (const unsigned slab : sending) {
    if (const auto at = senders_.find(slab); at != senders_.end()) at->second->Step();
  }
}

// ---- leases -------------------------------------------------------------------------------------

void Agent::GrantLease(std::function<void(bool)> done) {
  const std::string body = "{\"TTL\":\"" + std::to_string(kLeaseSeconds) + "\"}";
  etcd_->Call("/lease/grant", body, kCallMs, [this, done](const EtcdReply& reply) {
    if (reply.ok()) lease_ = reply.body["ID"].Number();
    done(reply.ok() && lease_ != 0);
  });
}

// The lease was lost: the node goes on as the same life.
void Agent::PutNode(std::function<void(bool)> done) {
  const cluster::NodeRecord record{
      me_.incarnation,
      context_.options.inner_host + ":" + std::to_string(context_.options.inner_port)};
  cluster::Txn txn;
  txn.IfCreateRevision(keys_.node(me_.id), 0)
      .Put(keys_.node(me_.id), cluster::FormatNode(record), lease_);
  etcd_->Call("/kv/txn", txn.body(), kCallMs, [done](const EtcdReply& reply) { done(reply.ok()); });
}

void Agent::KeepAlive() {
  next_keep_alive_ms_ = BootTimeMs() + kKeepAliveMs;
  etcd_->Call("/lease/keepalive", "{\"ID\":\"" + std::to_string(lease_) + "\"}", kCallMs,
              [](const EtcdReply&) {});
}

// ---- reading etcd -------------------------------------------------------------------------------

void Agent::Poll() {
  if (polling_) {
    poll_again_ = true;
    return;
  }
  polling_ = true;
  const uint64_t sent_ms = BootTimeMs();
  next_poll_ms_ = sent_ms + kPollMs;
  cluster::Txn txn;
  txn.Range(keys_.nodes(), cluster::PrefixEnd(keys_.nodes()))
      .Range(keys_.map(), cluster::PrefixEnd(keys_.map()), map_revision_ + 1)
      .Range(keys_.leader())
      .Range(keys_.flush())
      .Range(keys_.drains(), cluster::PrefixEnd(keys_.drains()));
  etcd_->Call("/kv/txn", txn.body(), kCallMs,
              [this, sent_ms](const EtcdReply& reply) { OnPoll(sent_ms, reply); });
}

void Agent::OnPoll(uint64_t sent_ms, const EtcdReply& reply) {
  polling_ = false;
  const auto& responses = reply.body["responses"].items();
  if (!reply.ok() || responses.size() != 5) {
    next_poll_ms_ = BootTimeMs() + kPollAgainMs;
    const std::lock_guard lock(mutex_);
    ++figures_.polls_failed;
    return;
  }
  std::vector<std::vector<KeyValue>> ranges;
  for (const cluster::Json& response : responses) {
    ranges.push_back(KeyValuesOf(response["response_range"]));
  }
  const uint64_t revision = reply.revision();
  {
    const std::lock_guard lock(mutex_);
    ++figures_.polls;
    figures_.etcd = etcd_->endpoint();
    ReadFlush(ranges[3]);
    ReadNodes(ranges[0]);
    ReadMap(ranges[1]);
    map_revision_ = std::max(map_revision_, revision);
  }
  // After the gates were closed that this read closes.
  context_.ownership.ExtendRight(SlabRole::RightEnds(sent_ms));
  read_once_ = true;
  PublishRoutes();
  Lead(ranges[2], ranges[4]);
  if (!watching_) StartWatch();
  if (std::exchange(poll_again_, false)) Poll();
}

void Agent::StartWatch() {
  watching_ = true;
  etcd_->Watch(
      keys_.root(), map_revision_, [this] { Poll(); },
      [this](const std::string& error) {
        // The next read starts another one.
        watching_ = false;
        Log(kLogErrors, "cluster: the watch of etcd has ended: %s", error.c_str());
      });
}

void Agent::ReadNodes(const std::vector<KeyValue>& nodes) {
  std::map<std::string, cluster::NodeRecord> found;
  for (const KeyValue& each : nodes) {
    const std::optional<cluster::NodeRecord> node = cluster::ParseNode(each.value);
    if (node) found[each.key.substr(keys_.nodes().size())] = *node;
  }
  const bool changed =
      found.size() != nodes_.size() || !std::ranges::equal(found, nodes_, [](auto& a, auto& b) {
        return a.first == b.first && a.second.incarnation == b.second.incarnation;
      });
  if (changed) nodes_changed_ms_ = BootTimeMs();
  nodes_ = std::move(found);
  figures_.nodes = static_cast<unsigned>(nodes_.size());
  const auto own = nodes_.find(me_.id);
  if (own != nodes_.end() && own->second.incarnation == me_.incarnation) return;
  if (registering_ || own != nodes_.end()) return;
  registering_ = true;
  Log(kLogAlways, "cluster: the lease of this node was lost; registering again");
  GrantLease([this](bool granted) {
    if (!granted) {
      registering_ = false;
      return;
    }
    PutNode([this](bool) {
      registering_ = false;
      Poll();
    });
  });
}

void Agent::ReadMap(const std::vector<KeyValue>& map) {
  for (const KeyValue& each : map) {
    const unsigned slab =
        static_cast<unsigned>(std::strtoul(each.key.c_str() + keys_.map().size(), nullptr, 10));
    const std::optional<MapRecord> record = cluster::ParseMap(each.value);
    if (!record || slab >= map_.size() || each.mod_revision <= map_[slab].epoch) continue;
    map_[slab] = {each.mod_revision, record->term, NumberOf(record->owner),
                  record->target.empty() ? 0 : NumberOf(record->target), record->copied_in};
  }
  const uint64_t now_ms = BootTimeMs();
  for (unsigned slab = 0; slab < roles_.size(); ++slab) {
    // Also where nothing has changed: that decides transactions whose answer was lost.
    if (map_[slab].epoch != 0) Act(slab, roles_[slab].OnRecord(map_[slab], now_ms));
  }
}

void Agent::ReadFlush(const std::vector<KeyValue>& flush) {
  if (flush.empty() || flush[0].mod_revision <= flush_revision_) return;
  flush_revision_ = flush[0].mod_revision;
  // What was flushed before this node came was never here.
  if (!read_once_) return;
  const int64_t at_unix = cluster::ParseFlush(flush[0].value).value_or(0);
  const uint32_t now = context_.clock.Now();
  context_.store.FlushAll(at_unix == 0 ? now : context_.clock.Expiry(at_unix, now), now);
  ++figures_.flushes;
  for (unsigned slab = 0; slab < roles_.size(); ++slab) {
    const SlabRole::State state = roles_[slab].state();
    if (roles_[slab].owns()) context_.ownership.NoteChange(slab, nullptr);
    if (state == SlabRole::State::kReceiving || state == SlabRole::State::kReady) {
      flushed_copies_.insert(slab);
    }
  }
}

void Agent::PublishRoutes() {
  auto routes = std::make_shared<Routes>();
  {
    const std::lock_guard lock(mutex_);
    std::map<ServerNumber, uint16_t> index;
    for (const auto& [id, node] : nodes_) {
      Routes::Peer peer;
      peer.id = id;
      peer.incarnation = node.incarnation;
      index[NumberOf({id, node.incarnation})] = static_cast<uint16_t>(routes->peers.size());
      for (const Routes::Peer& old :
           routes_ == nullptr ? std::vector<Routes::Peer>() : routes_->peers) {
        if (old.id == id && old.incarnation == node.incarnation) peer = old;
      }
      if (peer.address_bytes == 0) FindAddress(node.inner, &peer);
      routes->peers.push_back(std::move(peer));
    }
    for (const SlabRecord& record : map_) {
      const auto at = index.find(record.owner);
      routes->owner.push_back(at == index.end() ? Routes::kNobody : at->second);
    }
  }
  const auto same = [](const Routes::Peer& a, const Routes::Peer& b) {
    return a.id == b.id && a.incarnation == b.incarnation && a.address_bytes == b.address_bytes;
  };
  if (routes_ != nullptr && routes->owner == routes_->owner &&
      std::ranges::equal(routes->peers, routes_->peers, same)) {
    return;
  }
  routes->version = (routes_ == nullptr ? 0 : routes_->version) + 1;
  routes_ = routes;
  context_.publish(routes);
}

Agent::ServerNumber Agent::NumberOf(const cluster::NodeLife& life) {
  const auto at = std::ranges::find(servers_, life);
  if (at != servers_.end()) return static_cast<ServerNumber>(at - servers_.begin() + 1);
  servers_.push_back(life);
  return static_cast<ServerNumber>(servers_.size());
}

MapRecord Agent::WithNames(const SlabRecord& record) const {
  MapRecord named{record.term, servers_[record.owner - 1], {}, record.copied_in};
  if (record.target != 0) named.target = servers_[record.target - 1];
  return named;
}

// ---- slabs --------------------------------------------------------------------------------------

void Agent::Act(unsigned slab, const SlabActions& actions) {
  const uint32_t now = context_.clock.Now();
  const SlabRole& role = roles_[slab];
  if (actions.close) {
    context_.ownership.Close(slab, role.state() == SlabRole::State::kClosed
                                       ? Ownership::Gate::kHeld
                                       : Ownership::Gate::kForeign);
  }
  if (actions.clear) context_.store.FlushSlab(slab, now, now);
  if (actions.clear && role.state() == SlabRole::State::kWaiting) {
    ++figures_.takeovers;
    // The old owner's numbers are not known, but they began with its clock (Node::SetStore).
    context_.store.RaiseCas(std::max(context_.store.latest_cas(), CasOfNow()) + kCasStep);
  }
  if (actions.open && role.record().copied_in != 0 && flushed_copies_.erase(slab) != 0) {
    context_.store.FlushSlab(slab, now, now);
  }
  if (actions.stop_copying) {
    if (const auto at = senders_.find(slab); at != senders_.end()) {
      figures_.items_sent += at->second->items_sent();
      finished_senders_.push_back(std::move(at->second));
      senders_.erase(at);
    }
  }
  SetGate(slab);
  if (actions.start_copying) {
    context_.ownership.Open(slab, true);
    StartSender(slab);
  }
  if (actions.send_rest) {
    if (const auto at = senders_.find(slab); at != senders_.end()) at->second->SendRest();
  }
  if (actions.commit || actions.abandon) StartTxn(slab, actions.commit);
}

void Agent::SetGate(unsigned slab) {
  using Gate = Ownership::Gate;
  const Gate gate = context_.ownership.gate(slab);
  switch (roles_[slab].state()) {
    case SlabRole::State::kServing:
      if (gate != Gate::kOpen) context_.ownership.Open(slab, false);
      return;
    case SlabRole::State::kCopying:
      if (gate != Gate::kLogged) context_.ownership.Open(slab, true);
      return;
    case SlabRole::State::kClosed:
      if (gate != Gate::kHeld) context_.ownership.Close(slab, Gate::kHeld);
      return;
    default:
      if (gate != Gate::kForeign) context_.ownership.Close(slab, Gate::kForeign);
  }
}

void Agent::StartSender(unsigned slab) {
  const SlabRecord& record = roles_[slab].record();
  const cluster::NodeLife& target = servers_[record.target - 1];
  Routes::Peer peer;
  const auto at = nodes_.find(target.id);
  if (at != nodes_.end() && at->second.incarnation == target.incarnation) {
    FindAddress(at->second.inner, &peer);
  }
  senders_[slab] =
      std::make_unique<SlabSender>(base_.get(), *this, context_.store, context_.clock,
                                   context_.ownership, context_.secret, slab, record.epoch, peer);
}

void Agent::StartTxn(unsigned slab, bool commit) {
  const SlabRecord before = roles_[slab].record();
  const SlabRecord after = commit ? cluster::Moved(before) : cluster::WithoutTarget(before);
  const std::string key = keys_.slab(slab);
  cluster::Txn txn;
  txn.IfModRevision(key, before.epoch).Put(key, cluster::FormatMap(WithNames(after)));
  etcd_->Call("/kv/txn", txn.body(), kCallMs, [this, slab, after, commit](const EtcdReply& reply) {
    {
      const std::lock_guard lock(mutex_);
      cluster::Txn3 result = cluster::Txn3::kUnknown;
      if (reply.ok()) {
        const bool done = reply.body["succeeded"].True();
        result = done ? cluster::Txn3::kDone : cluster::Txn3::kRefused;
        if (done) ++(commit ? figures_.moves_out : figures_.moves_failed);
      }
      SlabRecord written = after;
      written.epoch = reply.revision();
      if (result == cluster::Txn3::kDone && written.epoch > map_[slab].epoch) map_[slab] = written;
      Act(slab, roles_[slab].OnDecided(result, written, BootTimeMs()));
    }
    Poll();
  });
}

void Agent::OnNearlyAllSent(unsigned slab, uint64_t epoch) {
  const std::lock_guard lock(mutex_);
  SlabRole& role = roles_[slab];
  if (role.copy_epoch() != epoch) return;
  Act(slab, role.OnCopied(context_.ownership.right_ends_ms(), BootTimeMs()));
}

void Agent::OnTargetReady(unsigned slab, uint64_t epoch) {
  const std::lock_guard lock(mutex_);
  Act(slab, roles_[slab].OnReady(epoch));
}

void Agent::OnSendFailed(unsigned slab, uint64_t epoch) {
  const std::lock_guard lock(mutex_);
  const SlabActions actions = roles_[slab].OnCopyFailed(epoch);
  if (actions.stop_copying) Log(kLogAlways, "cluster: slab %u could not be copied; it stays", slab);
  Act(slab, actions);
}

// ---- copies that arrive -------------------------------------------------------------------------

bool Agent::BeginCopy(unsigned slab, uint64_t epoch, uint64_t latest_cas) {
  const std::lock_guard lock(mutex_);
  SlabActions actions;
  if (!roles_[slab].OnBegin(epoch, &actions)) return false;
  flushed_copies_.erase(slab);
  context_.store.RaiseCas(latest_cas + kCasStep);
  Act(slab, actions);
  return true;
}

bool Agent::AddItems(unsigned slab, uint64_t epoch, std::string_view items) {
  const std::lock_guard lock(mutex_);
  const SlabRole& role = roles_[slab];
  if (role.state() != SlabRole::State::kReceiving || role.copy_epoch() != epoch) return false;
  const uint32_t now = context_.clock.Now();
  cluster::ItemHeader item;
  std::string_view key;
  std::string_view value;
  while (cluster::TakeItem(&items, &item, &key, &value)) {
    if (key.empty() || key.size() > kbf::kKeyBytesMax || context_.store.SlabOfKey(key) != slab) {
      return false;
    }
    ++figures_.items_received;
    if (item.absent != 0) {
      (void)context_.store.Delete(key, now);
      continue;
    }
    kbf::WriteRequest write;
    write.key = key;
    write.value = value;
    write.flags = item.flags;
    write.expires = item.seconds_left == 0 ? 0 : now + item.seconds_left;
    write.base64_key = item.base64_key != 0;
    write.drop_on_failure = true;
    // What finds no room is a miss.
    (void)context_.store.Write(write, now);
  }
  return items.empty();
}

bool Agent::ClearCopy(unsigned slab, uint64_t epoch) {
  const std::lock_guard lock(mutex_);
  const SlabRole& role = roles_[slab];
  if (role.state() != SlabRole::State::kReceiving || role.copy_epoch() != epoch) return false;
  const uint32_t now = context_.clock.Now();
  context_.store.FlushSlab(slab, now, now);
  return true;
}

bool Agent::EndCopy(unsigned slab, uint64_t epoch) {
  const std::lock_guard lock(mutex_);
  const SlabActions actions = roles_[slab].OnEnd(epoch);
  if (actions.send_ready) ++figures_.moves_in;
  return actions.send_ready;
}

void Agent::LoseCopy(unsigned slab, uint64_t epoch) {
  const std::lock_guard lock(mutex_);
  Act(slab, roles_[slab].OnStreamLost(epoch));
}

// ---- flushes and figures ------------------------------------------------------------------------

std::shared_ptr<FlushTicket> Agent::RequestFlush(int64_t at_unix) {
  auto ticket = std::make_shared<FlushTicket>();
  Post([this, ticket, at_unix] {
    const std::string body = cluster::PutBody(keys_.flush(), cluster::FormatFlush(at_unix));
    etcd_->Call("/kv/put", body, kCallMs, [this, ticket](const EtcdReply& reply) {
      if (!reply.ok()) {
        ticket->state.store(FlushTicket::State::kFailed, std::memory_order_release);
        return;
      }
      // By then every node has read it, or has lost its right to serve.
      flushes_.push_back({ticket, BootTimeMs() + SlabRole::kRightMs + SlabRole::kMarginMs});
      Poll();
    });
  });
  return ticket;
}

Agent::Figures Agent::figures() const {
  const std::lock_guard lock(mutex_);
  Figures figures = figures_;
  for (const SlabRole& role : roles_) {
    figures.slabs_owned += role.owns();
    figures.slabs_moving += role.record().target != 0;
  }
  return figures;
}

}  // namespace server
