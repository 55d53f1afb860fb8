// Connection is one client: it receives bytes, has them parsed, submits the requests and sends the
// replies. It knows bytes and no commands. It belongs to one worker for life and uses that worker's
// buffers while it is served.
//
// Promises:  replies in the order of the requests, each of them whole. A client that does not read
//            is not read from either. After `requests_per_event` requests, batches of keys or
//            64 KiB of traffic others get their turn. Nothing that a client sends is parsed twice,
//            except the end of a get or of a dump whose replies did not fit the output.
//            Before it closes after an error, it reads and discards what the client still sends for
//            a moment, so that the last reply is not lost with the reset of the connection.
//            Without memory for a request, the connection ends, with an error line if possible.
// Requires:  the worker's thread, except for fd(), state(), last_command() and info(). Start,
// Resume,
//            Finish, ServeReady, EndRound and every event may delete the connection.
// Costs:     about 350 bytes while it waits for a request, with libevent's share; buffers only
//            while a request or a reply is unfinished.
#pragma once

#include <event2/event.h>
#include <event2/event_struct.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "protocol/request.h"
#include "protocol/request_parser.h"
#include "src/cluster/reply_slots.h"
#include "src/dispatch/dispatcher.h"
#include "src/io/input.h"
#include "src/io/output.h"
#include "src/io/round.h"
#include "src/io/transport.h"
#include "src/net/worker_context.h"
#include "src/stats/server_view.h"

namespace server {

class Connection : private ReplyWaiter {
 public:
  using State = ConnectionState;

  virtual ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void Start();
  // The turn after a yield.
  void Resume();
  // Carries out what has arrived, sends the replies, and closes.
  void Finish();
  // In the round that follows ConnectionOwner::ServeLater: PrepareTurn before the sockets are read,
  // ServeReady afterwards, and EndRound when the reply that ServeReady has deferred was sent.
  void PrepareTurn(size_t member);
  void ServeReady();
  void EndRound(const Round::Sent& sent);
  bool is_ready() const { return ready_ != 0; }
  // Called every second. True: it has waited too long and is to be deleted.
  bool TimedOut(uint32_t now) const;
  // What it keeps in memory between turns, and would give back if it were closed, its transport's
  // memory included.
  uint64_t HeldBytes() const;
  // For the Shedder: larger if it holds more, and has made less progress lately.
  double ShedScore(uint64_t now_ms) const;
  // It moves fast enough to finish soon, or waits for its turn or for memory, not for its client,
  // or has nothing to finish.
  bool IsMoving(uint64_t now_ms) const;
  // If its socket is ready by now, it is the server that is late, and the client has not stalled.
  // Before it is closed for its memory: on a busy machine the server may not have read for long.
  void CheckSocket();
  // What its request waits for; 0: it does not wait for memory.
  uint64_t WantedBytes() const { return memory_wait_since_ms_ == 0 ? 0 : needed_; }
  bool HasWaitedTooLong(uint64_t now_ms) const;
  // Called every second.
  void DecayProgress() { progress_bytes_ /= 2; }
  // While the worker stops, called at intervals: how many intervals before this one passed since
  // anything was received.
  unsigned CountSilentRound() { return rounds_silent_++; }

  int fd() const { return transport_.fd(); }
  State state() const { return state_.load(std::memory_order_relaxed); }
  uint32_t last_command() const { return last_command_.load(std::memory_order_relaxed); }
  ConnectionInfo info() const;

  // Links of the worker's list.
  Connection* previous = nullptr;
  Connection* next = nullptr;

 protected:
  // The transport outlives the connection.
  Connection(WorkerContext& worker, ConnectionOwner& owner, Transport& transport);

 private:
  // How a turn ends, and what a step within it comes to.
  // kWaitNodes: for replies of other nodes. kWaitMemory: for memory, or until connections that hold
  // too much of it have been closed.
  enum class Turn : uint8_t {
    kWaitInput,
    kWaitOutput,
    kYield,
    kWaitMemory,
    kWaitNodes,
    kHangUp,
    kClose
  };
  enum class Step : uint8_t { kGoOn, kNeedInput, kFull, kBudgetUsed, kPaused, kWaitNodes, kHangUp };
  // How the turn ends, or nothing: it goes on.
  using MaybeEnd = std::optional<Turn>;

  static void OnEvent(evutil_socket_t fd, short what, void* connection) noexcept;
  void ContinueHandshake();
  void Serve(bool readable);
  Turn ServeTurn(bool readable);
  Step ExecuteReceived();
  Step ExecuteOne();
  Step Submit(protocol::Request* request, uint64_t consumed);
  // In a cluster: here, or by the node that owns the key.
  Step SubmitToCluster(protocol::Request* request, uint64_t consumed);
  bool WaitsForNodes() const { return slots_ != nullptr && !slots_->empty(); }
  // Writes the replies that have come. Nothing: all of them.
  MaybeEnd WriteReplies();
  void OnReplies() override;
  void Consume(uint64_t bytes);
  void DiscardInput();
  void LogRequest(uint64_t consumed);
  MaybeEnd Receive(bool* readable);
  MaybeEnd Flush();
  // At the end of a turn, whose reply may be sent by the round.
  MaybeEnd FlushOrDefer();
  // There is no memory for the current request.
  MaybeEnd WaitForMemory();
  void EndMemoryWait();
  // Of requests and replies that are not finished.
  uint64_t UnfinishedBytes() const;
  // It waits for the rest of something, not for a new request.
  bool IsUnfinished() const;
  uint64_t StalledMs(uint64_t now_ms) const;
  // Notes that bytes were moved, and takes their share off the budget.
  void CountProgress(size_t bytes);
  void Park();
  void NoteHolding();
  void End(Turn turn);
  // Waits for the given event, in the given state; removes the connection if that fails.
  void WaitIn(State state, IoStatus wanted);
  void YieldIf(bool remembered);
  void Linger();
  void ContinueLinger();
  IoStatus Discard();
  [[nodiscard]] bool WaitFor(IoStatus wanted);
  void StopWaiting();
  void SetState(State state);

  WorkerContext& worker_;
  ConnectionOwner& owner_;
  Transport& transport_;
  event event_;
  short waiting_for_ = 0;
  short ready_ = 0;                         // the events that the round is to serve it for
  IoStatus wanted_ = IoStatus::kWantsRead;  // what reading or writing waits for after this turn
  std::atomic<State> state_{State::kHandshaking};
  std::atomic<bool> needs_rest_{false};  // of a request whose size is known
  bool hang_up_ = false;                 // once the output is sent
  bool peer_done_ = false;               // it sends no more
  bool shut_down_ = false;
  uint8_t rounds_silent_ = 0;
  unsigned budget_ = 0;  // requests that the turn may still carry out
  std::atomic<uint32_t> last_command_;
  uint32_t last_progress_;
  uint32_t progress_bytes_ = 0;  // moved lately; halved every second
  uint64_t last_progress_ms_;
  uint64_t memory_wait_since_ms_ = 0;  // 0: the request does not wait for memory
  uint64_t holds_since_ms_ = 0;        // since when UnfinishedBytes() is not 0; 0: it is
  uint64_t needed_ = 1;  // bytes that the current request has in all, as far as is known
  uint64_t skip_ = 0;    // bytes to come that belong to a refused request
  protocol::RequestParser parser_;
  Dispatcher::Session session_;
  Input::Kept kept_;
  std::shared_ptr<ReplySlots> slots_;  // in a cluster, from the first request with a key on
  std::unique_ptr<Output::Parked> parked_;
  uint64_t parked_bytes_ = 0;  // counted in ConnectionMemory
};

// Keeps a transport where it outlives the connection over it, without an allocation of its own.
template <class T>
struct TransportMember {
  template <class... Arguments>
  explicit TransportMember(Arguments&&... arguments)
      : transport(std::forward<Arguments>(arguments)...) {}
  T transport;
};

// A connection over its own transport of class T, which is made from `arguments`.
template <class T>
class ConnectionOver final : private TransportMember<T>, public Connection {
 public:
  template <class... Arguments>
  ConnectionOver(WorkerContext& worker, ConnectionOwner& owner, Arguments&&... arguments)
      : TransportMember<T>(std::forward<Arguments>(arguments)...),
        Connection(worker, owner, this->transport) {}
};

}  // namespace server
