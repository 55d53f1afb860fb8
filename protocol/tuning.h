// Commands that turn the screws of memcached's insides: slabs, lru, lru_crawler, cache_memlimit,
// watch. There are no such insides here, so the arguments are checked as memcached 1.6.18 checks
// them and the command is answered without effect.
//
// Departs:   cache_memlimit is refused whatever the number, since the memory limit is planned at
//            the start; watch and dumps of keys are answered as where they are switched off;
//            `lru_crawler enable` is always OK; no slab ever has a page to spare for another.
#pragma once

#include <optional>
#include <string_view>

#include "protocol/request.h"
#include "protocol/tokens.h"

namespace protocol {

// memcached looks at no more words than these.
using AllTokens = Tokens<23>;

// The reply to a command of this kind; nothing where it is another. Sets *quiet where `noreply` is
// obeyed.
// Those who ask for a dump read until its END, so this refusal is followed by hanging up.
inline constexpr std::string_view kNoDumpLine = "ERROR metadump not allowed\r\n";

std::optional<std::string_view> AnswerTuning(const AllTokens& tokens, bool* quiet);

}  // namespace protocol
