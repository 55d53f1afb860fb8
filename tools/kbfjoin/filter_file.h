// Builds the filter that mappers get, and reads it from its file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "storage/hash.h"
#include "storage/membership/mpcbf_image.h"

namespace join {

// How the filter is sized: for a false positive rate, or by hand.
struct FilterSize {
  double false_positive = 0.01;
  unsigned num_accesses = 2;  // g
  // By hand: 0 here means by rate.
  double bits_per_key = 0;
  unsigned num_hashes = 0;   // 0: the best for that memory
  unsigned first_level = 0;  // b_1; 0: by eq. 11 of [MPCBF]
};

// A filter for fewer keys than this is made as large as for so many: it takes a few KB, and the
// sizing rests on averages.
inline constexpr uint64_t kPlannedKeysMin = 1024;

// Sorts the hashes and drops those that are there twice. Throws tools::FileError with a sentence
// where no such filter can be made.
kbf::Mpcbf BuildFilter(std::vector<kbf::KeyHash>* hashes, const FilterSize& size);

// Throws tools::FileError.
void WriteFilter(const std::string& path, const kbf::Mpcbf& filter, const kbf::HashSecret& secret);
kbf::MpcbfImage ReadFilter(const std::string& path);

}  // namespace join
