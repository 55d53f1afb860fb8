// Commands that tune memcached internals: slabs, lru, lru_crawler, cache_memlimit, watch. These
// internals do not exist here, so the arguments are checked as memcached checks them, and
// the command is answered without effect.
//
// Departs:   cache_memlimit is always refused, because the memory limit is planned at the start;
//            watch is answered as if an option had switched it off;
//            `lru_crawler enable` is always OK; no slab ever has a page to spare for another.
#pragma once

#include <optional>
#include <string_view>

#include "protocol/request.h"
#include "protocol/tokens.h"

namespace protocol {

// memcached reads no more words of a line than these.
using AllTokens = Tokens<23>;

// The reply to a command of this kind; nothing for any other command. Sets *quiet if the command
// takes `noreply` and has it.
std::optional<std::string_view> AnswerTuning(const AllTokens& tokens, bool* quiet);

}  // namespace protocol
