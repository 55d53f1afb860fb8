#include "protocol/authentication.h"

#include "protocol/binary.h"
#include "protocol/framing.h"
#include "protocol/numbers.h"
#include "protocol/tokens.h"

namespace protocol {
namespace {

constexpr std::string_view kUnauthenticated = "CLIENT_ERROR unauthenticated\r\n";
constexpr std::string_view kBadEnd = "CLIENT_ERROR bad command line termination\r\n";
constexpr std::string_view kBadFormat = "CLIENT_ERROR bad authentication token format\r\n";
constexpr std::string_view kTooLong = "CLIENT_ERROR auth token too long\r\n";
constexpr std::string_view kLineTooLong = "CLIENT_ERROR line too long\r\n";

constexpr uint8_t kSaslListOpcode = 0x20;
constexpr uint8_t kSaslStepOpcode = 0x22;

// The number of bytes behind `set key flags exptime`, whatever those are.
std::optional<uint32_t> CredentialBytes(std::string_view line) {
  const Tokens<5> tokens(line.substr(0, line.find('\0')));
  if (tokens.count() < 5 || tokens[0] != "set") return std::nullopt;
  return ParseU32(tokens[4]);
}

ParseResult HangUp(std::string_view reply, size_t consumed, Request* out) {
  out->close = true;
  return Answer(reply, consumed, out);
}

}  // namespace

ParseResult ParseLockedText(std::span<char> bytes, const Limits& limits, Request* out) {
  *out = Request{};
  const std::string_view all(bytes.data(), bytes.size());
  if (static_cast<uint8_t>(all[0]) == kBinaryRequestMagic) return HangUp({}, all.size(), out);
  const size_t newline = all.substr(0, limits.line_bytes_max + 1).find('\n');
  if (newline == all.npos) {
    if (all.size() <= limits.line_bytes_max) return NeedMore(all.size() + 1);
    return HangUp(kLineTooLong, all.size(), out);
  }
  std::string_view line = all.substr(0, newline);
  if (line.ends_with('\r')) line.remove_suffix(1);
  const size_t line_bytes = newline + 1;
  const auto value_bytes = CredentialBytes(line);
  if (!value_bytes) return Answer(kUnauthenticated, line_bytes, out);
  const uint64_t request_bytes = uint64_t{line_bytes} + *value_bytes + 2;
  if (*value_bytes > kCredentialBytesMax) {
    // What no command could have either is not skipped: nobody sends so many bytes.
    const bool skips = *value_bytes < uint32_t{kValueBytesEnd};
    return Answer(kTooLong, skips ? request_bytes : line_bytes, out);
  }
  if (all.size() < request_bytes) return NeedMore(request_bytes);
  if (all.substr(line_bytes + *value_bytes, 2) != "\r\n") {
    return Answer(kBadEnd, request_bytes, out);
  }
  out->value = all.substr(line_bytes, *value_bytes);
  if (!SplitTextCredentials(out->value)) return Answer(kBadFormat, request_bytes, out);
  out->op = Op::kAuthenticate;
  return Done(request_bytes);
}

ParseResult ParseLockedBinary(std::span<char> bytes, const Limits& limits, Request* out) {
  const bool is_request = static_cast<uint8_t>(bytes[0]) == kBinaryRequestMagic;
  if (is_request && bytes.size() < kBinaryHeaderBytes) {
    *out = Request{};
    return NeedMore(kBinaryHeaderBytes);
  }
  const uint8_t opcode = bytes.size() < 2 ? 0 : static_cast<uint8_t>(bytes[1]);
  const bool sasl = opcode >= kSaslListOpcode && opcode <= kSaslStepOpcode;
  if (!is_request || sasl) {
    return ParseBinary(bytes, {.value_bytes_max = kCredentialBytesMax, .sasl = limits.sasl}, out);
  }
  RefuseBinary(bytes, kBinaryAuthError, out);
  out->close = true;
  return Done(kBinaryHeaderBytes);
}

std::optional<Credentials> SplitTextCredentials(std::string_view value) {
  const size_t space = value.find(' ');
  if (space == value.npos) return std::nullopt;
  return Credentials{value.substr(0, space), value.substr(space + 1)};
}

std::optional<Credentials> SplitPlainCredentials(std::string_view message) {
  const size_t first = message.find('\0');
  if (first == message.npos) return std::nullopt;
  const size_t second = message.find('\0', first + 1);
  if (second == message.npos) return std::nullopt;
  const std::string_view acts_for = message.substr(0, first);
  const std::string_view user = message.substr(first + 1, second - first - 1);
  if (!acts_for.empty() && acts_for != user) return std::nullopt;
  return Credentials{user, message.substr(second + 1)};
}

}  // namespace protocol
