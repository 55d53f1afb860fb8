// Snapshot keeps what the store holds over a restart: the file of --snapshot, written when the
// server is stopped in order and read when it starts.
//
// Promises:  a file is used once: it is removed, or marked as outdated, before the first request is
//            served, so that after a crash nothing comes back that was deleted or replaced since,
//            unless --accept-stale asks for that. A file that cannot be used is renamed to
//            FILE.rejected, or left alone if it is only outdated; the server starts empty then,
//            with one line in the log. Nothing expires late: see moment.h.
// Requires:  Load before the threads start, Write after they have ended, or with the mark
// kOutdated.
//            Counters: any thread.
// Costs:     writing and reading take as long as the disk does. The service manager is told to
// wait.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "src/config/options.h"
#include "src/process/clock.h"
#include "storage/image/store_image.h"
#include "storage/store.h"

namespace server {

struct SnapshotCounters {
  std::atomic<uint64_t> loaded_items{0};  // of the exact part
  std::atomic<uint64_t> loaded_keys{0};   // of the chain
  std::atomic<uint64_t> rejected{0};      // files that could not be used
  std::atomic<uint64_t> written{0};
  std::atomic<uint64_t> failed{0};
};

class Snapshot {
 public:
  // Throws StartupError where no file could be written. REQUIRES: the path is absolute
  explicit Snapshot(const SnapshotOptions& options);

  // The store of the file; null: there is none, or it was rejected.
  bool HasFile() const;
  std::unique_ptr<kbf::Store> Load(const kbf::StoreConfig& config);
  // What the store's clock must show now.
  uint32_t ClockStart() const;

  // kCurrent: the store does not change any more. False: it failed, or `stop` became true.
  bool Write(kbf::Store& store, const Clock& clock, kbf::ImageMark mark,
             const std::atomic<bool>& stop);

  const SnapshotOptions& options() const { return options_; }
  const SnapshotCounters& counters() const { return counters_; }

 private:
  void Reject(const std::string& reason, bool outdated = false);
  bool Consume();

  const SnapshotOptions options_;
  const std::string path_;
  std::optional<kbf::ImageMoment> loaded_;
  SnapshotCounters counters_;
};

// Writes a snapshot every --snapshot-interval seconds, in a thread of its own.
class SnapshotTimer {
 public:
  SnapshotTimer(Snapshot& snapshot, kbf::Store& store, const Clock& clock);  // starts
  ~SnapshotTimer();  // stops, also in the middle of writing

 private:
  void Run();

  Snapshot& snapshot_;
  kbf::Store& store_;
  const Clock& clock_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace server
