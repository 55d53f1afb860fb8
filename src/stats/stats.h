// The `stats` commands: memcached 1.6.18's 92 fields under its names and in its order, its
// sub-commands, and ours (`stats kbf`, `stats errors`). docs/stats.md says what they mean.
//
// Promises:  every number was counted or measured; a field of memcached's that has no meaning
//            here is 0 (or the documented constant), never made up. No addresses of memory.
// Requires:  any thread.
#pragma once

#include <string>

#include "protocol/request.h"
#include "src/state.h"

namespace server {

// `stats detail dump`, which Dispatcher::DumpPrefixes answers in pieces.
bool IsPrefixDump(const protocol::Request& request);

// The whole reply, for any wire. Throws std::bad_alloc. REQUIRES: request.op is kStats, and it is
// no prefix dump.
std::string Statistics(const protocol::Request& request, State& state);

}  // namespace server
