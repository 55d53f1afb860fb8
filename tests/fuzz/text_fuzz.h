// What must hold for any bytes that a text connection may send: the parser stays inside them, gets
// on, and decides the same however the bytes are split; replies are whole lines.
#pragma once

#include "protocol/meta.h"
#include "protocol/text.h"
#include "tests/fuzz/binary_fuzz.h"

namespace protocol {

inline bool SameTextRequest(const Request& a, const Request& b) {
  return SameRequest(a, b) && a.graceful == b.graceful && a.verbosity == b.verbosity &&
         a.base64_key == b.base64_key && a.no_bump == b.no_bump && a.invalidate == b.invalidate &&
         a.vivify_exptime == b.vivify_exptime && a.recache_exptime == b.recache_exptime &&
         a.wants_value == b.wants_value && a.remove_value == b.remove_value &&
         a.new_cas == b.new_cas;
}

// The fault of the replies to a request, or null.
inline const char* FuzzTextReplies(const Request& request) {
  for (int status = 0; status <= static_cast<int>(Status::kNotAllowed); ++status) {
    const Response response{.status = static_cast<Status>(status),
                            .stale = true,
                            .win = true,
                            .win_sent = true,
                            .flags = UINT32_MAX,
                            .ttl = INT64_MIN + 1,
                            .idle = UINT32_MAX,
                            .cas = UINT64_MAX,
                            .number = UINT64_MAX,
                            .key = request.key,
                            .value = "value",
                            .text = "no\r\n",
                            .item_bytes = UINT64_MAX};
    std::array<char, kHeadBytesMax> out;
    const Head head = request.wire == Wire::kMeta ? FormatMeta(request, response, out.data())
                                                  : FormatText(request, response, out.data());
    if (head.bytes == 0) {
      if (head.with_value) return "a value without a head";
      continue;
    }
    if (head.bytes > out.size()) return "a head that is too long";
    if (!std::string_view(out.data(), head.bytes).ends_with("\r\n")) return "half a line";
  }
  return nullptr;
}

// Parses each beginning of `input`, which in one piece gave `request`.
inline const char* FuzzTextSplits(std::string_view input, const Limits& limits,
                                  const ParseResult& result, const Request& request) {
  for (size_t length = 1; length < std::min<size_t>(input.size(), 128); ++length) {
    std::vector<char> part(input.begin(), input.begin() + static_cast<ptrdiff_t>(length));
    Request early;
    const ParseResult first = ParseText(part, limits, &early);
    if (first.status == ParseStatus::kNeedMore) {
      if (first.needed <= length) return "waits for what it has";
      if (first.needed > result.consumed) return "waits for more than the request";
    } else if (first.consumed != result.consumed || !SameTextRequest(early, request)) {
      return "decides otherwise when split";
    }
  }
  return nullptr;
}

// The fault that was found, or null.
inline const char* FuzzText(std::string_view input) {
  const Limits limits{.value_bytes_max = 32, .line_bytes_max = 300};
  while (!input.empty()) {
    // A copy of exactly this size, so that a sanitizer sees any step outside.
    std::vector<char> bytes(input.begin(), input.end());
    Request request;
    const ParseResult result = ParseText(bytes, limits, &request);
    if (result.status == ParseStatus::kNeedMore) {
      return result.needed > bytes.size() ? nullptr : "waits for what it has";
    }
    if (result.status != ParseStatus::kOk || result.consumed == 0) return "does not get on";
    if (!Inside(request.key, bytes) || !Inside(request.value, bytes) ||
        !Inside(request.keys, bytes) || !Inside(request.arguments, bytes) ||
        !Inside(request.meta_flags, bytes)) {
      return "a view outside the bytes";
    }
    if (request.op != Op::kAnswer && request.key.size() > kKeyBytesMax) return "a key too long";
    if (request.value.size() > limits.value_bytes_max) return "a value that is too long";
    if (const char* fault = FuzzTextReplies(request)) return fault;
    if (const char* fault = FuzzTextSplits(input, limits, result, request)) return fault;
    if (request.close || result.consumed >= input.size()) return nullptr;
    input.remove_prefix(result.consumed);
  }
  return nullptr;
}

}  // namespace protocol
