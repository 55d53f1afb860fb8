// Maintenance is the thread that gives the store its background steps, and has it measure its own
// errors once a second.
//
// Costs:     steps while there is work, so that it never holds a slab's lock for long; a look every
//            kIdle while there is none.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "src/state.h"

namespace server {

class Maintenance {
 public:
  explicit Maintenance(State& state);  // starts
  ~Maintenance();                      // stops

 private:
  void Run();
  bool Sleep();

  State& state_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace server
