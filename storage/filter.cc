#include "storage/filter.h"

#include <algorithm>
#include <utility>

#include "storage/image/parts.h"

namespace kbf {

namespace {

class KbfFilter final : public Filter {
 public:
  explicit KbfFilter(Kbf kbf) : kbf_(std::move(kbf)) {}

  void Prefetch(const KeyHash& key) const override { kbf_.Prefetch(key); }
  QueryResult Query(const KeyHash& key, const SymbolBlocks& blocks) const override {
    return kbf_.Query(key, blocks);
  }
  void Insert(const KeyHash& key, uint32_t symbol) override { kbf_.Insert(key, symbol); }
  KbfStatus Delete(const KeyHash& key, const SymbolBlocks& blocks, uint32_t* value) override {
    const QueryResult found = kbf_.Query(key, blocks);
    if (found.outcome == Outcome::kAbsent) return KbfStatus::kAbsent;
    if (found.outcome == Outcome::kUndecodable) return KbfStatus::kUndecodable;
    *value = found.value;
    return IsStrong(found) ? kbf_.DeleteSymbol(key, found.symbol) : KbfStatus::kWeakEvidence;
  }
  KbfStatus Join(const Filter& other) override {
    const auto* kbf = dynamic_cast<const KbfFilter*>(&other);
    return kbf != nullptr ? kbf_.Join(kbf->kbf_) : KbfStatus::kUnlike;
  }
  KbfStatus Compress() override { return kbf_.Compress(); }
  bool IsLike(const Filter& other) const override {
    const auto* kbf = dynamic_cast<const KbfFilter*>(&other);
    return kbf != nullptr && kbf->kbf_.layout() == kbf_.layout() &&
           kbf->kbf_.num_cells() == kbf_.num_cells() && kbf->kbf_.capacity() == kbf_.capacity();
  }

  bool IsStrong(const QueryResult& result) const override {
    // The exact requirement costs six logarithms and is never more than kStrongEvidenceBits.
    return result.evidence_bits >= static_cast<float>(kStrongEvidenceBits) ||
           result.evidence_bits >= static_cast<float>(kbf_.strong_evidence_bits());
  }
  uint64_t size() const override { return kbf_.size(); }
  uint64_t capacity() const override { return kbf_.capacity(); }
  uint64_t memory_bytes() const override { return kbf_.memory_bytes(); }
  uint64_t cells() const override { return kbf_.num_cells(); }
  uint64_t entries() const override { return kbf_.size() * kbf_.layout().num_hashes; }
  ErrorRates PredictedErrors(double match) const override { return kbf_.PredictedErrors(match); }

  void Save(ImageBuffer* out) const override { ImageParts::Save(kbf_, out); }
  bool Load(ImageReader* reader) override { return ImageParts::Load(reader, &kbf_); }

 private:
  Kbf kbf_;
};

// Filters of fewer keys show too little evidence for changes in place, so COMPRESS stops there.
constexpr uint64_t kCompressedKeysMin = 2048;

unsigned FoldsOf(uint64_t filter_keys) {
  unsigned folds = 0;
  while (folds < 3 && filter_keys >> (folds + 1) >= kCompressedKeysMin) ++folds;
  return folds;
}

class KbfMaker final : public FilterMaker {
 public:
  KbfMaker(const Plan& plan, uint64_t filter_keys)
      : config_{plan.layout, filter_keys, plan.load, FoldsOf(filter_keys), /*secret_id=*/0} {
    if (const auto probe = Kbf::Create(config_).filter) bytes_ = probe->memory_bytes();
  }

  std::unique_ptr<Filter> Make() const override {
    auto made = Kbf::Create(config_);
    if (!made.filter) return nullptr;
    return std::make_unique<KbfFilter>(std::move(*made.filter));
  }
  uint64_t filter_bytes() const override { return bytes_; }
  uint64_t filter_keys() const override { return config_.capacity; }
  unsigned folds() const override { return config_.folds; }

 private:
  KbfConfig config_;
  uint64_t bytes_ = 0;
};

}  // namespace

FilterMakers::FilterMakers(std::span<const Plan> plans, uint64_t filter_keys)
    : layout_(plans.front().layout) {
  for (const Plan& plan : plans) makers_.push_back(MakeKbfFilters(plan, filter_keys));
}

const FilterMaker& FilterMakers::For(unsigned check_bits) const {
  const unsigned at = std::clamp(check_bits, check_bits_min(), layout_.check_bits);
  return *makers_[layout_.check_bits - at];
}

std::unique_ptr<FilterMaker> MakeKbfFilters(const Plan& plan, uint64_t filter_keys) {
  return std::make_unique<KbfMaker>(plan, filter_keys);
}

}  // namespace kbf
