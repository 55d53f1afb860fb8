// Long runs of a full store: errors stay within the contract at every turnover of the chain,
// nothing grows without bound, and no value comes back after it was overwritten, deleted or has
// expired. `make soak` (KBF_SOAK) runs them in full.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "storage/store.h"
#include "tests/storage/kbf_world.h"
#include "tests/storage/store_world.h"

namespace kbf {
namespace {

// Draws values by share, as a pure function of a word.
class Values {
 public:
  explicit Values(const std::vector<double>& shares) : cumulative_(shares) {
    std::partial_sum(cumulative_.begin(), cumulative_.end(), cumulative_.begin());
    for (size_t i = 0; i < shares.size(); ++i) texts_.push_back(ValueText(i));
  }
  const std::string& Of(uint64_t word) const {
    const double at = static_cast<double>(Mix64(word) >> 11) * 0x1p-53 * cumulative_.back();
    const auto found = std::upper_bound(cumulative_.begin(), cumulative_.end(), at);
    return texts_[std::min<size_t>(found - cumulative_.begin(), texts_.size() - 1)];
  }

 private:
  std::vector<double> cumulative_;
  std::vector<std::string> texts_;
};

// What one number's key was last told to be.
struct Written {
  uint32_t version = 0;  // 0: deleted
  uint32_t expires = 0;
};

struct Counts {
  double asked = 0, missed = 0, wrong = 0;
};

// Whether so many errors are within the contract's rate, but for chance.
bool Within(double count, double asked, double rate) { return count <= MostEvents(rate, asked); }

void ChurnFor(const char* name, const std::vector<double>& shares) {
  CAPTURE(std::string(name));
  const uint64_t turnovers = Soak() ? 50 : 8;
  StoreConfig config;
  config.memory_bytes = uint64_t{Soak() ? 16u : 5u} << 20;
  config.num_slabs = Soak() ? 4 : 1;
  config.front_share = 0.05;
  const auto made = MakeStore(config, shares.size());
  REQUIRE(made != nullptr);
  Store& store = *made;
  const Values values(shares);
  std::mt19937_64 random(5);
  uint32_t now = 1000;

  // Keys are numbered in the order of their first set; the window is what must still be there.
  const uint64_t chain_keys = config.memory_bytes / 32;
  const uint64_t window = chain_keys / 4;
  std::vector<Written> written;
  const auto value_of = [&](uint64_t number, uint32_t version) -> const std::string& {
    return values.Of(number * 1000003 + version);
  };
  const auto put = [&](uint64_t number) {
    Written& key = written[number];
    ++key.version;
    key.expires = random() % 5 == 0 ? now + 60 + static_cast<uint32_t>(random() % 100000) : 0;
    CHECK(store
              .Write(
                  {WriteMode::kSet, KeyName(number), value_of(number, key.version), 0, key.expires},
                  now)
              .status == StoreStatus::kOk);
  };

  uint64_t tombstones_max = 0;
  for (uint64_t turnover = 1; turnover <= turnovers; ++turnover) {
    CAPTURE(turnover);
    for (uint64_t i = 0; i < chain_keys; ++i) {
      written.emplace_back();
      put(written.size() - 1);
      const uint64_t recent = std::min<uint64_t>(written.size(), window);
      if (random() % 5 == 0) put(written.size() - 1 - random() % recent);
      if (random() % 20 == 0) {
        const uint64_t victim = written.size() - 1 - random() % recent;
        written[victim].version =
            (written[victim].version + 7) & ~uint32_t{7};  // versions go on after a delete
        written[victim].expires = kExpiredAlways;
        (void)store.Delete(KeyName(victim), now);
      }
      if (random() % 64 == 0) ++now;
      if (random() % 256 == 0) (void)store.Maintain(2, now);
    }
    Counts held;
    Counts gone;
    for (uint64_t i = 0; i < window / 2; ++i) {
      const uint64_t number = written.size() - 1 - i;
      const Written& key = written[number];
      const Reading reading = store.Get(KeyName(number), now);
      const bool expired = key.expires != 0 && key.expires <= now;
      if (expired) {
        ++gone.asked;
        gone.wrong += reading.hit;
        continue;
      }
      held.wrong += reading.hit && reading.value != value_of(number, key.version);
      // Keys that expire share filters with older ones, which go first when room is needed: those
      // are evictions.
      if (key.expires != 0) continue;
      ++held.asked;
      held.missed += !reading.hit;
    }
    double false_positives = 0;
    const double absent_keys = 200000;
    for (uint64_t i = 0; i < absent_keys; ++i)
      false_positives += store.Get(KeyName((uint64_t{1} << 50) + turnover * 1000000 + i), now).hit;
    const StoreUsage usage = store.Usage();
    tombstones_max = std::max(tombstones_max, usage.slabs.tombstones);
    // packed misses a key only where another key's overwrite or delete took its entry.
    const bool packed = EngineOfTest::is_packed();
    CHECK(Within(held.missed, held.asked, packed ? kWrong : kFalseNegative));
    CHECK(Within(held.wrong, held.asked, kWrong));
    CHECK(Within(gone.wrong, gone.asked, kFalsePositive));
    CHECK(Within(false_positives, absent_keys, kFalsePositive));
    CHECK(usage.total_bytes() <= config.memory_bytes);
    if (turnover == turnovers || turnover == 1) {
      store.MeasureErrors(512, 1000, now);
      const ChainCounters chain = store.ChainEvents();
      const StoreErrors errors = store.Errors();
      MESSAGE(
          std::string(name)
          << ", turnover " << turnover << ": FN " << held.missed / held.asked << " (predicted "
          << errors.predicted.false_negative << "), FP " << false_positives / absent_keys
          << " (predicted " << errors.predicted.false_positive << "), wrong " << held.wrong
          << " of " << held.asked << ", expired or deleted but served " << gone.wrong << " of "
          << gone.asked << "; chain keys " << usage.slabs.chain_keys << ", filters "
          << usage.slabs.filters << ", fill "
          << static_cast<double>(usage.slabs.chain_keys) /
                 (static_cast<double>(usage.slabs.filters * store.config().filter_keys) + 1)
          << ", tombstones " << usage.slabs.tombstones << ", joins " << chain.joins
          << ", compressions " << chain.compressions << ", disagreements " << chain.disagreements
          << ", false candidates " << errors.false_candidates << ", memory "
          << static_cast<double>(usage.total_bytes()) / static_cast<double>(config.memory_bytes));
      // The store's own measurement agrees. The sample is a part of 512 keys, so each of its keys
      // is asked for several times.
      constexpr double kRepeats = 8;
      CHECK(
          static_cast<double>(errors.measured.false_negatives) <=
          MostEvents(kFalseNegative, static_cast<double>(errors.measured.stored_asked), kRepeats));
      CHECK(Within(static_cast<double>(errors.measured.wrong),
                   static_cast<double>(errors.measured.stored_asked), kWrong));
      CHECK(Within(static_cast<double>(errors.measured.false_positives),
                   static_cast<double>(errors.measured.absent_probes), kFalsePositive));
      CHECK(errors.measured.stored_asked > 50);
    }
  }
  CHECK(tombstones_max < chain_keys / 50);
}

TEST_SUITE("storage") {
  TEST_CASE("the contract holds at every turnover of a full chain") {
    SUBCASE("3,000 even values") { ChurnFor("3,000 even values", EvenShares(3000)); }
    SUBCASE("3,000 even values, engine packed") {
      const EngineOfTest engine;
      engine.Use(EngineKind::kPacked);
      ChurnFor("3,000 even values, engine packed", EvenShares(3000));
    }
    SUBCASE("two values") { ChurnFor("two values", EvenShares(2)); }
    SUBCASE("one value with 80 %") { ChurnFor("one value with 80 %", OneLargeShare(3000, 0.8)); }
  }

  TEST_CASE("no value comes back after it was overwritten, deleted or has expired") {
    KBF_FOR_EACH_ENGINE();
    // Reads of keys whose older copies sit in the chain, among demotions, joins, compressions and
    // drops. 10 M in soak.
    const uint64_t reads = Soak() ? 10000000 : 600000;
    StoreConfig config;
    config.memory_bytes = uint64_t{Soak() ? 24u : 6u} << 20;
    config.num_slabs = 2;
    config.front_share = 0.03;
    const auto made = MakeStore(config, 99);
    Store& store = *made;
    const uint64_t keys = config.memory_bytes / 40;  // more than fit: filters are dropped
    std::vector<Written> written(keys);
    std::vector<std::string> texts;
    for (uint64_t i = 0; i < kDistinctValues; ++i) texts.push_back(ValueText(i));
    // Consecutive versions of one key have different values.
    const auto value_of = [&](uint64_t number, uint32_t version) -> const std::string& {
      return texts[(Mix64(number) + version * uint64_t{7}) % texts.size()];
    };
    std::mt19937_64 random(17);
    uint32_t now = 1000;
    uint64_t stale = 0;
    uint64_t wrong = 0;
    uint64_t false_positives = 0;
    uint64_t hits = 0;
    for (uint64_t done = 0; done < reads;) {
      const uint64_t number = random() % keys;
      Written& key = written[number];
      const uint64_t choice = random() % 16;
      if (choice < 6) {
        ++key.version;
        key.expires = random() % 4 == 0 ? now + 1 + static_cast<uint32_t>(random() % 3000) : 0;
        (void)store.Write(
            {WriteMode::kSet, KeyName(number), value_of(number, key.version), 0, key.expires}, now);
      } else if (choice == 6) {
        (void)store.Delete(KeyName(number), now);
        key.expires = kExpiredAlways;
      } else if (choice == 7) {
        now += random() % 8 == 0;
        if (random() % 16 == 0) (void)store.Maintain(4, now);
      } else {
        ++done;
        const Reading reading = store.Get(KeyName(number), now);
        if (!reading.hit) continue;
        ++hits;
        const bool gone = key.version == 0 || (key.expires != 0 && key.expires <= now);
        if (!gone && reading.value == value_of(number, key.version)) continue;
        // One of the values that it had: the last twenty, the present one included where it is
        // gone.
        bool had = false;
        for (uint32_t back = gone ? 0 : 1; back < 20 && back < key.version; ++back) {
          had = had || reading.value == value_of(number, key.version - back);
        }
        ++(had ? stale : gone ? false_positives : wrong);
      }
    }
    const ChainCounters chain = store.ChainEvents();
    MESSAGE(reads << " reads, " << hits << " hits, stale " << stale << ", wrong " << wrong
                  << ", false positives " << false_positives << "; demoted "
                  << store.Counters().demoted << ", removed " << chain.removed << ", tombstones "
                  << chain.tombstones << ", joins " << chain.joins << ", compressions "
                  << chain.compressions << ", filters dropped " << chain.filters_dropped
                  << ", expired " << chain.filters_expired);
    CHECK(stale == 0);
    CHECK(Within(static_cast<double>(wrong), static_cast<double>(hits), kWrong));
    CHECK(Within(static_cast<double>(false_positives), static_cast<double>(reads), kFalsePositive));
    if (EngineOfTest::is_packed()) return;  // takes half the memory, and hides no keys
    CHECK(chain.joins + chain.compressions > 10);
    CHECK(chain.filters_dropped > 10);
    CHECK(chain.tombstones > 100);
  }
}

}  // namespace
}  // namespace kbf
