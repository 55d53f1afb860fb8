#include "protocol/peek.h"

#include <algorithm>

namespace protocol {
namespace {

constexpr size_t kBinaryHeaderBytes = 24;
constexpr unsigned char kBinaryRequest = 0x80;
constexpr unsigned char kBinarySet = 0x01;  // the first of those that write

PeekedKey PeekBinary(std::string_view bytes) {
  if (bytes.size() < kBinaryHeaderBytes) return {};
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const size_t begin = kBinaryHeaderBytes + byte(4);
  const size_t size = byte(2) << 8 | byte(3);
  if (begin > bytes.size() || size > bytes.size() - begin) return {};
  return {bytes.substr(begin, size), byte(1) < kBinarySet};
}

}  // namespace

PeekedKey PeekKey(std::span<const char> from) {
  const std::string_view bytes(from.data(), from.size());
  if (bytes.empty()) return {};
  if (static_cast<unsigned char>(bytes[0]) == kBinaryRequest) return PeekBinary(bytes);
  // The word behind the command.
  const size_t space = bytes.substr(0, 16).find(' ');
  if (space == std::string_view::npos) return {};
  const std::string_view rest = bytes.substr(space + 1);
  const size_t end = rest.find_first_of(" \r\n");
  if (end == std::string_view::npos) return {};
  const bool reads = bytes[0] == 'g' || bytes.substr(0, 2) == "mg";
  return {rest.substr(0, end), reads};
}

}  // namespace protocol
