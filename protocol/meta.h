// The meta commands of the text protocol: mg ms md ma me mn. See request.h for the contract.
//
// The reply repeats flags in the order in which they were sent, so the formatter walks through the
// flags of the request (Request::meta_flags) a second time; there is no table of flags in between.
//
// Promises:  the flags, errors and quiet replies of memcached 1.6.18. Errors are never quiet.
// Departs:   an opaque that is too long is refused before anything is done; memcached refuses it
//            after mg and ma have had their effect. If mg or ma create an item and have N, t and T
//            in this order, t shows the final time.
#pragma once

#include <span>
#include <string_view>

#include "protocol/request.h"

namespace protocol {

// The first `line_length` of the bytes are one line without its end, whose first word is "m" and
// one more letter; `bytes` is everything there is, for ms with its value. line_bytes counts the
// line's end.
ParseResult ParseMeta(std::span<char> bytes, size_t line_length, size_t line_bytes,
                      const Limits& limits, Request* out);

// Writes the whole head of a reply to `out`, which has room for kHeadBytesMax. Zero bytes: no
// reply.
Head FormatMeta(const Request& request, const Response& response, char* out);

}  // namespace protocol
