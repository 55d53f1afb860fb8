#include "src/net/connection.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <new>
#include <utility>

#include "protocol/binary.h"
#include "protocol/text.h"
#include "src/log.h"
#include "src/net/worker.h"

namespace server {
namespace {

// A request or a reply that makes no progress for so long is given up (memcached: never).
constexpr uint32_t kStallSeconds = 60;
// How long what comes behind the last reply is thrown away.
constexpr uint32_t kLingerSeconds = 2;

// Traffic that counts as one request of a turn's budget.
constexpr size_t kBytesPerRequest = 64 << 10;
// How long a request waits for memory before it is given up.
constexpr uint64_t kMemoryWaitMs = 30'000;
// A connection that has moved nothing for so long makes no progress, nor does one whose pace, after
// a grace, would not finish what it holds within kFinishSeconds.
constexpr uint64_t kStandstillMs = 100;
constexpr uint64_t kGraceMs = 1000;
constexpr uint64_t kFinishSeconds = 4;
// Who has moved less than a kilobyte lately, or nothing for 50 ms, is closed before others.
constexpr double kProgressUnitBytes = 1024;
constexpr double kStallUnitMs = 50;

constexpr std::string_view kNoBuffer = "SERVER_ERROR out of memory reading request\r\n";

}  // namespace

Connection::Connection(Worker& worker, Transport& transport)
    : worker_(worker),
      transport_(transport),
      last_command_(worker.now()),
      last_progress_(worker.now()),
      last_progress_ms_(worker.now_ms()) {}

Connection::~Connection() {
  StopWaiting();
  EndMemoryWait();
  worker_.input().Forget(&kept_);
  worker_.memory().Subtract(parked_bytes_);
}

bool Connection::Start() { return ContinueHandshake(); }

// Watches for the event that the transport wants.
bool Connection::WaitFor(IoStatus wanted) {
  return WaitFor(static_cast<short>(wanted == IoStatus::kWantsWrite ? EV_WRITE : EV_READ));
}

bool Connection::WaitFor(short what) {
  if (what == waiting_for_) return true;
  StopWaiting();
  event_assign(&event_, worker_.base(), fd(), static_cast<short>(what | EV_PERSIST), OnEvent, this);
  if (event_add(&event_, nullptr) != 0) return false;
  waiting_for_ = what;
  return true;
}

void Connection::StopWaiting() {
  if (std::exchange(waiting_for_, 0) != 0) event_del(&event_);
}

void Connection::OnEvent(evutil_socket_t, short what, void* connection) noexcept {
  auto* self = static_cast<Connection*>(connection);
  self->worker_.Tick();
  self->last_progress_ = self->worker_.now();
  if (self->state() == State::kHandshaking) {
    if (!self->ContinueHandshake()) self->worker_.Remove(self);
    return;
  }
  if (self->state() == State::kLingering) return self->ContinueLinger();
  // Reading goes on after whatever event it asked for.
  const bool readable = (what & EV_READ) != 0 || self->state() == State::kReading;
  self->Serve(readable, self->worker_.requests_per_event());
}

// False: the connection is broken or cannot be watched.
bool Connection::ContinueHandshake() {
  const IoStatus status = transport_.Handshake();
  if (status == IoStatus::kBroken) return false;
  if (status == IoStatus::kOk) state_.store(State::kReading, std::memory_order_relaxed);
  return WaitFor(status);
}

void Connection::Resume() {
  last_progress_ = worker_.now();
  Serve(transport_.HasPending(), worker_.requests_per_event());
}

void Connection::Finish() {
  if (state() == State::kLingering) return;
  if (state() == State::kHandshaking) return End(Turn::kClose);
  hang_up_ = true;
  Serve(true, worker_.requests_per_event());
}

bool Connection::TimedOut(uint32_t now) const {
  const uint32_t silent = now - last_progress_;
  if (state() == State::kLingering) return silent >= kLingerSeconds;
  const bool unfinished =
      kept_.size != 0 || skip_ != 0 || parked_ != nullptr || state() == State::kHandshaking;
  if (unfinished && silent >= kStallSeconds) return true;
  const uint32_t limit = worker_.idle_timeout();
  return limit != 0 && silent > limit;
}

uint64_t Connection::HeldBytes() const {
  return kept_.capacity + parked_bytes_ + (parked_ == nullptr ? 0 : parked_->detached_bytes());
}

// Only the time in which the server waits for the client counts.
uint64_t Connection::StalledMs(uint64_t now_ms) const {
  if (state() == State::kYielded) return 0;
  return now_ms - std::min(now_ms, last_progress_ms_);
}

double Connection::ShedScore(uint64_t now_ms) const {
  return static_cast<double>(HeldBytes()) *
         (1 + static_cast<double>(StalledMs(now_ms)) / kStallUnitMs) /
         (kProgressUnitBytes + progress_bytes_);
}

bool Connection::IsMoving(uint64_t now_ms) const {
  if (state() == State::kYielded) return true;
  if (StalledMs(now_ms) >= kStandstillMs) return false;
  return now_ms < holds_since_ms_ + kGraceMs || progress_bytes_ >= HeldBytes() / kFinishSeconds;
}

// ---- a turn -------------------------------------------------------------------------------------

void Connection::Serve(bool readable, unsigned budget) {
  Turn turn = Turn::kClose;
  wanted_ = IoStatus::kWantsRead;
  worker_.input().Begin(&kept_);
  worker_.output().Load(std::move(parked_));
  worker_.memory().Subtract(std::exchange(parked_bytes_, 0));
  try {
    turn = ServeTurn(readable, budget);
  } catch (const std::bad_alloc&) {
    worker_.dispatcher().Abandon();
    turn = Turn::kClose;
  }
  Park();
  if (worker_.output().failed() || !worker_.input().Keep(&kept_)) turn = Turn::kClose;
  worker_.output().Clear();
  if (HeldBytes() == 0)
    holds_since_ms_ = 0;
  else if (holds_since_ms_ == 0)
    holds_since_ms_ = worker_.now_ms();
  worker_.ShedIfShort();
  End(turn);
}

void Connection::Park() {
  parked_ = worker_.output().Park();
  if (parked_ == nullptr) return;
  parked_bytes_ = parked_->held_bytes();
  worker_.memory().Add(parked_bytes_);
}

Connection::Turn Connection::ServeTurn(bool readable, unsigned budget) {
  Turn turn;
  if (state() == State::kWriting && !Flush(&budget, &turn)) return turn;
  for (;;) {
    const Step step = ExecuteReceived(&budget);
    if (step == Step::kBudgetUsed) return Turn::kYield;
    if (step == Step::kFull) {
      if (!Flush(&budget, &turn)) return turn;
      continue;
    }
    if (step == Step::kHangUp) {
      // What came behind a quit or a broken request is no request.
      worker_.input().Consume(worker_.input().size());
      skip_ = 0;
      hang_up_ = true;
      break;
    }
    if (!readable) break;
    if (budget == 0) return Turn::kYield;
    if (!Receive(&readable, &budget, &turn)) return turn;
  }
  if (!Flush(&budget, &turn)) return turn;
  // No event would announce bytes that the transport has received already.
  if (!hang_up_) return transport_.HasPending() ? Turn::kYield : Turn::kWaitInput;
  return peer_done_ ? Turn::kClose : Turn::kHangUp;
}

bool Connection::Receive(bool* readable, unsigned* budget, Turn* turn) {
  size_t received = 0;
  const Input::ReadStatus status =
      worker_.input().Read(transport_, needed_, short_since_ms_ != 0, &received);
  worker_.counters().bytes_read.Add(received);
  if (received > 0) CountProgress(received, budget);
  switch (status) {
    case Input::ReadStatus::kMore:
    case Input::ReadStatus::kDrained:
      EndMemoryWait();
      *readable = status == Input::ReadStatus::kMore;
      return true;
    case Input::ReadStatus::kWantsRead:
    case Input::ReadStatus::kWantsWrite:
      wanted_ =
          status == Input::ReadStatus::kWantsRead ? IoStatus::kWantsRead : IoStatus::kWantsWrite;
      *readable = false;
      return true;
    case Input::ReadStatus::kEnd:
      hang_up_ = peer_done_ = true;
      *readable = false;
      return true;
    case Input::ReadStatus::kNoMemory:
      if (!WaitForMemory(turn)) return false;
      *readable = false;
      return true;
  }
  return true;
}

// Others that hold more without progress are closed meanwhile, so that most waits are short.
bool Connection::WaitForMemory(Turn* turn) {
  if (short_since_ms_ == 0) {
    short_since_ms_ = std::max<uint64_t>(1, worker_.now_ms());
    worker_.memory().BeginWait();
  }
  if (worker_.now_ms() < short_since_ms_ + kMemoryWaitMs) {
    *turn = Turn::kWaitMemory;
    return false;
  }
  EndMemoryWait();
  if (!binary_) worker_.output().Append(kNoBuffer);
  worker_.input().Consume(worker_.input().size());
  hang_up_ = true;
  return true;
}

void Connection::EndMemoryWait() {
  if (std::exchange(short_since_ms_, 0) != 0) worker_.memory().EndWait();
}

void Connection::CountProgress(size_t bytes, unsigned* budget) {
  const uint64_t sum = uint64_t{progress_bytes_} + bytes;
  progress_bytes_ = static_cast<uint32_t>(std::min<uint64_t>(sum, UINT32_MAX));
  last_progress_ms_ = worker_.now_ms();
  *budget -= static_cast<unsigned>(std::min<uint64_t>(*budget, bytes / kBytesPerRequest));
}

bool Connection::Flush(unsigned* budget, Turn* turn) {
  size_t sent = 0;
  const Output::FlushStatus status = worker_.output().Flush(transport_, &sent);
  worker_.counters().bytes_written.Add(sent);
  if (sent > 0) CountProgress(sent, budget);
  if (status == Output::FlushStatus::kSent) return true;
  wanted_ =
      status == Output::FlushStatus::kWantsRead ? IoStatus::kWantsRead : IoStatus::kWantsWrite;
  *turn = status == Output::FlushStatus::kBroken ? Turn::kClose : Turn::kWaitOutput;
  return false;
}

void Connection::End(Turn turn) {
  bool watched = true;
  switch (turn) {
    case Turn::kWaitInput:
      state_.store(State::kReading, std::memory_order_relaxed);
      watched = WaitFor(wanted_);
      break;
    case Turn::kWaitOutput:
      state_.store(State::kWriting, std::memory_order_relaxed);
      watched = WaitFor(wanted_);
      break;
    case Turn::kYield:
      worker_.counters().conn_yields.Add();
      StopWaiting();
      watched = worker_.ResumeLater(this);
      if (watched) state_.store(State::kYielded, std::memory_order_relaxed);
      break;
    case Turn::kWaitMemory:
      StopWaiting();
      watched = worker_.RetryLater(this);
      if (watched) state_.store(State::kYielded, std::memory_order_relaxed);
      break;
    case Turn::kHangUp:
      return Linger();
    case Turn::kClose:
      watched = false;
      break;
  }
  if (!watched) worker_.Remove(this);
}

// ---- requests -----------------------------------------------------------------------------------

protocol::ParseResult Connection::Parse(protocol::Request* request) {
  const std::span<char> bytes = worker_.input().bytes();
  if (!chosen_) {
    chosen_ = true;
    const WireChoice choice = worker_.options().wire;
    binary_ = choice == WireChoice::kBinary ||
              (choice == WireChoice::kAuto &&
               static_cast<uint8_t>(bytes[0]) == protocol::kBinaryRequestMagic);
  }
  if (keys_.open) return protocol::ParseMoreKeys(bytes, worker_.limits(), keys_, request);
  return binary_ ? protocol::ParseBinary(bytes, worker_.limits(), request)
                 : protocol::ParseText(bytes, worker_.limits(), request);
}

Connection::Step Connection::ExecuteReceived(unsigned* budget) {
  Step step;
  do step = ExecuteOne(budget);
  while (step == Step::kGoOn);
  // What is held points into the input: it is answered before that moves.
  worker_.dispatcher().AnswerHeld(worker_.now());
  return step;
}

void Connection::Consume(uint64_t bytes) {
  const size_t there = std::min<uint64_t>(bytes, worker_.input().size());
  worker_.input().Consume(there);
  skip_ = bytes - there;
}

Connection::Step Connection::ExecuteOne(unsigned* budget) {
  // A turn that yielded may have left a full output behind.
  if (worker_.output().full()) return Step::kFull;
  if (dump_) {
    if (*budget == 0) return Step::kBudgetUsed;
    --*budget;
    if (worker_.dispatcher().DumpPrefixes(&*dump_)) dump_.reset();
    return Step::kGoOn;
  }
  if (skip_ > 0) Consume(skip_);
  if (worker_.input().size() < needed_) return Step::kNeedInput;
  if (*budget == 0 || worker_.MustPause()) return Step::kBudgetUsed;
  protocol::Request request;
  const protocol::ParseResult result = Parse(&request);
  if (result.status == protocol::ParseStatus::kNeedMore) {
    needed_ = std::max<uint64_t>(result.needed, worker_.input().size() + 1);
    return Step::kNeedInput;
  }
  needed_ = 1;
  --*budget;
  if (LogsAt(kLogTraffic)) LogRequest(result.consumed);
  if (result.status == protocol::ParseStatus::kOk) return Submit(&request, result.consumed, budget);
  keys_ = protocol::KeyList::After(request);
  Consume(result.consumed);
  return Step::kGoOn;
}

Connection::Step Connection::Submit(protocol::Request* request, uint64_t consumed,
                                    unsigned* budget) {
  last_command_.store(worker_.now(), std::memory_order_relaxed);
  const Dispatcher::Next next = worker_.dispatcher().Submit(request, worker_.now(), budget);
  if (next == Dispatcher::Next::kFull) {
    // The keys that were not taken are the beginning of what is parsed next.
    if (request->op == protocol::Op::kGet && request->wire == protocol::Wire::kText) {
      keys_ = {true, false, request->with_cas, request->exptime};
      Consume(static_cast<uint64_t>(request->rest.data() - worker_.input().bytes().data()));
    }
    return Step::kFull;
  }
  keys_ = protocol::KeyList::After(*request);
  Consume(consumed);
  if (next == Dispatcher::Next::kDump) dump_.emplace();
  return next == Dispatcher::Next::kClose ? Step::kHangUp : Step::kGoOn;
}

// -vv: the line, or the header's opcode.
void Connection::LogRequest(uint64_t consumed) {
  std::span<char> bytes = worker_.input().bytes();
  bytes = bytes.first(std::min<uint64_t>(consumed, bytes.size()));
  if (binary_) {
    const unsigned opcode = bytes.size() < 2 ? 0 : static_cast<uint8_t>(bytes[1]);
    return Log(kLogTraffic, "<%d binary 0x%02x, %zu bytes", fd(), opcode, bytes.size());
  }
  const auto end =
      std::find_if(bytes.begin(), bytes.end(), [](char c) { return c == '\r' || c == '\n'; });
  Log(kLogTraffic, "<%d %.*s", fd(), static_cast<int>(end - bytes.begin()), bytes.data());
}

// ---- the end ------------------------------------------------------------------------------------

void Connection::Linger() {
  state_.store(State::kLingering, std::memory_order_relaxed);
  worker_.input().Forget(&kept_);
  ContinueLinger();
}

void Connection::ContinueLinger() {
  IoStatus status = shut_down_ ? IoStatus::kOk : transport_.Shutdown();
  if (status == IoStatus::kOk) {
    shut_down_ = true;
    status = Discard();
  }
  const bool wants = status == IoStatus::kWantsRead || status == IoStatus::kWantsWrite;
  if (!wants || !WaitFor(status)) worker_.Remove(this);
}

// kOk becomes kWantsRead: there may be more, and others want their turn.
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
