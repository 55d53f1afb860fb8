// What must hold for any bytes that claim to be the image of an MPCBF: they are refused, or give a
// filter that can be asked and changed and has the same image again. The checksum is made right
// first, because otherwise no input would come further.
#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "storage/membership/mpcbf_image.h"
#include "tests/fuzz/fuzz.h"

namespace kbf {

inline const char* FuzzFilterImage(MpcbfImage* image) {
  Mpcbf& filter = image->filter;
  if (filter.size() >= Mpcbf::kKeysMax) return nullptr;
  std::vector<KeyHash> keys;
  for (int i = 0; i < 64; ++i) keys.push_back(HashKey(std::to_string(i), image->secret));
  for (const KeyHash& key : keys) {
    filter.Insert(key);
    if (!filter.MayContain(key)) return "a key that was inserted is absent";
    if (filter.size() >= Mpcbf::kKeysMax) return nullptr;
  }
  for (const KeyHash& key : keys) {
    if (!filter.Delete(key)) return "a key that was inserted cannot be deleted";
  }
  if (DecodeMpcbf(EncodeMpcbf(filter, image->secret)).status != MpcbfImageStatus::kRead) {
    return "a filter whose image is refused";
  }
  return nullptr;
}

// The fault that was found, or null.
inline const char* FuzzFilter(std::string_view input) {
  const auto* const first = reinterpret_cast<const std::byte*>(input.data());
  std::vector<std::byte> bytes(first, first + input.size());
  const uint64_t sum = MpcbfImageChecksum(bytes);
  bytes.resize(bytes.size() + sizeof sum);
  std::memcpy(bytes.data() + input.size(), &sum, sizeof sum);
  MpcbfImageOutcome outcome = DecodeMpcbf(bytes);
  if (outcome.status != MpcbfImageStatus::kRead) return nullptr;
  if (EncodeMpcbf(outcome.image->filter, outcome.image->secret) != bytes) return "another image";
  return FuzzFilterImage(&*outcome.image);
}

}  // namespace kbf
