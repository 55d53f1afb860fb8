#include "tools/kbfload/source.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "storage/hash.h"
#include "tools/kbfload/mix_bits.h"

namespace load {
namespace {

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15u;

// What one connection, or group of them, does of the operations of all.
uint64_t ShareOf(uint64_t ops, unsigned sharers, uint64_t sharer) {
  return ops / sharers + (sharer < ops % sharers);
}

using Cursor = std::shared_ptr<std::atomic<uint64_t>>;

class Walk : public Source {
 public:
  Walk(Verb verb, KeyCode first, KeyCode step, uint64_t count, Cursor cursor)
      : verb_(verb), first_(first), step_(step), count_(count), cursor_(std::move(cursor)) {}

  size_t Next(std::span<Task> out) override {
    const size_t wanted = verb_ == Verb::kGet ? out.size() : 1;
    size_t given = 0;
    for (; given < wanted; ++given, ++next_) {
      if (next_ == end_ && !TakeMore()) break;
      out[given] = {verb_, first_ + step_ * next_};
    }
    return given;
  }

 private:
  // By the chunk, so that threads seldom meet.
  static constexpr uint64_t kChunk = 64;

  bool TakeMore() {
    next_ = std::min(count_, cursor_->fetch_add(kChunk, std::memory_order_relaxed));
    end_ = std::min(count_, next_ + kChunk);
    return next_ < end_;
  }

  Verb verb_;
  KeyCode first_;
  KeyCode step_;
  uint64_t count_;
  Cursor cursor_;
  uint64_t next_ = 0;
  uint64_t end_ = 0;
};

class Draws : public Source {
 public:
  Draws(const Workload& workload, const MixOptions& options, unsigned connections,
        uint64_t connection, uint64_t ops)
      : options_(options),
        keys_(workload.keys()),
        popularity_(keys_, options.zipf),
        place_(keys_, kbf::Mix64(workload.options().seed + 1)),
        state_(kbf::Mix64(kbf::Mix64(workload.options().seed + options.pass) + connection)),
        moves_every_(static_cast<double>(options.moves_every) / connections),
        scan_begin_(keys_ / connections * connection),
        left_(ops) {
    const auto& share = options.mix.share;
    const double all = std::accumulate(share.begin(), share.end(), 0.0);
    std::partial_sum(share.begin(), share.end(), up_to_.begin());
    for (double& bound : up_to_) bound /= all;
  }

  size_t Next(std::span<Task> out) override {
    if (left_ == 0) return 0;
    const double u = Unit(Word());
    size_t verb = 0;
    while (verb + 1 < kVerbs && u >= up_to_[verb]) ++verb;
    const size_t count = verb == 0 ? std::min<uint64_t>(out.size(), left_) : 1;
    left_ -= count;
    done_ += count;
    for (Task& task : out.first(count)) {
      const bool scan = verb == 0 && options_.scan > 0 && Unit(Word()) < options_.scan;
      const uint64_t number = scan ? (scan_begin_ + scanned_++) % keys_ : DrawNumber();
      const bool absent =
          verb == 0 && options_.absent_asked > 0 && Unit(Word()) < options_.absent_asked;
      task = {static_cast<Verb>(verb), absent ? AbsentKey(number) : StoredKey(number)};
    }
    return count;
  }

 private:
  uint64_t Word() { return kbf::Mix64(state_ += kGolden); }
  uint64_t DrawNumber() {
    const uint64_t rank = popularity_.Draw(Word());
    // Uniform popularity needs no shuffling: the numbers mean nothing.
    if (options_.zipf == 0) return rank;
    if (options_.moves_every == 0) return place_(rank);
    return place_((rank + static_cast<uint64_t>(static_cast<double>(done_) / moves_every_)) %
                  keys_);
  }

  MixOptions options_;
  uint64_t keys_;
  Zipf popularity_;
  Permutation place_;
  uint64_t state_;
  double moves_every_;  // of this connection's operations
  uint64_t scan_begin_;
  uint64_t scanned_ = 0;
  uint64_t done_ = 0;
  uint64_t left_;
  std::array<double, kVerbs> up_to_{};
};

class Cycle : public Source {
 public:
  Cycle(const CycleOptions& options, uint64_t ops, Cursor done, uint64_t connection)
      : options_(options),
        ops_(ops),
        place_(options.keys, kGolden),
        popularity_(options.keys, options.zipf_skew),
        state_(kbf::Mix64(connection)),
        done_(std::move(done)) {}

  size_t Next(std::span<Task> out) override {
    const uint64_t wanted = options_.verb == Verb::kGet ? out.size() : 1;
    const uint64_t at = done_->fetch_add(wanted, std::memory_order_relaxed);
    if (at >= ops_) return 0;
    const size_t count = std::min(wanted, ops_ - at);
    for (size_t i = 0; i < count; ++i) {
      out[i] = {options_.verb, StoredKey(NumberAt((at + i) % options_.keys))};
    }
    return count;
  }

 private:
  uint64_t Word() { return kbf::Mix64(state_ += kGolden); }
  uint64_t NumberAt(uint64_t turn) {
    switch (options_.order) {
      case KeyOrder::kShuffled:
        return place_(turn);
      case KeyOrder::kUniform:
        return kbf::ScaleTo(Word(), options_.keys);
      case KeyOrder::kZipf:
        return popularity_.Draw(Word());
      default:
        return turn;
    }
  }

  CycleOptions options_;
  uint64_t ops_;  // of the group
  Permutation place_;
  Zipf popularity_;
  uint64_t state_;
  Cursor done_;  // operations of the group so far
};

class Replay : public Source {
 public:
  Replay(std::shared_ptr<const std::vector<Task>> trace, Cursor cursor)
      : trace_(std::move(trace)), cursor_(std::move(cursor)) {}

  // One by one from the shared cursor; what does not fit a request waits for the next one.
  size_t Next(std::span<Task> out) override {
    size_t given = 0;
    while (given < out.size() && (held_ || Take())) {
      if (given > 0 && !(waiting_.verb == Verb::kGet && out[0].verb == Verb::kGet)) break;
      out[given++] = waiting_;
      held_ = false;
    }
    return given;
  }

 private:
  bool Take() {
    const uint64_t at = cursor_->fetch_add(1, std::memory_order_relaxed);
    held_ = at < trace_->size();
    if (held_) waiting_ = (*trace_)[at];
    return held_;
  }

  std::shared_ptr<const std::vector<Task>> trace_;
  Cursor cursor_;
  Task waiting_;
  bool held_ = false;
};

}  // namespace

SourceFactory WalkKeys(Verb verb, KeyCode first, KeyCode step, KeyCode end) {
  const uint64_t count = (end - first + step - 1) / step;
  const auto cursor = std::make_shared<std::atomic<uint64_t>>(0);
  return [=](uint64_t) { return std::make_unique<Walk>(verb, first, step, count, cursor); };
}

SourceFactory DrawKeys(const Workload& workload, const MixOptions& options, unsigned connections) {
  return [&workload, options, connections](uint64_t connection) {
    const uint64_t ops = ShareOf(options.ops, connections, connection);
    return std::make_unique<Draws>(workload, options, connections, connection, ops);
  };
}

SourceFactory CycleKeys(const CycleOptions& options) {
  std::vector<Cursor> groups(options.groups);
  for (Cursor& done : groups) done = std::make_shared<std::atomic<uint64_t>>(0);
  return [options, groups](uint64_t connection) {
    const uint64_t group = connection % options.groups;
    const uint64_t ops = std::min(options.group_ops, ShareOf(options.ops, options.groups, group));
    return std::make_unique<Cycle>(options, ops, groups[group], connection);
  };
}

SourceFactory ReplayTrace(const std::shared_ptr<const std::vector<Task>>& trace) {
  const auto cursor = std::make_shared<std::atomic<uint64_t>>(0);
  return [=](uint64_t) { return std::make_unique<Replay>(trace, cursor); };
}

Mix ParseMix(const std::string& text) {
  Mix mix;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (size_t i = 0; i < 3; ++i) {
    const auto [stop, code] = std::from_chars(at, end, mix.share[i]);
    const bool last = i == 2;
    const bool good = code == std::errc() && std::isfinite(mix.share[i]) && mix.share[i] >= 0 &&
                      (last ? stop == end : stop != end && *stop == ':');
    if (!good) {
      throw std::invalid_argument("--mix is get:set:delete such as 30:1:0.23, not '" + text + "'");
    }
    at = stop + 1;
  }
  if (mix.share[0] + mix.share[1] + mix.share[2] <= 0) {
    throw std::invalid_argument("--mix must have a share above 0");
  }
  return mix;
}

}  // namespace load
