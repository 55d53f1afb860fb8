// The version that clients see: memcached's, whose behaviour this server has, then our own.
// Clients compare the leading dotted number, so it must stay in front.
#pragma once

#include <string_view>

namespace server {

std::string_view VersionString();  // such as "1.6.18-kbf0.1.0"

}  // namespace server
