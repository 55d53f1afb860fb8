// Reports the server's state to the service manager, like sd_notify(3) but without libsystemd.
//
// Promises:  sends one datagram to the socket that $NOTIFY_SOCKET names (a path, or an abstract
// name
//            after '@'); does nothing if the variable is not set. Never blocks, never throws.
// Requires:  one state in systemd's form, such as "READY=1" or "STOPPING=1".
#pragma once

#include <string_view>

namespace server {

// False: there is no service manager, or the datagram could not be sent.
bool NotifyServiceManager(std::string_view state) noexcept;

}  // namespace server
