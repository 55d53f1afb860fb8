#include "src/worker.h"

#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <new>

#include "src/log.h"
#include "src/startup_error.h"

namespace server {
namespace {

// At the end, connections are looked after every 50 ms, and given up after 5 s; before that, once
// they were silent for 250 ms.
constexpr timeval kDrainInterval = {0, 50'000};
constexpr unsigned kDrainRoundsMax = 100;
constexpr unsigned kDrainRoundsSilent = 5;

}  // namespace

Worker::Worker(State& state)
    : state_(state),
      limits_{.value_bytes_max = state.options.store.item_bytes_max},
      input_(state.input_budget),
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
  for (event* each : {wake_, resume_, second_, drain_}) {
    if (each != nullptr) event_free(each);
  }
  if (base_ != nullptr) event_base_free(base_);
  if (wake_fd_ >= 0) close(wake_fd_);
}

void Worker::Start() {
  thread_ = std::thread([this] { event_base_dispatch(base_); });
}

void Worker::Join() {
  if (thread_.joinable()) thread_.join();
}

void Worker::Adopt(int fd) {
  {
    const std::lock_guard lock(queue_mutex_);
    arrivals_.push_back(fd);
  }
  const uint64_t one = 1;
  (void)!write(wake_fd_, &one, sizeof(one));
}

void Worker::Stop() {
  {
    const std::lock_guard lock(queue_mutex_);
    stop_asked_ = true;
  }
  const uint64_t one = 1;
  (void)!write(wake_fd_, &one, sizeof(one));
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
  if (stop && !self->stopping_) self->FinishAll();
}

void Worker::Add(int fd) {
  if (stopping_) {
    close(fd);
    state_.curr_connections.fetch_sub(1, std::memory_order_relaxed);
    return;
  }
  auto* connection = new Connection(*this, fd);
  Log(kLogTraffic, "<%d new connection", fd);
  const std::lock_guard lock(connections_mutex_);
  connection->next = first_;
  if (first_ != nullptr) first_->previous = connection;
  first_ = connection;
}

void Worker::Remove(Connection* connection) {
  Log(kLogTraffic, "<%d connection closed", connection->fd());
  {
    const std::lock_guard lock(connections_mutex_);
    if (connection->next != nullptr) connection->next->previous = connection->previous;
    (connection->previous != nullptr ? connection->previous->next : first_) = connection->next;
  }
  if (connection->state() == Connection::State::kYielded) std::erase(yielded_, connection);
  delete connection;
  state_.curr_connections.fetch_sub(1, std::memory_order_relaxed);
}

// ---- turns --------------------------------------------------------------------------------------

void Worker::ResumeLater(Connection* connection) {
  const timeval now = {0, 0};
  if (yielded_.empty()) event_add(resume_, &now);
  yielded_.push_back(connection);
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

void Worker::Sweep() {
  for (Connection* at = first_; at != nullptr;) {
    Connection* const next = at->next;
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
  event_add(drain_, &kDrainInterval);
  yielded_.clear();
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
  ++self->drain_rounds_;
  for (Connection* at = self->first_; at != nullptr;) {
    Connection* const next = at->next;
    if (at->state() == Connection::State::kLingering &&
        at->rounds_silent_++ >= kDrainRoundsSilent) {
      self->Remove(at);
    }
    at = next;
  }
  if (self->first_ == nullptr || self->drain_rounds_ >= kDrainRoundsMax) {
    event_base_loopbreak(self->base_);
  }
}

}  // namespace server
