#include "src/net/connection.h"

#include <poll.h>

#include <algorithm>
#include <new>
#include <span>
#include <utility>

#include "src/log.h"

namespace server {
namespace {

// A request or a reply that makes no progress for so long ends the connection (memcached: never).
constexpr uint32_t kStallSeconds = 60;
// How long what comes behind the last reply is discarded.
constexpr uint32_t kLingerSeconds = 2;

// Traffic that counts as one request of a turn's budget.
constexpr size_t kBytesPerRequest = 16 << 10;
// How long a request waits for memory before it is refused.
constexpr uint64_t kMemoryWaitMs = 30'000;
// A connection that has moved nothing for so long makes no progress, nor does one whose pace, after
// a grace, would not finish what it holds within kFinishSeconds.
constexpr uint64_t kStandstillMs = 100;
constexpr uint64_t kGraceMs = 1000;
constexpr uint64_t kFinishSeconds = 4;
// Who has moved less than a kilobyte lately, or nothing for 50 ms, is closed before others. Who has
// moved something just now is closed last of those that wait: a large request that has just begun
// holds all its bytes and has moved few.
constexpr double kProgressUnitBytes = 1024;
constexpr double kMovingWeight = 0.01;
constexpr double kStallUnitMs = 50;
// Who waits for nothing but a new request is closed after everybody else: the memory of an idle TLS
// connection is worth that of a slow reader only when no slow reader is left.
constexpr double kIdleWeight = 1e-9;

constexpr std::string_view kNoBuffer = "SERVER_ERROR out of memory reading request\r\n";

}  // namespace

Connection::Connection(WorkerContext& worker, ConnectionOwner& owner, Transport& transport)
    : worker_(worker),
      owner_(owner),
      transport_(transport),
      last_command_(worker.now),
      last_progress_(worker.now),
      last_progress_ms_(worker.now_ms),
      parser_(worker.state.options.wire, worker.state.authenticator != nullptr) {}

Connection::~Connection() {
  StopWaiting();
  EndMemoryWait();
  worker_.input.Forget(&kept_);
  worker_.state.connection_memory.Subtract(parked_bytes_);
  if (slots_ != nullptr) slots_->Detach();
}

// ---- events -------------------------------------------------------------------------------------

bool Connection::WaitFor(IoStatus wanted) {
  const auto what = static_cast<short>(wanted == IoStatus::kWantsWrite ? EV_WRITE : EV_READ);
  if (what == waiting_for_) return true;
  StopWaiting();
  event_assign(&event_, worker_.base, fd(), static_cast<short>(what | EV_PERSIST), OnEvent, this);
  if (event_add(&event_, nullptr) != 0) return false;
  waiting_for_ = what;
  return true;
}

void Connection::StopWaiting() {
  if (std::exchange(waiting_for_, 0) != 0) event_del(&event_);
}

void Connection::OnEvent(evutil_socket_t, short what, void* connection) noexcept {
  auto* self = static_cast<Connection*>(connection);
  self->ready_ = what;
  if (self->owner_.ServeLater(self)) return;
  self->worker_.Tick();
  self->ServeReady();
}

void Connection::ServeReady() {
  const bool readable = (std::exchange(ready_, 0) & EV_READ) != 0;
  // Finish has served it meanwhile, and it waits for another turn.
  if (state() == State::kYielded) return;
  // A handshake has its time as a whole, and not anew with each of its pieces.
  if (state() == State::kHandshaking) return ContinueHandshake();
  last_progress_ = worker_.now;
  if (state() == State::kLingering) return ContinueLinger();
  // Reading goes on after whatever event it asked for.
  Serve(readable || state() == State::kReading);
}

// Only where the turn begins with a read for which the input has room, so that nothing of what is
// read ahead is left over.
void Connection::PrepareTurn(size_t member) {
  static_assert(Round::kSliceBytes <= Input::kReadBytesMin);
  const bool reads_first = state() == State::kReading && kept_.size == 0 && skip_ == 0 &&
                           needed_ == 1 && memory_wait_since_ms_ == 0;
  if (reads_first) transport_.ReadAhead(member);
}

void Connection::EndRound(const Round::Sent& sent) {
  worker_.counters.bytes_written.Add(sent.bytes);
  if (sent.bytes > 0) CountProgress(sent.bytes);
  if (sent.status == IoStatus::kOk) return;
  if (sent.status == IoStatus::kBroken) return End(Turn::kClose);
  worker_.output.Append(sent.rest);
  Park();
  const bool parked = parked_ != nullptr;
  worker_.output.Clear();
  NoteHolding();
  wanted_ = IoStatus::kWantsWrite;
  End(parked ? Turn::kWaitOutput : Turn::kClose);
}

void Connection::Start() { ContinueHandshake(); }

void Connection::ContinueHandshake() {
  const IoStatus status = transport_.Handshake();
  if (worker_.state.connection_memory.IsShort()) owner_.BeginShedding();
  // No event would announce what the transport has received already.
  if (status == IoStatus::kOk) {
    last_progress_ = worker_.now;
    return End(transport_.HasPending() ? Turn::kYield : Turn::kWaitInput);
  }
  if (status == IoStatus::kBroken || !WaitFor(status)) owner_.Remove(this);
}

void Connection::Resume() {
  last_progress_ = worker_.now;
  Serve(transport_.HasPending());
}

void Connection::Finish() {
  if (state() == State::kLingering) return;
  if (state() == State::kHandshaking) return End(Turn::kClose);
  hang_up_ = true;
  Serve(true);
}

ConnectionInfo Connection::info() const {
  State seen = state();
  if (worker_.serving.load(std::memory_order_relaxed) == this) {
    seen = State::kServing;
  } else if (seen == State::kReading && needs_rest_.load(std::memory_order_relaxed)) {
    seen = State::kReadingRest;
  }
  return {fd(), seen, last_command()};
}

bool Connection::IsUnfinished() const {
  return kept_.size != 0 || skip_ != 0 || parked_ != nullptr || state() == State::kHandshaking ||
         transport_.HoldsPart();
}

bool Connection::TimedOut(uint32_t now) const {
  const uint32_t silent = now - last_progress_;
  if (state() == State::kLingering) return silent >= kLingerSeconds;
  if (silent >= kStallSeconds && IsUnfinished()) return true;
  const uint32_t limit = worker_.state.options.idle_timeout_s;
  return limit != 0 && silent > limit;
}

// ---- memory -------------------------------------------------------------------------------------

uint64_t Connection::HeldBytes() const {
  return UnfinishedBytes() + transport_.held_bytes() + (slots_ == nullptr ? 0 : slots_->bytes());
}

uint64_t Connection::UnfinishedBytes() const {
  return kept_.capacity + parked_bytes_ + (parked_ == nullptr ? 0 : parked_->detached_bytes());
}

// Only the time in which the server waits for the client counts.
uint64_t Connection::StalledMs(uint64_t now_ms) const {
  if (state() == State::kYielded) return 0;
  return now_ms - std::min(now_ms, last_progress_ms_);
}

double Connection::ShedScore(uint64_t now_ms) const {
  const double weight = IsUnfinished()
                            ? kMovingWeight + static_cast<double>(StalledMs(now_ms)) / kStallUnitMs
                            : kIdleWeight;
  return static_cast<double>(HeldBytes()) * weight / (kProgressUnitBytes + progress_bytes_);
}

bool Connection::IsMoving(uint64_t now_ms) const {
  if (state() == State::kYielded || !IsUnfinished()) return true;
  if (StalledMs(now_ms) >= kStandstillMs) return false;
  return now_ms < holds_since_ms_ + kGraceMs ||
         progress_bytes_ >= UnfinishedBytes() / kFinishSeconds;
}

void Connection::CheckSocket() {
  if (waiting_for_ == 0) return;
  pollfd wanted{fd(), static_cast<short>(waiting_for_ == EV_READ ? POLLIN : POLLOUT), 0};
  if (poll(&wanted, 1, 0) > 0) last_progress_ms_ = worker_.now_ms;
}

void Connection::NoteHolding() {
  if (UnfinishedBytes() == 0) {
    holds_since_ms_ = 0;
  } else if (holds_since_ms_ == 0) {
    holds_since_ms_ = worker_.now_ms;
  }
}

void Connection::Park() {
  parked_ = worker_.output.Park();
  if (parked_ == nullptr) return;
  parked_bytes_ = parked_->held_bytes();
  worker_.state.connection_memory.Add(parked_bytes_);
}

// Meanwhile others that hold more without progress are closed, so most waits are short.
Connection::MaybeEnd Connection::WaitForMemory() {
  if (memory_wait_since_ms_ == 0) {
    memory_wait_since_ms_ = std::max<uint64_t>(1, worker_.now_ms);
    worker_.state.connection_memory.BeginWait();
  }
  if (!HasWaitedTooLong(worker_.now_ms)) return Turn::kWaitMemory;
  EndMemoryWait();
  if (!parser_.is_binary()) worker_.output.Append(kNoBuffer);
  DiscardInput();
  return std::nullopt;
}

bool Connection::HasWaitedTooLong(uint64_t now_ms) const {
  return memory_wait_since_ms_ != 0 && now_ms >= memory_wait_since_ms_ + kMemoryWaitMs;
}

void Connection::EndMemoryWait() {
  if (std::exchange(memory_wait_since_ms_, 0) != 0) worker_.state.connection_memory.EndWait();
}

// ---- a turn -------------------------------------------------------------------------------------

void Connection::Serve(bool readable) {
  Turn turn = Turn::kClose;
  budget_ = worker_.state.options.requests_per_event;
  wanted_ = IoStatus::kWantsRead;
  worker_.serving.store(this, std::memory_order_relaxed);
  worker_.input.Begin(&kept_);
  worker_.output.Load(std::move(parked_));
  worker_.state.connection_memory.Subtract(std::exchange(parked_bytes_, 0));
  worker_.dispatcher.Begin(&session_, worker_.now);
  try {
    turn = ServeTurn(readable);
  } catch (const std::bad_alloc&) {
    worker_.dispatcher.Abandon();
    turn = Turn::kClose;
  }
  Park();
  // The input has to be given back even where the output has failed.
  const bool kept = worker_.input.Keep(&kept_);
  if (!kept || worker_.output.failed()) turn = Turn::kClose;
  worker_.output.Clear();
  NoteHolding();
  needs_rest_.store(needed_ > kept_.size + uint64_t{1} || skip_ > 0, std::memory_order_relaxed);
  worker_.serving.store(nullptr, std::memory_order_relaxed);
  if (worker_.state.connection_memory.IsShort()) owner_.BeginShedding();
  End(turn);
}

Connection::Turn Connection::ServeTurn(bool readable) {
  if (state() == State::kWriting) {
    if (const MaybeEnd end = Flush()) return *end;
  }
  for (;;) {
    if (const MaybeEnd end = WriteReplies()) return *end;
    const Step step = ExecuteReceived();
    if (step == Step::kWaitNodes) continue;
    if (step == Step::kBudgetUsed) return Turn::kYield;
    if (step == Step::kPaused) return Turn::kWaitMemory;
    if (step == Step::kFull) {
      if (const MaybeEnd end = Flush()) return *end;
      continue;
    }
    // What came behind a quit or a broken request is not a request.
    if (step == Step::kHangUp) DiscardInput();
    if (step == Step::kHangUp || !readable) break;
    if (budget_ == 0) return Turn::kYield;
    if (const MaybeEnd end = Receive(&readable)) return *end;
  }
  if (const MaybeEnd end = WriteReplies()) return *end;
  if (const MaybeEnd end = FlushOrDefer()) return *end;
  if (hang_up_) return peer_done_ ? Turn::kClose : Turn::kHangUp;
  // No event would announce what the transport has received already.
  return transport_.HasPending() ? Turn::kYield : Turn::kWaitInput;
}

Connection::MaybeEnd Connection::WriteReplies() {
  while (WaitsForNodes()) {
    if (slots_->broken()) return Turn::kClose;
    const std::string* const reply = slots_->Front();
    if (reply == nullptr || worker_.output.full()) {
      if (const MaybeEnd end = Flush()) return end;
      if (reply == nullptr) return Turn::kWaitNodes;
      continue;
    }
    if (!worker_.output.AppendText(*reply)) return Turn::kClose;
    slots_->Pop();
  }
  return std::nullopt;
}

// In the next round, because this may be within the turn of another connection.
void Connection::OnReplies() {
  if (state() != State::kForwarding || is_ready()) return;
  ready_ = EV_WRITE;
  if (!owner_.ServeSoon(this)) owner_.Remove(this);
}

Connection::MaybeEnd Connection::Receive(bool* readable) {
  size_t received = 0;
  const Input::ReadStatus status =
      worker_.input.Read(transport_, needed_, memory_wait_since_ms_ != 0, &received);
  worker_.counters.bytes_read.Add(received);
  if (received > 0) CountProgress(received);
  *readable = status == Input::ReadStatus::kMore;
  switch (status) {
    case Input::ReadStatus::kMore:
    case Input::ReadStatus::kDrained:
      EndMemoryWait();
      break;
    case Input::ReadStatus::kWantsRead:
      break;
    case Input::ReadStatus::kWantsWrite:
      wanted_ = IoStatus::kWantsWrite;
      break;
    case Input::ReadStatus::kEnd:
      hang_up_ = peer_done_ = true;
      break;
    case Input::ReadStatus::kNoMemory:
      return WaitForMemory();
  }
  return std::nullopt;
}

Connection::MaybeEnd Connection::Flush() {
  size_t sent = 0;
  const Output::FlushStatus status = worker_.output.Flush(transport_, &sent);
  worker_.counters.bytes_written.Add(sent);
  if (sent > 0) CountProgress(sent);
  if (status == Output::FlushStatus::kSent) return std::nullopt;
  if (status == Output::FlushStatus::kPaused) return Turn::kYield;
  if (status == Output::FlushStatus::kBroken) return Turn::kClose;
  const bool wants_read = status == Output::FlushStatus::kWantsRead;
  wanted_ = wants_read ? IoStatus::kWantsRead : IoStatus::kWantsWrite;
  return Turn::kWaitOutput;
}

// A connection that hangs up does so when its last reply is sent.
Connection::MaybeEnd Connection::FlushOrDefer() {
  if (!hang_up_ && worker_.output.Defer(transport_)) return std::nullopt;
  return Flush();
}

void Connection::CountProgress(size_t bytes) {
  const uint64_t sum = uint64_t{progress_bytes_} + bytes;
  progress_bytes_ = static_cast<uint32_t>(std::min<uint64_t>(sum, UINT32_MAX));
  last_progress_ms_ = worker_.now_ms;
  budget_ -= static_cast<unsigned>(std::min<uint64_t>(budget_, bytes / kBytesPerRequest));
}

void Connection::End(Turn turn) {
  switch (turn) {
    case Turn::kWaitInput:
      return WaitIn(State::kReading, wanted_);
    case Turn::kWaitOutput:
      return WaitIn(State::kWriting, wanted_);
    case Turn::kYield:
      worker_.counters.conn_yields.Add();
      return YieldIf(owner_.ResumeLater(this));
    case Turn::kWaitMemory:
      return YieldIf(owner_.RetryLater(this));
    case Turn::kWaitNodes:
      StopWaiting();
      SetState(State::kForwarding);
      // They may have come in the same turn.
      if (slots_->all_done() || slots_->broken()) OnReplies();
      return;
    case Turn::kHangUp:
      return Linger();
    case Turn::kClose:
      return owner_.Remove(this);
  }
}

void Connection::SetState(State state) {
  if (state == this->state()) return;
  if (LogsAt(kLogStates)) {
    Log(kLogStates, "<%d from %s to %s", fd(), NameOf(this->state()).data(), NameOf(state).data());
  }
  state_.store(state, std::memory_order_relaxed);
}

void Connection::WaitIn(State state, IoStatus wanted) {
  SetState(state);
  if (!WaitFor(wanted)) owner_.Remove(this);
}

void Connection::YieldIf(bool remembered) {
  StopWaiting();
  if (!remembered) return owner_.Remove(this);
  SetState(State::kYielded);
}

// ---- requests -----------------------------------------------------------------------------------

Connection::Step Connection::ExecuteReceived() {
  Step step;
  do step = ExecuteOne();
  while (step == Step::kGoOn);
  // Held requests point into the input: they are answered before it moves.
  worker_.dispatcher.Finish();
  return step;
}

void Connection::Consume(uint64_t bytes) {
  const size_t present = std::min<uint64_t>(bytes, worker_.input.size());
  worker_.input.Consume(present);
  skip_ = bytes - present;
}

void Connection::DiscardInput() {
  Consume(worker_.input.size());
  hang_up_ = true;
}

Connection::Step Connection::ExecuteOne() {
  // A turn that yielded may have left a full output behind.
  if (worker_.output.full()) return Step::kFull;
  if (skip_ > 0) Consume(skip_);
  if (worker_.input.size() < needed_) return Step::kNeedInput;
  if (budget_ == 0) return Step::kBudgetUsed;
  if (worker_.state.shedder.MustPause()) return Step::kPaused;
  if (worker_.router != nullptr) worker_.router->BeforeParse(worker_.input.bytes());
  protocol::Request request;
  const protocol::ParseResult result =
      parser_.Parse(worker_.input.bytes(), worker_.limits, &request);
  if (result.status == protocol::ParseStatus::kNeedMore) {
    needed_ = std::max<uint64_t>(result.needed, worker_.input.size() + 1);
    return Step::kNeedInput;
  }
  needed_ = 1;
  --budget_;
  return Submit(&request, result.consumed);
}

Connection::Step Connection::Submit(protocol::Request* request, uint64_t consumed) {
  last_command_.store(worker_.now, std::memory_order_relaxed);
  if (LogsAt(kLogTraffic)) LogRequest(consumed);
  if (worker_.router != nullptr) {
    const Step step = SubmitToCluster(request, consumed);
    if (step != Step::kNeedInput) return step;
  }
  const Dispatcher::Next next = worker_.dispatcher.Submit(request, &budget_);
  if (next == Dispatcher::Next::kOutputFull) {
    Consume(parser_.AcceptPart(*request, worker_.input.bytes()));
    return Step::kFull;
  }
  parser_.Accept(*request);
  if (next == Dispatcher::Next::kUnlock) parser_.SetLocked(false);
  if (next == Dispatcher::Next::kLock) parser_.SetLocked(true);
  Consume(consumed);
  return next == Dispatcher::Next::kClose ? Step::kHangUp : Step::kGoOn;
}

// kNeedInput: it is for this node, and not for the cluster.
Connection::Step Connection::SubmitToCluster(protocol::Request* request, uint64_t consumed) {
  if (slots_ == nullptr) slots_.reset(new ReplySlots(this, worker_.state.connection_memory));
  const std::span<char> bytes = worker_.input.bytes();
  const std::span<char> raw = bytes.first(std::min<uint64_t>(consumed, bytes.size()));
  switch (worker_.router->Submit(slots_, request, raw, consumed <= bytes.size(), worker_.now)) {
    case Router::Next::kLocal:
      return Step::kNeedInput;
    case Router::Next::kTaken:
      parser_.Accept(*request);
      Consume(consumed);
      return Step::kGoOn;
    case Router::Next::kWait:
      worker_.router->Restore(raw);
      Consume(parser_.AcceptPart(*request, bytes));
      break;
  }
  return Step::kWaitNodes;
}

// -vv: the line, or the header's opcode.
void Connection::LogRequest(uint64_t consumed) {
  std::span<char> bytes = worker_.input.bytes();
  bytes = bytes.first(std::min<uint64_t>(consumed, bytes.size()));
  if (parser_.is_binary()) {
    const unsigned opcode = bytes.size() < 2 ? 0 : static_cast<uint8_t>(bytes[1]);
    return Log(kLogTraffic, "<%d binary 0x%02x, %zu bytes", fd(), opcode, bytes.size());
  }
  const auto end =
      std::find_if(bytes.begin(), bytes.end(), [](char c) { return c == '\r' || c == '\n'; });
  Log(kLogTraffic, "<%d %.*s", fd(), static_cast<int>(end - bytes.begin()), bytes.data());
}

// ---- the end ------------------------------------------------------------------------------------

void Connection::Linger() {
  SetState(State::kLingering);
  worker_.input.Forget(&kept_);
  ContinueLinger();
}

void Connection::ContinueLinger() {
  IoStatus status = shut_down_ ? IoStatus::kOk : transport_.Shutdown();
  if (status == IoStatus::kOk) {
    shut_down_ = true;
    status = Discard();
  }
  const bool wants = status == IoStatus::kWantsRead || status == IoStatus::kWantsWrite;
  if (!wants || !WaitFor(status)) owner_.Remove(this);
}

// Reads what has arrived. kWantsRead also where there may be more and others want their turn.
IoStatus Connection::Discard() {
  char discard_buffer[16 << 10];
  for (int reads = 0; reads < 16; ++reads) {
    const IoStatus status = transport_.Read(discard_buffer).status;
    if (status != IoStatus::kOk) return status;
    rounds_silent_ = 0;
  }
  return IoStatus::kWantsRead;
}

}  // namespace server
