// The ways to choose what is evicted that bench/eviction_sim.cc compares, as simulations: keys are
// small numbers, and an item is its size in bytes.
//
// A policy is asked for a key (Access) and answers whether it was held; what was not held is stored
// at once, as a cache's client would. All policies get the same number of bytes, and pay from them
// for what they remember themselves:
//
//   8 bytes per item    two links of 32 bits: LRU, segmented LRU, SIEVE, W-TinyLFU
//   0                   CLOCK and the FIFOs: a few bits in the item's head, order by place
//   3 bytes per ghost   a key that S3-FIFO evicted lately: 12 bits of its hash and 4 of the time,
//   in
//                       buckets that are 70 % full
//   8 bytes per item    the sketch of W-TinyLFU: 16 counters of 4 bits
//   12 bytes per item   the heap of GDSF
#pragma once

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace bench {

inline constexpr uint32_t kNone = UINT32_MAX;
inline constexpr uint32_t kLinkBytes = 8;
inline constexpr uint32_t kSketchBytes = 8;
inline constexpr uint32_t kHeapBytes = 12;

class Policy {
 public:
  // `sizes` has the bytes of each key's item and outlives the policy.
  Policy(const std::vector<uint32_t>& sizes, uint64_t capacity, uint32_t bytes_per_item)
      : sizes_(sizes), capacity_(capacity), bytes_per_item_(bytes_per_item) {}
  virtual ~Policy() = default;
  virtual bool Access(uint32_t key) = 0;
  uint64_t items() const { return items_; }

 protected:
  uint64_t BytesOf(uint32_t key) const { return sizes_[key] + bytes_per_item_; }
  bool Fits(uint32_t key) const { return used_ + BytesOf(key) <= capacity_; }
  void Add(uint32_t key) {
    used_ += BytesOf(key);
    ++items_;
  }
  void Drop(uint32_t key) {
    used_ -= BytesOf(key);
    --items_;
  }

  const std::vector<uint32_t>& sizes_;
  const uint64_t capacity_;
  const uint32_t bytes_per_item_;
  uint64_t used_ = 0;
  uint64_t items_ = 0;
};

// Doubly linked lists over all keys; a key is in at most one of them.
class Links {
 public:
  struct List {
    uint32_t head = kNone;  // the newest
    uint32_t tail = kNone;
    uint64_t bytes = 0;
  };

  explicit Links(const std::vector<uint32_t>& sizes)
      : sizes_(sizes), newer_(sizes.size(), kNone), older_(sizes.size(), kNone) {}

  void Push(List* list, uint32_t key) {
    newer_[key] = kNone;
    older_[key] = list->head;
    (list->head == kNone ? list->tail : newer_[list->head]) = key;
    list->head = key;
    list->bytes += sizes_[key];
  }
  void Remove(List* list, uint32_t key) {
    (newer_[key] == kNone ? list->head : older_[newer_[key]]) = older_[key];
    (older_[key] == kNone ? list->tail : newer_[older_[key]]) = newer_[key];
    list->bytes -= sizes_[key];
  }
  uint32_t newer(uint32_t key) const { return newer_[key]; }

 private:
  const std::vector<uint32_t>& sizes_;
  std::vector<uint32_t> newer_;
  std::vector<uint32_t> older_;
};

class Lru : public Policy {
 public:
  Lru(const std::vector<uint32_t>& sizes, uint64_t capacity)
      : Policy(sizes, capacity, kLinkBytes), links_(sizes), held_(sizes.size()) {}

  bool Access(uint32_t key) override {
    if (held_[key]) {
      links_.Remove(&list_, key);
      links_.Push(&list_, key);
      return true;
    }
    while (!Fits(key) && list_.tail != kNone) {
      const uint32_t victim = list_.tail;
      links_.Remove(&list_, victim);
      held_[victim] = false;
      Drop(victim);
    }
    if (!Fits(key)) return false;
    links_.Push(&list_, key);
    held_[key] = true;
    Add(key);
    return false;
  }

 private:
  Links links_;
  Links::List list_;
  std::vector<bool> held_;
};

// memcached 1.6's: items enter HOT. At its tail those that were asked for twice go to WARM, others
// to COLD, where eviction takes place; asked for twice there, they return to WARM. HOT has at most
// 20 %, WARM 40 %, and neither tail is older than 0.2 and 2 times that of COLD. There is one list
// for all sizes here; memcached keeps one for each of its classes and moves pages among them.
class SegmentedLru : public Policy {
 public:
  SegmentedLru(const std::vector<uint32_t>& sizes, uint64_t capacity)
      : Policy(sizes, capacity, kLinkBytes),
        links_(sizes),
        nodes_(sizes.size(), Node{kOut, false, false, 0}) {}

  bool Access(uint32_t key) override {
    ++now_;
    Node& node = nodes_[key];
    if (node.list != kOut) {
      Bump(key);
      return true;
    }
    while (!Fits(key) && (lists_[kCold].tail != kNone || Cool(true))) {
      if (lists_[kCold].tail != kNone) Evict();
    }
    if (!Fits(key)) return false;
    node = {kHot, false, false, now_};
    links_.Push(&lists_[kHot], key);
    Add(key);
    Cool(false);
    return false;
  }

 private:
  enum Name : uint8_t { kHot, kWarm, kCold, kOut };
  struct Node {
    Name list;
    bool fetched;
    bool active;
    uint64_t time;
  };

  void Move(uint32_t key, Name to) {
    Node& node = nodes_[key];
    links_.Remove(&lists_[node.list], key);
    node.list = to;
    node.active = false;
    links_.Push(&lists_[to], key);
  }
  void Bump(uint32_t key) {
    Node& node = nodes_[key];
    if (node.active) return;
    if (!node.fetched) {
      node.fetched = true;
      return;
    }
    node.active = true;
    node.time = now_;
    if (node.list == kCold) Move(key, kWarm);
  }
  void Evict() {
    const uint32_t victim = lists_[kCold].tail;
    links_.Remove(&lists_[kCold], victim);
    nodes_[victim].list = kOut;
    Drop(victim);
  }
  // What memcached's maintenance thread does all the time. True: something moved to COLD.
  bool Cool(bool force) {
    const uint32_t oldest = lists_[kCold].tail;
    const double cold_age =
        oldest == kNone ? 1e18 : static_cast<double>(now_ - nodes_[oldest].time);
    bool moved = CoolList(kHot, 0.2, 0.2 * cold_age, force);
    moved |= CoolList(kWarm, 0.4, 2 * cold_age, force && !moved);
    return moved;
  }
  bool CoolList(Name name, double share, double age_max, bool force) {
    for (unsigned i = 0; i < 1000 && lists_[name].tail != kNone; ++i) {
      const uint32_t key = lists_[name].tail;
      if (nodes_[key].active) {
        Move(key, kWarm);
        continue;
      }
      const bool over =
          static_cast<double>(lists_[name].bytes) > share * static_cast<double>(capacity_);
      if (!force && !over && static_cast<double>(now_ - nodes_[key].time) <= age_max) return false;
      Move(key, kCold);
      return true;
    }
    return false;
  }

  Links links_;
  Links::List lists_[3];
  std::vector<Node> nodes_;
  uint64_t now_ = 0;
};

// A hand goes round all items in the order of their hashes and lowers their ages; at age 0 an item
// is evicted. A new item has age `first`, a hit adds one up to `age_max`. kbfcached's front until
// now: 1 and 3. Keys are their own hashes here: the simulation numbers them at random.
class HashClock : public Policy {
 public:
  HashClock(const std::vector<uint32_t>& sizes, uint64_t capacity, uint8_t first, uint8_t age_max)
      : Policy(sizes, capacity, 0),
        first_(first),
        age_max_(age_max),
        ages_(sizes.size(), 0),
        held_((sizes.size() + 63) / 64) {}

  bool Access(uint32_t key) override {
    if (held_[key / 64] >> key % 64 & 1) {
      ages_[key] = std::min<uint8_t>(ages_[key] + 1, age_max_);
      return true;
    }
    while (!Fits(key) && items() > 0) Step();
    if (!Fits(key)) return false;
    ages_[key] = first_;
    held_[key / 64] |= uint64_t{1} << key % 64;
    Add(key);
    return false;
  }

 private:
  void Step() {
    while ((held_[hand_ / 64] >> hand_ % 64) == 0) hand_ = (hand_ / 64 + 1) % held_.size() * 64;
    hand_ += std::countr_zero(held_[hand_ / 64] >> hand_ % 64);
    const auto key = static_cast<uint32_t>(hand_);
    if (ages_[key] == 0) {
      held_[key / 64] &= ~(uint64_t{1} << key % 64);
      Drop(key);
    } else {
      --ages_[key];
    }
    hand_ = (hand_ + 1) % (64 * held_.size());
  }

  const uint8_t first_;
  const uint8_t age_max_;
  std::vector<uint8_t> ages_;
  std::vector<uint64_t> held_;
  uint64_t hand_ = 0;
};

// Y. Zhang et al., SIEVE is Simpler than LRU (NSDI 2024): items stay in the order of arrival; a
// hand goes from the oldest to the newest, clears marks and evicts what has none.
class Sieve : public Policy {
 public:
  Sieve(const std::vector<uint32_t>& sizes, uint64_t capacity)
      : Policy(sizes, capacity, kLinkBytes),
        links_(sizes),
        held_(sizes.size()),
        visited_(sizes.size()) {}

  bool Access(uint32_t key) override {
    if (held_[key]) {
      visited_[key] = true;
      return true;
    }
    while (!Fits(key) && list_.tail != kNone) EvictOne();
    if (!Fits(key)) return false;
    links_.Push(&list_, key);
    held_[key] = true;
    visited_[key] = false;
    Add(key);
    return false;
  }

 private:
  void EvictOne() {
    if (hand_ == kNone) hand_ = list_.tail;
    while (visited_[hand_]) {
      visited_[hand_] = false;
      hand_ = links_.newer(hand_) == kNone ? list_.tail : links_.newer(hand_);
    }
    const uint32_t victim = hand_;
    hand_ = links_.newer(victim);
    links_.Remove(&list_, victim);
    held_[victim] = false;
    Drop(victim);
  }

  Links links_;
  Links::List list_;
  uint32_t hand_ = kNone;
  std::vector<bool> held_;
  std::vector<bool> visited_;
};

// One or two FIFOs. With a small one in front (J. Yang et al., FIFO queues are all you need for
// cache eviction, SOSP 2023: S3-FIFO) new items pass it first, and only those that were asked for
// `promote` times or more there, or whose keys are among the ghosts, get into the main one. At the
// end of the main FIFO an item with a count goes round again with a lower count; without, it is
// evicted. Without the small FIFO that is CLOCK.
struct FifoSettings {
  double small = 0.1;      // share of the small FIFO; 0: there is none
  unsigned count_max = 3;  // hits are counted up to here
  unsigned promote = 2;    // hits in the small FIFO that let an item into the main one
  double ghosts = 1;       // keys remembered, per item of the main FIFO
  unsigned segments = 0;   // not 0: evict by whole segments, of so many parts of the capacity
  bool by_size = false;    // large items need more hits per round, small ones fewer
  uint32_t ghost_bytes = 3;
};

class Fifo : public Policy {
 public:
  Fifo(const std::vector<uint32_t>& sizes, uint64_t capacity, FifoSettings settings)
      : Policy(sizes, capacity, 0),
        settings_(settings),
        counts_(sizes.size(), 0),
        place_(sizes.size(), kOut),
        ghost_since_(sizes.size(), 0) {}

  bool Access(uint32_t key) override {
    if (place_[key] != kOut) {
      counts_[key] =
          static_cast<uint8_t>(std::min<unsigned>(counts_[key] + 1, settings_.count_max));
      return true;
    }
    while (!HasRoom(key) && items() > 0) MakeRoom();
    if (!HasRoom(key)) return false;
    const bool to_main = settings_.small == 0 || IsGhost(key);
    counts_[key] = 0;
    Enter(to_main ? kMain : kSmall, key);
    Add(key);
    return false;
  }

 private:
  enum Place : uint8_t { kSmall, kMain, kOut };

  bool HasRoom(uint32_t key) const {
    return used_ + BytesOf(key) + GhostsMax() * settings_.ghost_bytes <= capacity_;
  }
  uint64_t GhostsMax() const {
    return settings_.small == 0 ? 0
                                : static_cast<uint64_t>(settings_.ghosts *
                                                        static_cast<double>(queues_[kMain].size()));
  }
  // A ghost is forgotten when so many others have followed it.
  bool IsGhost(uint32_t key) {
    const uint64_t since = ghost_since_[key];
    ghost_since_[key] = 0;
    return since != 0 && ghosts_ - since < GhostsMax();
  }
  void Enter(Place place, uint32_t key) {
    place_[key] = place;
    queues_[place].push_back(key);
    bytes_[place] += sizes_[key];
  }
  uint32_t Leave(Place place) {
    const uint32_t key = queues_[place].front();
    queues_[place].pop_front();
    bytes_[place] -= sizes_[key];
    return key;
  }

  void MakeRoom() {
    const bool small_over =
        static_cast<double>(bytes_[kSmall]) > settings_.small * static_cast<double>(capacity_);
    const Place place =
        (small_over && !queues_[kSmall].empty()) || queues_[kMain].empty() ? kSmall : kMain;
    uint64_t left = settings_.segments == 0 ? 1 : capacity_ / settings_.segments;
    while (left > 0 && !queues_[place].empty()) {
      left -= std::min<uint64_t>(left, sizes_[queues_[place].front()]);
      place == kSmall ? StepSmall() : StepMain();
    }
  }
  void Evict(uint32_t key) {
    place_[key] = kOut;
    Drop(key);
  }
  void StepSmall() {
    const uint32_t key = Leave(kSmall);
    if (counts_[key] >= Needed(key, settings_.promote)) {
      counts_[key] = 0;
      Enter(kMain, key);
    } else {
      Evict(key);
      ghost_since_[key] = ++ghosts_;
    }
  }
  void StepMain() {
    const uint32_t key = Leave(kMain);
    const unsigned pays = Needed(key, 1);
    if (counts_[key] < pays) {
      Evict(key);
      return;
    }
    counts_[key] = static_cast<uint8_t>(counts_[key] - pays);
    Enter(kMain, key);
  }
  unsigned Needed(uint32_t key, unsigned hits) const {
    if (!settings_.by_size || items() == 0) return hits;
    const uint64_t mean = used_ / items();
    return std::max(hits, static_cast<unsigned>(sizes_[key] / std::max<uint64_t>(mean, 1)));
  }

  const FifoSettings settings_;
  std::vector<uint8_t> counts_;
  std::vector<Place> place_;
  std::vector<uint64_t> ghost_since_;  // number of the ghost that the key is or was; 0: none
  std::deque<uint32_t> queues_[2];
  uint64_t bytes_[2] = {0, 0};
  uint64_t ghosts_ = 0;
};

// G. Einziger, R. Friedman, B. Manes, TinyLFU (2017): new items pass an LRU of 1 %; what leaves it
// replaces the oldest item of the main part only if it is asked for more often, by a sketch that is
// halved after ten requests per item. The main part is an LRU of two segments, 80 % protected.
class TinyLfu : public Policy {
 public:
  TinyLfu(const std::vector<uint32_t>& sizes, uint64_t capacity, double window)
      : Policy(sizes, capacity, kLinkBytes + kSketchBytes),
        window_(window),
        links_(sizes),
        place_(sizes.size(), kOut) {
    uint64_t sum = 0;
    for (const uint32_t size : sizes) sum += size + bytes_per_item_;
    const uint64_t items = std::max<uint64_t>(capacity / (sum / sizes.size()), 64);
    counters_.assign(std::bit_ceil(16 * items), 0);
    sample_ = 10 * items;
  }

  bool Access(uint32_t key) override {
    Count(key);
    if (place_[key] != kOut) {
      Hit(key);
      return true;
    }
    if (BytesOf(key) > capacity_) return false;
    Enter(kWindow, key);
    Add(key);
    while (Share(kWindow) > window_ || used_ > capacity_) {
      if (lists_[kWindow].tail == kNone) {
        Evict(lists_[kProbation].tail != kNone ? kProbation : kProtected);
      } else {
        Admit();
      }
    }
    return false;
  }

 private:
  enum Place : uint8_t { kWindow, kProbation, kProtected, kOut };

  double Share(Place place) const {
    return static_cast<double>(lists_[place].bytes) / static_cast<double>(capacity_);
  }
  void Enter(Place place, uint32_t key) {
    place_[key] = place;
    links_.Push(&lists_[place], key);
  }
  void Move(uint32_t key, Place to) {
    links_.Remove(&lists_[place_[key]], key);
    Enter(to, key);
  }
  void Hit(uint32_t key) {
    Move(key, place_[key] == kProbation ? kProtected : place_[key]);
    while (Share(kProtected) > 0.8 * (1 - window_)) Move(lists_[kProtected].tail, kProbation);
  }
  void Evict(Place place) {
    const uint32_t victim = lists_[place].tail;
    links_.Remove(&lists_[place], victim);
    place_[victim] = kOut;
    Drop(victim);
  }
  // The oldest of the window moves to the main part, unless there is no room and nothing there is
  // asked for less often.
  void Admit() {
    const uint32_t candidate = lists_[kWindow].tail;
    while (used_ > capacity_) {
      const Place from = lists_[kProbation].tail != kNone ? kProbation : kProtected;
      const uint32_t victim = lists_[from].tail;
      if (victim == kNone || Estimate(candidate) <= Estimate(victim)) {
        Evict(kWindow);
        return;
      }
      Evict(from);
    }
    Move(candidate, kProbation);
  }

  uint64_t Cell(uint32_t key, unsigned row) const {
    uint64_t x = (uint64_t{key} + 1) * 0x9e3779b97f4a7c15u + row * 0xd1b54a32d192ed03u;
    x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
    const uint64_t cells = counters_.size() / 4;
    return row * cells + ((x ^ x >> 32) & (cells - 1));
  }
  unsigned Estimate(uint32_t key) const {
    unsigned least = 15;
    for (unsigned row = 0; row < 4; ++row) {
      least = std::min<unsigned>(least, counters_[Cell(key, row)]);
    }
    return least;
  }
  void Count(uint32_t key) {
    for (unsigned row = 0; row < 4; ++row) {
      uint8_t& counter = counters_[Cell(key, row)];
      if (counter < 15) ++counter;
    }
    if (++counted_ < sample_) return;
    counted_ = 0;
    for (uint8_t& counter : counters_) counter /= 2;
  }

  const double window_;
  Links links_;
  Links::List lists_[3];
  std::vector<Place> place_;
  std::vector<uint8_t> counters_;
  uint64_t sample_ = 0;
  uint64_t counted_ = 0;
};

// J. Yang, Y. Yue, K. V. Rashmi, Segcache (NSDI 2021): items lie in segments in the order of
// arrival; the four oldest are merged into one that keeps what has most hits per byte.
class SegmentMerge : public Policy {
 public:
  SegmentMerge(const std::vector<uint32_t>& sizes, uint64_t capacity)
      : Policy(sizes, capacity, 0),
        segment_bytes_(capacity / 256),
        hits_(sizes.size(), 0),
        held_(sizes.size()) {}

  bool Access(uint32_t key) override {
    if (held_[key]) {
      if (hits_[key] < 255) ++hits_[key];
      return true;
    }
    while (!Fits(key) && items() > 0) Merge();
    if (!Fits(key)) return false;
    hits_[key] = 0;
    held_[key] = true;
    Add(key);
    if (segments_.empty() || open_bytes_ + sizes_[key] > segment_bytes_) {
      segments_.emplace_back();
      open_bytes_ = 0;
    }
    segments_.back().push_back(key);
    open_bytes_ += sizes_[key];
    return false;
  }

 private:
  static constexpr size_t kMerged = 4;

  // Goes on behind the segment that it made, and begins again at the oldest.
  void Merge() {
    if (hand_ + kMerged > segments_.size()) hand_ = 0;
    const size_t merged = std::min(kMerged, segments_.size() - hand_);
    std::vector<uint32_t> all;
    for (size_t i = 0; i < merged; ++i) {
      all.insert(all.end(), segments_[hand_ + i].begin(), segments_[hand_ + i].end());
    }
    std::stable_sort(all.begin(), all.end(), [&](uint32_t a, uint32_t b) {
      return uint64_t{hits_[a]} * sizes_[b] > uint64_t{hits_[b]} * sizes_[a];
    });
    std::vector<uint32_t> kept;
    uint64_t bytes = 0;
    for (const uint32_t key : all) {
      if (merged == kMerged && hits_[key] > 0 && bytes + sizes_[key] <= segment_bytes_) {
        bytes += sizes_[key];
        hits_[key] /= 2;
        kept.push_back(key);
      } else {
        held_[key] = false;
        Drop(key);
      }
    }
    const auto first = segments_.begin() + static_cast<ptrdiff_t>(hand_);
    segments_.erase(first + 1, first + static_cast<ptrdiff_t>(merged));
    if (kept.empty()) {
      segments_.erase(segments_.begin() + static_cast<ptrdiff_t>(hand_));
    } else {
      segments_[hand_++] = std::move(kept);
    }
  }

  const uint64_t segment_bytes_;
  std::vector<uint8_t> hits_;
  std::vector<bool> held_;
  std::deque<std::vector<uint32_t>> segments_;
  size_t hand_ = 0;
  uint64_t open_bytes_ = 0;
};

// L. Cherkasova's Greedy-Dual-Size-Frequency: evicts what has fewest hits per byte, where the hits
// of what came later count from a higher start.
class Gdsf : public Policy {
 public:
  Gdsf(const std::vector<uint32_t>& sizes, uint64_t capacity)
      : Policy(sizes, capacity, kHeapBytes), worth_(sizes.size(), 0), hits_(sizes.size(), 0) {}

  bool Access(uint32_t key) override {
    const bool hit = hits_[key] > 0;
    if (hit) {
      heap_.erase({worth_[key], key});
    } else {
      while (!Fits(key) && !heap_.empty()) {
        const auto [worth, victim] = *heap_.begin();
        heap_.erase(heap_.begin());
        floor_ = worth;
        hits_[victim] = 0;
        Drop(victim);
      }
      if (!Fits(key)) return false;
      Add(key);
    }
    worth_[key] = floor_ + ++hits_[key] / static_cast<double>(BytesOf(key));
    heap_.insert({worth_[key], key});
    return hit;
  }

 private:
  double floor_ = 0;
  std::vector<double> worth_;
  std::vector<uint32_t> hits_;
  std::set<std::pair<double, uint32_t>> heap_;
};

// L. Belady's: knows the future and evicts what is needed last; where the new item itself is needed
// last, it is not kept. Nobody can do better where all items have one size.
class Belady : public Policy {
 public:
  Belady(const std::vector<uint32_t>& sizes, uint64_t capacity, const std::vector<uint32_t>& trace)
      : Policy(sizes, capacity, 0), next_(trace.size(), UINT64_MAX), needed_(sizes.size(), kOut) {
    std::vector<uint64_t> seen(sizes.size(), UINT64_MAX);
    for (size_t i = trace.size(); i-- > 0;) next_[i] = std::exchange(seen[trace[i]], i);
  }

  bool Access(uint32_t key) override {
    const uint64_t next = next_[at_++];
    const bool hit = needed_[key] != kOut;
    if (hit) {
      order_.erase({needed_[key], key});
    } else {
      Add(key);
    }
    needed_[key] = next == UINT64_MAX ? kOut - 1 : next;
    order_.insert({needed_[key], key});
    while (used_ > capacity_) {
      const uint32_t victim = order_.rbegin()->second;
      order_.erase({needed_[victim], victim});
      needed_[victim] = kOut;
      Drop(victim);
    }
    return hit;
  }

 private:
  static constexpr uint64_t kOut = UINT64_MAX;
  std::vector<uint64_t> next_;
  std::vector<uint64_t> needed_;
  std::set<std::pair<uint64_t, uint32_t>> order_;
  size_t at_ = 0;
};

}  // namespace bench
