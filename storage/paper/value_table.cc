#include "storage/paper/value_table.h"

#include <cmath>
#include <utility>

#include "storage/planner.h"

namespace kbf {

PaperValueTable::PaperValueTable(PaperKbf secondary, EncodingTable table, const HashSecret& secret)
    : secondary_(std::move(secondary)), table_(std::move(table)), secret_(secret) {}

std::optional<PaperValueTable> PaperValueTable::Create(std::shared_ptr<const EncodingSet> set,
                                                       double false_positive,
                                                       const HashSecret& secret) {
  if (set == nullptr || set->encodings().empty()) return std::nullopt;
  const auto setting = PaperPlan(false_positive);
  if (!setting) return std::nullopt;
  std::vector<EncodingTable::Entry> entries;
  for (const uint32_t e : set->encodings()) {
    entries.push_back({e, static_cast<uint32_t>(entries.size())});
  }
  const double cells = static_cast<double>(entries.size()) * setting->num_hashes / setting->load;
  auto table = EncodingTable::Create(std::move(entries));
  auto secondary =
      PaperKbf::Create(static_cast<size_t>(std::ceil(cells)), setting->num_hashes, std::move(set));
  if (!table || !secondary) return std::nullopt;
  return PaperValueTable(*std::move(secondary), *std::move(table), secret);
}

std::optional<uint32_t> PaperValueTable::Encode(std::string_view value) {
  const KeyHash hash = HashKey(value, secret_);
  const PaperAnswer known = secondary_.Query(hash);
  if (known.outcome == PaperOutcome::kFound) return known.encoding;
  const auto encodings = secondary_.encoding_set().encodings();
  if (values_.size() == encodings.size()) return std::nullopt;
  const uint32_t encoding = encodings[values_.size()];
  values_.emplace_back(value);
  (void)secondary_.Insert(hash, encoding);  // it is in the set
  return encoding;
}

std::optional<std::string_view> PaperValueTable::Decode(uint32_t encoding) const {
  const auto found = table_.FindByRegression(encoding).value_index;
  if (!found || *found >= values_.size()) return std::nullopt;
  return values_[*found];
}

uint64_t PaperValueTable::mapping_bytes() const {
  uint64_t bytes = sizeof(EncodingTable::Entry) * values_.size();
  for (const std::string& value : values_) bytes += value.size();
  return bytes;
}

}  // namespace kbf
