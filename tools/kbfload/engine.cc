#include "tools/kbfload/engine.h"

#include <sys/epoll.h>
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <queue>
#include <thread>

#include "storage/hash.h"

namespace load {

std::atomic<bool> interrupted = false;

namespace {

constexpr int64_t kTickNs = 100'000'000;
constexpr auto kObserveEvery = std::chrono::milliseconds(250);

int64_t Now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

double ThreadCpuSeconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Intended starts, where there are any.
class Schedule {
 public:
  static Schedule None() { return {}; }
  // Gaps of ETC's shape, scaled to a mean.
  static Schedule Drawn(double mean_gap_ns, uint64_t seed) {
    Schedule schedule;
    schedule.scale_ = mean_gap_ns * (1 - kGapK) / kGapSigma;
    schedule.state_ = seed;
    return schedule;
  }
  // Equal gaps; the first is a random part of one.
  static Schedule Even(int64_t gap_ns, uint64_t seed) {
    Schedule schedule;
    schedule.gap_ns_ = gap_ns;
    schedule.state_ = seed;
    return schedule;
  }

  bool exists() const { return gap_ns_ > 0 || scale_ > 0; }
  void Begin(int64_t from_ns) {
    next_ns_ = from_ns;
    if (gap_ns_ > 0) {
      next_ns_ += static_cast<int64_t>(kbf::ScaleTo(Word(), static_cast<uint64_t>(gap_ns_)));
    } else {
      Advance();
    }
  }
  int64_t next_ns() const { return next_ns_; }
  void Advance() {
    next_ns_ += gap_ns_;
    if (scale_ > 0) {
      next_ns_ += static_cast<int64_t>(scale_ * ParetoQuantile(Unit(Word()), kGapSigma, kGapK));
    }
  }

 private:
  Schedule() = default;
  uint64_t Word() { return kbf::Mix64(state_ += 0x9e3779b97f4a7c15u); }

  double scale_ = 0;
  int64_t gap_ns_ = 0;
  uint64_t state_ = 0;
  int64_t next_ns_ = 0;
};

// What workers share with each other and with the caller.
struct Shared {
  std::mutex mu;
  std::condition_variable changed;
  std::string failure;               // guarded by mu
  unsigned running = 0;              // guarded by mu
  std::atomic<bool> abandon{false};  // leave now: a worker has failed
};

struct Member {
  Connection connection;
  Schedule schedule;
  bool waits_to_write = false;
};

class Worker {
 public:
  Worker(const std::vector<ClientGroup>& client_groups, const LoadOptions& options, Shared* shared)
      : options_(options),
        shared_(shared),
        tallies_(client_groups.size()),
        published_(client_groups.size()) {}

  Tally* tally(size_t clients) { return &tallies_[clients]; }
  void Join(Member member) { members_.push_back(std::make_unique<Member>(std::move(member))); }

  void Run(int64_t start_ns) noexcept;
  // Copies of what was last published; any thread.
  void AddTo(std::vector<Tally>* client_groups);

  double cpu_seconds() const { return cpu_seconds_; }
  double late_s() const { return late_s_; }

 private:
  struct Due {
    int64_t at_ns;
    Member* member;
    bool operator<(const Due& other) const { return at_ns > other.at_ns; }
  };

  bool AddConnections();
  void Loop();
  void Wait(epoll_event* events, int max, int* count);
  void Serve(Member* member, uint32_t events);
  void Start(Member* member, int64_t now);
  unsigned AddBatch(Member* member, int64_t now);
  void StartDue(int64_t now);
  void Watch(Member* member);
  void FinishConnection(Member* member, int64_t now);
  void Tick(int64_t now);
  void Fail(const std::string& text);
  bool over(int64_t now) const {
    return (deadline_ns_ > 0 && now >= deadline_ns_) || interrupted.load(std::memory_order_relaxed);
  }

  const LoadOptions options_;
  Shared* const shared_;
  std::vector<std::unique_ptr<Member>> members_;
  std::vector<Tally> tallies_;  // worker thread only
  Socket epoll_;
  std::priority_queue<Due> due_;
  size_t active_ = 0;
  int64_t deadline_ns_ = 0;
  int64_t next_tick_ns_ = 0;
  double cpu_seconds_ = 0;
  double late_s_ = 0;

  std::mutex mu_;
  std::vector<Tally> published_;  // guarded by mu_
};

void Worker::Fail(const std::string& text) {
  const std::lock_guard lock(shared_->mu);
  if (shared_->failure.empty()) shared_->failure = text;
  shared_->abandon = true;
}

void Worker::AddTo(std::vector<Tally>* client_groups) {
  const std::lock_guard lock(mu_);
  for (size_t i = 0; i < published_.size(); ++i) (*client_groups)[i].Merge(published_[i]);
}

void Worker::Run(int64_t start_ns) noexcept {
  const double cpu_before = ThreadCpuSeconds();
  // Wake-ups for intended starts should not be rounded up to 50 microseconds.
  prctl(PR_SET_TIMERSLACK, 1);
  if (options_.seconds > 0) deadline_ns_ = start_ns + static_cast<int64_t>(options_.seconds * 1e9);
  next_tick_ns_ = start_ns + kTickNs;
  for (const auto& member : members_) member->schedule.Begin(start_ns);
  if (AddConnections()) Loop();
  cpu_seconds_ = ThreadCpuSeconds() - cpu_before;
  Tick(Now());
  const std::lock_guard lock(shared_->mu);
  --shared_->running;
  shared_->changed.notify_one();
}

bool Worker::AddConnections() {
  epoll_ = Socket(epoll_create1(EPOLL_CLOEXEC));
  for (const auto& member : members_) {
    epoll_event event{.events = EPOLLIN, .data = {.ptr = member.get()}};
    if (epoll_ctl(epoll_.fd(), EPOLL_CTL_ADD, member->connection.fd(), &event) != 0) {
      Fail(std::string("epoll refuses a connection: ") + std::strerror(errno));
      return false;
    }
  }
  return true;
}

void Worker::Loop() {
  epoll_event events[64];
  active_ = members_.size();
  const int64_t start = Now();
  for (const auto& member : members_) Start(member.get(), start);
  while (active_ > 0 && !shared_->abandon.load(std::memory_order_relaxed)) {
    int count = 0;
    Wait(events, 64, &count);
    for (int i = 0; i < count && !shared_->abandon.load(std::memory_order_relaxed); ++i) {
      Serve(static_cast<Member*>(events[i].data.ptr), events[i].events);
    }
    const int64_t now = Now();
    StartDue(now);
    if (now >= next_tick_ns_) Tick(now);
  }
}

// Until something happens, a request is due, or it is time for the tick.
void Worker::Wait(epoll_event* events, int max, int* count) {
  int64_t until = next_tick_ns_;
  if (!due_.empty()) until = std::min(until, due_.top().at_ns);
  const int64_t wait_ns = std::max<int64_t>(0, until - Now());
  const timespec timeout = {wait_ns / 1'000'000'000, wait_ns % 1'000'000'000};
  *count = epoll_pwait2(epoll_.fd(), events, max, &timeout, nullptr);
}

void Worker::Serve(Member* member, uint32_t events) {
  Connection& connection = member->connection;
  if (events & EPOLLOUT && !connection.Write(Now())) return Fail(connection.Failure());
  // The clock is read behind the wake-up: replies that wait here while others are served wait in
  // truth, too.
  if (events & ~EPOLLOUT && !connection.Receive(Now())) return Fail(connection.Failure());
  if (connection.done()) {
    Start(member, Now());
  } else {
    Watch(member);
  }
}

void Worker::Start(Member* member, int64_t now) {
  Connection& connection = member->connection;
  if (over(now)) return FinishConnection(member, now);
  if (member->schedule.exists() && member->schedule.next_ns() > now) {
    Watch(member);  // a socket that can be written to must not wake us up meanwhile
    due_.push({member->schedule.next_ns(), member});
    return;
  }
  if (AddBatch(member, now) == 0) return FinishConnection(member, now);
  if (!connection.Send(now)) return Fail(connection.Failure());
  Watch(member);
}

// At a rate each request has an intended start; a client group with pauses has one for a batch.
unsigned Worker::AddBatch(Member* member, int64_t now) {
  Connection& connection = member->connection;
  Schedule& schedule = member->schedule;
  const unsigned most = connection.clients().pipeline;
  unsigned added = 0;
  if (options_.rate > 0) {
    for (; added < most && schedule.next_ns() <= now; schedule.Advance(), ++added) {
      if (!connection.Add(schedule.next_ns())) break;
    }
    return added;
  }
  const int64_t start = schedule.exists() ? schedule.next_ns() : now;
  while (added < most && connection.Add(start)) ++added;
  schedule.Advance();
  return added;
}

void Worker::StartDue(int64_t now) {
  const bool all = over(now);
  while (!due_.empty() && (all || due_.top().at_ns <= now)) {
    Member* const member = due_.top().member;
    due_.pop();
    Start(member, now);
  }
}

// Asks for EPOLLOUT only while there is something to write.
void Worker::Watch(Member* member) {
  const bool write = member->connection.wants_to_write();
  if (write == member->waits_to_write) return;
  member->waits_to_write = write;
  epoll_event event{.events = static_cast<uint32_t>(write ? EPOLLIN | EPOLLOUT : EPOLLIN),
                    .data = {.ptr = member}};
  epoll_ctl(epoll_.fd(), EPOLL_CTL_MOD, member->connection.fd(), &event);
}

// A connection without work is no longer listened to; it may be closed without harm.
void Worker::FinishConnection(Member* member, int64_t now) {
  if (member->schedule.exists()) {
    late_s_ = std::max(late_s_, 1e-9 * static_cast<double>(now - member->schedule.next_ns()));
  }
  epoll_ctl(epoll_.fd(), EPOLL_CTL_DEL, member->connection.fd(), nullptr);
  --active_;
}

void Worker::Tick(int64_t now) {
  next_tick_ns_ = now + kTickNs;
  {
    const std::lock_guard lock(mu_);
    published_ = tallies_;
  }
  const auto patience = static_cast<int64_t>(options_.timeout_s * 1e9);
  for (const auto& member : members_) {
    const Connection& connection = member->connection;
    if (connection.done() || now - connection.last_progress_ns() < patience) continue;
    return Fail(connection.clients().server.Name() + " stalls: no answer for " +
                std::to_string(options_.timeout_s).substr(0, 4) + " s");
  }
}

Schedule ScheduleOf(const ClientGroup& clients, double gap_ns, uint64_t number) {
  if (gap_ns > 0) return Schedule::Drawn(gap_ns, kbf::Mix64(number));
  if (clients.every_us > 0)
    return Schedule::Even(int64_t{1000} * clients.every_us, kbf::Mix64(number));
  return Schedule::None();
}

// Connections are dealt out to the threads in turn: those that client groups share, or the client
// group's own.
std::vector<std::unique_ptr<Worker>> MakeWorkers(const std::vector<ClientGroup>& client_groups,
                                                 const LoadOptions& options, Shared* shared) {
  unsigned all = 0;
  unsigned sharing = 0;
  for (const ClientGroup& clients : client_groups) {
    all += clients.connections;
    if (clients.own_threads == 0) sharing += clients.connections;
  }
  std::vector<std::unique_ptr<Worker>> workers;
  const auto add_workers = [&](unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
      workers.push_back(std::make_unique<Worker>(client_groups, options, shared));
    }
  };
  const unsigned common = std::min(options.threads, sharing);
  add_workers(common);
  const double gap_ns = options.rate > 0 ? 1e9 * all / options.rate : 0;
  uint64_t number = 0;
  uint64_t dealt = 0;  // of those that share
  for (size_t i = 0; i < client_groups.size(); ++i) {
    const ClientGroup& clients = client_groups[i];
    const size_t own = workers.size();
    add_workers(clients.own_threads);
    for (unsigned j = 0; j < clients.connections; ++j, ++number) {
      Worker& worker =
          *workers[clients.own_threads > 0 ? own + j % clients.own_threads : dealt++ % common];
      Connection connection(Connect(clients.server, options.timeout_s), clients, worker.tally(i),
                            clients.sources(j));
      worker.Join({std::move(connection), ScheduleOf(clients, gap_ns, number)});
    }
  }
  return workers;
}

}  // namespace

Tally Outcome::All() const {
  Tally all;
  for (const Tally& clients : client_groups) all.Merge(clients);
  return all;
}

Outcome RunLoad(const std::vector<ClientGroup>& client_groups, const LoadOptions& options,
                const Observer& observer) {
  Shared shared;
  const auto workers = MakeWorkers(client_groups, options, &shared);
  const int64_t start = Now();
  const auto seconds = [start] { return 1e-9 * static_cast<double>(Now() - start); };
  const auto collect = [&] {
    std::vector<Tally> tallies(client_groups.size());
    for (const auto& worker : workers) worker->AddTo(&tallies);
    return tallies;
  };

  shared.running = static_cast<unsigned>(workers.size());
  std::vector<std::thread> threads;
  threads.reserve(workers.size());
  for (const auto& worker : workers) threads.emplace_back([&] { worker->Run(start); });
  for (std::unique_lock lock(shared.mu);;) {
    if (shared.changed.wait_for(lock, kObserveEvery, [&] { return shared.running == 0; })) break;
    lock.unlock();
    Snapshot snapshot;
    snapshot.seconds = seconds();
    for (const Tally& clients : collect()) snapshot.tally.Merge(clients);
    if (observer) observer(snapshot);
    lock.lock();
  }
  Outcome outcome;
  outcome.seconds = seconds();
  outcome.threads = static_cast<unsigned>(workers.size());
  for (std::thread& thread : threads) thread.join();
  outcome.client_groups = collect();
  for (const auto& worker : workers) {
    outcome.cpu_seconds += worker->cpu_seconds();
    outcome.late_s = std::max(outcome.late_s, worker->late_s());
  }
  outcome.failure = shared.failure;
  outcome.interrupted = interrupted;
  return outcome;
}

}  // namespace load
