// The text protocol: classic commands here, meta commands in meta.h, which this parser calls. Bytes
// in, Request out; Response in, bytes out. See request.h for the contract.
//
// Promises:  the replies of memcached 1.6.18 to good and bad lines, byte for byte, and the same
// bytes
//            consumed: the value after a line that cannot be parsed is read as commands; the value
//            of a write that is refused for its size is skipped.
// Costs:     one pass to find the end of the line and one over the tokens. A line is at most 2,048
//            bytes; only get, gets, gat and gats may be longer, and are parsed in pieces of at most
//            that size, so that a multiget of any length needs no memory of its own.
// Departs:   a line that is too long always gets an error before the connection is closed;
//            memcached closes without one, and accepts the line if its end arrives together with
//            its beginning. A key that is too long in a later piece of a long get gets an error
//            after the values of the keys before it; memcached drops those values. Replies to
//            earlier requests are always sent; memcached drops unsent ones when a get has a key
//            that is too long or when it closes on HTTP.
#pragma once

#include <span>
#include <string_view>

#include "protocol/request.h"
#include "protocol/tokens.h"

namespace protocol {

// REQUIRES: bytes is not empty. The bytes of a base64 key are decoded in place, so bytes that gave
// kOk are not to be parsed again.
ParseResult ParseText(std::span<char> bytes, const Limits& limits, Request* out);

// The next keys of a get line, after a request with more_keys or skip_line. Bytes without a key
// that is to be looked up become a kAnswer without a reply. out->more_keys and out->skip_line are
// set in any case but kNeedMore. REQUIRES: list.open; bytes is not empty.
ParseResult ParseMoreKeys(std::span<char> bytes, const Limits& limits, const KeyList& list,
                          Request* out);

// Writes the reply for one key of a get, or the whole reply of any other classic command, to `out`,
// which has room for kHeadBytesMax. A miss of a get is zero bytes; after the last key the caller
// writes kEnd. Statistics are not written here.
Head FormatText(const Request& request, const Response& response, char* out);

inline constexpr std::string_view kEnd = "END\r\n";

}  // namespace protocol
