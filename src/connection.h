// Connection is one client: it receives bytes, has requests parsed and carried out, and sends the
// replies. It belongs to one worker for life, and uses that worker's buffers while it is served.
//
// Promises:  replies in the order of the requests, each of them whole. A client that does not read
//            is not read from either. After `requests_per_event` requests others get their turn.
//            Before hanging up on an error, what the client still sends is read and thrown away for
//            a moment, so that the last reply is not lost with the reset of the connection.
// Requires:  the worker's thread, but for fd(), state() and last_command().
// Costs:     about 300 bytes while it waits for a request, with libevent's share; buffers only
//            while a request or a reply is unfinished.
#pragma once

#include <event2/event.h>
#include <event2/event_struct.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "protocol/request.h"
#include "src/input.h"
#include "src/output.h"

namespace server {

class Worker;

class Connection {
 public:
  enum class State : uint8_t { kReading, kWriting, kYielded, kLingering };

  // Takes over the socket.
  Connection(Worker& worker, int fd);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // The turn after a yield.
  void Resume();
  // Carries out what has arrived, sends what is due, and hangs up. May delete the connection.
  void Finish();
  // Called every second. True: it has waited too long and is to be deleted.
  bool TimedOut(uint32_t now) const;

  int fd() const { return fd_; }
  State state() const { return state_.load(std::memory_order_relaxed); }
  uint32_t last_command() const { return last_command_.load(std::memory_order_relaxed); }

  // Links of the worker's list.
  Connection* previous = nullptr;
  Connection* next = nullptr;

 private:
  friend class Worker;

  // How a turn ends, and what a step within it comes to.
  enum class Turn : uint8_t { kWaitRead, kWaitWrite, kYield, kHangUp, kClose };
  enum class Step : uint8_t { kHungry, kFull, kSpent, kHangUp };

  static void OnEvent(evutil_socket_t fd, short what, void* connection) noexcept;
  void Serve(bool readable, unsigned budget);
  Turn ServeTurn(bool readable, unsigned budget);
  Step ExecuteReceived(unsigned* budget);
  Step ExecuteOne(unsigned* budget);
  size_t Scan(size_t from);
  bool StillUnfinished();
  bool HoldKeys(protocol::Request* request, unsigned* budget);
  protocol::ParseResult Parse(protocol::Request* request);
  void LogRequest(uint64_t consumed);
  // True: everything was sent. False: *turn says what now.
  bool Flush(Turn* turn);
  void End(Turn turn);
  void Linger();
  void Discard();
  void WaitFor(short what);

  Worker& worker_;
  const int fd_;
  event event_;
  short waiting_for_ = 0;
  std::atomic<State> state_{State::kReading};
  bool chosen_ = false;  // the first byte has told which protocol
  bool binary_ = false;
  bool hang_up_ = false;  // once the output is sent
  bool peer_done_ = false;
  uint8_t rounds_silent_ = 0;  // of the worker's drain, since something came
  std::atomic<uint32_t> last_command_;
  uint32_t last_progress_;
  uint64_t needed_ = 1;   // bytes that the request at hand has in all, as far as is known
  size_t scanned_ = 0;    // bytes at the beginning without a line's end; 0: not known
  uint64_t skip_ = 0;     // bytes to come that belong to a refused request
  size_t keys_done_ = 0;  // bytes of the key list of the get at hand that were answered
  Input::Kept kept_;
  std::unique_ptr<Output::Parked> parked_;
};

}  // namespace server
