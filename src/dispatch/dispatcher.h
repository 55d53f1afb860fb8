// Dispatcher carries out requests on the store and writes the replies: with store_terms.h the only
// place that knows both. A worker has one.
//
// Gets are held and answered together, so that pipelined gets, multigets and mixtures of both reach
// the store as batches (batch.h); so are sets and other writes. Any other request waits until they
// are answered, which keeps the replies in order.
//
// Promises:  a request is carried out only while the output is not full, so that the replies to one
//            batch and one more request always fit.
// Requires:  the worker's thread; `Begin (Submit* Finish)* ` for each turn of a connection. The
//            bytes that requests point to stay where they are until Finish.
// Costs:     no allocation except for statistics; if that fails, the reply says so.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "protocol/request.h"
#include "src/dispatch/batch.h"
#include "src/dispatch/key_listing.h"
#include "src/io/output.h"
#include "src/state.h"
#include "src/stats/counters.h"
#include "src/stats/prefix_stats.h"
#include "storage/store.h"

namespace server {

class Dispatcher {
 public:
  // What is remembered of one connection between its requests.
  class Session {
    friend class Dispatcher;
    // Of replies that are written in pieces.
    std::optional<PrefixStats::Cursor> prefix_dump_;
    std::unique_ptr<KeyListing> key_listing_;
    bool sasl_began_ = false;  // the next message of SASL has the proof
  };

  enum class Next : uint8_t {
    kTaken,       // the request needs no more attention
    kOutputFull,  // send the output, then submit what is left: of a get in text the keys that
                  // request->keys has now, of any other request all of it
    kClose,       // taken; hang up when the replies are sent
    kLock,        // taken; from now on nothing but authentication is a request
    kUnlock,      // taken; from now on everything is
  };

  Dispatcher(State& state, WorkerCounters& counters, Output& output)
      : state_(state), store_(*state.store), counters_(counters), output_(output) {}

  // What several connections have received, each from its first request on: fetches what those
  // will touch in the store, for all of them together. Empty ones count for nothing.
  void Announce(std::span<const std::span<const char>> inputs);
  // A turn of a connection begins at the time `now` of the clock. `session` lives until the next.
  void Begin(Session* session, uint32_t now) {
    session_ = session;
    now_ = now;
  }
  // Carries the request out, or holds it. Every batch of keys but the first takes one off *budget.
  Next Submit(protocol::Request* request, unsigned* budget);
  // Answers what is held.
  void Finish();
  // Forgets what is held, without an answer: the connection ends.
  void Abandon();

 private:
  Next SubmitGet(protocol::Request* request, unsigned* budget);
  void SubmitWrite(const protocol::Request& request);
  // Any other request. REQUIRES: nothing is held.
  Next Execute(const protocol::Request& request, unsigned* budget);

  void AnswerGets();
  void AnswerWrites();
  void AnswerRead(const protocol::Request& request, std::string_view key, kbf::Reading* reading);
  void AnswerWrite(const protocol::Request& request, const kbf::WriteResult& result);
  void CountRead(const protocol::Request& request, std::string_view key, bool hit);
  void CountWrite(const protocol::Request& request, protocol::Status status);

  void RefuseTooLarge(const protocol::Request& request);
  void Touch(const protocol::Request& request);
  void Arithmetic(const protocol::Request& request);
  void Delete(const protocol::Request& request);
  void Debug(const protocol::Request& request);
  void FlushAll(const protocol::Request& request);
  void Version(const protocol::Request& request);
  Next Shutdown(const protocol::Request& request);
  Next Quit(const protocol::Request& request);
  Next Authenticate(const protocol::Request& request);
  Next RefreshCertificates(const protocol::Request& request);
  Next Stats(const protocol::Request& request);
  Next DumpPrefixes(const protocol::Request& request);
  Next ListKeys(const protocol::Request& request, unsigned* budget);

  void Reply(const protocol::Request& request, const protocol::Response& response);
  protocol::Head Format(const protocol::Request& request, const protocol::Response& response);

  State& state_;
  kbf::Store& store_;
  WorkerCounters& counters_;
  Output& output_;

  Session* session_ = nullptr;
  uint32_t now_ = 0;
  Batch batch_;
  // Of one batch. Members, because making so many for a single get would cost more than the get.
  std::array<kbf::Reading, Batch::kMax> readings_;
  std::array<kbf::WriteResult, Batch::kMax> results_;
};

}  // namespace server
