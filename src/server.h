// Server puts the parts together: sockets, store, workers, background work and signals.
//
// Promises:  RunServer returns 0 after SIGTERM, SIGINT, SIGUSR1 or `shutdown`: it stops accepting,
//            answers what it has received and closes all connections, within 5 seconds. Then, but
//            for SIGINT and a plain `shutdown`, it writes the file of --snapshot, for as long as
//            that takes. SIGHUP and SIGPIPE do not end it.
// Requires:  one per process; the main thread.
#pragma once

#include "src/config/options.h"

namespace server {

// Throws StartupError. The caller has printed the warnings of the options.
int RunServer(const Options& options);

}  // namespace server
