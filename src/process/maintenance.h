// Maintenance is the thread that gives the store its background steps, and has it measure its own
// errors once a second.
//
// Costs:     16 steps a millisecond while there is work, each of which holds one slab's lock for a
//            moment; a look every 20 ms while there is none.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "src/process/clock.h"
#include "storage/store.h"

namespace server {

class Maintenance {
 public:
  Maintenance(kbf::Store& store, const Clock& clock);  // starts
  ~Maintenance();                                      // stops

 private:
  void Run();
  bool Sleep(bool busy);

  kbf::Store& store_;
  const Clock& clock_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace server
