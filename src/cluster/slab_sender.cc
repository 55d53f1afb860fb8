#include "src/cluster/slab_sender.h"

#include <vector>

namespace server {
namespace {

using cluster::FrameKind;

// What may wait for the other node, and what one frame holds.
constexpr size_t kUnsentBytesMax = 1 << 20;
constexpr size_t kFrameBytes = 32 << 10;
constexpr unsigned kListStepsMax = 64;
// How long a closed slab waits for the other node.
constexpr uint64_t kReadyMs = 1000;

class KeyCollector final : public kbf::ItemVisitor {
 public:
  std::vector<std::string> keys;

 private:
  void Visit(const kbf::ListedItem& item) override { keys.emplace_back(item.key); }
};

}  // namespace

SlabSender::SlabSender(event_base* base, SlabSenderOwner& owner, kbf::Store& store,
                       const Clock& clock, Ownership& ownership, const std::string& secret,
                       unsigned slab, uint64_t epoch, const Routes::Peer& target)
    : owner_(owner),
      store_(store),
      clock_(clock),
      ownership_(ownership),
      slab_(slab),
      epoch_(epoch),
      link_(base, *this, secret) {
  failed_ = !link_.Connect(target);
  if (!failed_) Begin();
}

cluster::FrameHeader SlabSender::Header(FrameKind kind) const {
  cluster::FrameHeader header;
  header.kind = kind;
  header.slab = static_cast<uint16_t>(slab_);
  header.epoch = epoch_;
  return header;
}

void SlabSender::Begin() {
  cluster::FrameHeader header = Header(FrameKind::kBegin);
  header.number = store_.latest_cas();
  failed_ = !link_.Send(header, {});
}

// What the key holds now, or that it holds nothing.
void SlabSender::SendKey(std::string_view key) {
  const uint32_t now = clock_.Now();
  kbf::ReadOptions options;
  options.bump = false;
  const kbf::Reading reading = store_.Get(key, options, now);
  cluster::ItemHeader item;
  item.key_bytes = static_cast<uint16_t>(key.size());
  // A second early, never late: the other node's clock counts other seconds.
  const bool expires = reading.hit && reading.expires != 0;
  if (expires && reading.expires > now + 1) item.seconds_left = reading.expires - now - 1;
  if (!reading.hit || reading.stale || (expires && item.seconds_left == 0)) {
    item.absent = 1;
    cluster::AppendItem(item, key, {}, &items_);
  } else {
    item.value_bytes = static_cast<uint32_t>(reading.value.size());
    item.flags = reading.flags;
    item.base64_key = reading.base64_key.value_or(false) ? 1 : 0;
    cluster::AppendItem(item, key, reading.value, &items_);
  }
  ++items_sent_;
  if (items_.size() >= kFrameBytes) FlushItems();
}

void SlabSender::FlushItems() {
  if (items_.empty()) return;
  if (!link_.Send(Header(FrameKind::kItems), items_)) failed_ = true;
  items_.clear();
}

void SlabSender::SendChanges() {
  const Ownership::Changes changes = ownership_.TakeChanges(slab_);
  if (changes.flushed || changes.lost) {
    items_.clear();
    if (!link_.Send(Header(FrameKind::kClear), {})) failed_ = true;
    position_ = {};
    listed_ = false;
    return;
  }
  for (const std::string& key : changes.keys) SendKey(key);
}

void SlabSender::List() {
  KeyCollector collector;
  listed_ = !store_.ListItems(slab_, &position_, clock_.Now(), &collector);
  for (const std::string& key : collector.keys) SendKey(key);
}

void SlabSender::Step() {
  if (failed_) return Fail();
  if (ended_) {
    if (BootTimeMs() > ended_ms_ + kReadyMs) Fail();
    return;
  }
  for (unsigned i = 0; i < kListStepsMax && link_.UnsentBytes() < kUnsentBytesMax; ++i) {
    SendChanges();
    if (listed_) break;
    List();
  }
  FlushItems();
  if (failed_) return Fail();
  // What is still on its way is sent while the slab is closed: so it must be little.
  if (listed_ && link_.UnsentBytes() < kFrameBytes) owner_.OnNearlyAllSent(slab_, epoch_);
}

void SlabSender::SendRest() {
  do {
    SendChanges();
    while (!listed_ && !failed_) List();
  } while (!listed_ && !failed_);
  FlushItems();
  if (failed_ || !link_.Send(Header(FrameKind::kEnd), {})) {
    failed_ = true;
    return;
  }
  ended_ = true;
  ended_ms_ = BootTimeMs();
}

void SlabSender::Fail() {
  link_.Close();
  failed_ = true;
  owner_.OnSendFailed(slab_, epoch_);
}

bool SlabSender::OnFrame(const cluster::FrameHeader& header, std::string_view) {
  if (header.slab != slab_ || header.epoch != epoch_ || header.kind != FrameKind::kReady ||
      !ended_) {
    return false;
  }
  owner_.OnTargetReady(slab_, epoch_);
  return true;
}

}  // namespace server
