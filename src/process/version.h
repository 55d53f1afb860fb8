// Two versions: of memcached, whose behaviour clients see, and our own.
#pragma once

#include <string_view>

namespace server {

// What the version commands and `stats` answer. Clients compare it, and some of them take the
// number behind the last dash for the version, so nothing may follow it.
inline constexpr std::string_view kMemcachedVersion = "1.6.18";

std::string_view OwnVersion();  // such as "0.1.0"

}  // namespace server
