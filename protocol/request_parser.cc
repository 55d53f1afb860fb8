#include "protocol/request_parser.h"

#include "protocol/authentication.h"
#include "protocol/binary.h"
#include "protocol/text.h"

namespace protocol {

ParseResult RequestParser::Parse(std::span<char> bytes, const Limits& limits, Request* out) {
  if (choice_ == WireChoice::kAuto) {
    const bool binary = static_cast<uint8_t>(bytes[0]) == kBinaryRequestMagic;
    choice_ = binary ? WireChoice::kBinary : WireChoice::kText;
  }
  if (locked_) {
    return is_binary() ? ParseLockedBinary(bytes, limits, out)
                       : ParseLockedText(bytes, limits, out);
  }
  if (is_binary()) return ParseBinary(bytes, limits, out);
  if (keys_.open) return ParseMoreKeys(bytes, limits, keys_, out);
  return ParseText(bytes, limits, out);
}

size_t RequestParser::AcceptPart(const Request& request, std::span<const char> bytes) {
  if (request.op != Op::kGet || request.wire != Wire::kText) return 0;
  // What is left of the keys is parsed next, as the rest of the same line.
  keys_ = {true, false, request.with_cas, request.exptime};
  return static_cast<size_t>(request.keys.data() - bytes.data());
}

}  // namespace protocol
