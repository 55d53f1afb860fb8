#include "src/net/worker.h"

#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "src/io/round_transport.h"
#include "src/io/socket_calls.h"
#include "src/io/tls_transport.h"
#include "src/log.h"
#include "src/process/startup_error.h"
#include "src/process/thread.h"

namespace server {
namespace {

// While the worker stops, connections are checked every 50 ms. They are closed after 250 ms in
// which nothing was received, and at the latest after 3 s.
constexpr timeval kDrainInterval = {0, 50'000};
constexpr uint64_t kDrainMs = 3000;
constexpr unsigned kDrainRoundsSilent = 5;
constexpr timeval kRetryInterval = {0, 10'000};

}  // namespace

Worker::Worker(State& state)
    : state_(state), context_(state), round_(std::make_unique<PlainCalls>()) {
  wake_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  event_base* const base = context_.base;
  if (base == nullptr || wake_fd_ < 0) throw StartupError("cannot make an event loop");
  wake_ = event_new(base, wake_fd_, EV_READ | EV_PERSIST, OnWake, this);
  resume_ = event_new(base, -1, 0, OnResume, this);
  retry_ = event_new(base, -1, 0, OnRetry, this);
  // By a timer of the event loop the kernel would have to set one for each wait: 4 % of what a
  // single get costs on one connection.
  second_fd_ = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  second_ = event_new(base, second_fd_, EV_READ | EV_PERSIST, OnSecond, this);
  drain_ = event_new(base, -1, EV_PERSIST, OnDrain, this);
  round_event_ = event_new(base, -1, 0, OnRound, this);
  const itimerspec second = {{1, 0}, {1, 0}};
  if (event_add(wake_, nullptr) != 0 || event_add(second_, nullptr) != 0 ||
      timerfd_settime(second_fd_, 0, &second, nullptr) != 0) {
    throw StartupError("cannot watch events");
  }
  state_.workers.push_back(this);
  state_.shedder.AddParticipant(this);
}

Worker::~Worker() {
  // Still running if the start of the server fails.
  if (thread_.joinable()) Stop();
  Join();
  while (first_ != nullptr) Remove(first_);
  inner_.clear();
  context_.router.reset();
  for (event* each : {wake_, resume_, retry_, second_, drain_, round_event_, sweep_inner_}) {
    if (each != nullptr) event_free(each);
  }
  if (wake_fd_ >= 0) close(wake_fd_);
  if (second_fd_ >= 0) close(second_fd_);
}

void Worker::Start() {
  thread_ = StartThread([this] {
    RequestShortTimeSlices();
    ChooseCalls();
    event_base_dispatch(context_.base);
  });
}

void Worker::Join() {
  if (thread_.joinable()) thread_.join();
}

void Worker::Wake() {
  const uint64_t one = 1;
  (void)!write(wake_fd_, &one, sizeof(one));
}

void Worker::Adopt(int fd, bool tls) {
  try {
    const std::lock_guard lock(queue_mutex_);
    arrivals_.push_back({fd, tls, false});
  } catch (const std::bad_alloc&) {
    return Drop(fd);
  }
  Wake();
}

void Worker::AdoptInner(int fd) {
  try {
    const std::lock_guard lock(queue_mutex_);
    arrivals_.push_back({fd, false, true});
  } catch (const std::bad_alloc&) {
    close(fd);
    return;
  }
  Wake();
}

void Worker::JoinCluster(Node& node) {
  context_.router =
      std::make_unique<Router>(node, state_, context_.counters, context_.base, context_.limits);
  sweep_inner_ = event_new(context_.base, -1, 0, OnSweepInner, this);
  if (sweep_inner_ == nullptr) throw std::bad_alloc();
}

void Worker::AddInner(int fd) {
  if (stopping_) {
    close(fd);
    return;
  }
  try {
    inner_.reserve(inner_.size() + 1);
    inner_ended_.reserve(inner_.size() + 1);
    inner_.push_back(std::make_unique<InnerConnection>(context_.base, fd, *context_.router,
                                                       [this](InnerConnection* ended) {
                                                         inner_ended_.push_back(ended);
                                                         event_active(sweep_inner_, EV_TIMEOUT, 0);
                                                       }));
  } catch (const std::bad_alloc&) {
    Log(kLogAlways, "cluster: no memory for an inner connection");
  }
}

void Worker::OnSweepInner(evutil_socket_t, short, void* worker) noexcept {
  auto* self = static_cast<Worker*>(worker);
  for (const InnerConnection* ended : self->inner_ended_) {
    std::erase_if(self->inner_, [&](const auto& inner) { return inner.get() == ended; });
  }
  self->inner_ended_.clear();
}

void Worker::Drop(int fd) {
  close(fd);
  state_.connections.current.fetch_sub(1, std::memory_order_relaxed);
}

void Worker::RequestShed() {
  if (!shed_requested_.exchange(true, std::memory_order_relaxed)) Wake();
}

void Worker::VisitConnections(const std::function<void(const ConnectionInfo&)>& visit) const {
  const std::lock_guard lock(connections_mutex_);
  for (const Connection* at = first_; at != nullptr; at = at->next) visit(at->info());
}

void Worker::Stop() {
  {
    const std::lock_guard lock(queue_mutex_);
    stop_requested_ = true;
  }
  Wake();
}

// ---- connections come and go --------------------------------------------------------------------

void Worker::OnWake(evutil_socket_t fd, short, void* worker) noexcept {
  auto* self = static_cast<Worker*>(worker);
  uint64_t count;
  (void)!read(fd, &count, sizeof(count));
  std::vector<Arrival> arrivals;
  bool stop;
  {
    const std::lock_guard lock(self->queue_mutex_);
    arrivals.swap(self->arrivals_);
    stop = self->stop_requested_;
  }
  self->context_.Tick();
  for (const Arrival& arrival : arrivals) {
    arrival.inner ? self->AddInner(arrival.fd) : self->Add(arrival.fd, arrival.tls);
  }
  if (self->shed_requested_.exchange(false, std::memory_order_relaxed)) {
    self->TakeShedStep();
    self->Retry();
  }
  if (stop && !self->stopping_) self->FinishAll();
}

void Worker::Add(int fd, bool tls) {
  if (stopping_) return Drop(fd);
  Connection* connection = nullptr;
  if (tls) {
    connection = new (std::nothrow) ConnectionOver<TlsTransport>(context_, *this, fd, *state_.tls,
                                                                 state_.connection_memory, round_);
  } else {
    connection = new (std::nothrow) ConnectionOver<RoundTransport>(context_, *this, fd, round_);
  }
  if (connection == nullptr) return Drop(fd);
  Log(kLogTraffic, "<%d new connection", fd);
  {
    const std::lock_guard lock(connections_mutex_);
    connection->next = first_;
    if (first_ != nullptr) first_->previous = connection;
    first_ = connection;
  }
  connection->Start();
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
  // Before its round.
  if (connection->is_ready()) {
    std::replace(ready_.begin(), ready_.end(), connection, static_cast<Connection*>(nullptr));
  }
  delete connection;
  state_.connections.current.fetch_sub(1, std::memory_order_relaxed);
}

// ---- rounds -------------------------------------------------------------------------------------

void Worker::ChooseCalls() {
  if (std::exchange(has_chosen_calls_, true) || !state_.options.io_uring) return;
  int error = 0;
  std::unique_ptr<SocketCalls> calls = MakeRingCalls(&error);
  if (calls != nullptr) return round_.UseCalls(std::move(calls));
  if (state_.io_uring_refused.exchange(true)) return;
  Log(kLogAlways, "io_uring is not available (%s): each read and each write is a system call",
      strerror(error));
}

bool Worker::ServeLater(Connection* connection) {
  if (ready_.empty() && event_base_get_num_events(context_.base, EVENT_BASE_COUNT_ACTIVE) == 0) {
    return false;
  }
  try {
    ready_.push_back(connection);
  } catch (const std::bad_alloc&) {
    return false;
  }
  // Behind everything that is active now.
  if (ready_.size() == 1) event_active(round_event_, EV_TIMEOUT, 0);
  return true;
}

bool Worker::ServeSoon(Connection* connection) {
  try {
    ready_.push_back(connection);
  } catch (const std::bad_alloc&) {
    return false;
  }
  if (ready_.size() == 1) event_active(round_event_, EV_TIMEOUT, 0);
  return true;
}

void Worker::OnRound(evutil_socket_t, short, void* worker) noexcept {
  auto* self = static_cast<Worker*>(worker);
  self->context_.Tick();
  self->ChooseCalls();
  // Connections that end in their round are not ready any more, so the list stays as it is.
  for (size_t begin = 0; begin < self->ready_.size(); begin += Round::kMembersMax) {
    const std::span<Connection* const> rest = std::span(self->ready_).subspan(begin);
    self->ServeRound(rest.first(std::min(rest.size(), Round::kMembersMax)));
  }
  self->ready_.clear();
}

void Worker::ServeRound(std::span<Connection* const> members) {
  round_.Begin(members.size());
  for (size_t i = 0; i < members.size(); ++i) {
    if (members[i] != nullptr) members[i]->PrepareTurn(i);
  }
  round_.Receive();
  std::array<std::span<const char>, Round::kMembersMax> inputs;
  for (size_t i = 0; i < members.size(); ++i) inputs[i] = round_.Received(i);
  context_.dispatcher.Announce({inputs.data(), members.size()});
  for (size_t i = 0; i < members.size(); ++i) {
    round_.Turn(i);
    if (members[i] != nullptr) members[i]->ServeReady();
    if (round_.long_turn()) SendDeferred(members);
  }
  SendDeferred(members);
  round_.End();
  if (round_.uses_ring()) context_.counters.io_uring_rounds.Add();
}

void Worker::SendDeferred(std::span<Connection* const> members) {
  for (const Round::Sent& sent : round_.Send()) members[sent.member]->EndRound(sent);
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

// Gives turns to those that may have what they wait for, the smallest requests first: otherwise
// many large ones would keep all others out.
void Worker::Retry() {
  if (retrying_.empty() || state_.shedder.MustPause()) return;
  ConnectionMemory& memory = state_.connection_memory;
  std::vector<Connection*> waiting = std::exchange(retrying_, {});
  std::ranges::sort(waiting, {}, &Connection::WantedBytes);
  uint64_t room = memory.Room();
  size_t num_left = 0;
  for (Connection* const connection : waiting) {
    const uint64_t wanted = connection->WantedBytes();
    if (wanted > room && !connection->HasWaitedTooLong(context_.now_ms)) {
      memory.NoteWanted(wanted);
      waiting[num_left++] = connection;
      continue;
    }
    room -= std::min(room, wanted);
    if (!ResumeLater(connection)) Remove(connection);
  }
  waiting.resize(num_left);
  retrying_ = std::move(waiting);
}

void Worker::OnRetry(evutil_socket_t, short, void* worker) noexcept {
  auto* self = static_cast<Worker*>(worker);
  self->context_.Tick();
  self->Retry();
  if (self->retrying_.empty()) return;
  // Perhaps nobody else is served, and begins it.
  if (self->state_.connection_memory.IsShort()) self->BeginShedding();
  if (event_pending(self->retry_, EV_TIMEOUT, nullptr)) return;
  if (event_add(self->retry_, &kRetryInterval) != 0) event_active(self->retry_, EV_TIMEOUT, 0);
}

// One connection that has yielded goes on; then others are asked whether they are ready.
void Worker::OnResume(evutil_socket_t, short, void* worker) noexcept {
  auto* self = static_cast<Worker*>(worker);
  self->context_.Tick();
  std::vector<Connection*>& yielded = self->yielded_;
  if (!yielded.empty()) {
    Connection* const connection = yielded.front();
    yielded.erase(yielded.begin());
    connection->Resume();
  }
  if (yielded.empty() || event_pending(self->resume_, EV_TIMEOUT, nullptr)) return;
  const timeval now = {0, 0};
  if (event_add(self->resume_, &now) != 0) event_active(self->resume_, EV_TIMEOUT, 0);
}

void Worker::OnSecond(evutil_socket_t fd, short, void* worker) noexcept {
  uint64_t count;
  (void)!read(fd, &count, sizeof(count));
  auto* self = static_cast<Worker*>(worker);
  self->context_.Tick();
  self->CloseTimedOut();
}

// ---- closing connections that hold too much -----------------------------------------------------

void Worker::BeginShedding() {
  if (state_.shedder.Begin(context_.now_ms, state_.workers.size()) ==
      Shedder::Outcome::kWakeWorkers) {
    state_.shedder.WakeAll();
  }
}

// Never while a connection is being served.
void Worker::TakeShedStep() {
  const Shedder::Step step = state_.shedder.NextStep(shed_step_);
  if (step.action == Shedder::Action::kNone) return;
  shed_step_ = step.number;
  if (step.action == Shedder::Action::kReport) return ReportHolders(step);
  CloseHolders(step);
  if (state_.shedder.Closed() == Shedder::Outcome::kWakeWorkers) state_.shedder.WakeAll();
}

void Worker::ReportHolders(const Shedder::Step& step) {
  HeldByScore held;
  for (Connection* at = first_; at != nullptr; at = at->next) {
    if (step.spare_moving && at->IsMoving(step.time_ms)) continue;
    const uint64_t bytes = at->HeldBytes();
    if (bytes > 0) held.Add(at->ShedScore(step.time_ms), bytes);
  }
  if (state_.shedder.Report(held) == Shedder::Outcome::kWakeWorkers) state_.shedder.WakeAll();
}

void Worker::CloseHolders(const Shedder::Step& step) {
  const ConnectionMemory& memory = state_.connection_memory;
  const auto is_to_be_closed = [&](const Connection& connection) {
    const bool moving = connection.IsMoving(step.time_ms);
    if (moving && (step.spare_moving || memory.Excess() == 0)) return false;
    const double threshold = moving ? step.moving_threshold : step.threshold;
    return connection.HeldBytes() > 0 && connection.ShedScore(step.time_ms) >= threshold;
  };
  for (Connection* at = first_; at != nullptr && memory.Excess(step.pressure) > 0;) {
    Connection* const connection = std::exchange(at, at->next);
    if (!is_to_be_closed(*connection)) continue;
    if (step.spare_moving) {
      connection->CheckSocket();
      if (!is_to_be_closed(*connection)) continue;
    }
    const uint64_t bytes = connection->HeldBytes();
    Log(kLogErrors, "<%d closed: connections hold too much memory, this one %llu bytes",
        connection->fd(), static_cast<unsigned long long>(bytes));
    context_.counters.connections_shed.Add();
    Remove(connection);
  }
}

void Worker::CloseTimedOut() {
  for (Connection* at = first_; at != nullptr;) {
    Connection* const next = at->next;
    at->DecayProgress();
    if (at->TimedOut(context_.now)) {
      if (at->state() != Connection::State::kLingering) context_.counters.idle_kicks.Add();
      Remove(at);
    }
    at = next;
  }
}

// ---- the end ------------------------------------------------------------------------------------

void Worker::FinishAll() {
  stopping_ = true;
  stop_ms_ = context_.now_ms;
  if (event_add(drain_, &kDrainInterval) != 0) {
    event_base_loopbreak(context_.base);
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

// Closing a socket with unread bytes resets the connection, and the reset can overtake replies. So
// each socket is read until the client closes its side, or sends nothing for a while.
void Worker::OnDrain(evutil_socket_t, short, void* worker) noexcept {
  auto* self = static_cast<Worker*>(worker);
  self->context_.Tick();
  for (Connection* at = self->first_; at != nullptr;) {
    Connection* const next = at->next;
    if (at->state() == Connection::State::kLingering &&
        at->CountSilentRound() >= kDrainRoundsSilent) {
      self->Remove(at);
    }
    at = next;
  }
  if (self->first_ == nullptr || self->context_.now_ms - self->stop_ms_ >= kDrainMs) {
    event_base_loopbreak(self->context_.base);
  }
}

}  // namespace server
