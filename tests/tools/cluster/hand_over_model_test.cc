// Explores every order of events for one slab and two nodes that follow SlabRole: moves, writes,
// deaths, wrong verdicts of death, late and lost answers of etcd, lost streams, routers that ask
// the wrong node. A state is serving, stale or lost by the definitions in Check.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <unordered_set>
#include <vector>

#include "tools/cluster/slab_role.h"

namespace {

using cluster::SlabActions;
using cluster::SlabRecord;
using cluster::SlabRole;
using cluster::Txn3;

// What the model does wrong on purpose: each must be caught.
enum class Mutation {
  kNone,
  kServesWhenReady,        // the target serves at the end of the copy, before it owns the slab
  kReopensByItself,        // the source opens a closed slab without a transaction
  kTakesOverAtOnce,        // the new owner does not wait for the end of the old one's right
  kServesForEver,          // the right to serve does not end
  kForgetsChanges,         // what changed during the copy is not sent
  kIgnoresTerms,           // a node that lost the slab and got it back goes on as if it had not
  kCommitsWithoutReady,    // the source gives the slab away before the target has everything
  kSendsRestBeforeClosing  // requests enter while the rest is on its way
};

constexpr unsigned kNodes = 2;
// Two are longer than the right, and as long as the wait.
constexpr uint64_t kTickMs = (SlabRole::kRightMs + SlabRole::kMarginMs) / 2;

// How far the model goes.
struct Limits {
  unsigned writes = 2;
  unsigned faults = 1;
  unsigned moves = 1;
  uint64_t revisions = 5;
};

struct Frame {
  enum Kind : uint8_t { kBegin, kData, kEnd, kReady } kind = kBegin;
  uint64_t epoch = 0;
  uint8_t version = 0;
};

struct Node {
  explicit Node(unsigned i) : role(i + 1) {}
  SlabRole role;
  bool alive = true;
  uint8_t version = 0;  // of the one key; 0: a miss
  uint64_t right_ends = 0;
  uint8_t poll = 0;  // 1: a read of etcd is under way, and was carried out
  uint64_t poll_sent = 0;
  SlabRecord polled;
  // As the source.
  bool copying = false;
  bool sent_something = false;
  uint8_t sent_version = 0;
  bool reopened = false;  // by the mutation
};

// Of a node that may still be carried out, or whose answer is on its way.
struct Pending {
  uint8_t state = 0;  // 0 none, 1 sent, 2 done
  bool lost = false;  // the node does not wait for the answer any more
  bool commit = false;
  uint64_t epoch = 0;
  SlabRecord written;
};

struct World {
  World() : nodes{Node(0), Node(1)} {}
  uint64_t now = 0;
  uint64_t revision = 1;
  SlabRecord etcd;
  std::array<Node, kNodes> nodes;
  std::array<std::array<Pending, 2>, kNodes> txns;
  // From the source to the other node, and back. One stream at a time: a new one drops the old.
  std::array<std::vector<Frame>, kNodes> frames;  // to node i
  uint8_t acked = 0;
  uint8_t writes = 0;
  uint8_t faults = 0;
  uint8_t moves = 0;
  bool taken_over = false;
};

class Explorer {
 public:
  Explorer(Mutation mutation, const Limits& limits) : mutation_(mutation), limits_(limits) {}

  // What went wrong first, or nothing.
  std::string Run(size_t states_max) {
    World begin;
    begin.etcd = {1, 1, 1, 0, 0};
    for (unsigned i = 0; i < kNodes; ++i) {
      // Both have read the record long ago; the owner serves.
      Act(&begin, i, begin.nodes[i].role.OnRecord(begin.etcd, 0));
      Act(&begin, i, begin.nodes[i].role.OnTime(2 * kTickMs));
    }
    begin.now = 2 * kTickMs;
    for (Node& node : begin.nodes) node.right_ends = SlabRole::RightEnds(begin.now);
    Visit(begin);
    while (!open_.empty() && error_.empty() && seen_.size() < states_max) {
      const World world = std::move(open_.back());
      open_.pop_back();
      Expand(world);
    }
    if (error_.empty() && !open_.empty()) error_ = "more states than expected";
    return error_;
  }
  size_t states() const { return seen_.size(); }
  bool reached_warm() const { return reached_warm_; }
  bool reached_abandon() const { return reached_abandon_; }
  bool reached_cold() const { return reached_cold_; }

 private:
  bool Serves(const World& world, unsigned i) const {
    const Node& node = world.nodes[i];
    if (!node.alive) return false;
    const bool right = mutation_ == Mutation::kServesForEver || world.now < node.right_ends;
    const bool open =
        node.role.is_open() || node.reopened ||
        (mutation_ == Mutation::kServesWhenReady && node.role.state() == SlabRole::State::kReady);
    return right && open;
  }

  void Check(const World& world) {
    for (unsigned i = 0; i < kNodes; ++i) {
      if (!Serves(world, i)) continue;
      const uint8_t version = world.nodes[i].version;
      if (version != 0 && version != world.acked) error_ = "a stale read";
      if (version != world.acked && !world.taken_over) error_ = "an acknowledged write is lost";
    }
    if (Serves(world, 0) && Serves(world, 1)) error_ = "two nodes serve";
  }

  void Visit(World world) {
    Check(world);
    if (!error_.empty()) return;
    Simplify(&world);
    if (seen_.insert(Fingerprint(world)).second) open_.push_back(std::move(world));
  }

  // Forgets what has no effect any more, so that states that differ in nothing else are one.
  static void Simplify(World* world) {
    for (unsigned i = 0; i < kNodes; ++i) {
      for (Pending& txn : world->txns[i]) {
        if (txn.state == 1 && txn.epoch != world->etcd.epoch) txn = {};
      }
      auto& txns = world->txns[i];
      if (txns[0].state == 0) std::swap(txns[0], txns[1]);
      Node& node = world->nodes[i];
      if (node.poll != 0 && world->now >= SlabRole::RightEnds(node.poll_sent) &&
          node.polled.epoch <= node.role.record().epoch) {
        node.poll = 0;
      }
    }
  }

  static uint64_t Fingerprint(const World& world) {
    uint64_t low = 0x9e3779b97f4a7c15;
    const auto add = [&](uint64_t word) {
      low = (low ^ word) * 0xbf58476d1ce4e5b9;
      low ^= low >> 29;
    };
    const auto add_record = [&](const SlabRecord& record) {
      for (const uint64_t word : {record.epoch, record.term, uint64_t{record.owner},
                                  uint64_t{record.target}, record.copied_in}) {
        add(word);
      }
    };
    for (const uint64_t word :
         {uint64_t{world.acked}, uint64_t{world.writes}, uint64_t{world.faults},
          uint64_t{world.moves}, uint64_t{world.taken_over}}) {
      add(word);
    }
    add_record(world.etcd);
    for (unsigned i = 0; i < kNodes; ++i) {
      const Node& node = world.nodes[i];
      node.role.VisitFields(world.now, add);
      // Of times only what is left counts.
      const auto left = [&](uint64_t end) { return end > world.now ? end - world.now : 0; };
      const uint64_t poll_right = node.poll == 0 ? 0 : left(SlabRole::RightEnds(node.poll_sent));
      for (const uint64_t word :
           {uint64_t{node.alive}, uint64_t{node.version}, left(node.right_ends),
            uint64_t{node.poll}, poll_right, uint64_t{node.copying}, uint64_t{node.sent_something},
            uint64_t{node.sent_version}, uint64_t{node.reopened}}) {
        add(word);
      }
      if (node.poll != 0) add_record(node.polled);
      for (const Pending& txn : world.txns[i]) {
        add(txn.state | uint64_t{txn.lost} << 8 | uint64_t{txn.commit} << 9 | txn.epoch << 16);
        add_record(txn.written);
      }
      add(world.frames[i].size());
      for (const Frame& frame : world.frames[i]) {
        add(frame.kind | uint64_t{frame.version} << 8 | frame.epoch << 16);
      }
    }
    return low;
  }

  static unsigned Other(unsigned i) { return 1 - i; }

  // Carries out what the role of node i asks for.
  void Act(World* world, unsigned i, const SlabActions& actions) {
    Node& node = world->nodes[i];
    if (actions.close || actions.open) node.reopened = false;
    if (actions.clear) node.version = 0;
    if (actions.stop_copying) {
      node.copying = node.sent_something = false;
      node.sent_version = 0;
    }
    if (actions.start_copying) {
      node.copying = true;
      node.sent_something = false;
      world->frames[Other(i)].clear();
      world->frames[Other(i)].push_back({Frame::kBegin, node.role.copy_epoch(), 0});
    }
    if (actions.send_rest) {
      const bool dirty = !node.sent_something || node.sent_version != node.version;
      if (dirty && mutation_ != Mutation::kForgetsChanges) {
        world->frames[Other(i)].push_back({Frame::kData, node.role.copy_epoch(), node.version});
      }
      world->frames[Other(i)].push_back({Frame::kEnd, node.role.copy_epoch(), 0});
      if (mutation_ == Mutation::kSendsRestBeforeClosing) node.reopened = true;
      if (mutation_ == Mutation::kCommitsWithoutReady) {
        Act(world, i, node.role.OnReady(node.role.copy_epoch()));
      }
    }
    if (actions.send_ready) {
      world->frames[Other(i)].push_back({Frame::kReady, node.role.copy_epoch(), 0});
    }
    if (actions.commit || actions.abandon) StartTxn(world, i, actions.commit);
    if (actions.clear && node.role.state() == SlabRole::State::kWaiting) {
      reached_cold_ = true;
      if (mutation_ == Mutation::kTakesOverAtOnce) {
        Act(world, i, node.role.OnTime(world->now + 2 * kTickMs));
      }
    }
  }

  void StartTxn(World* world, unsigned i, bool commit) {
    const SlabRecord& record = world->nodes[i].role.record();
    for (Pending& txn : world->txns[i]) {
      if (txn.state != 0) continue;
      txn = {1, false, commit, record.epoch,
             commit ? cluster::Moved(record) : cluster::WithoutTarget(record)};
      return;
    }
    // Both are under way: the model does not follow a third one, which a later read starts anyway.
  }

  static bool Write(World* world, uint64_t epoch, const SlabRecord& record) {
    if (world->etcd.epoch != epoch) return false;
    world->etcd = record;
    world->etcd.epoch = ++world->revision;
    return true;
  }

  void Expand(const World& world) {
    World next = world;
    next.now += kTickMs;
    for (unsigned i = 0; i < kNodes; ++i) {
      if (next.nodes[i].alive) Act(&next, i, next.nodes[i].role.OnTime(next.now));
    }
    Visit(next);
    Lead(world);
    for (unsigned i = 0; i < kNodes; ++i) {
      if (!world.nodes[i].alive) {
        ExpandTxns(world, i);  // what it has sent may still be carried out
        continue;
      }
      ExpandPoll(world, i);
      ExpandTxns(world, i);
      ExpandCopy(world, i);
      ExpandFrames(world, i);
      if (Serves(world, i) && world.writes < limits_.writes) {
        World next = world;
        next.nodes[i].version = next.acked = ++next.writes;
        Visit(next);
      }
      if (world.faults < limits_.faults) {
        World next = world;
        ++next.faults;
        next.nodes[i] = Node(i);
        next.nodes[i].alive = false;
        next.frames[i].clear();
        for (Pending& txn : next.txns[i]) {
          if (txn.state == 1) txn.lost = true;
          if (txn.state > 1) txn = {};
        }
        Visit(next);
      }
    }
  }

  // The balancer moves the slab, or takes it from a node that it holds to be dead.
  void Lead(const World& world) {
    const bool owner_lives = world.nodes[world.etcd.owner - 1].alive;
    const unsigned other = 3 - world.etcd.owner;
    if (world.etcd.target == 0 && world.moves < limits_.moves) {
      World next = world;
      ++next.moves;
      Write(&next, next.etcd.epoch, cluster::WithTarget(next.etcd, other));
      Visit(next);
    }
    if (owner_lives && world.faults >= limits_.faults) return;
    World next = world;
    next.faults += owner_lives;
    next.taken_over = true;
    const bool moving = next.etcd.target == other && next.nodes[other - 1].alive;
    Write(&next, next.etcd.epoch,
          moving ? cluster::Moved(next.etcd) : cluster::TakenOver(next.etcd, other));
    if (next.revision <= limits_.revisions) Visit(next);
  }

  void ExpandPoll(const World& world, unsigned i) {
    World next = world;
    Node& node = next.nodes[i];
    // Of the moments from sending to reading the last one gives the longest right.
    if (node.poll == 0) {
      node.poll = 1;
      node.poll_sent = next.now;
      node.polled = next.etcd;
    } else {
      node.poll = 0;
      node.right_ends = std::max(node.right_ends, SlabRole::RightEnds(node.poll_sent));
      SlabRecord record = node.polled;
      if (mutation_ == Mutation::kIgnoresTerms) record.term = 1;
      Act(&next, i, node.role.OnRecord(record, next.now));
      if (record.owner == i + 1 && record.copied_in != 0 && node.role.is_open()) {
        reached_warm_ = true;
      }
    }
    Visit(next);
  }

  void ExpandTxns(const World& world, unsigned i) {
    for (unsigned j = 0; j < world.txns[i].size(); ++j) {
      const Pending& txn = world.txns[i][j];
      if (txn.state == 1) {
        World next = world;
        Pending& sent = next.txns[i][j];
        const bool done = Write(&next, sent.epoch, sent.written);
        if (done && !sent.commit) reached_abandon_ = true;
        sent.state = 2;
        sent.written.epoch = next.revision;
        // That it was refused changes nothing at the node.
        if (!done || sent.lost || !next.nodes[i].alive) sent = {};
        Visit(next);
        // Its answer is lost, or it is carried out late.
        if (!txn.lost && world.nodes[i].alive && world.faults < limits_.faults) {
          World lost = world;
          ++lost.faults;
          lost.txns[i][j].lost = true;
          Act(&lost, i, lost.nodes[i].role.OnDecided(Txn3::kUnknown, {}, lost.now));
          Visit(lost);
        }
      } else if (txn.state != 0) {
        World next = world;
        next.txns[i][j] = {};
        SlabRecord written = txn.written;
        if (mutation_ == Mutation::kIgnoresTerms) written.term = 1;
        if (world.nodes[i].alive) {
          Act(&next, i, next.nodes[i].role.OnDecided(Txn3::kDone, written, next.now));
        }
        Visit(next);
      }
    }
  }

  void ExpandCopy(const World& world, unsigned i) {
    const Node& node = world.nodes[i];
    if (node.copying && node.role.state() == SlabRole::State::kCopying) {
      const bool dirty = !node.sent_something || node.sent_version != node.version;
      if (dirty && world.frames[Other(i)].size() < 3) {
        World next = world;
        next.frames[Other(i)].push_back({Frame::kData, node.role.copy_epoch(), node.version});
        next.nodes[i].sent_something = true;
        next.nodes[i].sent_version = node.version;
        Visit(next);
      }
      if (node.sent_something) {
        World next = world;
        Act(&next, i, next.nodes[i].role.OnCopied(node.right_ends, next.now));
        Visit(next);
      }
    }
    // The stream breaks, or takes too long: each side learns of it.
    const bool sends = node.role.state() == SlabRole::State::kCopying ||
                       node.role.state() == SlabRole::State::kClosed;
    if (sends && (world.faults < limits_.faults || !world.nodes[Other(i)].alive)) {
      World next = world;
      next.faults += world.nodes[Other(i)].alive;
      const uint64_t epoch = node.role.copy_epoch();
      next.frames[i].clear();
      next.frames[Other(i)].clear();
      const bool closed = node.role.state() == SlabRole::State::kClosed;
      Act(&next, i, next.nodes[i].role.OnCopyFailed(epoch));
      if (closed && mutation_ == Mutation::kReopensByItself) next.nodes[i].reopened = true;
      if (next.nodes[Other(i)].alive) {
        Act(&next, Other(i), next.nodes[Other(i)].role.OnStreamLost(epoch));
      }
      Visit(next);
    }
  }

  void ExpandFrames(const World& world, unsigned i) {
    if (world.frames[i].empty()) return;
    World next = world;
    const Frame frame = next.frames[i].front();
    next.frames[i].erase(next.frames[i].begin());
    SlabRole& role = next.nodes[i].role;
    SlabActions actions;
    switch (frame.kind) {
      case Frame::kBegin:
        if (!role.OnBegin(frame.epoch, &actions)) {
          Act(&next, Other(i), next.nodes[Other(i)].role.OnCopyFailed(frame.epoch));
          next.frames[i].clear();
        }
        break;
      case Frame::kData:
        if (role.state() == SlabRole::State::kReceiving && role.copy_epoch() == frame.epoch) {
          next.nodes[i].version = frame.version;
        }
        break;
      case Frame::kEnd:
        actions = role.OnEnd(frame.epoch);
        break;
      case Frame::kReady:
        actions = role.OnReady(frame.epoch);
        break;
    }
    Act(&next, i, actions);
    Visit(next);
  }

  const Mutation mutation_;
  const Limits limits_;
  std::string error_;
  std::vector<World> open_;
  std::unordered_set<uint64_t> seen_;
  bool reached_warm_ = false;
  bool reached_abandon_ = false;
  bool reached_cold_ = false;
};

constexpr size_t kStatesMax = 20'000'000;

}  // namespace

TEST_SUITE("cluster") {
  TEST_CASE("model: no order of events makes a slab stale, lose a write or have two owners") {
    // The second world has 3 million states, and takes 10 s.
    const bool soak = std::getenv("KBF_SOAK") != nullptr;
    Explorer explorer(Mutation::kNone, soak ? Limits{3, 1, 2, 6} : Limits{2, 2, 1, 6});
    CHECK(explorer.Run(kStatesMax) == "");
    MESSAGE(explorer.states() << " states");
    CHECK(explorer.reached_warm());
    CHECK(explorer.reached_abandon());
    CHECK(explorer.reached_cold());
  }

  TEST_CASE("model: each mistake in the protocol is caught") {
    for (const Mutation mutation :
         {Mutation::kServesWhenReady, Mutation::kReopensByItself, Mutation::kTakesOverAtOnce,
          Mutation::kServesForEver, Mutation::kForgetsChanges, Mutation::kIgnoresTerms,
          Mutation::kCommitsWithoutReady, Mutation::kSendsRestBeforeClosing}) {
      Explorer explorer(mutation, {});
      CAPTURE(static_cast<int>(mutation));
      const std::string error = explorer.Run(kStatesMax);
      CHECK(error != "");
      CHECK(error != "more states than expected");
    }
  }
}
