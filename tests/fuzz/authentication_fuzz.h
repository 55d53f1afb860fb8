// What must hold for the bytes of a client that has not authenticated: whatever it sends, no other
// request comes of it than an attempt to, the parser stays inside the bytes, gets on, and decides
// the same however the bytes are split.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "protocol/authentication.h"
#include "protocol/request_parser.h"
#include "tests/fuzz/binary_fuzz.h"

namespace protocol {

inline bool IsLockedOp(const Request& request) {
  switch (request.op) {
    case Op::kAnswer:
    case Op::kAuthenticate:
      return true;
    case Op::kSaslStep:
    case Op::kSaslList:
      return request.wire == Wire::kBinary;
    default:
      return false;
  }
}

// The fault of one request, or null.
inline const char* FuzzLockedRequest(const Request& request, std::string_view bytes) {
  if (!IsLockedOp(request)) return "a request without authentication";
  if (!Inside(request.key, bytes) || !Inside(request.value, bytes)) {
    return "a view outside the bytes";
  }
  if (request.value.size() > kCredentialBytesMax) return "credentials that are too long";
  if (request.op == Op::kAnswer || request.op == Op::kSaslList || request.too_large) return nullptr;
  const auto credentials = request.wire == Wire::kText ? SplitTextCredentials(request.value)
                                                       : SplitPlainCredentials(request.value);
  if (!credentials) return request.wire == Wire::kText ? "text without credentials" : nullptr;
  return Inside(credentials->user, request.value) && Inside(credentials->password, request.value)
             ? nullptr
             : "credentials outside the value";
}

// The fault of the first request of `input`, or null. *rest: what is behind it.
inline const char* FuzzLockedFirst(WireChoice wire, const Limits& limits, std::string_view input,
                                   std::string_view* rest) {
  // A copy of exactly this size, so that a sanitizer sees any step outside.
  std::vector<char> bytes(input.begin(), input.end());
  *rest = {};
  Request request;
  const ParseResult result = RequestParser(wire, true).Parse(bytes, limits, &request);
  if (result.status == ParseStatus::kNeedMore) {
    return result.needed > bytes.size() ? nullptr : "waits for what it has";
  }
  if (result.consumed == 0) return "does not get on";
  if (const char* fault = FuzzLockedRequest(request, {bytes.data(), bytes.size()})) return fault;
  for (size_t length = 1; length < std::min<size_t>(input.size(), 64); ++length) {
    std::vector<char> part(input.begin(), input.begin() + static_cast<ptrdiff_t>(length));
    Request early;
    const ParseResult first = RequestParser(wire, true).Parse(part, limits, &early);
    if (first.status == ParseStatus::kNeedMore) {
      if (first.needed <= length) return "waits for what it has";
    } else if (early.op != request.op || early.close != request.close) {
      return "decides otherwise when split";
    }
  }
  if (!request.close && result.consumed < input.size()) *rest = input.substr(result.consumed);
  return nullptr;
}

// The fault that was found, or null.
inline const char* FuzzAuthentication(std::string_view input) {
  for (const WireChoice wire : {WireChoice::kText, WireChoice::kBinary, WireChoice::kAuto}) {
    for (const bool sasl : {false, true}) {
      for (std::string_view rest = input; !rest.empty();) {
        if (const char* fault = FuzzLockedFirst(wire, {.sasl = sasl}, rest, &rest)) return fault;
      }
    }
  }
  return nullptr;
}

}  // namespace protocol
