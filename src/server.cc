#include "src/server.h"

#include <event2/event.h>
#include <signal.h>
#include <sys/random.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "src/cluster/node.h"
#include "src/log.h"
#include "src/net/inner_listener.h"
#include "src/net/listener.h"
#include "src/net/worker.h"
#include "src/process/daemon.h"
#include "src/process/maintenance.h"
#include "src/process/notify.h"
#include "src/process/startup_error.h"
#include "src/snapshot/snapshot.h"
#include "src/state.h"
#include "storage/planner.h"
#include "storage/shared_bytes.h"

namespace server {

namespace {

struct FreeBase {
  void operator()(event_base* base) const { event_base_free(base); }
};
struct FreeEvent {
  void operator()(event* each) const { event_free(each); }
};

// -m bounds everything, so the buffers of connections get a sixteenth of it.
uint64_t StoreBytes(uint64_t memory_bytes) { return memory_bytes - memory_bytes / 16; }

std::unique_ptr<kbf::Store> MakeStore(const Options& options, const Node* node,
                                      Snapshot* snapshot) {
  kbf::StoreConfig config = options.store;
  config.memory_bytes = StoreBytes(config.memory_bytes);
  if (node != nullptr) config.num_slabs = node->config().slabs;
  kbf::Store::CreateOutcome outcome =
      kbf::Store::Create(config, node == nullptr ? kbf::HashSecret::Random() : node->hash_secret());
  if (outcome.store == nullptr) throw StartupError(outcome.error);
  if (snapshot == nullptr) return std::move(outcome.store);
  if (!kbf::ImageDigestOf(outcome.store->engine())) {
    throw StartupError("--snapshot does not work with --engine " + options.engine);
  }
  if (!snapshot->HasFile()) return std::move(outcome.store);
  outcome.store.reset();  // there may be no memory for both
  if (auto loaded = snapshot->Load(config)) return loaded;
  outcome = kbf::Store::Create(config, kbf::HashSecret::Random());
  if (outcome.store == nullptr) throw StartupError(outcome.error);
  return std::move(outcome.store);
}

// Where the server listens and what it has planned.
void LogStartupSummary(const kbf::Store& store, const ListenSockets& sockets) {
  std::string where;
  for (const std::string& name : sockets.names()) where += (where.empty() ? "" : ", ") + name;
  Log(kLogAlways, "listening on %s", where.c_str());
  Log(kLogAlways,
      "%s, %u slabs, %.0f MB; promised errors: false negatives <= %.1e, false positives <= %.1e",
      store.engine().Summary().c_str(), store.num_slabs(),
      static_cast<double>(store.config().memory_bytes) / (1 << 20), store.config().false_negative,
      store.config().false_positive);
}

struct StopRequest {
  event_base* base = nullptr;
  int signal = 0;
};

void OnStop(evutil_socket_t signal, short, void* request) noexcept {
  Log(kLogAlways, "signal %d: stopping", static_cast<int>(signal));
  auto* const stop = static_cast<StopRequest*>(request);
  stop->signal = static_cast<int>(signal);
  event_base_loopbreak(stop->base);
}

// Reads passwords and certificates again. There is no log file to reopen.
void OnHangUp(evutil_socket_t, short, void* shared) noexcept try {
  const auto& state = *static_cast<const State*>(shared);
  if (state.authenticator != nullptr) state.authenticator->Reload();
  if (state.tls != nullptr) state.tls->ReloadAndLog(state.clock.Now());
  if (state.authenticator == nullptr && state.tls == nullptr) {
    Log(kLogAlways, "SIGHUP: the log goes to standard error, nothing to reopen");
  }
} catch (const std::bad_alloc&) {
  Log(kLogAlways, "SIGHUP: no memory to read the files again; all stays as it was");
}

// Removes the pid file at the end, also of a start that fails after the file was written.
class PidFile {
 public:
  explicit PidFile(const std::string& path) : path_(path) {}
  ~PidFile() {
    if (!path_.empty()) RemovePidFile(path_);
  }
  PidFile(const PidFile&) = delete;
  PidFile& operator=(const PidFile&) = delete;

 private:
  const std::string& path_;
};

void Prepare(const Options& options) {
  if (options.daemonize) Daemonize(options.core_dumps);
  RaiseFileLimit(options.connections_max, options.threads);
  if (options.lock_memory) LockMemory();
  ForbidNewPrivileges();
  DropPrivileges(options.user);
  if (options.core_dumps) EnableCoreDumps();
  if (!options.pid_file.empty()) try {
      WritePidFile(options.pid_file);
    } catch (const StartupError& error) {
      // A daemon needs the file to be found. In the foreground the server serves without it, as
      // memcached does.
      if (options.daemonize) throw;
      Log(kLogAlways, "%s", error.what());
    }
  DropCapabilities();
}

// A daemon changes its directory.
SnapshotOptions WithAbsolutePath(SnapshotOptions snapshot) {
  if (!snapshot.path.empty()) snapshot.path = std::filesystem::absolute(snapshot.path);
  return snapshot;
}

void SetStopSignals(int how) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGTERM, SIGINT, SIGUSR1, SIGHUP}) sigaddset(&signals, number);
  pthread_sigmask(how, &signals, nullptr);
}

using Workers = std::vector<std::unique_ptr<Worker>>;

Workers MakeWorkers(State& state) {
  Workers workers;
  for (unsigned i = 0; i < state.options.threads; ++i) {
    workers.push_back(std::make_unique<Worker>(state));
  }
  return workers;
}

std::vector<Worker*> PointersTo(const Workers& workers) {
  std::vector<Worker*> pointers;
  for (const auto& worker : workers) pointers.push_back(worker.get());
  return pointers;
}

// Serves until a signal says stop, and returns it.
int ServeUntilStopped(State& state, const Workers& workers, ListenSockets& sockets, Node* node) {
  const std::unique_ptr<event_base, FreeBase> base(event_base_new());
  if (base == nullptr) throw StartupError("cannot make an event loop");
  StopRequest stop{base.get()};
  std::vector<std::unique_ptr<event, FreeEvent>> signals;
  for (const int number : {SIGTERM, SIGINT, SIGUSR1}) {
    signals.emplace_back(evsignal_new(base.get(), number, OnStop, &stop));
    event_add(signals.back().get(), nullptr);
  }
  signals.emplace_back(evsignal_new(base.get(), SIGHUP, OnHangUp, &state));
  event_add(signals.back().get(), nullptr);
  SetStopSignals(SIG_UNBLOCK);

  if (!state.options.warm.host.empty()) {
    // Before anybody is served: what clients change from then on must be noticed.
    state.warming = std::make_unique<Warming>(state.options.warm, *state.store, state.clock);
  }
  for (const auto& worker : workers) worker->Start();
  {
    const Maintenance maintenance(*state.store, state.clock);
    std::optional<SnapshotTimer> timer;
    if (state.snapshot != nullptr) timer.emplace(*state.snapshot, *state.store, state.clock);
    const Listener listener(state, PointersTo(workers), base.get());
    std::unique_ptr<InnerListener> inner;
    if (node != nullptr) {
      inner =
          std::make_unique<InnerListener>(state.options.cluster, base.get(), PointersTo(workers));
    }
    sockets.Listen();  // last: whatever can fail has been done
    // A daemon that starts well prints nothing on its caller's terminal, as in memcached.
    if (!state.options.daemonize || state.options.verbosity > 0) {
      LogStartupSummary(*state.store, sockets);
    }
    if (node != nullptr) node->Start();
    NotifyServiceManager("READY=1");
    ReportReady(state.options.verbosity > 0);
    event_base_dispatch(base.get());
  }
  NotifyServiceManager("STOPPING=1");
  if (node != nullptr) node->Stop();
  sockets.Close();
  for (const auto& worker : workers) worker->Stop();
  for (const auto& worker : workers) worker->Join();
  state.warming.reset();
  return stop.signal;
}

// Scripts repeat SIGTERM until the process is gone: that must not cut the file off. SIGINT, from an
// operator who does not want to wait, does.
void WriteSnapshot(State& state) {
  SetStopSignals(SIG_BLOCK);
  sigset_t interrupt;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  pthread_sigmask(SIG_UNBLOCK, &interrupt, nullptr);
  (void)state.snapshot->Write(*state.store, state.clock, kbf::ImageMark::kCurrent, false);
}

}  // namespace

int RunServer(const Options& options) {
  // Blocked until the event loop handles them, so that a server that accepts connections always
  // stops in order.
  SetStopSignals(SIG_BLOCK);
  SetLogVerbosity(static_cast<uint32_t>(options.verbosity));
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // a file that becomes too large is an error of write()
  OpenStandardStreams();
  const SnapshotOptions snapshot_options = WithAbsolutePath(options.snapshot);
  ListenSockets sockets(options);
  // While there are privileges: keys and passwords may be for root alone.
  auto tls = options.tls.enabled ? std::make_unique<TlsContext>(options.tls) : nullptr;
  auto authenticator =
      options.auth_file.empty() ? nullptr : std::make_unique<Authenticator>(options.auth_file);
  const PidFile pid_file(options.pid_file);
  Prepare(options);
  const LogThread log;
  kbf::ReturnFreedPages();
  const std::unique_ptr<Node> node = options.cluster.name.empty() ? nullptr : Node::Join(options);
  std::unique_ptr<Snapshot> snapshot;
  if (!snapshot_options.path.empty()) snapshot = std::make_unique<Snapshot>(snapshot_options);
  auto store = MakeStore(options, node.get(), snapshot.get());
  State state(options, std::move(store), nullptr,
              snapshot != nullptr ? snapshot->ClockStart() : Clock::kStart);
  state.snapshot = std::move(snapshot);
  state.listen_fds = sockets.fds();
  state.tls_listen_fds = sockets.tls_fds();
  state.tls = std::move(tls);
  state.authenticator = std::move(authenticator);
  const Workers workers = MakeWorkers(state);
  if (node != nullptr) {
    node->SetStore(state.store.get(), &state.clock);
    for (const auto& worker : workers) worker->JoinCluster(*node);
  }
  const int signal = ServeUntilStopped(state, workers, sockets, node.get());
  if (state.snapshot != nullptr && signal != SIGINT) WriteSnapshot(state);
  return 0;
}

}  // namespace server
