// Requests in words, so that tables of what is sent and what was understood can be read, and the
// check that every such line of a table passes: in one piece, and split at every byte.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "protocol/meta.h"
#include "protocol/text.h"

namespace protocol {

// The op, then every field that is not as in a new Request. Answers begin with their text.
inline std::string Describe(const Request& request) {
  constexpr std::array<std::string_view, 26> kOps = {
      "get",           "touch",        "set",       "add",       "replace", "append", "prepend",
      "cas",           "number",       "delete",    "debug",     "flush",   "stats",  "cachedump",
      "metadump",      "mgdump",       "version",   "verbosity", "noop",    "quit",   "shutdown",
      "refresh_certs", "authenticate", "sasl_step", "sasl_list", "answer"};
  const Request fresh;
  std::string text(kOps[static_cast<size_t>(request.op)]);
  const auto add = [&text](bool shown, std::string_view name, const auto& value) {
    if (!shown) return;
    text.append(" ").append(name);
    if constexpr (std::is_convertible_v<decltype(value), std::string_view>) {
      text.append("=").append(value);
    } else if constexpr (!std::is_same_v<decltype(value), const bool&>) {
      text.append("=").append(std::to_string(value));
    }
  };
  const auto maybe = [&add](std::string_view name, const auto& value) {
    if (value) add(true, name, *value);
  };
  if (request.op == Op::kAnswer) {
    text = request.reply.empty() ? "silence" : request.reply.substr(0, request.reply.size() - 2);
    add(request.quiet, "(quiet)", true);
    add(request.close, "(close)", true);
    return text;
  }
  add(!request.key.empty(), "key", request.key);
  add(!request.value.empty(), "value", request.value);
  for (const std::string_view rest :
       {request.keys, request.arguments, request.meta_flags, request.reply}) {
    add(!rest.empty() && rest != request.key, "rest", rest);
  }
  add(request.quiet, "quiet", true);
  add(request.close, "close", true);
  add(request.too_large, "too_large", true);
  add(request.flags != fresh.flags, "flags", request.flags);
  maybe("exptime", request.exptime);
  add(request.cas != fresh.cas, "cas", request.cas);
  add(request.compare_cas, "compare", true);
  add(request.with_cas, "with_cas", true);
  add(request.delta != fresh.delta, "delta", request.delta);
  add(request.decrement, "down", true);
  maybe("initial", request.initial);
  add(request.initial_exptime != fresh.initial_exptime, "initial_exptime", request.initial_exptime);
  add(request.graceful, "graceful", true);
  add(request.verbosity != fresh.verbosity, "level", request.verbosity);
  add(request.base64_key, "base64", true);
  add(request.no_bump, "no_bump", true);
  add(request.invalidate, "invalidate", true);
  add(request.remove_value, "remove_value", true);
  maybe("new_cas", request.new_cas);
  maybe("vivify", request.vivify_exptime);
  maybe("recache", request.recache_exptime);
  add(request.wants_value, "wants_value", true);
  return text;
}

// Owns exactly the bytes that were parsed, so that a sanitizer sees any step outside.
struct ParsedText {
  explicit ParsedText(std::string_view input, const Limits& limits = {})
      : bytes(input.begin(), input.end()), result(ParseText(bytes, limits, &request)) {}
  ParsedText(const ParsedText&) = delete;
  ParsedText& operator=(const ParsedText&) = delete;

  std::vector<char> bytes;
  Request request;
  ParseResult result;
};

struct TextCase {
  std::string input;
  std::string understood;
  // Where it is not the whole input.
  std::optional<uint64_t> consumed = {};
};

// What is wrong with one parse of `input`, which has all of the request or not; empty: nothing.
inline std::string FaultOf(const TextCase& c, std::string_view input, const Limits& limits) {
  const uint64_t consumed = c.consumed.value_or(c.input.size());
  const ParsedText parsed(input, limits);
  const std::string place = " after " + std::to_string(input.size()) + " bytes of " + c.input;
  if (parsed.result.status == ParseStatus::kNeedMore) {
    if (input.size() >= consumed) return "not understood" + place;
    if (parsed.result.needed <= input.size()) return "waits for what it has" + place;
    if (parsed.result.needed > consumed) return "waits for too much" + place;
    return {};
  }
  if (parsed.result.status != ParseStatus::kOk) return "no request" + place;
  if (Describe(parsed.request) != c.understood) return Describe(parsed.request) + place;
  if (parsed.result.consumed == consumed) return {};
  return "consumed " + std::to_string(parsed.result.consumed) + place;
}

// The same for all of the input, which is enough, and for every beginning of it.
inline std::string FaultOf(const TextCase& c, const Limits& limits = {}) {
  if (ParsedText(c.input, limits).result.status != ParseStatus::kOk) return "waits: " + c.input;
  std::string fault = FaultOf(c, c.input, limits);
  for (size_t length = 1; length < c.input.size() && fault.empty(); ++length) {
    fault = FaultOf(c, std::string_view(c.input).substr(0, length), limits);
  }
  return fault;
}

// The reply to `input`, its value included.
inline std::string ReplyTo(std::string_view input, const Response& response) {
  const ParsedText parsed(input);
  if (parsed.result.status != ParseStatus::kOk) return "no request";
  std::array<char, kHeadBytesMax> out;
  const Head head = parsed.request.wire == Wire::kMeta
                        ? FormatMeta(parsed.request, response, out.data())
                        : FormatText(parsed.request, response, out.data());
  std::string reply(out.data(), head.bytes);
  if (head.with_value) reply.append(response.value).append("\r\n");
  return reply;
}

struct ReplyCase {
  std::string input;
  Response response;
  std::string reply;
};

}  // namespace protocol
