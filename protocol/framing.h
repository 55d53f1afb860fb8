// What the text parsers have in common: requests with a known reply, values, and the lines that are
// the reply to more than one command.
#pragma once

#include <climits>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "protocol/request.h"

namespace protocol {

inline constexpr std::string_view kOkLine = "OK\r\n";
inline constexpr std::string_view kError = "ERROR\r\n";
inline constexpr std::string_view kBadLine = "CLIENT_ERROR bad command line format\r\n";
inline constexpr std::string_view kBadExptime = "CLIENT_ERROR invalid exptime argument\r\n";
inline constexpr std::string_view kBadData = "CLIENT_ERROR bad data chunk\r\n";
inline constexpr std::string_view kNotNumberLine =
    "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
inline constexpr std::string_view kTooLargeLine = "SERVER_ERROR object too large for cache\r\n";
inline constexpr std::string_view kNoMemoryLine = "SERVER_ERROR out of memory\r\n";
inline constexpr std::string_view kNoMemoryStoringLine =
    "SERVER_ERROR out of memory storing object\r\n";

// Lengths of values in text are smaller, as in memcached.
inline constexpr int32_t kValueBytesEnd = INT_MAX - 1;

inline ParseResult Done(uint64_t consumed) { return {ParseStatus::kOk, consumed, 0}; }
inline ParseResult NeedMore(uint64_t needed) { return {ParseStatus::kNeedMore, 0, needed}; }

// Makes *out a request that is answered with `reply`, unless it is quiet.
inline ParseResult Answer(std::string_view reply, uint64_t consumed, Request* out) {
  out->op = Op::kAnswer;
  out->reply = reply;
  return Done(consumed);
}

// The value of a write, which follows its line. A value larger than any item is not waited for. A
// value without CRLF at its end is dropped, with the two bytes in place of the CRLF.
inline ParseResult TakeValue(std::span<char> bytes, size_t line_bytes, uint64_t value_bytes,
                             const Limits& limits, Request* out) {
  const uint64_t all = line_bytes + value_bytes + 2;
  out->too_large = value_bytes > limits.value_bytes_max;
  if (out->too_large) return Done(all);
  if (bytes.size() < all) return NeedMore(all);
  if (std::memcmp(bytes.data() + all - 2, "\r\n", 2) != 0) {
    // memcached respects `noreply` here, but not q.
    out->quiet = out->quiet && out->wire == Wire::kText;
    return Answer(kBadData, all, out);
  }
  out->value = {bytes.data() + line_bytes, static_cast<size_t>(value_bytes)};
  return Done(all);
}

// The line of a status that has the same one in text and meta commands; empty for the others.
inline std::string_view ErrorLine(const Request& request, const Response& response) {
  switch (response.status) {
    case Status::kTooLarge:
      return kTooLargeLine;
    case Status::kNoMemory:
      return request.op == Op::kArithmetic ? kNoMemoryLine : kNoMemoryStoringLine;
    case Status::kNotNumber:
      return kNotNumberLine;
    case Status::kNotAllowed:
      return response.text;
    default:
      return {};
  }
}

}  // namespace protocol
