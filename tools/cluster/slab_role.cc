#include "tools/cluster/slab_role.h"

#include <utility>

namespace cluster {

SlabRecord WithTarget(const SlabRecord& record, ServerNumber target) {
  SlabRecord next = record;
  next.target = target;
  return next;
}

SlabRecord WithoutTarget(const SlabRecord& record) { return WithTarget(record, 0); }

SlabRecord Moved(const SlabRecord& record) {
  return {0, record.term + 1, record.target, 0, record.epoch};
}

SlabRecord TakenOver(const SlabRecord& record, ServerNumber owner) {
  return {0, record.term + 1, owner, 0, 0};
}

SlabActions SlabRole::OnRecord(const SlabRecord& record, uint64_t now_ms) {
  if (record.epoch <= record_.epoch) {
    // The answer to a transaction was lost, and this read was sent afterwards: it was not carried
    // out, but still may be. Another one decides, because both want the same epoch.
    if (!std::exchange(deciding_, false)) return {};
    SlabActions actions;
    if (state_ == State::kCopying || state_ == State::kClosed) {
      deciding_ = true;
      (giving_up_ ? actions.abandon : actions.commit) = true;
    }
    return actions;
  }
  const SlabRecord before = std::exchange(record_, record);
  deciding_ = giving_up_ = false;
  if (record.owner != me_) return owns() ? Lose() : FollowTarget();
  if (owns() && before.term == record.term) return Keep();
  return Acquire(now_ms);
}

// The slab is this node's since this record.
SlabActions SlabRole::Acquire(uint64_t now_ms) {
  const bool warm =
      state_ == State::kReady && record_.copied_in != 0 && copy_epoch_ == record_.copied_in;
  SlabActions actions;
  copy_epoch_ = 0;
  if (!warm) {
    // Also where it owned the slab before and has missed that it lost it.
    actions.close = actions.clear = actions.stop_copying = true;
    state_ = State::kWaiting;
    wait_ends_ms_ = now_ms + kRightMs + kMarginMs;
    return actions;
  }
  state_ = State::kServing;
  actions.open = true;
  if (record_.target == 0) return actions;
  state_ = State::kCopying;
  copy_epoch_ = record_.epoch;
  actions.start_copying = true;
  return actions;
}

// The slab was and is this node's; the target has changed. Whatever was decided about the record
// before has no effect any more.
SlabActions SlabRole::Keep() {
  SlabActions actions;
  actions.stop_copying = true;
  copy_epoch_ = 0;
  if (state_ == State::kWaiting) return actions;
  actions.open = state_ == State::kClosed;
  state_ = State::kServing;
  if (record_.target == 0) return actions;
  state_ = State::kCopying;
  copy_epoch_ = record_.epoch;
  actions.start_copying = true;
  return actions;
}

SlabActions SlabRole::Lose() {
  SlabActions actions;
  actions.close = actions.clear = actions.stop_copying = true;
  state_ = State::kForeign;
  copy_epoch_ = 0;
  return actions;
}

SlabActions SlabRole::FollowTarget() {
  SlabActions actions;
  const bool copies = state_ == State::kReceiving || state_ == State::kReady;
  // A copy may begin before its record is read, so it may be of a later one.
  const bool superseded =
      copy_epoch_ < record_.epoch || (copy_epoch_ == record_.epoch && record_.target != me_);
  if (copies && superseded) {
    actions.clear = true;
    state_ = State::kForeign;
    copy_epoch_ = 0;
  }
  return actions;
}

SlabActions SlabRole::OnTime(uint64_t now_ms) {
  SlabActions actions;
  if (state_ != State::kWaiting || now_ms < wait_ends_ms_) return actions;
  state_ = State::kServing;
  actions.open = true;
  if (record_.target == 0) return actions;
  state_ = State::kCopying;
  copy_epoch_ = record_.epoch;
  actions.start_copying = true;
  return actions;
}

// ---- source -------------------------------------------------------------------------------------

SlabActions SlabRole::OnCopied(uint64_t right_ends_ms, uint64_t now_ms) {
  SlabActions actions;
  if (state_ != State::kCopying || giving_up_ || now_ms + kCloseMs > right_ends_ms) return actions;
  state_ = State::kClosed;
  actions.close = actions.send_rest = true;
  return actions;
}

SlabActions SlabRole::OnReady(uint64_t epoch) {
  SlabActions actions;
  if (state_ != State::kClosed || epoch != copy_epoch_ || giving_up_ || deciding_) return actions;
  deciding_ = actions.commit = true;
  return actions;
}

SlabActions SlabRole::OnCopyFailed(uint64_t epoch) {
  SlabActions actions;
  const bool copies = state_ == State::kCopying || state_ == State::kClosed;
  if (!copies || epoch != copy_epoch_ || giving_up_) return actions;
  giving_up_ = true;
  actions.stop_copying = true;
  // A transaction that is under way is answered first, or a read decides.
  if (!std::exchange(deciding_, true)) actions.abandon = true;
  return actions;
}

SlabActions SlabRole::OnDecided(Txn3 result, const SlabRecord& written, uint64_t now_ms) {
  if (result == Txn3::kDone) return OnRecord(written, now_ms);
  // Refused: the record has changed, which the next read shows. Unknown: `deciding_` stays, and the
  // next read that was sent after this shows what came of it.
  return {};
}

// ---- target -------------------------------------------------------------------------------------

bool SlabRole::OnBegin(uint64_t epoch, SlabActions* actions) {
  if (owns() || epoch < record_.epoch) return false;
  if (epoch == record_.epoch && record_.target != me_) return false;
  // An older copy than the one that it has, or that one again after its end.
  if (state_ == State::kReceiving && copy_epoch_ > epoch) return false;
  if (state_ == State::kReady && copy_epoch_ >= epoch) return false;
  state_ = State::kReceiving;
  copy_epoch_ = epoch;
  actions->clear = true;
  return true;
}

SlabActions SlabRole::OnEnd(uint64_t epoch) {
  SlabActions actions;
  if (state_ != State::kReceiving || epoch != copy_epoch_) return actions;
  state_ = State::kReady;
  actions.send_ready = true;
  return actions;
}

SlabActions SlabRole::OnStreamLost(uint64_t epoch) {
  SlabActions actions;
  if (state_ != State::kReceiving || epoch != copy_epoch_) return actions;
  state_ = State::kForeign;
  copy_epoch_ = 0;
  actions.clear = true;
  return actions;
}

}  // namespace cluster
