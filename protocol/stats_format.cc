#include "protocol/stats_format.h"

#include <array>
#include <cassert>

#include "protocol/binary.h"
#include "protocol/text.h"

namespace protocol {
namespace {

static_assert(kBinaryHeaderBytes + kStatNameBytesMax <= kHeadBytesMax);

void AppendPacket(const Request& request, std::string_view name, std::string_view value,
                  std::string* out) {
  Response response;
  response.key = name;
  response.value = value;
  std::array<char, kHeadBytesMax> head;
  out->append(head.data(), FormatBinary(request, response, head.data()).bytes).append(value);
}

}  // namespace

void AppendStat(const Request& request, std::string_view name, std::string_view value,
                std::string* out) {
  assert(!name.empty() && name.size() <= kStatNameBytesMax);
  if (request.wire == Wire::kBinary) return AppendPacket(request, name, value, out);
  out->append("STAT ").append(name);
  if (!value.empty()) out->append(" ").append(value);
  out->append("\r\n");
}

void AppendStatsEnd(const Request& request, std::string* out) {
  if (request.wire == Wire::kBinary) return AppendPacket(request, "", "", out);
  out->append(kEnd);
}

}  // namespace protocol
