// Numbers as memcached reads them, which is how strtol and strtoull do: white space and a sign in
// front, anything behind as long as white space comes first. What does not fit into 64 bits is no
// number; what fits there but not into 32 bits loses its upper half, so that a flag of 4294967297
// is 1 and a length of 4294967295 is negative.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace protocol {

inline constexpr std::string_view kWhiteSpace = " \t\n\v\f\r";

// A number that is more than digits, or none: sign, white space, garbage. `bits` is its value
// modulo 2^64.
struct LooseNumber {
  uint64_t bits = 0;
  bool negative = false;
};

inline std::optional<LooseNumber> ParseLoose(std::string_view token) {
  const size_t begin = std::min(token.find_first_not_of(kWhiteSpace), token.size());
  const char* at = token.data() + begin;
  const char* const end = token.data() + token.size();
  LooseNumber number;
  if (at != end && (*at == '+' || *at == '-')) number.negative = *at++ == '-';
  const auto [behind, error] = std::from_chars(at, end, number.bits);
  if (error != std::errc()) return std::nullopt;
  if (behind != end && kWhiteSpace.find(*behind) == kWhiteSpace.npos) return std::nullopt;
  if (number.negative) number.bits = -number.bits;
  return number;
}

// Digits and nothing else: what nearly all numbers are.
inline std::optional<uint64_t> ParseDigits(std::string_view token) {
  uint64_t value = 0;
  const char* const end = token.data() + token.size();
  const auto [behind, error] = std::from_chars(token.data(), end, value);
  if (error != std::errc() || behind != end) return std::nullopt;
  return value;
}

inline std::optional<uint64_t> ParseU64(std::string_view token) {
  if (const auto digits = ParseDigits(token)) return digits;
  const auto number = ParseLoose(token);
  // A minus is refused only where the result, read as signed, is negative: -1 is, -(2^64-1) is not.
  if (!number || (static_cast<int64_t>(number->bits) < 0 && token.find('-') != token.npos)) {
    return std::nullopt;
  }
  return number->bits;
}

inline std::optional<uint32_t> ParseU32(std::string_view token) {
  const auto number = ParseU64(token);
  if (!number) return std::nullopt;
  return static_cast<uint32_t>(*number);
}

inline std::optional<int32_t> ParseI32(std::string_view token) {
  const auto digits = ParseDigits(token);
  const auto number = digits ? LooseNumber{*digits, false} : ParseLoose(token);
  if (!number) return std::nullopt;
  // Past the end of 64 signed bits, on either side, the sign is the wrong one.
  const auto value = static_cast<int64_t>(number->bits);
  if (value != 0 && (value < 0) != number->negative) return std::nullopt;
  return static_cast<int32_t>(value);
}

}  // namespace protocol
