// Executor carries out one client's request and keeps the reply as bytes: for requests that other
// nodes have sent, and for a connection's own ones that must wait for replies in front of them.
//
// Promises:  the same bytes as the connection of a client would be sent. What cannot be parsed or
//            answered gives nothing.
// Requires:  the worker's thread; not while it is in use already.
// Costs:     one output buffer; a copy of the reply.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "protocol/request.h"
#include "src/dispatch/dispatcher.h"
#include "src/io/output.h"
#include "src/state.h"
#include "src/stats/counters.h"

namespace server {

class Executor {
 public:
  Executor(State& state, WorkerCounters& counters)
      : output_(state.output_limits), dispatcher_(state, counters, output_) {}

  // Appends the reply. False: no memory, and nothing is appended.
  [[nodiscard]] bool Execute(protocol::Request request, uint32_t now, std::string* reply);

 private:
  Output output_;
  Dispatcher dispatcher_;
  Dispatcher::Session session_;
};

}  // namespace server
