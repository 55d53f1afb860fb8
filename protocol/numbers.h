// Numbers as memcached reads them with strtol and strtoull: white space and a sign may come first,
// and anything may follow after white space. A number that does not fit 64 bits is refused. One
// that does not fit 32 bits loses its upper half, so that a flag of 4294967297 is 1 and a length of
// 4294967295 is negative.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace protocol {

inline constexpr std::string_view kWhiteSpace = " \t\n\v\f\r";

// A number with sign or white space. `bits` is its value modulo 2^64.
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

// Only digits, as in nearly all requests.
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
  // As in memcached, a minus is refused only if the result, read as a signed number, is negative:
  // -1 is refused, -(2^64-1) is not.
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
  // Beyond 63 bits the sign comes out wrong.
  const auto value = static_cast<int64_t>(number->bits);
  if (value != 0 && (value < 0) != number->negative) return std::nullopt;
  return static_cast<int32_t>(value);
}

}  // namespace protocol
