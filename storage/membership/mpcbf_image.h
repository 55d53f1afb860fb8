// An Mpcbf as bytes, for a file or another machine. The bytes are all of it: words, counters of
// words that have overflowed, and the secret of the keys' hashes, so that whoever reads them can
// ask and change the filter.
//
//   offset  bytes
//        0      8   "KBFMPCBF"
//        8      4   format, kMpcbfImageFormat
//       12      4   bits of a word: 16, 32 or 64
//       16      4   positions in a word, b_1
//       20      2   k
//       22      2   g
//       24      8   words
//       32      8   keys
//       40      8   words that may overflow
//       48      8   words that have overflowed
//       56      8   stuck words
//       64    192   secret
//      256          the words; for each word that has overflowed its number (8) and its counters (4
//                   each, one for each position), ascending
//     last      8   XXH3-64 of all bytes before
//
// All numbers are little-endian.
//
// Promises:  Decode(Encode(filter)) answers and counts as the filter does. Any other bytes give a
//            status; nothing is read past them, and a filter is only given where all its words can
//            have come about. The checksum finds damage, not forgery.
// Requires:  a little-endian machine. The secret is in the bytes: who can read them can make keys
//            that the filter takes for present.
// Costs:     Encode and Decode hold filter and bytes at the same time; Decode allocates no more
//            than three times the bytes that it is given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "storage/hash.h"
#include "storage/membership/mpcbf.h"

namespace kbf {

inline constexpr uint32_t kMpcbfImageFormat = 1;

std::vector<std::byte> EncodeMpcbf(const Mpcbf& filter, const HashSecret& secret);

enum class MpcbfImageStatus : uint8_t {
  kRead,
  kForeign,      // it does not begin as an image
  kOtherFormat,  // `number` is its format
  kWrongLength,  // `number` is the length that its head asks for
  kDamaged,      // the checksum differs
  kImpossible,   // the checksum is right, but no filter looks like this
  kNoMemory,
};
struct MpcbfImage {
  Mpcbf filter;
  HashSecret secret;
};
struct [[nodiscard]] MpcbfImageOutcome {
  MpcbfImageStatus status = MpcbfImageStatus::kForeign;
  uint64_t number = 0;
  std::optional<MpcbfImage> image;  // where kRead
};
MpcbfImageOutcome DecodeMpcbf(std::span<const std::byte> bytes);

// The checksum at the end, of the bytes before it.
uint64_t MpcbfImageChecksum(std::span<const std::byte> body);

}  // namespace kbf
