// ServerView is what statistics may read of the running server, and all that they know of it.
//
// Requires:  everything in it is constant or thread-safe on its own; the server outlives the view.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "src/config/options.h"
#include "src/io/connection_memory.h"
#include "src/process/clock.h"
#include "src/stats/counters.h"
#include "src/stats/prefix_stats.h"
#include "storage/store.h"

namespace server {

class Snapshot;
class StatsBaseline;
class TlsContext;
class Warming;

enum class ConnectionState : uint8_t {
  kHandshaking,
  kReading,     // waits for a request
  kWriting,     // waits until the client takes more of the replies
  kYielded,     // waits for its turn, or for memory
  kForwarding,  // waits for replies of other nodes of the cluster
  kLingering,   // everything is sent; waits for the client to close
  // Seen from outside only: parts of kReading.
  kReadingRest,  // waits for the rest of a request whose size is known
  kServing,      // its requests are being carried out
};

// memcached's name of the state that is most like it.
constexpr std::string_view NameOf(ConnectionState state) {
  switch (state) {
    case ConnectionState::kReading:
      return "conn_read";
    case ConnectionState::kWriting:
    case ConnectionState::kForwarding:
      return "conn_mwrite";
    case ConnectionState::kHandshaking:
    case ConnectionState::kYielded:
      return "conn_new_cmd";
    case ConnectionState::kLingering:
      return "conn_closing";
    case ConnectionState::kReadingRest:
      return "conn_nread";
    case ConnectionState::kServing:
      return "conn_parse_cmd";
  }
  return "";
}

struct ConnectionInfo {
  int fd = -1;
  ConnectionState state = ConnectionState::kReading;
  uint32_t last_command = 0;  // when
};

// What any thread may read of one worker.
class WorkerView {
 public:
  virtual const WorkerCounters& counters() const = 0;
  // Visits each connection while none comes or goes, so that descriptors stay what they are.
  virtual void VisitConnections(const std::function<void(const ConnectionInfo&)>& visit) const = 0;

 protected:
  ~WorkerView() = default;
};

struct ServerView {
  const Options& options;
  const Clock& clock;
  const kbf::Store& store;
  const ConnectionMemory& connection_memory;
  const ConnectionCounters& connections;
  const PrefixStats& prefix_stats;
  const StatsBaseline& baseline;
  const std::vector<int>& listen_fds;
  const std::vector<const WorkerView*>& workers;
  const TlsContext* tls;     // null: no TLS
  const Snapshot* snapshot;  // null: none
  const Warming* warming;    // null: none
};

}  // namespace server
