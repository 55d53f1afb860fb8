// Random operations on a Store, against a plain reference model.
//
// With everything in the front the two must agree in every answer. With a tiny front most keys live
// in the chain, and the only differences may be misses, and false positives and wrong values within
// the contract; never a value that was deleted, overwritten, expired or flushed.
#include <doctest/doctest.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <random>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "storage/store.h"
#include "tests/storage/store_world.h"

namespace kbf {
namespace {

struct Entry {
  std::string value;
  uint32_t flags = 0;
  uint32_t expires = 0;
  uint64_t cas = 0;
};

struct Differences {
  uint64_t reads = 0;            // of keys that the model has
  uint64_t missed = 0;           // the model has it, the store has not
  uint64_t false_positives = 0;  // the store has it, the model has not: some other key's value
  uint64_t wrong = 0;            // both have it, with different values
  uint64_t stale = 0;            // a value that this key had before
  uint64_t absent = 0;           // reads of keys that the model has not
};

class ModelTest {
 public:
  ModelTest(const StoreConfig& config, uint64_t seed, bool exact)
      : store_(MakeStore(config, seed)), random_(seed), exact_(exact) {}

  void Run(uint64_t operations, uint64_t keys) {
    for (uint64_t i = 0; i < operations; ++i) Step(keys);
  }

  Store& store() { return *store_; }
  const Differences& differences() const { return differences_; }
  uint64_t mistakes() const { return mistakes_; }  // answers that no approximation excuses
  uint32_t now() const { return now_; }

 private:
  uint64_t Below(uint64_t range) { return random_() % range; }

  std::string RandomValue() {
    switch (Below(20)) {
      case 0:
        return "unique " + std::to_string(random_());
      case 1:
        return std::to_string(Below(1000000));
      case 2:
        return std::string(Below(3000), 'x');
      default:
        return "value " + std::to_string(Below(3000));
    }
  }
  uint32_t RandomExpiry() {
    switch (Below(4)) {
      case 0:
        return now_ + 1 + static_cast<uint32_t>(Below(20));
      case 1:
        return now_ + 1 + static_cast<uint32_t>(Below(100000));
      case 2:
        return Below(50) == 0 ? kExpiredAlways : 0;
      default:
        return 0;
    }
  }

  Entry* Find(const std::string& key) {
    const auto found = model_.find(key);
    if (found == model_.end()) return nullptr;
    if (found->second.expires != 0 && found->second.expires <= now_) {
      Forget(key);
      return nullptr;
    }
    return &found->second;
  }
  // From now on no value that the key had may come back.
  void Forget(const std::string& key) {
    const auto found = model_.find(key);
    if (found == model_.end()) return;
    past_[key].insert(found->second.value);
    model_.erase(found);
  }
  void Put(const std::string& key, Entry entry) {
    Forget(key);
    if (const auto past = past_.find(key); past != past_.end()) past->second.erase(entry.value);
    if (entry.expires != 0 && entry.expires <= now_) {
      past_[key].insert(entry.value);
      return;
    }
    model_[key] = std::move(entry);
  }

  void Expect(bool right) { mistakes_ += !right; }

  // A read's answer against the model's.
  void Compare(const std::string& key, const Reading& reading) {
    const Entry* entry = Find(key);
    ++(entry != nullptr ? differences_.reads : differences_.absent);
    if (!reading.hit) {
      differences_.missed += entry != nullptr;
      return;
    }
    if (const auto past = past_.find(key);
        past != past_.end() && past->second.contains(std::string(reading.value))) {
      ++differences_.stale;
    }
    if (entry == nullptr) {
      ++differences_.false_positives;
      return;
    }
    if (reading.value != entry->value || reading.flags != entry->flags) {
      ++differences_.wrong;
      return;
    }
    if (exact_) {
      Expect(reading.cas == entry->cas);
      Expect(reading.expires == entry->expires);
    } else {
      // The chain may let it expire early, never late.
      Expect(entry->expires == 0 || (reading.expires != 0 && reading.expires <= entry->expires));
    }
  }

  void Step(uint64_t keys) {
    if (Below(50) == 0) now_ += static_cast<uint32_t>(Below(3));
    if (Below(200000) == 0) now_ += static_cast<uint32_t>(Below(50000));
    if (Below(100) == 0) (void)store_->Maintain(static_cast<unsigned>(Below(8)), now_);
    if (Below(400000) == 0) {
      const uint32_t delay = Below(2) == 0 ? 0 : static_cast<uint32_t>(Below(10));
      store_->FlushAll(now_ + delay, now_);
      flush_at_ = now_ + delay;
    }
    if (flush_at_ != 0 && now_ >= flush_at_) {
      flush_at_ = 0;
      while (!model_.empty()) Forget(std::string(model_.begin()->first));
    }
    // Half of the operations go to a tenth of the keys.
    const std::string key = KeyName(Below(2) == 0 ? Below(keys) : Below(keys / 10 + 1));
    switch (Below(24)) {
      case 0:
        return Add(key);
      case 1:
        return Replace(key);
      case 2:
        return Join(key, WriteMode::kAppend);
      case 3:
        return Join(key, WriteMode::kPrepend);
      case 4:
        return CompareAndSwap(key);
      case 5:
      case 6:
        return Count(key);
      case 7:
        return Delete(key);
      case 8:
        return Touch(key);
      case 9:
      case 10:
      case 11:
      case 12:
      case 13:
        return Set(key);
      case 14:
        return Many(keys);
      case 15:
        return TooLarge(key);
      default:
        return Compare(key, store_->Get(key, now_));
    }
  }

  void Set(const std::string& key) {
    const Entry entry{RandomValue(), static_cast<uint32_t>(Below(3)), RandomExpiry(), 0};
    const WriteResult result =
        store_->Write({WriteMode::kSet, key, entry.value, entry.flags, entry.expires}, now_);
    Expect(result.status == StoreStatus::kOk && result.cas > last_cas_);
    last_cas_ = result.cas;
    Put(key, {entry.value, entry.flags, entry.expires, result.cas});
  }

  void TooLarge(const std::string& key) {
    if (Below(20) != 0) return;
    Expect(store_->Write({WriteMode::kSet, key, std::string(20000, 'z')}, now_).status ==
           StoreStatus::kTooLarge);
    Find(key);
    Forget(key);
  }

  void Add(const std::string& key) {
    const Entry entry{RandomValue(), 0, RandomExpiry(), 0};
    const WriteResult result =
        store_->Write({WriteMode::kAdd, key, entry.value, 0, entry.expires}, now_);
    const bool there = Find(key) != nullptr;
    if (result.status == StoreStatus::kOk) {
      if (there) Expect(!exact_);  // a miss
      Put(key, {entry.value, 0, entry.expires, result.cas});
    } else {
      Expect(result.status == StoreStatus::kNotStored);
      if (!there) ++differences_.false_positives;
    }
  }

  void Replace(const std::string& key) {
    const Entry entry{RandomValue(), 1, RandomExpiry(), 0};
    const WriteResult result =
        store_->Write({WriteMode::kReplace, key, entry.value, 1, entry.expires}, now_);
    const bool there = Find(key) != nullptr;
    if (result.status == StoreStatus::kOk) {
      if (!there) ++differences_.false_positives;
      Put(key, {entry.value, 1, entry.expires, result.cas});
    } else {
      Expect(result.status == StoreStatus::kNotStored);
      Expect(!(there && exact_));
    }
  }

  void Join(const std::string& key, WriteMode mode) {
    const WriteResult result = store_->Write({mode, key, "+"}, now_);
    Entry* entry = Find(key);
    if (result.status != StoreStatus::kOk) {
      Expect(result.status == StoreStatus::kNotStored || result.status == StoreStatus::kTooLarge);
      Expect(!(entry != nullptr && exact_ && result.status == StoreStatus::kNotStored));
      return;
    }
    if (entry == nullptr) {
      ++differences_.false_positives;
      Resync(key);
      return;
    }
    Entry joined = *entry;
    joined.value = mode == WriteMode::kAppend ? joined.value + "+" : "+" + joined.value;
    joined.cas = result.cas;
    Put(key, joined);
    Resync(key);
  }

  void CompareAndSwap(const std::string& key) {
    const Reading reading = store_->Get(key, now_);
    Compare(key, reading);
    const Entry* entry = Find(key);
    const uint64_t number = Below(3) == 0 ? reading.cas + 1 : reading.cas;
    const std::string value = RandomValue();
    WriteRequest request{WriteMode::kCas, key, value};
    request.cas = reading.hit ? number : 12345;
    const WriteResult result = store_->Write(request, now_);
    if (!reading.hit) {
      Expect(result.status == StoreStatus::kNotFound || !exact_);
      if (result.status == StoreStatus::kOk) ++mistakes_;
      return;
    }
    if (reading.cas == kChainCas) {
      // Moved to the front; the retry goes by the number that it has there.
      Expect(result.status == StoreStatus::kExists);
      const Reading again = store_->Get(key, now_);
      Expect(again.hit && again.cas != kChainCas && again.value == reading.value);
    } else if (number == reading.cas) {
      Expect(result.status == StoreStatus::kOk);
      if (entry == nullptr) ++differences_.false_positives;
      Put(key, {value, 0, 0, result.cas});
    } else {
      Expect(result.status == StoreStatus::kExists);
    }
    if (!exact_) Resync(key);
  }

  void Count(const std::string& key) {
    ArithmeticRequest request;
    request.key = key;
    request.delta = Below(100);
    request.decrement = Below(2) == 0;
    if (Below(4) == 0) request.initial = Below(1000);
    const ArithmeticResult result = store_->Arithmetic(request, now_);
    Entry* entry = Find(key);
    if (result.status == StoreStatus::kNotFound) {
      Expect(!(entry != nullptr && exact_) && !request.initial);
      return;
    }
    if (result.created) {
      Expect(!(entry != nullptr && exact_) && result.number == *request.initial);
      Put(key, {std::to_string(*request.initial), 0, 0, result.cas});
      return;
    }
    if (entry == nullptr) {
      ++differences_.false_positives;
      Resync(key);
      return;
    }
    // A plus sign before and spaces after the digits are no matter, as in memcached; "++1" and "1+"
    // are no numbers.
    std::string digits = entry->value;
    while (digits.ends_with(' ')) digits.pop_back();
    if (digits.starts_with('+')) digits.erase(0, 1);
    uint64_t number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    const bool numeric = !digits.empty() && error == std::errc() &&
                         (end == digits.data() + digits.size() || *end == ' ');
    if (!numeric) {
      Expect(result.status == StoreStatus::kNotNumber || !exact_);
      return;
    }
    if (result.status == StoreStatus::kNotNumber) {
      Expect(!exact_);
      ++differences_.wrong;
      return;
    }
    const uint64_t expected = !request.decrement       ? number + request.delta
                              : request.delta > number ? 0
                                                       : number - request.delta;
    if (result.number != expected) {
      Expect(!exact_);
      ++differences_.wrong;
    }
    Entry counted = *entry;
    std::string printed = std::to_string(result.number);
    if (printed.size() < counted.value.size()) printed.resize(counted.value.size(), ' ');
    counted.value = printed;
    counted.cas = result.cas;
    Put(key, counted);
    Resync(key);
  }

  void Delete(const std::string& key) {
    const StoreStatus status = store_->Delete(key, now_);
    const bool there = Find(key) != nullptr;
    if (status == StoreStatus::kOk) {
      differences_.false_positives += !there;
    } else {
      Expect(status == StoreStatus::kNotFound && !(there && exact_));
    }
    Forget(key);
    const Reading reading = store_->Get(key, now_);
    Compare(key, reading);
  }

  void Touch(const std::string& key) {
    const uint32_t expires = RandomExpiry();
    ReadOptions options;
    options.touch = true;
    options.expires = expires;
    const Reading reading = store_->Get(key, options, now_);
    Entry* entry = Find(key);
    if (entry != nullptr && reading.hit) {
      if (exact_) Expect(reading.value == entry->value);
      Entry touched = *entry;
      touched.expires = expires;
      Put(key, touched);
      if (!exact_) Resync(key);
    } else {
      Expect(!(entry != nullptr && exact_));
      differences_.false_positives += entry == nullptr && reading.hit;
      if (entry == nullptr && reading.hit) Resync(key);
    }
  }

  void Many(uint64_t keys) {
    std::vector<std::string> names;
    for (uint64_t i = Below(60); i-- > 0;) names.push_back(KeyName(Below(keys)));
    const std::vector<std::string_view> asked(names.begin(), names.end());
    std::vector<Reading> readings(names.size());
    store_->GetMany(asked, now_, readings.data());
    for (size_t i = 0; i < names.size(); ++i) Compare(names[i], readings[i]);
  }

  // After an operation on a value that differed, the model takes over what the store holds.
  void Resync(const std::string& key) {
    const Reading reading = store_->Get(key, now_);
    if (!reading.hit) return;
    const Entry* entry = Find(key);
    if (entry != nullptr && entry->value == reading.value && entry->flags == reading.flags) {
      model_[key].expires = reading.expires;
      if (exact_) Expect(reading.cas == entry->cas);
      return;
    }
    Expect(!exact_);
    Put(key, {std::string(reading.value), reading.flags, reading.expires, reading.cas});
  }

  std::unique_ptr<Store> store_;
  std::mt19937_64 random_;
  const bool exact_;
  uint32_t now_ = 1000;
  uint32_t flush_at_ = 0;
  uint64_t last_cas_ = 0;
  uint64_t mistakes_ = 0;
  std::unordered_map<std::string, Entry> model_;
  std::unordered_map<std::string, std::unordered_set<std::string>> past_;
  Differences differences_;
};

uint64_t NumSeeds() { return Soak() ? 20 : 2; }

TEST_SUITE("storage") {
  TEST_CASE("a store whose data fit the front equals the model in every answer") {
    for (uint64_t seed = 1; seed <= NumSeeds(); ++seed) {
      CAPTURE(seed);
      StoreConfig config;
      config.memory_bytes = uint64_t{256} << 20;
      config.front_share = 1;
      config.item_bytes_max = 16384;
      ModelTest test(config, seed, true);
      test.Run(1000000, 20000);
      CHECK(test.mistakes() == 0);
      CHECK(test.differences().missed == 0);
      CHECK(test.differences().false_positives == 0);
      CHECK(test.differences().wrong == 0);
      CHECK(test.differences().stale == 0);
      CHECK(test.store().Usage().slabs.chain_keys == 0);
    }
  }

  TEST_CASE("a store with a tiny front differs from the model only within the contract") {
    KBF_FOR_EACH_ENGINE();
    for (uint64_t seed = 1; seed <= NumSeeds(); ++seed) {
      CAPTURE(seed);
      StoreConfig config;
      config.memory_bytes = uint64_t{8} << 20;
      config.front_share = 0.02;
      config.item_bytes_max = 16384;
      config.num_slabs = 4;
      config.filter_keys = 4096;
      ModelTest test(config, seed, false);
      test.Run(1500000, 60000);
      const Differences& d = test.differences();
      const StoreUsage usage = test.store().Usage();
      const ChainCounters chain = test.store().ChainEvents();
      MESSAGE("reads " << d.reads << ", missed " << d.missed << ", absent " << d.absent
                       << ", false positives " << d.false_positives << ", wrong " << d.wrong
                       << "; chain keys " << usage.slabs.chain_keys << " of "
                       << usage.slabs.front_items << " in the front, filters "
                       << usage.slabs.filters << ", demoted " << test.store().Counters().demoted
                       << ", promoted " << test.store().Counters().promoted << ", evicted "
                       << test.store().Counters().evicted << ", dropped keys " << chain.dropped_keys
                       << ", joins " << chain.joins << ", compressions " << chain.compressions
                       << ", tombstones " << usage.slabs.tombstones << ", expired filters "
                       << chain.filters_expired);
      CHECK(test.mistakes() == 0);
      CHECK(d.stale == 0);
      CHECK(static_cast<double>(d.false_positives) <=
            kFalsePositive * static_cast<double>(d.absent) + 5);
      CHECK(static_cast<double>(d.wrong) <= kWrong * static_cast<double>(d.reads) + 5);
      CHECK(test.store().Counters().demoted > 20000);
    }
  }
}

}  // namespace
}  // namespace kbf
