// The statistics: memcached 1.6.18's 92 fields under its names and in its order, its sub-commands,
// and ours (`stats kbf`, `stats errors`). docs/stats.md says what they mean.
//
// Promises:  every number was counted or measured; a field of memcached's that has no meaning
//            here is 0 (or the documented constant), never made up. No addresses of memory.
// Requires:  any thread.
#pragma once

#include <string_view>

#include "src/stats/server_view.h"
#include "src/stats/sink.h"

namespace server {

// Writes the statistics that `stats <section>` shows; "" are the general ones. False: there is no
// such section, nothing was written.
[[nodiscard]] bool WriteStatistics(std::string_view section, const ServerView& server,
                                   StatsSink* out);

}  // namespace server
