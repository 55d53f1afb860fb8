// The `stats` command: its arguments, its effects (reset, detail on and off) and its reply, around
// the statistics of stats/stats.h.
#pragma once

#include <string>

#include "protocol/request.h"
#include "src/state.h"

namespace server {

// `stats detail dump`, whose reply can be long: Dispatcher writes it in pieces.
bool IsPrefixDump(const protocol::Request& request);

// Any other `stats`: the whole reply, for any wire. Throws std::bad_alloc. REQUIRES: request.op is
// kStats.
std::string AnswerStats(const protocol::Request& request, State& state);

}  // namespace server
