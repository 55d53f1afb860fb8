// What must hold for any bytes that a binary connection may send: the parser stays inside them,
// gets on, and decides the same however the bytes are split; replies count their own bodies.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "protocol/binary.h"

namespace protocol {

inline bool SameRequest(const Request& a, const Request& b) {
  return a.op == b.op && a.wire == b.wire && a.quiet == b.quiet && a.close == b.close &&
         a.too_large == b.too_large && a.key == b.key && a.value == b.value &&
         a.arguments == b.arguments && a.flags == b.flags && a.exptime == b.exptime &&
         a.cas == b.cas && a.compare_cas == b.compare_cas && a.with_cas == b.with_cas &&
         a.delta == b.delta && a.decrement == b.decrement && a.initial == b.initial &&
         a.initial_exptime == b.initial_exptime && a.opcode == b.opcode && a.opaque == b.opaque &&
         a.binary_status == b.binary_status;
}

inline bool Inside(std::string_view view, std::span<const char> bytes) {
  const std::less_equal<> before;
  return view.empty() || (before(bytes.data(), view.data()) &&
                          before(view.data() + view.size(), bytes.data() + bytes.size()));
}

// The fault of the replies to a request, or null.
inline const char* FuzzBinaryReplies(const Request& request) {
  for (int status = 0; status <= static_cast<int>(Status::kNotAllowed); ++status) {
    const Response response{.status = static_cast<Status>(status), .cas = 1, .value = "value"};
    std::array<char, kHeadBytesMax> out;
    const Head head = FormatBinary(request, response, out.data());
    if (head.bytes == 0) {
      if (head.with_value) return "a value without a head";
      continue;
    }
    if (head.bytes < kBinaryHeaderBytes || head.bytes > out.size()) return "a head's length";
    const auto number = [&out](size_t from) {
      uint32_t read = 0;
      for (size_t i = from; i < from + 4; ++i) read = read << 8 | static_cast<uint8_t>(out[i]);
      return read;
    };
    const size_t value = head.with_value ? response.value.size() : 0;
    if (number(8) != head.bytes - kBinaryHeaderBytes + value) return "a body's length";
    if (number(12) != request.opaque) return "another opaque";
  }
  return nullptr;
}

// The fault that was found, or null.
inline const char* FuzzBinary(std::string_view input) {
  const Limits limits{.value_bytes_max = 32};
  while (!input.empty()) {
    // A copy of exactly this size, so that a sanitizer sees any step outside.
    std::vector<char> bytes(input.begin(), input.end());
    Request request;
    const ParseResult result = ParseBinary(bytes, limits, &request);
    if (result.status == ParseStatus::kNeedMore) {
      return result.needed > bytes.size() ? nullptr : "waits for what it has";
    }
    if (result.status != ParseStatus::kOk || result.consumed == 0) return "does not get on";
    if (!Inside(request.key, bytes) || !Inside(request.value, bytes) ||
        !Inside(request.arguments, bytes)) {
      return "a view outside the bytes";
    }
    if (request.key.size() > kKeyBytesMax) return "a key that is too long";
    if (request.value.size() > limits.value_bytes_max) return "a value that is too long";
    if (const char* fault = FuzzBinaryReplies(request)) return fault;
    for (size_t length = 1; length < std::min<size_t>(bytes.size(), 96); ++length) {
      std::vector<char> part(input.begin(), input.begin() + static_cast<ptrdiff_t>(length));
      Request early;
      const ParseResult first = ParseBinary(part, limits, &early);
      if (first.status == ParseStatus::kNeedMore) {
        if (first.needed <= length) return "waits for what it has";
        if (first.needed > result.consumed) return "waits for more than the request";
      } else if (first.consumed != result.consumed || !SameRequest(early, request)) {
        return "decides otherwise when split";
      }
    }
    if (request.close || result.consumed >= input.size()) return nullptr;
    input.remove_prefix(result.consumed);
  }
  return nullptr;
}

}  // namespace protocol
