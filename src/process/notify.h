// Tells the service manager how the server is: the part of sd_notify(3) that a server needs,
// without libsystemd.
//
// Promises:  one datagram to the socket that $NOTIFY_SOCKET names (a path, or an abstract name
//            after '@'); nothing where the variable is unset. Never blocks, never throws.
// Requires:  one state in systemd's form, such as "READY=1" or "STOPPING=1".
#pragma once

#include <string_view>

namespace server {

// False where there is nobody to tell or the datagram was not taken.
bool NotifyServiceManager(std::string_view state) noexcept;

}  // namespace server
