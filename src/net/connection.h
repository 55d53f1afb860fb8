// Connection is one client: it receives bytes, has requests parsed and carried out, and sends the
// replies. It belongs to one worker for life, and uses that worker's buffers while it is served.
//
// Promises:  replies in the order of the requests, each of them whole. A client that does not read
//            is not read from either. After `requests_per_event` requests, batches of keys or
//            64 KiB of traffic others get their turn. Nothing that a client sends is parsed twice.
//            Before hanging up on an error, what the client still sends is read and thrown away for
//            a moment, so that the last reply is not lost with the reset of the connection.
//            Where memory is not to be had, the connection ends, with an error line if possible.
// Requires:  the worker's thread, but for fd(), state() and last_command().
// Costs:     about 300 bytes while it waits for a request, with libevent's share; buffers only
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
#include "src/io/input.h"
#include "src/io/output.h"
#include "src/io/transport.h"
#include "src/stats/prefix_stats.h"

namespace server {

class Worker;

class Connection {
 public:
  enum class State : uint8_t { kHandshaking, kReading, kWriting, kYielded, kLingering };

  virtual ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // False: it is broken, or cannot be watched.
  [[nodiscard]] bool Start();
  // The turn after a yield.
  void Resume();
  // Carries out what has arrived, sends what is due, and hangs up. May delete the connection.
  void Finish();
  // Called every second. True: it has waited too long and is to be deleted.
  bool TimedOut(uint32_t now) const;
  // What it keeps in memory between turns, and would give back if it were closed.
  uint64_t HeldBytes() const;
  // For the Shedder: larger if it holds more, and has made less progress lately.
  double ShedScore(uint64_t now_ms) const;
  // It moves fast enough to finish soon, or waits for its turn or for memory, not for its client.
  bool IsMoving(uint64_t now_ms) const;
  // Called every second.
  void DecayProgress() { progress_bytes_ /= 2; }

  int fd() const { return transport_.fd(); }
  State state() const { return state_.load(std::memory_order_relaxed); }
  uint32_t last_command() const { return last_command_.load(std::memory_order_relaxed); }

  // Links of the worker's list.
  Connection* previous = nullptr;
  Connection* next = nullptr;

 protected:
  // The transport outlives the connection.
  Connection(Worker& worker, Transport& transport);

 private:
  friend class Worker;

  // How a turn ends, and what a step within it comes to.
  enum class Turn : uint8_t { kWaitInput, kWaitOutput, kYield, kWaitMemory, kHangUp, kClose };
  enum class Step : uint8_t { kGoOn, kNeedInput, kFull, kBudgetUsed, kHangUp };

  static void OnEvent(evutil_socket_t fd, short what, void* connection) noexcept;
  void Serve(bool readable, unsigned budget);
  Turn ServeTurn(bool readable, unsigned budget);
  Step ExecuteReceived(unsigned* budget);
  Step ExecuteOne(unsigned* budget);
  Step Submit(protocol::Request* request, uint64_t consumed, unsigned* budget);
  void Consume(uint64_t bytes);
  protocol::ParseResult Parse(protocol::Request* request);
  void LogRequest(uint64_t consumed);
  // False: *turn says how the turn ends.
  bool Receive(bool* readable, unsigned* budget, Turn* turn);
  // True: everything was sent. False: *turn says what now.
  bool Flush(unsigned* budget, Turn* turn);
  // There is no memory for the request at hand. False: *turn says how the turn ends.
  bool WaitForMemory(Turn* turn);
  void EndMemoryWait();
  uint64_t StalledMs(uint64_t now_ms) const;
  // Notes that bytes were moved, and takes their share off the budget.
  void CountProgress(size_t bytes, unsigned* budget);
  void Park();
  void End(Turn turn);
  [[nodiscard]] bool ContinueHandshake();
  void Linger();
  void ContinueLinger();
  IoStatus Discard();
  [[nodiscard]] bool WaitFor(IoStatus wanted);
  [[nodiscard]] bool WaitFor(short what);
  void StopWaiting();

  Worker& worker_;
  Transport& transport_;
  event event_;
  short waiting_for_ = 0;
  IoStatus wanted_ = IoStatus::kWantsRead;  // what reading or writing waits for after this turn
  std::atomic<State> state_{State::kHandshaking};
  bool chosen_ = false;  // the first byte has told which protocol
  bool binary_ = false;
  bool hang_up_ = false;  // once the output is sent
  bool peer_done_ = false;
  bool shut_down_ = false;
  uint8_t rounds_silent_ = 0;  // of the worker's drain, since something came
  std::atomic<uint32_t> last_command_;
  uint32_t last_progress_;
  uint64_t short_since_ms_ = 0;  // since when the request waits for memory; 0: it does not
  uint32_t progress_bytes_ = 0;  // moved lately; halved every second
  uint64_t last_progress_ms_;
  uint64_t holds_since_ms_ = 0;  // since when HeldBytes() has not been 0; 0: it is
  uint64_t needed_ = 1;          // bytes that the request at hand has in all, as far as is known
  uint64_t skip_ = 0;            // bytes to come that belong to a refused request
  protocol::KeyList keys_;       // of the get line at hand
  std::optional<PrefixStats::Cursor> dump_;  // of the reply at hand
  Input::Kept kept_;
  std::unique_ptr<Output::Parked> parked_;
  uint64_t parked_bytes_ = 0;  // counted in ConnectionMemory
};

// Holds a transport where it outlives the connection over it, without an allocation of its own.
template <class T>
struct TransportMember {
  template <class... Arguments>
  explicit TransportMember(Arguments&&... arguments)
      : transport(std::forward<Arguments>(arguments)...) {}
  T transport;
};

template <class T>
class ConnectionOver final : private TransportMember<T>, public Connection {
 public:
  template <class... Arguments>
  explicit ConnectionOver(Worker& worker, Arguments&&... arguments)
      : TransportMember<T>(std::forward<Arguments>(arguments)...),
        Connection(worker, this->transport) {}
};

}  // namespace server
