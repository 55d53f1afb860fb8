// RequestParser turns the bytes of one connection into requests. It chooses the protocol by the
// first byte and remembers where a connection is in a get line that arrives in pieces.
//
// Requires:  `(Parse (Accept | AcceptPart)?)*`: a request that was neither accepted nor partly
//            accepted is parsed again, from the same bytes.
// Costs:     32 bytes; no allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "protocol/request.h"

namespace protocol {

enum class WireChoice : uint8_t { kAuto, kText, kBinary };

class RequestParser {
 public:
  // `locked`: nothing but authentication is a request, until SetLocked(false).
  explicit RequestParser(WireChoice choice, bool locked = false)
      : choice_(choice), locked_(locked) {}

  // REQUIRES: bytes is not empty.
  ParseResult Parse(std::span<char> bytes, const Limits& limits, Request* out);
  // The request was taken as a whole: the next one begins behind it.
  void Accept(const Request& request) {
    keys_ = {request.more_keys || request.skip_line, request.skip_line, request.with_cas,
             request.exptime};
  }
  // Nothing of the request was taken, or, of a get in text, only the keys in front of request.keys.
  // Returns how many of the bytes that it was parsed from are used up.
  size_t AcceptPart(const Request& request, std::span<const char> bytes);

  void SetLocked(bool locked) { locked_ = locked; }

  // Known after the first Parse.
  bool is_binary() const { return choice_ == WireChoice::kBinary; }

 private:
  WireChoice choice_;  // kAuto until the first byte is there
  bool locked_;
  KeyList keys_;  // of the current get line
};

}  // namespace protocol
