// Statistics in a client's protocol: STAT lines in text, one packet each in binary.
//
//   (AppendStat)* AppendStatsEnd
#pragma once

#include <string>
#include <string_view>

#include "protocol/request.h"

namespace protocol {

inline constexpr size_t kStatNameBytesMax = 512;

// The value may be empty.
// REQUIRES: 0 < name.size() <= kStatNameBytesMax; in text, no CR or LF in either.
void AppendStat(const Request& request, std::string_view name, std::string_view value,
                std::string* out);
// END, or the empty packet.
void AppendStatsEnd(const Request& request, std::string* out);

}  // namespace protocol
