// Maintenance is the thread that calls the store's background steps, and once a second its
// measurement of errors.
//
// Costs:     while there is work, 16 steps per millisecond, each of which holds one slab's lock for
//            a fraction of a millisecond; while there is none, one check every 20 ms.
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
