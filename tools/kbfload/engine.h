// RunLoad lets client groups of connections work on a few threads and says what came of it.
//
// Closed loop: a connection sends `pipeline` requests in one write and, when all are answered, the
// next ones. Open loop (rate > 0): requests have intended starts, with gaps drawn from ETC's
// Generalized Pareto distribution; a connection sends what is due, up to `pipeline` requests, as
// soon as its last batch is answered. Latency counts from the intended start, so a server that
// stops for a second is charged with every request that should have begun in it.
//
// A client group with every_us sends a whole batch at intended starts that are so far apart, the
// first of them at a random time within the first pause. One that is late goes out at once.
//
// Promises:  the first failure stops all; what was counted until then is in the outcome. After the
//            deadline, or an interrupt, open batches are still answered and counted.
// Requires:  what client groups point to outlives the call. One call at a time.
// Costs:     a thread is one epoll loop; a clock is read per wake-up and batch, not per request.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "tools/kbfload/connection.h"
#include "tools/kbfload/tally.h"

namespace load {

struct LoadOptions {
  unsigned threads = 1;  // that client groups without threads of their own share
  double seconds = 0;    // 0: until the sources are dry
  double rate = 0;       // requests per second over all connections; 0: closed loop
  double timeout_s = 5;  // without any progress on a connection that waits
};

// What is known while the load runs.
struct Snapshot {
  double seconds = 0;
  Tally tally;
};
using Observer = std::function<void(const Snapshot&)>;

struct Outcome {
  std::vector<Tally> client_groups;  // as in the call
  double seconds = 0;
  double cpu_seconds = 0;  // of the threads here
  unsigned threads = 1;
  double late_s = 0;    // intended starts: how far behind its schedule the slowest connection ended
  std::string failure;  // empty: none
  bool interrupted = false;

  Tally All() const;
};

// Set by a signal handler: no new batches.
extern std::atomic<bool> interrupted;

// The observer is called a few times a second from the calling thread. Throws ServerError when a
// connection cannot be made.
Outcome RunLoad(const std::vector<ClientGroup>& client_groups, const LoadOptions& options,
                const Observer& observer);

}  // namespace load
