// Server puts the parts together: sockets, store, workers, background work and signals.
//
// Promises:  Run returns after SIGTERM, SIGINT, SIGUSR1 or `shutdown`: it stops accepting, answers
//            what it has received, hangs up, all within 5 seconds, and returns 0. SIGHUP and
//            SIGPIPE do not end it.
// Requires:  one per process; the main thread.
#pragma once

#include "src/config/options.h"

namespace server {

// Throws StartupError. `warnings` of the options are the caller's to print.
int RunServer(const Options& options);

}  // namespace server
