// StartupError reports a failure before the server serves: options, sockets, privileges, memory.
//
// Promises:  what() is one line that says what to change. main prints it and exits non-zero.
// Requires:  thrown only before the event loops start; afterwards nothing throws.
#pragma once

#include <stdexcept>
#include <string>

namespace server {

struct StartupError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace server
