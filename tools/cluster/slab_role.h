// SlabRole is what one slab is to one node: whether the node may serve it, copies it to another
// node, receives it, or has nothing to do with it. It is a state machine without clocks, sockets or
// threads: times, what etcd says and what other nodes send come in as arguments, and what is to be
// done goes out as a SlabActions. tests/tools/cluster/hand_over_model_test.cc explores this very
// class.
//
//   kForeign    another node's
//   kReceiving  a copy arrives
//   kReady      the copy is whole, and silent
//   kWaiting    owned without a copy, until the owner before has lost its right for certain
//   kServing    owned
//   kCopying    owned; it is to move: a copy is being sent, and every change of it after that
//   kClosed     owned, and nobody serves: the last changes were sent, and the move is being decided
//
//   source: kServing -> kCopying -> kClosed -> kForeign        target: kForeign -> kReceiving ->
//   kReady
//                            (back to kServing)                        -> kServing, or -> kWaiting
//
// Promises:  of all nodes that follow their roles, and serve only until RightEnds() of their last
//            read, at most one serves the slab at a time; who serves it has every acknowledged
//            write, unless it was taken over from a node that was held to be dead: then it begins
//            empty.
// Requires:  records come from linearizable reads that were sent after those of the records given
//            before, or from the answers of transactions. The frames of one copy arrive in order or
//            not at all. A server number stands for one life of one node.
// Costs:     56 bytes; no allocation.
// Departs:   the record has a `term`, which counts changes of owner, so that a node that reads
//            seldom sees that it lost the slab and got it back.
#pragma once

#include <cstdint>

namespace cluster {

// One life of one node: a node that starts again has another number. 0: none.
using ServerNumber = uint32_t;

// What etcd says of a slab.
struct SlabRecord {
  uint64_t epoch = 0;  // the key's mod_revision; 0: there is no record
  uint64_t term = 0;
  ServerNumber owner = 0;
  ServerNumber target = 0;  // where it is to move; 0: it stays
  // The owner got it by a move whose record had this epoch; 0: it took it over, without the data.
  uint64_t copied_in = 0;
  friend bool operator==(const SlabRecord&, const SlabRecord&) = default;
};

// The records that follow from one. Transactions write them if the epoch is still the old one.
SlabRecord WithTarget(const SlabRecord& record, ServerNumber target);
SlabRecord WithoutTarget(const SlabRecord& record);
SlabRecord Moved(const SlabRecord& record);                          // by the source, or for it
SlabRecord TakenOver(const SlabRecord& record, ServerNumber owner);  // its owner is dead

// What a node must do now. Several may be set; they are done in this order.
struct SlabActions {
  bool close = false;         // no request enters; wait until those inside have left
  bool clear = false;         // remove everything the slab holds
  bool open = false;          // requests may enter while the right to serve lasts
  bool stop_copying = false;  // forget the copy that is being sent
  bool start_copying = false;
  bool send_rest = false;   // the changes since, and the end
  bool send_ready = false;  // tell the source that the copy is whole
  bool commit = false;      // start the transaction that writes Moved(record())
  bool abandon = false;     // start the transaction that writes WithoutTarget(record())
};

enum class Txn3 : uint8_t { kDone, kRefused, kUnknown };

class SlabRole {
 public:
  enum class State : uint8_t {
    kForeign,
    kReceiving,
    kReady,
    kWaiting,
    kServing,
    kCopying,
    kClosed
  };

  // A node may serve what it owned in a read for so long after it sent the read.
  static constexpr uint64_t kRightMs = 2000;
  // What a new owner waits in addition, for clocks that do not run alike.
  static constexpr uint64_t kMarginMs = 100;
  // A slab is closed only if the right lasts so long at least: so etcd has answered lately.
  static constexpr uint64_t kCloseMs = 500;
  static constexpr uint64_t RightEnds(uint64_t sent_ms) { return sent_ms + kRightMs; }

  explicit SlabRole(ServerNumber me) : me_(me) {}

  State state() const { return state_; }
  const SlabRecord& record() const { return record_; }
  bool owns() const { return state_ >= State::kWaiting; }
  // And while the right lasts.
  bool is_open() const { return state_ == State::kServing || state_ == State::kCopying; }
  // Of the copy that is being sent or received.
  uint64_t copy_epoch() const { return copy_epoch_; }

  // Everything that its future depends on, with times relative to `now_ms`: for the model check.
  template <class Visit>
  void VisitFields(uint64_t now_ms, Visit visit) const {
    const bool waits = state_ == State::kWaiting && wait_ends_ms_ > now_ms;
    for (const uint64_t field :
         {uint64_t{me_}, static_cast<uint64_t>(state_), record_.epoch, record_.term,
          uint64_t{record_.owner}, uint64_t{record_.target}, record_.copied_in, copy_epoch_,
          waits ? wait_ends_ms_ - now_ms : 0, uint64_t{deciding_}, uint64_t{giving_up_}}) {
      visit(field);
    }
  }

  // A read has answered.
  SlabActions OnRecord(const SlabRecord& record, uint64_t now_ms);
  // Time has passed.
  SlabActions OnTime(uint64_t now_ms);

  // ---- source
  // Nearly all is sent.
  SlabActions OnCopied(uint64_t right_ends_ms, uint64_t now_ms);
  // The target has everything.
  SlabActions OnReady(uint64_t epoch);
  // The copy failed, or takes too long: the target is gone, or refuses.
  SlabActions OnCopyFailed(uint64_t epoch);
  // How the transaction ended that was started last. kDone: with the record that it wrote.
  SlabActions OnDecided(Txn3 result, const SlabRecord& written, uint64_t now_ms);

  // ---- target
  // A copy begins. False: refused.
  bool OnBegin(uint64_t epoch, SlabActions* actions);
  // It is whole.
  SlabActions OnEnd(uint64_t epoch);
  // It will not be continued.
  SlabActions OnStreamLost(uint64_t epoch);

 private:
  SlabActions Acquire(uint64_t now_ms);
  SlabActions Keep();
  SlabActions Lose();
  SlabActions FollowTarget();

  ServerNumber me_;
  State state_ = State::kForeign;
  SlabRecord record_;
  uint64_t copy_epoch_ = 0;
  uint64_t wait_ends_ms_ = 0;  // kWaiting
  bool deciding_ = false;      // a transaction is under way, or its answer was lost
  bool giving_up_ = false;     // kClosed, kCopying: the transaction to come removes the target
};

}  // namespace cluster
