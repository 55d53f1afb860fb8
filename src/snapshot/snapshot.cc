#include "src/snapshot/snapshot.h"

#include <chrono>
#include <filesystem>
#include <new>
#include <utility>

#include "src/log.h"
#include "src/process/notify.h"
#include "src/process/startup_error.h"
#include "src/process/thread.h"
#include "src/snapshot/moment.h"
#include "storage/image/image_file.h"

namespace server {
namespace {

using SteadyClock = std::chrono::steady_clock;

double SecondsSince(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

// Asks the service manager for more time, once a second.
class Extension {
 public:
  void operator()() {
    const auto now = SteadyClock::now();
    if (now < next_) return;
    next_ = now + std::chrono::seconds(1);
    NotifyServiceManager("EXTEND_TIMEOUT_USEC=60000000");
  }

 private:
  SteadyClock::time_point next_{};
};

}  // namespace

Snapshot::Snapshot(const SnapshotOptions& options) : options_(options), path_(options.path) {
  const std::string error = kbf::CheckImageDirectory(path_);
  if (!error.empty()) throw StartupError("--snapshot: " + error);
}

// ---- loading ------------------------------------------------------------------------------------

bool Snapshot::HasFile() const {
  std::error_code error;
  return std::filesystem::exists(std::filesystem::symlink_status(path_, error)) ||
         std::filesystem::exists(kbf::TemporaryImagePath(path_), error);
}

std::unique_ptr<kbf::Store> Snapshot::Load(const kbf::StoreConfig& config) {
  const auto start = SteadyClock::now();
  std::string error;
  // Of a process that was killed while it wrote.
  (void)kbf::RemoveImageFile(kbf::TemporaryImagePath(path_));
  const auto source = kbf::ImageFileSource::Open(path_, &error);
  if (source == nullptr) {
    if (!error.empty()) Reject(error);
    return nullptr;
  }
  std::optional<kbf::ImageMoment> moment;
  const auto now_at = [&](const kbf::ImageMoment& saved) {
    moment = saved;
    return StoreTimeAt(MomentNow(0), saved);
  };
  kbf::StoreLoad load = kbf::LoadStore(*source, config, options_.accept_stale, now_at, Extension());
  if (load.store == nullptr) {
    Reject(load.error, load.outdated);
    return nullptr;
  }
  if (!Consume()) return nullptr;
  loaded_ = moment;
  counters_.loaded_items = load.counts.items;
  counters_.loaded_keys = load.counts.keys;
  Log(kLogAlways, "snapshot %s: %llu items and %llu keys of the chain, %.1f MB in %.2f s",
      path_.c_str(), static_cast<unsigned long long>(load.counts.items),
      static_cast<unsigned long long>(load.counts.keys),
      static_cast<double>(load.bytes) / (1 << 20), SecondsSince(start));
  if (load.store->num_slabs() != config.num_slabs && config.num_slabs != 0) {
    Log(kLogAlways, "snapshot %s has %u slabs: --slabs %u is ignored", path_.c_str(),
        load.store->num_slabs(), config.num_slabs);
  }
  return std::move(load.store);
}

// From now on a crash must not bring the file back.
bool Snapshot::Consume() {
  const std::string error = options_.accept_stale
                                ? kbf::MarkImageFile(path_, kbf::ImageMark::kOutdated)
                                : kbf::RemoveImageFile(path_);
  if (error.empty()) return true;
  Reject(error);
  return false;
}

// What is wrong with it will be wrong next time. But if it stayed where it is, it could be right
// after a crash, with another configuration, and bring back what was deleted meanwhile.
void Snapshot::Reject(const std::string& reason, bool outdated) {
  ++counters_.rejected;
  const std::string rejected = path_ + ".rejected";
  const bool renamed = !outdated && kbf::RenameImageFile(path_, rejected).empty();
  Log(kLogAlways, "snapshot %s is not used: %s; starting empty%s%s", path_.c_str(), reason.c_str(),
      renamed ? ", the file is now " : "", renamed ? rejected.c_str() : "");
}

uint32_t Snapshot::ClockStart() const {
  if (!loaded_) return Clock::kStart;
  return StoreTimeAt(MomentNow(0), *loaded_).value_or(Clock::kStart);
}

// ---- writing ------------------------------------------------------------------------------------

bool Snapshot::Write(kbf::Store& store, const Clock& clock, kbf::ImageMark mark,
                     const std::atomic<bool>& stop) try {
  const auto start = SteadyClock::now();
  Extension extension;
  std::string error;
  const auto sink = kbf::ImageFileSink::Create(path_, &error);
  if (sink != nullptr) {
    kbf::StoreSaver saver(store, *sink, mark, MomentNow(clock.Now()));
    while (!stop && saver.Step(clock.Now())) extension();
    if (stop) return false;
    if (saver.ok() && sink->Commit()) {
      ++counters_.written;
      Log(mark == kbf::ImageMark::kCurrent ? kLogAlways : kLogErrors,
          "snapshot %s: wrote %llu items and %llu keys of the chain, %.1f MB in %.2f s",
          path_.c_str(), static_cast<unsigned long long>(saver.counts().items),
          static_cast<unsigned long long>(saver.counts().keys),
          static_cast<double>(saver.bytes_written()) / (1 << 20), SecondsSince(start));
      return true;
    }
    error = sink->error();
  }
  ++counters_.failed;
  Log(kLogAlways, "snapshot: %s; nothing was written", error.c_str());
  return false;
} catch (const std::bad_alloc&) {
  ++counters_.failed;
  Log(kLogAlways, "snapshot %s: no memory to write it", path_.c_str());
  return false;
}

SnapshotTimer::SnapshotTimer(Snapshot& snapshot, kbf::Store& store, const Clock& clock)
    : snapshot_(snapshot), store_(store), clock_(clock) {
  if (snapshot.options().interval_s > 0) thread_ = StartThread([this] { Run(); });
}

SnapshotTimer::~SnapshotTimer() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void SnapshotTimer::Run() {
  const std::chrono::seconds interval(snapshot_.options().interval_s);
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (changed_.wait_for(lock, interval, [this] { return stop_.load(); })) return;
    }
    (void)snapshot_.Write(store_, clock_, kbf::ImageMark::kOutdated, stop_);
  }
}

}  // namespace server
