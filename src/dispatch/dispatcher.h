// Dispatcher carries out requests on the store and writes the replies: the only place that knows
// both. A worker has one.
//
// Gets are held back and answered together, so that pipelined gets, multigets and their mixtures
// all reach the store as batches; and so are sets and their kin. Any other request waits until they
// are answered, which keeps replies in order.
//
// Promises:  nothing is held while the output is full, and a request is taken only while it is not:
//            so the replies to one batch and one request always fit.
// Requires:  the worker's thread. The bytes that held requests point to stay where they are until
//            AnswerHeld.
// Costs:     no allocation but for statistics; where that fails, the reply says so.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "protocol/request.h"
#include "src/io/output.h"
#include "src/state.h"
#include "src/stats/counters.h"
#include "storage/store.h"

namespace server {

class Dispatcher {
 public:
  // The store's own batches have as many.
  static constexpr size_t kHeldMax = 32;

  enum class Next {
    kTaken,  // drop the request's bytes and go on
    kFull,   // send the output first. A get has taken its keys up to request->rest, any other
             // request nothing.
    kDump,   // taken; DumpPrefixes writes the reply
    kClose,  // taken; hang up when the replies are sent
  };

  Dispatcher(State& state, WorkerCounters& counters, Output& output)
      : state_(state), store_(*state.store), counters_(counters), output_(output) {}

  // Carries the request out, or holds it. Every batch of keys but the first takes one off *budget.
  Next Submit(protocol::Request* request, uint32_t now, unsigned* budget);
  void AnswerHeld(uint32_t now);
  // The next lines of `stats detail dump`. False: there are more.
  [[nodiscard]] bool DumpPrefixes(PrefixStats::Cursor* cursor);
  // Forgets what is held, without an answer: the connection ends.
  void Abandon();

 private:
  // Takes keys of a get until it has all of them, or has no room: false, answer first, then go on
  // with request.rest.
  [[nodiscard]] bool HoldGet(protocol::Request* request);
  // The same for a write. REQUIRES: IsWrite(request)
  [[nodiscard]] bool HoldWrite(const protocol::Request& request, uint32_t now);
  static bool IsWrite(const protocol::Request& request);
  Next SubmitGet(protocol::Request* request, uint32_t now, unsigned* budget);
  // Any other request, also a write whose value is too large. REQUIRES: nothing is held.
  Next Execute(const protocol::Request& request, uint32_t now);

  struct Held {
    uint8_t request;  // in requests_
    bool last;        // key of its request
  };

  void Push(std::string_view key, bool last);
  void LimitBatch(size_t value_bytes);
  void AnswerGets(uint32_t now);
  void AnswerWrites(uint32_t now);
  void AnswerRead(const protocol::Request& request, std::string_view key, kbf::Reading* reading,
                  uint32_t now);
  void CountRead(const protocol::Request& request, std::string_view key, bool hit);
  kbf::ReadOptions OptionsOf(const protocol::Request& request, uint32_t now) const;

  void Touch(const protocol::Request& request, uint32_t now);
  void CountTooLarge(const protocol::Request& request);
  void RefuseTooLarge(const protocol::Request& request, uint32_t now);
  void AnswerWrite(const protocol::Request& request, const kbf::WriteResult& result);
  void Arithmetic(const protocol::Request& request, uint32_t now);
  void Delete(const protocol::Request& request, uint32_t now);
  void Debug(const protocol::Request& request, uint32_t now);
  void FlushAll(const protocol::Request& request, uint32_t now);
  Next Shutdown(const protocol::Request& request);
  Next Stats(const protocol::Request& request);

  void Reply(const protocol::Request& request, const protocol::Response& response);
  protocol::Head Format(const protocol::Request& request, const protocol::Response& response);

  State& state_;
  kbf::Store& store_;
  WorkerCounters& counters_;
  Output& output_;

  std::array<protocol::Request, kHeldMax> requests_;
  size_t num_requests_ = 0;
  // Either gets are held,
  std::array<std::string_view, kHeldMax> keys_;
  std::array<Held, kHeldMax> held_;
  size_t num_held_ = 0;
  size_t held_max_ = kHeldMax;  // fewer while values are long
  bool plain_ = true;           // no held get asks for more than the value
  // or writes, one for each of requests_.
  std::array<kbf::WriteRequest, kHeldMax> writes_;
  size_t num_writes_ = 0;
};

}  // namespace server
