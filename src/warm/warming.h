// Warming takes over the items of another server while this one serves already (--warm-from), in a
// thread of its own.
//
// Promises:  whatever clients have told this server since it started wins over what arrives: see
//            WriteRequest::warming. A flush ends it. An error ends it with one line in the log;
//            what has arrived stays. Times to live are right within a second.
// Requires:  made before clients are served, or changes before that are not noticed.
// Costs:     a 64th of the store's memory while it lasts. At most `rate` items a second are asked
//            for, 32 at a time. The source lists its keys twice, because memcached moves items
//            between its lists meanwhile: the second time only what is missing is asked for. A
//            kbfcached lists its exact part only.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "src/config/options.h"
#include "src/process/clock.h"
#include "src/warm/source.h"
#include "storage/store.h"

namespace server {

struct WarmCounters {
  std::atomic<bool> running{false};
  std::atomic<uint64_t> listed{0};   // keys, the second time not counted
  std::atomic<uint64_t> fetched{0};  // items that the source gave
  std::atomic<uint64_t> stored{0};   // of these; the others were changed here, or did not fit
  std::atomic<uint64_t> errors{0};   // 1: it was ended by one
};

class Warming {
 public:
  Warming(const WarmOptions& options, kbf::Store& store, const Clock& clock);  // starts
  ~Warming();                                                                  // stops

  const WarmCounters& counters() const { return counters_; }

 private:
  void Run() noexcept;
  std::string TakeOver();
  std::string TakeOverListed(bool again);
  std::string FetchAndStore(const std::vector<std::string>& keys);
  void Store(const WarmSource::Item& item);
  void KeepRate(uint64_t items);
  void LogProgress();
  bool IsFlushed() const { return store_.num_flushes() != flushes_; }

  const WarmOptions options_;
  const std::string name_;  // of the source
  kbf::Store& store_;
  const Clock& clock_;
  const uint64_t flushes_;
  std::atomic<bool> stop_{false};
  WarmSource source_;
  WarmCounters counters_;

  // Of the thread.
  int64_t started_ns_ = 0;
  int64_t logged_ns_ = 0;
  int64_t free_at_ns_ = 0;  // when the rate allows to ask again

  std::thread thread_;
};

}  // namespace server
