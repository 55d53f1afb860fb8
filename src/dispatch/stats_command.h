// The `stats` command: its arguments, its effects (reset, detail on and off) and its reply, around
// the statistics of stats/stats.h.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "protocol/request.h"
#include "src/state.h"
#include "src/stats/prefix_stats.h"

namespace server {

// `stats detail dump`, whose reply can be long: Dispatcher writes it in pieces.
bool IsPrefixDump(const protocol::Request& request);
// The next piece, with what ends the reply behind the last, when PrefixStats::Ended(*cursor). In
// binary a piece is a packet under the name "detailed": memcached sends all in one. `out` has room
// for Output::kReplyBytesMax. Returns how many bytes were written.
size_t WritePrefixes(const protocol::Request& request, const PrefixStats& prefixes,
                     PrefixStats::Cursor* cursor, char* out);

// "name value" lines as statistics. Throws std::bad_alloc.
std::string AnswerLines(const protocol::Request& request, std::string_view lines);

// Any other `stats`: the whole reply, for any wire. Throws std::bad_alloc. REQUIRES: request.op is
// kStats.
std::string AnswerStats(const protocol::Request& request, State& state);

}  // namespace server
