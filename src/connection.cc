#include "src/connection.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>

#include "protocol/binary.h"
#include "protocol/text.h"
#include "src/log.h"
#include "src/worker.h"

namespace server {
namespace {

// A request or a reply that makes no progress for so long is given up (memcached: never).
constexpr uint32_t kStallSeconds = 60;
// How long what comes behind the last reply is thrown away.
constexpr uint32_t kLingerSeconds = 2;

constexpr std::string_view kNoBuffer = "SERVER_ERROR out of memory reading request\r\n";

}  // namespace

Connection::Connection(Worker& worker, int fd)
    : worker_(worker), fd_(fd), last_command_(worker.now()), last_progress_(worker.now()) {
  WaitFor(EV_READ);
}

Connection::~Connection() {
  if (waiting_for_ != 0) event_del(&event_);
  worker_.input().Forget(&kept_);
  close(fd_);
}

void Connection::WaitFor(short what) {
  if (what == waiting_for_) return;
  if (waiting_for_ != 0) event_del(&event_);
  waiting_for_ = what;
  if (what == 0) return;
  event_assign(&event_, worker_.base(), fd_, static_cast<short>(what | EV_PERSIST), OnEvent, this);
  event_add(&event_, nullptr);
}

void Connection::OnEvent(evutil_socket_t, short what, void* connection) noexcept {
  auto* self = static_cast<Connection*>(connection);
  self->worker_.Tick();
  self->last_progress_ = self->worker_.now();
  if (self->state() == State::kLingering) return self->Discard();
  self->Serve((what & EV_READ) != 0, self->worker_.requests_per_event());
}

void Connection::Resume() { Serve(false, worker_.requests_per_event()); }

void Connection::Finish() {
  if (state() == State::kLingering) return;
  hang_up_ = true;
  Serve(true, UINT_MAX);
}

bool Connection::TimedOut(uint32_t now) const {
  const uint32_t silent = now - last_progress_;
  if (state() == State::kLingering) return silent >= kLingerSeconds;
  const bool unfinished = kept_.size != 0 || skip_ != 0 || parked_ != nullptr;
  if (unfinished && silent >= kStallSeconds) return true;
  const uint32_t limit = worker_.idle_timeout();
  return limit != 0 && silent > limit;
}

// ---- a turn -------------------------------------------------------------------------------------

void Connection::Serve(bool readable, unsigned budget) {
  worker_.input().Begin(&kept_);
  worker_.output().Load(std::move(parked_));
  const Turn turn = ServeTurn(readable, budget);
  parked_ = worker_.output().Park();
  if (!worker_.input().Keep(&kept_)) return End(Turn::kClose);
  End(turn);
}

Connection::Turn Connection::ServeTurn(bool readable, unsigned budget) {
  Turn turn;
  if (state() == State::kWriting && !Flush(&turn)) return turn;
  for (;;) {
    const Step step = ExecuteReceived(&budget);
    if (step == Step::kSpent) return Turn::kYield;
    if (step == Step::kFull) {
      if (!Flush(&turn)) return turn;
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
    size_t received = 0;
    const Input::ReadStatus status = worker_.input().Read(fd_, needed_, &received);
    worker_.counters().bytes_read.Add(received);
    if (status == Input::ReadStatus::kBlocked) break;
    if (status == Input::ReadStatus::kEnd) {
      hang_up_ = peer_done_ = true;
      break;
    }
    if (status == Input::ReadStatus::kNoMemory) {
      if (!binary_) worker_.output().Append(kNoBuffer);
      hang_up_ = true;
      break;
    }
    readable = status == Input::ReadStatus::kMore;
  }
  if (!Flush(&turn)) return turn;
  if (!hang_up_) return Turn::kWaitRead;
  return peer_done_ ? Turn::kClose : Turn::kHangUp;
}

bool Connection::Flush(Turn* turn) {
  size_t sent = 0;
  const Output::FlushStatus status = worker_.output().Flush(fd_, &sent);
  worker_.counters().bytes_written.Add(sent);
  if (status == Output::FlushStatus::kSent) return true;
  *turn = status == Output::FlushStatus::kBlocked ? Turn::kWaitWrite : Turn::kClose;
  return false;
}

void Connection::End(Turn turn) {
  switch (turn) {
    case Turn::kWaitRead:
      state_.store(State::kReading, std::memory_order_relaxed);
      return WaitFor(EV_READ);
    case Turn::kWaitWrite:
      state_.store(State::kWriting, std::memory_order_relaxed);
      return WaitFor(EV_WRITE);
    case Turn::kYield:
      state_.store(State::kYielded, std::memory_order_relaxed);
      worker_.counters().conn_yields.Add();
      WaitFor(0);
      return worker_.ResumeLater(this);
    case Turn::kHangUp:
      return Linger();
    case Turn::kClose:
      return worker_.Remove(this);
  }
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
  return binary_ ? protocol::ParseBinary(bytes, worker_.limits(), request)
                 : protocol::ParseText(bytes, worker_.limits(), request);
}

Connection::Step Connection::ExecuteReceived(unsigned* budget) {
  Input& input = worker_.input();
  Step step = Step::kHungry;
  for (;;) {
    if (skip_ > 0) {
      const size_t n = std::min<uint64_t>(skip_, input.size());
      input.Consume(n);
      skip_ -= n;
    }
    if (input.size() < needed_ || StillUnfinished()) break;
    // A turn that yielded may have left a full output behind: nothing is executed before it is sent.
    if (worker_.output().full()) {
      step = Step::kFull;
      break;
    }
    if (*budget == 0) {
      step = Step::kSpent;
      break;
    }
    step = ExecuteOne(budget);
    if (step == Step::kHungry && needed_ > 1) break;
    if (step == Step::kFull || step == Step::kHangUp) break;
    if (worker_.output().full()) {
      step = Step::kFull;
      break;
    }
    step = Step::kHungry;
  }
  // What is held points into the input: it is answered before that moves.
  worker_.dispatcher().AnswerHeld(worker_.now());
  return step;
}

// Long lines that arrive byte by byte are not parsed anew for each: bytes that have no line's end
// among them are remembered.
size_t Connection::Scan(size_t from) {
  const std::span<char> bytes = worker_.input().bytes();
  const bool ends = memchr(bytes.data() + from, '\n', bytes.size() - from) != nullptr;
  return ends ? 0 : bytes.size();
}

bool Connection::StillUnfinished() {
  if (scanned_ < worker_.limits().line_bytes_max) return false;
  if (worker_.input().size() > worker_.limits().multiget_bytes_max) return false;
  scanned_ = Scan(scanned_);
  if (scanned_ > 0) needed_ = scanned_ + 1;
  return scanned_ > 0;
}

// kHungry: go on while there are bytes.
Connection::Step Connection::ExecuteOne(unsigned* budget) {
  Input& input = worker_.input();
  protocol::Request request;
  const protocol::ParseResult result = Parse(&request);
  if (result.status == protocol::ParseStatus::kNeedMore) {
    needed_ = std::max<uint64_t>(result.needed, input.size() + 1);
    if (!binary_ && needed_ == input.size() + 1) scanned_ = Scan(0);
    return Step::kHungry;
  }
  needed_ = 1;
  scanned_ = 0;
  Step step = Step::kHungry;
  if (LogsAt(kLogTraffic)) LogRequest(result.consumed);
  if (result.status == protocol::ParseStatus::kOk) {
    --*budget;
    last_command_.store(worker_.now(), std::memory_order_relaxed);
    if (request.op == protocol::Op::kGet) {
      if (!HoldKeys(&request, budget)) return Step::kFull;
    } else if (Dispatcher::IsWrite(request)) {
      while (!worker_.dispatcher().HoldWrite(request, worker_.now())) {
        worker_.dispatcher().AnswerHeld(worker_.now());
      }
    } else {
      worker_.dispatcher().AnswerHeld(worker_.now());
      const Dispatcher::Next next = worker_.dispatcher().Execute(request, worker_.now());
      if (next == Dispatcher::Next::kClose) step = Step::kHangUp;
    }
  }
  const size_t there = std::min<uint64_t>(result.consumed, input.size());
  input.Consume(there);
  skip_ = result.consumed - there;
  return step;
}

// -vv: the line, or the header's opcode.
void Connection::LogRequest(uint64_t consumed) {
  std::span<char> bytes = worker_.input().bytes();
  bytes = bytes.first(std::min<uint64_t>(consumed, bytes.size()));
  if (binary_) {
    const unsigned opcode = bytes.size() < 2 ? 0 : static_cast<uint8_t>(bytes[1]);
    return Log(kLogTraffic, "<%d binary 0x%02x, %zu bytes", fd_, opcode, bytes.size());
  }
  const auto end =
      std::find_if(bytes.begin(), bytes.end(), [](char c) { return c == '\r' || c == '\n'; });
  Log(kLogTraffic, "<%d %.*s", fd_, static_cast<int>(end - bytes.begin()), bytes.data());
}

// False: the output is full; the rest of the keys is taken up when it has been sent.
bool Connection::HoldKeys(protocol::Request* request, unsigned* budget) {
  const size_t length = request->rest.size();
  if (request->wire == protocol::Wire::kText) request->rest.remove_prefix(keys_done_);
  while (!worker_.dispatcher().HoldGet(request)) {
    worker_.dispatcher().AnswerHeld(worker_.now());
    if (*budget > 0) --*budget;
    // A single key is not parsed again: it may have been decoded in place.
    if (request->wire != protocol::Wire::kText || !worker_.output().full()) continue;
    keys_done_ = length - request->rest.size();
    return false;
  }
  keys_done_ = 0;
  return true;
}

// ---- the end ------------------------------------------------------------------------------------

void Connection::Linger() {
  shutdown(fd_, SHUT_WR);
  state_.store(State::kLingering, std::memory_order_relaxed);
  worker_.input().Forget(&kept_);
  WaitFor(EV_READ);
  Discard();
}

void Connection::Discard() {
  char rubbish[16 << 10];
  for (int reads = 0; reads < 16; ++reads) {
    const ssize_t n = recv(fd_, rubbish, sizeof(rubbish), 0);
    if (n > 0) {
      rounds_silent_ = 0;
      continue;
    }
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
    return worker_.Remove(this);
  }
}

}  // namespace server
