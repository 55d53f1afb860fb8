// What must hold for any bytes that a server may answer: the client's parser stays inside them,
// gets on, and decides the same however the bytes are split.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "protocol/client.h"
#include "tests/fuzz/fuzz.h"

namespace protocol {

// Parses the beginnings of `input`, which in one piece gave `whole`.
inline const char* FuzzReplySplits(Wire wire, std::string_view input, const ReplyResult& whole) {
  const size_t end = whole.status == ReplyStatus::kOk ? whole.consumed : input.size();
  for (size_t length = 0; length < std::min<size_t>(end, 128); ++length) {
    const std::vector<char> part(input.begin(), input.begin() + static_cast<ptrdiff_t>(length));
    Reply reply;
    const ReplyResult first = ParseReply(wire, {part.data(), part.size()}, &reply);
    if (first.status == ReplyStatus::kOk) return "a reply before it is whole";
    if (first.status == ReplyStatus::kBroken) {
      if (whole.status != ReplyStatus::kBroken) return "broken when split";
      continue;
    }
    if (first.needed <= length) return "waits for what it has";
    if (whole.status == ReplyStatus::kOk && first.needed > whole.consumed) {
      return "waits for more than the reply";
    }
  }
  return nullptr;
}

inline const char* FuzzReplies(Wire wire, std::string_view input) {
  while (!input.empty()) {
    // A copy of exactly this size, so that a sanitizer sees any step outside.
    const std::vector<char> copy(input.begin(), input.end());
    const std::string_view bytes(copy.data(), copy.size());
    Reply reply;
    const ReplyResult result = ParseReply(wire, bytes, &reply);
    if (const char* fault = FuzzReplySplits(wire, input, result)) return fault;
    if (result.status == ReplyStatus::kBroken) return nullptr;
    if (result.status == ReplyStatus::kNeedMore) {
      return result.needed > bytes.size() ? nullptr : "waits for what it has";
    }
    if (result.consumed == 0 || result.consumed > bytes.size()) return "does not get on";
    const std::string_view taken = bytes.substr(0, result.consumed);
    if (!fuzz::Inside(reply.key, taken) || !fuzz::Inside(reply.value, taken) ||
        !fuzz::Inside(reply.text, taken)) {
      return "a view outside the reply";
    }
    input.remove_prefix(result.consumed);
  }
  return nullptr;
}

// The fault that was found, or null.
inline const char* FuzzClient(std::string_view input) {
  for (const Wire wire : {Wire::kText, Wire::kMeta, Wire::kBinary}) {
    if (const char* fault = FuzzReplies(wire, input)) return fault;
  }
  return nullptr;
}

}  // namespace protocol
