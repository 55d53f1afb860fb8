// What must hold for any meta commands: all that holds for text (text_fuzz.h), and that the
// client's parser understands every reply which the server writes to them.
#pragma once

#include <string>

#include "protocol/client.h"
#include "tests/fuzz/text_fuzz.h"

namespace protocol {

// The fault of what the client makes of the replies to a request, or null.
inline const char* FuzzMetaReplies(const Request& request) {
  // me answers a line for people, and an error may be any line.
  if (request.op == Op::kDebug || request.op == Op::kAnswer) return nullptr;
  for (int status = 0; status <= static_cast<int>(Status::kNotAllowed); ++status) {
    const Response response{.status = static_cast<Status>(status),
                            .flags = UINT32_MAX,
                            .cas = UINT64_MAX,
                            .number = UINT64_MAX,
                            .key = request.key,
                            .value = "va\r\nue",
                            .text = "CLIENT_ERROR not allowed\r\n"};
    std::array<char, kHeadBytesMax> out;
    const Head head = FormatMeta(request, response, out.data());
    if (head.bytes == 0) continue;
    std::string bytes(out.data(), head.bytes);
    if (head.with_value) (bytes += response.value) += "\r\n";
    Reply reply;
    const ReplyResult result = ParseReply(Wire::kMeta, bytes, &reply);
    if (result.status != ReplyStatus::kOk) return "a reply that the client does not understand";
    if (result.consumed != bytes.size()) return "a reply with something behind it";
    if (head.with_value && request.op == Op::kGet && reply.value != response.value) {
      return "another value than was sent";
    }
  }
  return nullptr;
}

// The fault that was found, or null.
inline const char* FuzzMeta(std::string_view input) {
  if (const char* fault = FuzzText(input)) return fault;
  const Limits limits{.value_bytes_max = 32, .line_bytes_max = 300};
  while (!input.empty()) {
    std::vector<char> bytes(input.begin(), input.end());
    Request request;
    const ParseResult result = ParseText(bytes, limits, &request);
    if (result.status == ParseStatus::kNeedMore) return nullptr;
    if (request.wire == Wire::kMeta) {
      if (const char* fault = FuzzMetaReplies(request)) return fault;
    }
    if (request.close || result.consumed >= input.size()) return nullptr;
    input.remove_prefix(result.consumed);
  }
  return nullptr;
}

}  // namespace protocol
