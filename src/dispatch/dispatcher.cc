#include "src/dispatch/dispatcher.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "protocol/authentication.h"
#include "protocol/binary.h"
#include "protocol/framing.h"
#include "protocol/meta.h"
#include "protocol/peek.h"
#include "protocol/text.h"
#include "src/dispatch/stats_command.h"
#include "src/dispatch/store_terms.h"
#include "src/log.h"
#include "src/process/version.h"

namespace server {
namespace {

using protocol::Op;
using protocol::Request;
using protocol::Response;
using protocol::Status;
using protocol::Wire;

static_assert(Batch::kMax == Output::kBatch);
static_assert(protocol::kHeadBytesMax + 64 <= Output::kReplyBytesMax);

constexpr size_t kErrorBytesMax = Output::kReplyBytesMax - 2;

}  // namespace

Dispatcher::Next Dispatcher::Submit(Request* request, unsigned* budget) {
  if (output_.full()) return Next::kOutputFull;
  if (request->op == Op::kGet) return SubmitGet(request, budget);
  if (IsWrite(request->op) && !request->too_large) {
    SubmitWrite(*request);
    return Next::kTaken;
  }
  Finish();
  return Execute(*request, budget);
}

void Dispatcher::Finish() {
  if (batch_.has_gets()) AnswerGets();
  if (batch_.has_writes()) AnswerWrites();
}

void Dispatcher::Abandon() {
  batch_.Clear();
  for (kbf::Reading& reading : readings_) reading.ref.Reset();
}

void Dispatcher::Announce(std::span<const std::span<const char>> inputs) {
  for (; !inputs.empty(); inputs = inputs.subspan(std::min(inputs.size(), Batch::kMax))) {
    std::array<std::string_view, Batch::kMax> reads;
    std::array<std::string_view, Batch::kMax> writes;
    size_t num_reads = 0;
    size_t num_writes = 0;
    for (const std::span<const char> input : inputs.first(std::min(inputs.size(), Batch::kMax))) {
      const protocol::PeekedKey peeked = protocol::PeekKey(input);
      if (!peeked.key.empty()) {
        (peeked.reads ? reads[num_reads++] : writes[num_writes++]) = peeked.key;
      }
    }
    store_.Prefetch({reads.data(), num_reads}, true);
    store_.Prefetch({writes.data(), num_writes}, false);
  }
}

// ---- gets ---------------------------------------------------------------------------------------

Dispatcher::Next Dispatcher::SubmitGet(Request* request, unsigned* budget) {
  while (!batch_.AddGet(request)) {
    Finish();
    if (*budget > 0) --*budget;
    // A single key is always taken: it may have been decoded in place.
    if (request->wire == Wire::kText && output_.full()) return Next::kOutputFull;
  }
  if (output_.full()) Finish();
  return Next::kTaken;
}

void Dispatcher::AnswerGets() {
  const auto keys = batch_.keys();
  const bool plain = batch_.is_plain();
  if (plain) {
    const kbf::ReadOptions options = ReadOptionsOf(batch_.RequestOfKey(0), state_.clock, now_);
    store_.GetMany(keys, options, now_, readings_.data());
  }
  size_t value_bytes = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    const Request& request = batch_.RequestOfKey(i);
    if (keys[i].empty()) {
      output_.Append(protocol::kEnd);
      continue;
    }
    if (!plain) {
      readings_[i] = store_.Get(keys[i], ReadOptionsOf(request, state_.clock, now_), now_);
    }
    value_bytes += readings_[i].value.size();
    AnswerRead(request, keys[i], &readings_[i]);
    if (batch_.IsLastKey(i) && request.wire == Wire::kText) output_.Append(protocol::kEnd);
  }
  batch_.ClearGets(value_bytes);
}

void Dispatcher::AnswerRead(const Request& request, std::string_view key, kbf::Reading* reading) {
  CountRead(request, key, reading->hit);
  Response response = ResponseOf(key, *reading, now_);
  if (request.wire == Wire::kMeta) {
    response.base64_key = reading->base64_key;
    // All keys of the chain have one number, which says nothing about their values.
    response.same_cas =
        request.compare_cas && request.cas == response.cas && response.cas != kbf::kChainCas;
  }
  const protocol::Head head = Format(request, response);
  if (head.with_value) {
    output_.AppendShared(reading->value, std::move(reading->ref));
    if (request.wire != Wire::kBinary) output_.Append("\r\n");
  }
  reading->ref.Reset();
}

void Dispatcher::CountRead(const Request& request, std::string_view key, bool hit) {
  if (state_.prefix_stats.enabled()) state_.prefix_stats.CountGet(key, hit);
  // As in memcached, a get that touches counts as a touch, except a miss of mg.
  if (request.exptime && (hit || request.wire != Wire::kMeta)) {
    counters_.cmd_touch.Add();
    (hit ? counters_.touch_hits : counters_.touch_misses).Add();
  } else {
    counters_.cmd_get.Add();
    (hit ? counters_.get_hits : counters_.get_misses).Add();
  }
}

// ---- writes -------------------------------------------------------------------------------------

void Dispatcher::SubmitWrite(const Request& request) {
  kbf::WriteRequest* write = batch_.AddWrite(request);
  if (write == nullptr) {
    Finish();
    write = batch_.AddWrite(request);
  }
  if (state_.prefix_stats.enabled()) state_.prefix_stats.CountSet(request.key);
  FillWrite(request, state_.clock, now_, write);
  if (output_.full()) Finish();
}

void Dispatcher::AnswerWrites() {
  const auto writes = batch_.writes();
  store_.WriteMany(writes, now_, results_.data());
  for (size_t i = 0; i < writes.size(); ++i) AnswerWrite(batch_.RequestOfWrite(i), results_[i]);
  batch_.Clear();
}

void Dispatcher::AnswerWrite(const Request& request, const kbf::WriteResult& result) {
  Response response;
  response.key = request.key;
  response.status = StatusOf(result.status);
  response.cas = result.cas;
  response.number = result.value_bytes;
  CountWrite(request, response.status);
  Reply(request, response);
}

void Dispatcher::CountWrite(const Request& request, Status status) {
  if (status == Status::kTooLarge) {
    // As in memcached, which does not count these on the binary wire.
    if (request.wire != Wire::kBinary) counters_.store_too_large.Add();
    return;
  }
  if (status == Status::kNoMemory) return counters_.store_no_memory.Add();
  counters_.cmd_set.Add();
  if (request.op != Op::kCas && request.cas == 0) return;
  if (status == Status::kOk) counters_.cas_hits.Add();
  if (status == Status::kExists) counters_.cas_badval.Add();
  if (status == Status::kNotFound) counters_.cas_misses.Add();
}

// The value was not even read. The value that it would have replaced is deleted, as in memcached.
void Dispatcher::RefuseTooLarge(const Request& request) {
  if (state_.prefix_stats.enabled()) state_.prefix_stats.CountSet(request.key);
  if (DropsOldValue(request)) (void)store_.Delete(request.key, now_);
  AnswerWrite(request, {kbf::StoreStatus::kTooLarge, 0});
}

// ---- everything else ----------------------------------------------------------------------------

protocol::Head Dispatcher::Format(const Request& request, const Response& response) {
  char* const out = output_.Room(protocol::kHeadBytesMax);
  protocol::Head head;
  switch (request.wire) {
    case Wire::kText:
      head = FormatText(request, response, out);
      break;
    case Wire::kMeta:
      head = FormatMeta(request, response, out);
      break;
    case Wire::kBinary:
      head = FormatBinary(request, response, out);
      break;
  }
  output_.Commit(head.bytes);
  return head;
}

void Dispatcher::Reply(const Request& request, const Response& response) {
  const protocol::Head head = Format(request, response);
  if (!head.with_value) return;
  output_.Append(response.value);  // a number; the head is there, so it must not fail for memory
  if (request.wire != Wire::kBinary) output_.Append("\r\n");
}

Dispatcher::Next Dispatcher::Execute(const Request& request, unsigned* budget) {
  assert(batch_.empty());
  switch (request.op) {
    case Op::kGet:
      assert(false);  // Submit holds them
      break;
    case Op::kTouch:
      Touch(request);
      break;
    case Op::kSet:
    case Op::kAdd:
    case Op::kReplace:
    case Op::kAppend:
    case Op::kPrepend:
    case Op::kCas:
      RefuseTooLarge(request);
      break;
    case Op::kArithmetic:
      Arithmetic(request);
      break;
    case Op::kDelete:
      Delete(request);
      break;
    case Op::kDebug:
      Debug(request);
      break;
    case Op::kFlushAll:
      FlushAll(request);
      break;
    case Op::kStats:
      return Stats(request);
    case Op::kCachedump:
    case Op::kMetadump:
    case Op::kMgdump:
      return ListKeys(request, budget);
    case Op::kVersion:
      Version(request);
      break;
    case Op::kVerbosity:
      SetLogVerbosity(request.verbosity);
      Reply(request, {});
      break;
    case Op::kNoop:
    case Op::kAnswer:
    case Op::kSaslList:
      Reply(request, {});
      break;
    case Op::kAuthenticate:
    case Op::kSaslStep:
      return Authenticate(request);
    case Op::kRefreshCerts:
      return RefreshCertificates(request);
    case Op::kQuit:
      return Quit(request);
    case Op::kShutdown:
      return Shutdown(request);
  }
  return request.close ? Next::kClose : Next::kTaken;
}

void Dispatcher::Touch(const Request& request) {
  const kbf::ReadOptions options = ReadOptionsOf(request, state_.clock, now_);
  const kbf::Reading reading = store_.Get(request.key, options, now_);
  counters_.cmd_touch.Add();
  (reading.hit ? counters_.touch_hits : counters_.touch_misses).Add();
  Reply(request, ResponseOf(request.key, reading, now_));
}

void Dispatcher::Arithmetic(const Request& request) {
  const kbf::ArithmeticRequest change = ArithmeticRequestOf(request, state_.clock, now_);
  const Response response = ResponseOf(request.key, store_.Arithmetic(change, now_), now_);
  if (response.status == Status::kNotFound) {
    (request.decrement ? counters_.decr_misses : counters_.incr_misses).Add();
  } else if (response.status == Status::kOk && !response.created) {
    (request.decrement ? counters_.decr_hits : counters_.incr_hits).Add();
  }
  Reply(request, response);
}

void Dispatcher::Delete(const Request& request) {
  if (state_.prefix_stats.enabled()) state_.prefix_stats.CountDelete(request.key);
  const kbf::DeleteOptions options = DeleteOptionsOf(request, state_.clock, now_);
  Response response;
  response.status = StatusOf(store_.Delete(request.key, options, now_));
  response.key = request.key;
  // An item that is only marked as stale was not deleted.
  if (response.status == Status::kOk && !request.invalidate) counters_.delete_hits.Add();
  if (response.status == Status::kNotFound) counters_.delete_misses.Add();
  Reply(request, response);
}

void Dispatcher::Debug(const Request& request) {
  counters_.cmd_meta.Add();
  kbf::ReadOptions options;
  options.bump = false;
  const kbf::Reading reading = store_.Get(request.key, options, now_);
  Response response = ResponseOf(request.key, reading, now_);
  response.base64_key = reading.base64_key;
  response.item_bytes = kbf::CountedItemBytes(request.key.size(), reading.value.size(),
                                              reading.flags, state_.options.store.keep_cas);
  Format(request, response);
}

void Dispatcher::FlushAll(const Request& request) {
  Response response;
  if (state_.options.disable_flush) {
    response.status = Status::kNotAllowed;
    response.text = "CLIENT_ERROR flush_all not allowed\r\n";
    return Reply(request, response);
  }
  if (!request.reply.empty()) return Reply(request, response);  // the delay was not a number
  counters_.cmd_flush.Add();
  const int64_t delay = request.exptime.value_or(0);
  store_.FlushAll(delay <= 0 ? now_ : state_.clock.Expiry(delay, now_), now_);
  Reply(request, response);
}

void Dispatcher::Version(const Request& request) {
  Response response;
  response.text = kMemcachedVersion;
  Reply(request, response);
}

Dispatcher::Next Dispatcher::Quit(const Request& request) {
  if (request.wire == Wire::kBinary) Reply(request, {});
  return Next::kClose;
}

// As memcached does: the process gets the signal that an operator would send.
Dispatcher::Next Dispatcher::Shutdown(const Request& request) {
  if (!state_.options.enable_shutdown) {
    output_.Append("ERROR: shutdown not enabled\r\n");
    return Next::kTaken;
  }
  if (!request.reply.empty()) {  // an invalid mode
    output_.Append(request.reply);
    return Next::kTaken;
  }
  kill(getpid(), request.graceful ? SIGUSR1 : SIGINT);
  return Next::kClose;
}

// ---- security -----------------------------------------------------------------------------------

namespace {

// What proves who the client is, or nothing: the request has no such thing.
std::optional<protocol::Credentials> CredentialsOf(const Request& request, bool sasl_began) {
  if (request.too_large) return std::nullopt;
  if (request.wire == Wire::kText) return protocol::SplitTextCredentials(request.value);
  const bool plain = request.key == "PLAIN" && (request.op == Op::kAuthenticate || sasl_began);
  return plain ? protocol::SplitPlainCredentials(request.value) : std::nullopt;
}

}  // namespace

Dispatcher::Next Dispatcher::Authenticate(const Request& request) {
  const bool began = std::exchange(session_->sasl_began_, false);
  if (request.wire == Wire::kBinary && request.op == Op::kAuthenticate && !request.too_large &&
      request.key == "PLAIN" && request.value.empty()) {
    session_->sasl_began_ = true;
    Request go_on = request;
    go_on.op = Op::kAnswer;
    go_on.binary_status = protocol::kBinaryAuthContinue;
    Reply(go_on, {});
    return Next::kLock;
  }
  const auto credentials = CredentialsOf(request, began);
  const bool accepted =
      credentials && state_.authenticator->Accepts(credentials->user, credentials->password);
  counters_.auth_cmds.Add();
  if (!accepted) counters_.auth_errors.Add();
  Response response;
  response.status = accepted ? Status::kOk : Status::kNotAllowed;
  response.text = "CLIENT_ERROR authentication failure\r\n";
  Reply(request, response);
  return accepted ? Next::kUnlock : Next::kLock;
}

// In the worker's thread, as memcached does it: some milliseconds where the files have changed.
Dispatcher::Next Dispatcher::RefreshCertificates(const Request& request) {
  std::string error = "Error TLS not enabled";
  if (state_.tls != nullptr) {
    const auto fault = state_.tls->Reload(now_);
    if (!fault) {
      Reply(request, {});
      return Next::kTaken;
    }
    error = *fault;
    Log(kLogAlways, "%s; the certificates stay as they were", error.c_str());
  }
  output_.Append(error.substr(0, kErrorBytesMax) + "\r\n");
  return Next::kTaken;
}

// ---- statistics ---------------------------------------------------------------------------------

Dispatcher::Next Dispatcher::Stats(const Request& request) {
  if (IsPrefixDump(request)) return DumpPrefixes(request);
  bool done = false;
  try {
    done = output_.AppendText(AnswerStats(request, state_));
  } catch (const std::bad_alloc&) {
  }
  if (!done) {
    Response response;
    response.status = Status::kNoMemory;
    Reply(request, response);
  }
  return Next::kTaken;
}

Dispatcher::Next Dispatcher::DumpPrefixes(const Request& request) {
  std::optional<PrefixStats::Cursor>& cursor = session_->prefix_dump_;
  if (!cursor) cursor.emplace();
  while (!output_.full()) {  // then there is room for one reply
    char* const room = output_.Room(Output::kReplyBytesMax);
    output_.Commit(WritePrefixes(request, state_.prefix_stats, &*cursor, room));
    if (!PrefixStats::Ended(*cursor)) continue;
    cursor.reset();
    return Next::kTaken;
  }
  return Next::kOutputFull;
}

Dispatcher::Next Dispatcher::ListKeys(const Request& request, unsigned* budget) {
  const bool refused = state_.options.disable_dumping;
  if (refused || !request.reply.empty()) {
    output_.Append(refused ? protocol::KeyListRefusal(request.op) : request.reply);
    return Next::kTaken;
  }
  std::unique_ptr<KeyListing>& listing = session_->key_listing_;
  if (listing == nullptr) {
    listing.reset(new (std::nothrow) KeyListing(request));
    output_.Append(listing == nullptr ? protocol::kNoMemoryLine
                                      : protocol::KeyListBegin(request.op));
    if (listing == nullptr) return Next::kTaken;
  }
  // Steps that find no rows take time as well.
  for (; !output_.full() && *budget > 0; --*budget) {
    if (listing->Step(state_, now_, &output_)) continue;
    listing.reset();
    output_.Append(protocol::KeyListEnd(request.op));
    return Next::kTaken;
  }
  return Next::kOutputFull;
}

}  // namespace server
