#include "src/net/worker.h"

#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <utility>

#include "src/io/plain_transport.h"
#include "src/log.h"
#include "src/process/startup_error.h"

namespace server {
namespace {

// At the end, connections are looked after every 50 ms, and given up after 3 s; before that, once
// they were silent for 250 ms.
constexpr timeval kDrainInterval = {0, 50'000};
constexpr uint64_t kDrainMs = 3000;
constexpr unsigned kDrainRoundsSilent = 5;
constexpr timeval kRetryInterval = {0, 10'000};

}  // namespace

Worker::Worker(State& state)
    : state_(state),
      limits_{.value_bytes_max = state.options.store.item_bytes_max},
      input_(state.connection_memory),
      output_(state.output_limits),
      dispatcher_(state, counters_, output_) {
  event_config* config = event_config_new();
  // Only this thread touches the base: no locks in it. A wake-up comes through a descriptor.
  event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
  base_ = event_base_new_with_config(config);
  event_config_free(config);
  wake_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (base_ == nullptr || wake_fd_ < 0) throw StartupError("cannot make an event loop");
  wake_ = event_new(base_, wake_fd_, EV_READ | EV_PERSIST, OnWake, this);
  resume_ = event_new(base_, -1, 0, OnResume, this);
  retry_ = event_new(base_, -1, 0, OnRetry, this);
  second_ = event_new(base_, -1, EV_PERSIST, OnSecond, this);
  drain_ = event_new(base_, -1, EV_PERSIST, OnDrain, this);
  const timeval second = {1, 0};
  if (event_add(wake_, nullptr) != 0 || event_add(second_, &second) != 0) {
    throw StartupError("cannot watch events");
  }
  Tick();
}

Worker::~Worker() {
  while (first_ != nullptr) Remove(first_);
  for (event* each : {wake_, resume_, retry_, second_, drain_}) {
    if (each != nullptr) event_free(each);
  }
  if (base_ != nullptr) event_base_free(base_);
  if (wake_fd_ >= 0) close(wake_fd_);
}

void Worker::Start() {
  thread_ = std::thread([this] {
    // The allocator sets its thread up now: it cannot do that when memory has run out.
    kbf::FreeShared(kbf::AllocateShared(1));
    event_base_dispatch(base_);
  });
}

void Worker::Join() {
  if (thread_.joinable()) thread_.join();
}

void Worker::Wake() {
  const uint64_t one = 1;
  (void)!write(wake_fd_, &one, sizeof(one));
}

void Worker::Tick() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  now_ms_ =
      static_cast<uint64_t>(time.tv_sec) * 1000 + static_cast<uint64_t>(time.tv_nsec) / 1000000;
  now_ = state_.clock.Now();
}

void Worker::Adopt(int fd) {
  try {
    const std::lock_guard lock(queue_mutex_);
    arrivals_.push_back(fd);
  } catch (const std::bad_alloc&) {
    close(fd);
    state_.curr_connections.fetch_sub(1, std::memory_order_relaxed);
    return;
  }
  Wake();
}

void Worker::RequestShed() {
  if (!shed_asked_.exchange(true, std::memory_order_relaxed)) Wake();
}

void Worker::Stop() {
  {
    const std::lock_guard lock(queue_mutex_);
    stop_asked_ = true;
  }
  Wake();
}

// ---- connections come and go --------------------------------------------------------------------

void Worker::OnWake(evutil_socket_t fd, short, void* worker) noexcept {
  auto* self = static_cast<Worker*>(worker);
  uint64_t count;
  (void)!read(fd, &count, sizeof(count));
  std::vector<int> arrivals;
  bool stop;
  {
    const std::lock_guard lock(self->queue_mutex_);
    arrivals.swap(self->arrivals_);
    stop = self->stop_asked_;
  }
  self->Tick();
  for (const int arrival : arrivals) self->Add(arrival);
  if (self->shed_asked_.exchange(false, std::memory_order_relaxed)) self->TakeShedStep();
  if (stop && !self->stopping_) self->FinishAll();
}

void Worker::Add(int fd) {
  if (stopping_) {
    close(fd);
    state_.curr_connections.fetch_sub(1, std::memory_order_relaxed);
    return;
  }
  auto* connection = new (std::nothrow) ConnectionOver<PlainTransport>(*this, fd);
  if (connection == nullptr) {
    close(fd);
    state_.curr_connections.fetch_sub(1, std::memory_order_relaxed);
    return;
  }
  Log(kLogTraffic, "<%d new connection", fd);
  {
    const std::lock_guard lock(connections_mutex_);
    connection->next = first_;
    if (first_ != nullptr) first_->previous = connection;
    first_ = connection;
  }
  if (!connection->Start()) Remove(connection);
}

void Worker::Remove(Connection* connection) {
  Log(kLogTraffic, "<%d connection closed", connection->fd());
  {
    const std::lock_guard lock(connections_mutex_);
    if (connection->next != nullptr) connection->next->previous = connection->previous;
    (connection->previous != nullptr ? connection->previous->next : first_) = connection->next;
  }
  if (connection->state() == Connection::State::kYielded) {
    std::erase(yielded_, connection);
    std::erase(retrying_, connection);
  }
  delete connection;
  state_.curr_connections.fetch_sub(1, std::memory_order_relaxed);
}

// ---- turns --------------------------------------------------------------------------------------

bool Worker::ResumeLater(Connection* connection) {
  const timeval now = {0, 0};
  try {
    yielded_.push_back(connection);
  } catch (const std::bad_alloc&) {
    return false;
  }
  if (event_pending(resume_, EV_TIMEOUT, nullptr) || event_add(resume_, &now) == 0) return true;
  yielded_.pop_back();
  return false;
}

bool Worker::RetryLater(Connection* connection) {
  try {
    retrying_.push_back(connection);
  } catch (const std::bad_alloc&) {
    return false;
  }
  if (event_pending(retry_, EV_TIMEOUT, nullptr) || event_add(retry_, &kRetryInterval) == 0) {
    return true;
  }
  retrying_.pop_back();
  return false;
}

void Worker::OnRetry(evutil_socket_t, short, void* worker) noexcept {
  auto* self = static_cast<Worker*>(worker);
  self->Tick();
  const std::vector<Connection*> turns = std::exchange(self->retrying_, {});
  for (Connection* connection : turns) connection->Resume();
}

void Worker::OnResume(evutil_socket_t, short, void* worker) noexcept {
  auto* self = static_cast<Worker*>(worker);
  self->Tick();
  // Those that yield again wait for the next round of the loop; those that end remove only
  // themselves.
  const std::vector<Connection*> turns = std::exchange(self->yielded_, {});
  for (Connection* connection : turns) connection->Resume();
}

void Worker::OnSecond(evutil_socket_t, short, void* worker) noexcept {
  auto* self = static_cast<Worker*>(worker);
  self->Tick();
  self->Sweep();
}

// ---- closing those that hold too much -----------------------------------------------------------

// It runs on its own, never while a connection is being served.
void Worker::TakeShedStep() {
  const Shedder::Step step = state_.shedder.NextStep(shed_step_);
  if (step.action == Shedder::Action::kNone) return;
  shed_step_ = step.number;
  if (step.action == Shedder::Action::kReport) return ReportHolders(step);
  CloseHolders(step);
  state_.shedder.Closed();
}

void Worker::ReportHolders(const Shedder::Step& step) {
  WorstHolders worst;
  for (Connection* at = first_; at != nullptr; at = at->next) {
    if (step.spare_moving && at->IsMoving(step.time_ms)) continue;
    const uint64_t bytes = at->HeldBytes();
    if (bytes > 0) worst.Offer({at->ShedScore(step.time_ms), bytes});
  }
  Proceed(state_.shedder.Report(worst));
}

void Worker::CloseHolders(const Shedder::Step& step) {
  for (Connection* at = first_; at != nullptr && memory().Excess() > 0;) {
    Connection* const connection = std::exchange(at, at->next);
    if (step.spare_moving && connection->IsMoving(step.time_ms)) continue;
    const uint64_t bytes = connection->HeldBytes();
    if (bytes == 0 || connection->ShedScore(step.time_ms) < step.threshold) continue;
    Log(kLogErrors, "<%d closed: connections hold too much memory, this one %llu bytes",
        connection->fd(), static_cast<unsigned long long>(bytes));
    counters_.connections_shed.Add();
    Remove(connection);
  }
}

void Worker::Sweep() {
  for (Connection* at = first_; at != nullptr;) {
    Connection* const next = at->next;
    at->DecayProgress();
    if (at->TimedOut(now_)) {
      if (at->state() != Connection::State::kLingering) counters_.idle_kicks.Add();
      Remove(at);
    }
    at = next;
  }
}

// ---- the end ------------------------------------------------------------------------------------

void Worker::FinishAll() {
  stopping_ = true;
  stop_ms_ = now_ms_;
  if (event_add(drain_, &kDrainInterval) != 0) {
    event_base_loopbreak(base_);
    return;
  }
  yielded_.clear();
  retrying_.clear();
  for (Connection* at = first_; at != nullptr;) {
    Connection* const next = at->next;
    at->Finish();
    at = next;
  }
}

// Sockets that are closed with unread bytes in them reset the connection, and the reset can
// overtake replies. So each is read until the client hangs up as well, or is silent.
void Worker::OnDrain(evutil_socket_t, short, void* worker) noexcept {
  auto* self = static_cast<Worker*>(worker);
  self->Tick();
  for (Connection* at = self->first_; at != nullptr;) {
    Connection* const next = at->next;
    if (at->state() == Connection::State::kLingering &&
        at->rounds_silent_++ >= kDrainRoundsSilent) {
      self->Remove(at);
    }
    at = next;
  }
  if (self->first_ == nullptr || self->now_ms_ - self->stop_ms_ >= kDrainMs) {
    event_base_loopbreak(self->base_);
  }
}

}  // namespace server
