#include "tools/kbfjoin/filter_file.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

#include "tools/files.h"

namespace join {

namespace {

// 64 GiB, 256 bits for each of Mpcbf::kKeysMax keys and more.
constexpr size_t kFileBytesMax = size_t{1} << 36;

kbf::MpcbfConfig ConfigFor(uint64_t keys, const FilterSize& size) {
  if (size.bits_per_key <= 0) {
    const auto config = kbf::Mpcbf::Plan(keys, size.false_positive, size.num_accesses);
    if (!config) {
      throw tools::FileError("no filter has that false positive rate with " +
                             std::to_string(size.num_accesses) +
                             " accesses; raise --false-positive or --accesses");
    }
    return *config;
  }
  kbf::MpcbfConfig config;
  config.keys = keys;
  config.memory_bits =
      static_cast<uint64_t>(std::ceil(static_cast<double>(keys) * size.bits_per_key));
  config.memory_bits = std::max<uint64_t>(config.memory_bits, config.word_bits);
  config.num_accesses = size.num_accesses;
  config.num_hashes = size.num_hashes != 0
                          ? size.num_hashes
                          : kbf::BestNumHashes(keys, config.memory_bits / config.word_bits,
                                               config.word_bits, size.num_accesses);
  config.first_level = size.first_level;
  return config;
}

}  // namespace

kbf::Mpcbf BuildFilter(std::vector<kbf::KeyHash>* hashes, const FilterSize& size) {
  const auto before = [](const kbf::KeyHash& a, const kbf::KeyHash& b) {
    return a.hi != b.hi ? a.hi < b.hi : a.lo < b.lo;
  };
  std::sort(hashes->begin(), hashes->end(), before);
  hashes->erase(std::unique(hashes->begin(), hashes->end()), hashes->end());
  if (hashes->size() > kbf::Mpcbf::kKeysMax) {
    throw tools::FileError("there are more than " + std::to_string(kbf::Mpcbf::kKeysMax) +
                           " keys, the most that a filter holds");
  }
  kbf::MpcbfConfig config = ConfigFor(std::max<uint64_t>(hashes->size(), kPlannedKeysMin), size);
  // Keys never leave this filter, so a word that overflows may forget its counters.
  config.overflow_words_max = 0;
  auto filter = kbf::Mpcbf::Create(config);
  if (!filter) {
    throw tools::FileError(
        "these sizes make no filter: it needs --accesses up to --hashes, 1 to " +
        std::to_string(kbf::kWordHashesMax) +
        " hashes, and bits for --first-level, or for one by eq. 11, in words of 64; or there is no "
        "memory for it");
  }
  for (const kbf::KeyHash& hash : *hashes) filter->Insert(hash);
  return std::move(*filter);
}

void WriteFilter(const std::string& path, const kbf::Mpcbf& filter, const kbf::HashSecret& secret) {
  tools::ReplaceFile(path, kbf::EncodeMpcbf(filter, secret));
}

kbf::MpcbfImage ReadFilter(const std::string& path) {
  const std::vector<std::byte> bytes = tools::ReadFile(path, kFileBytesMax);
  kbf::MpcbfImageOutcome outcome = kbf::DecodeMpcbf(bytes);
  const std::string number = std::to_string(outcome.number);
  switch (outcome.status) {
    case kbf::MpcbfImageStatus::kRead:
      return std::move(*outcome.image);
    case kbf::MpcbfImageStatus::kForeign:
      throw tools::FileError(path + " is no filter of kbfjoin");
    case kbf::MpcbfImageStatus::kOtherFormat:
      throw tools::FileError(path + " has format " + number + ", and this kbfjoin reads format " +
                             std::to_string(kbf::kMpcbfImageFormat) + "; build it again");
    case kbf::MpcbfImageStatus::kWrongLength:
      throw tools::FileError(
          path + (bytes.size() < outcome.number ? " is cut off: it has " : " is damaged: it has ") +
          std::to_string(bytes.size()) + " bytes and should have " + number);
    case kbf::MpcbfImageStatus::kDamaged:
      throw tools::FileError(path + " is damaged: its checksum is wrong");
    case kbf::MpcbfImageStatus::kImpossible:
      throw tools::FileError(path + " is damaged: it holds what no filter can hold");
    case kbf::MpcbfImageStatus::kNoMemory:
      break;
  }
  throw tools::FileError("there is no memory for the filter in " + path);
}

}  // namespace join
