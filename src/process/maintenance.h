// Maintenance is the thread that calls the store's background steps, and once a second its
// measurement of errors. It logs, once in ten minutes at most, that values found no room in the
// chain.
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
  void ReportRefusals(uint32_t now);

  kbf::Store& store_;
  const Clock& clock_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;  // guarded by mutex_
  // Of the thread alone.
  uint64_t refusals_ = 0;           // as they were when they were last looked at
  uint32_t refusals_looked_ = 0;    // when that was
  uint32_t refusals_reported_ = 0;  // when there were new ones; 0: never
  std::thread thread_;
};

}  // namespace server
