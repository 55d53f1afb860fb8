#include "src/dispatch/dispatcher.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <new>
#include <span>
#include <string>

#include "protocol/binary.h"
#include "protocol/meta.h"
#include "protocol/text.h"
#include "src/log.h"
#include "src/process/version.h"
#include "src/stats/stats.h"

namespace server {
namespace {

using protocol::Op;
using protocol::Request;
using protocol::Response;
using protocol::Status;
using protocol::Wire;

// A connection holds references to the values of one batch. Batches are made smaller while their
// values add up to more than this.
constexpr size_t kBatchValueBytes = 256 << 10;

static_assert(Dispatcher::kHeldMax == Output::kBatch);
static_assert(protocol::kHeadBytesMax + 64 <= Output::kReplyBytesMax);

Status StatusOf(kbf::StoreStatus status) {
  switch (status) {
    case kbf::StoreStatus::kOk:
      return Status::kOk;
    case kbf::StoreStatus::kNotStored:
      return Status::kNotStored;
    case kbf::StoreStatus::kExists:
      return Status::kExists;
    case kbf::StoreStatus::kNotFound:
      return Status::kNotFound;
    case kbf::StoreStatus::kTooLarge:
      return Status::kTooLarge;
    case kbf::StoreStatus::kNoMemory:
      return Status::kNoMemory;
    case kbf::StoreStatus::kNotNumber:
      return Status::kNotNumber;
    case kbf::StoreStatus::kBadKey:
      return Status::kNotFound;  // the parsers let none pass
  }
  return Status::kNotFound;
}

kbf::WriteMode ModeOf(Op op) {
  switch (op) {
    case Op::kAdd:
      return kbf::WriteMode::kAdd;
    case Op::kReplace:
      return kbf::WriteMode::kReplace;
    case Op::kAppend:
      return kbf::WriteMode::kAppend;
    case Op::kPrepend:
      return kbf::WriteMode::kPrepend;
    case Op::kCas:
      return kbf::WriteMode::kCas;
    default:
      return kbf::WriteMode::kSet;
  }
}

bool AsksOnlyForTheValue(const Request& request) {
  return !request.exptime && !request.vivify_exptime && !request.recache_exptime &&
         !request.no_bump;
}

int64_t TimeToLive(uint32_t expires, uint32_t now) {
  return expires == 0 ? -1 : static_cast<int64_t>(expires) - now;
}

Response ResponseOf(std::string_view key, const kbf::Reading& reading, uint32_t now) {
  Response response;
  response.fetched = reading.fetched;
  response.stale = reading.stale;
  response.win = reading.win;
  response.win_sent = reading.win_sent;
  response.flags = reading.flags;
  response.created = reading.created;
  response.ttl = TimeToLive(reading.expires, now);
  if (!reading.created) response.ttl_before = TimeToLive(reading.expires_before, now);
  // Not known of keys in the chain.
  response.idle = reading.last_access == 0 ? 0 : now - reading.last_access;
  response.cas = reading.cas;
  response.key = key;
  response.value = reading.value;
  return response;
}

}  // namespace

// ---- gets ---------------------------------------------------------------------------------------

void Dispatcher::Push(std::string_view key, bool last) {
  keys_[num_held_] = key;
  held_[num_held_++] = {static_cast<uint8_t>(num_requests_ - 1), last};
}

bool Dispatcher::HoldGet(Request* request) {
  assert(request->op == Op::kGet);
  if (num_held_ >= held_max_ || num_writes_ > 0) return false;
  requests_[num_requests_++] = *request;
  // A batch has one kind of options.
  plain_ = plain_ && AsksOnlyForTheValue(*request) &&
           (request->wire == Wire::kMeta) == (requests_[0].wire == Wire::kMeta);
  if (request->wire != Wire::kText) {
    Push(request->key, true);
    return true;
  }
  std::string_view key = protocol::NextToken(&request->rest);
  // The line ended behind the keys of the piece before.
  if (key.empty() && !request->more_keys) Push(key, true);
  while (!key.empty() && num_held_ < held_max_) {
    const std::string_view before = request->rest;
    const std::string_view next = protocol::NextToken(&request->rest);
    Push(key, next.empty() && !request->more_keys);
    if (num_held_ >= held_max_ && !next.empty()) request->rest = before;
    key = next;
  }
  return key.empty();
}

kbf::ReadOptions Dispatcher::OptionsOf(const Request& request, uint32_t now) const {
  kbf::ReadOptions options;
  options.touch = request.exptime.has_value();
  options.expires = state_.clock.Expiry(request.exptime.value_or(0), now);
  options.bump = !request.no_bump;
  options.claim_win = request.wire == Wire::kMeta;
  if (request.vivify_exptime) {
    options.vivify_expires = state_.clock.Expiry(*request.vivify_exptime, now);
  }
  options.recache_first = request.recache_first;
  // A remaining time, not a point in time.
  if (request.recache_exptime) {
    const uint32_t below = state_.clock.Expiry(*request.recache_exptime, now);
    options.recache_below = below > now ? below - now : 0;
  }
  return options;
}

Dispatcher::Next Dispatcher::Submit(Request* request, uint32_t now, unsigned* budget) {
  if (output_.full()) return Next::kFull;
  if (request->op == Op::kGet) return SubmitGet(request, now, budget);
  if (!IsWrite(*request)) {
    AnswerHeld(now);
    return Execute(*request, now);
  }
  while (!HoldWrite(*request, now)) AnswerHeld(now);
  if (output_.full()) AnswerHeld(now);
  return Next::kTaken;
}

Dispatcher::Next Dispatcher::SubmitGet(Request* request, uint32_t now, unsigned* budget) {
  while (!HoldGet(request)) {
    AnswerHeld(now);
    if (*budget > 0) --*budget;
    // A single key is always taken: it may have been decoded in place.
    if (request->wire == Wire::kText && output_.full()) return Next::kFull;
  }
  if (output_.full()) AnswerHeld(now);
  return Next::kTaken;
}

void Dispatcher::Abandon() {
  num_held_ = num_requests_ = num_writes_ = 0;
  plain_ = true;
}

void Dispatcher::LimitBatch(size_t value_bytes) {
  if (value_bytes > kBatchValueBytes) {
    held_max_ = std::max<size_t>(1, held_max_ * kBatchValueBytes / value_bytes);
  } else {
    held_max_ = std::min(kHeldMax, 2 * held_max_);
  }
}

void Dispatcher::AnswerHeld(uint32_t now) {
  if (num_held_ > 0) AnswerGets(now);
  if (num_writes_ > 0) AnswerWrites(now);
}

void Dispatcher::AnswerGets(uint32_t now) {
  std::array<kbf::Reading, kHeldMax> readings;
  if (plain_) {
    store_.GetMany(std::span(keys_.data(), num_held_), OptionsOf(requests_[0], now), now,
                   readings.data());
  }
  size_t value_bytes = 0;
  for (size_t i = 0; i < num_held_; ++i) {
    const Request& request = requests_[held_[i].request];
    if (keys_[i].empty()) {
      output_.Append(protocol::kEnd);
      continue;
    }
    if (!plain_) readings[i] = store_.Get(keys_[i], OptionsOf(request, now), now);
    value_bytes += readings[i].value.size();
    AnswerRead(request, keys_[i], &readings[i], now);
    if (held_[i].last && request.wire == Wire::kText) output_.Append(protocol::kEnd);
  }
  num_held_ = num_requests_ = 0;
  plain_ = true;
  LimitBatch(value_bytes);
}

void Dispatcher::CountRead(const Request& request, std::string_view key, bool hit) {
  if (state_.prefix_stats.enabled()) state_.prefix_stats.CountGet(key, hit);
  // As memcached counts: a get that touches is a touch, but for the misses of mg.
  if (request.exptime && (hit || request.wire != Wire::kMeta)) {
    counters_.cmd_touch.Add();
    (hit ? counters_.touch_hits : counters_.touch_misses).Add();
  } else {
    counters_.cmd_get.Add();
    (hit ? counters_.get_hits : counters_.get_misses).Add();
  }
}

void Dispatcher::AnswerRead(const Request& request, std::string_view key, kbf::Reading* reading,
                            uint32_t now) {
  CountRead(request, key, reading->hit);
  Response response;
  if (reading->hit) {
    response = ResponseOf(key, *reading, now);
  } else {
    response.status = reading->no_memory ? Status::kNoMemory : Status::kNotFound;
    response.key = key;
  }
  const protocol::Head head = Format(request, response);
  if (!head.with_value) return;
  output_.AppendShared(reading->value, std::move(reading->ref));
  if (request.wire != Wire::kBinary) output_.Append("\r\n");
}

// ---- writes -------------------------------------------------------------------------------------

bool Dispatcher::IsWrite(const Request& request) {
  return request.op >= Op::kSet && request.op <= Op::kCas && !request.too_large;
}

bool Dispatcher::HoldWrite(const Request& request, uint32_t now) {
  assert(IsWrite(request));
  if (num_writes_ == kHeldMax || num_held_ > 0) return false;
  if (state_.prefix_stats.enabled()) state_.prefix_stats.CountSet(request.key);
  requests_[num_requests_++] = request;
  kbf::WriteRequest& write = writes_[num_writes_++];
  write.mode = ModeOf(request.op);
  write.key = request.key;
  write.value = request.value;
  write.flags = request.flags;
  write.expires = state_.clock.Expiry(request.exptime.value_or(0), now);
  write.cas = request.cas;
  write.invalidate = request.invalidate;
  write.drop_on_failure = request.op == Op::kSet || request.wire == Wire::kMeta;
  return true;
}

void Dispatcher::AnswerWrites(uint32_t now) {
  std::array<kbf::WriteResult, kHeldMax> results;
  store_.WriteMany(std::span(writes_.data(), num_writes_), now, results.data());
  for (size_t i = 0; i < num_writes_; ++i) AnswerWrite(requests_[i], results[i]);
  num_writes_ = num_requests_ = 0;
}

// As memcached counts.
void Dispatcher::CountTooLarge(const Request& request) {
  if (request.wire != Wire::kBinary) counters_.store_too_large.Add();
}

void Dispatcher::AnswerWrite(const Request& request, const kbf::WriteResult& result) {
  Response response;
  response.key = request.key;
  response.status = StatusOf(result.status);
  response.cas = result.cas;
  if (response.status == Status::kTooLarge) {
    CountTooLarge(request);
  } else if (response.status == Status::kNoMemory) {
    counters_.store_no_memory.Add();
  } else {
    counters_.cmd_set.Add();
    if (request.op == Op::kCas || request.cas != 0) {
      if (response.status == Status::kOk) counters_.cas_hits.Add();
      if (response.status == Status::kExists) counters_.cas_badval.Add();
      if (response.status == Status::kNotFound) counters_.cas_misses.Add();
    }
  }
  Reply(request, response);
}

// The value was not even read. What was there must not outlive its replacement.
void Dispatcher::RefuseTooLarge(const Request& request, uint32_t now) {
  if (state_.prefix_stats.enabled()) state_.prefix_stats.CountSet(request.key);
  if (request.op == Op::kSet || request.wire == Wire::kMeta) (void)store_.Delete(request.key, now);
  CountTooLarge(request);
  Response response;
  response.key = request.key;
  response.status = Status::kTooLarge;
  Reply(request, response);
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

Dispatcher::Next Dispatcher::Execute(const Request& request, uint32_t now) {
  assert(num_requests_ == 0);
  switch (request.op) {
    case Op::kGet:
      assert(false);
      break;
    case Op::kTouch:
      Touch(request, now);
      break;
    case Op::kSet:
    case Op::kAdd:
    case Op::kReplace:
    case Op::kAppend:
    case Op::kPrepend:
    case Op::kCas:
      RefuseTooLarge(request, now);
      break;
    case Op::kArithmetic:
      Arithmetic(request, now);
      break;
    case Op::kDelete:
      Delete(request, now);
      break;
    case Op::kDebug:
      Debug(request, now);
      break;
    case Op::kFlushAll:
      FlushAll(request, now);
      break;
    case Op::kStats:
      return Stats(request);
    case Op::kVersion: {
      Response response;
      response.text = VersionString();
      Reply(request, response);
      break;
    }
    case Op::kVerbosity:
      SetLogVerbosity(request.verbosity);
      Reply(request, {});
      break;
    case Op::kNoop:
      Reply(request, {});
      break;
    case Op::kQuit:
      if (request.wire == Wire::kBinary) Reply(request, {});
      return Next::kClose;
    case Op::kShutdown:
      return Shutdown(request);
    case Op::kAnswer:
      Reply(request, {});
      break;
  }
  return request.close ? Next::kClose : Next::kTaken;
}

Dispatcher::Next Dispatcher::Stats(const Request& request) {
  if (IsPrefixDump(request)) return Next::kDump;
  bool done = false;
  try {
    done = output_.AppendText(Statistics(request, state_));
  } catch (const std::bad_alloc&) {
  }
  if (!done) {
    Response response;
    response.status = Status::kNoMemory;
    Reply(request, response);
  }
  return Next::kTaken;
}

bool Dispatcher::DumpPrefixes(PrefixStats::Cursor* cursor) {
  // Room for one reply is there while the output is not full.
  while (!output_.full()) {
    constexpr size_t kPiece = Output::kReplyBytesMax;
    const size_t written = state_.prefix_stats.Dump(cursor, output_.Room(kPiece), kPiece);
    if (written == 0) {
      output_.Append(protocol::kEnd);
      return true;
    }
    output_.Commit(written);
  }
  return false;
}

void Dispatcher::Touch(const Request& request, uint32_t now) {
  const kbf::Reading reading = store_.Get(request.key, OptionsOf(request, now), now);
  counters_.cmd_touch.Add();
  (reading.hit ? counters_.touch_hits : counters_.touch_misses).Add();
  Response response = ResponseOf(request.key, reading, now);
  if (!reading.hit) response.status = reading.no_memory ? Status::kNoMemory : Status::kNotFound;
  Reply(request, response);
}

void Dispatcher::Arithmetic(const Request& request, uint32_t now) {
  kbf::ArithmeticRequest change;
  change.key = request.key;
  change.delta = request.delta;
  change.decrement = request.decrement;
  change.cas = request.cas;
  change.initial = request.initial;
  change.initial_expires = state_.clock.Expiry(request.initial_exptime, now);
  if (request.exptime) change.expires = state_.clock.Expiry(*request.exptime, now);
  const kbf::ArithmeticResult result = store_.Arithmetic(change, now);
  Response response;
  response.status = StatusOf(result.status);
  response.key = request.key;
  response.number = result.number;
  response.cas = result.cas;
  response.flags = result.flags;
  response.created = result.created;
  response.ttl = TimeToLive(result.expires, now);
  if (!result.created) response.ttl_before = TimeToLive(result.expires_before, now);
  if (response.status == Status::kNotFound) {
    (request.decrement ? counters_.decr_misses : counters_.incr_misses).Add();
  } else if (response.status == Status::kOk && !result.created) {
    (request.decrement ? counters_.decr_hits : counters_.incr_hits).Add();
  }
  Reply(request, response);
}

void Dispatcher::Delete(const Request& request, uint32_t now) {
  if (state_.prefix_stats.enabled()) state_.prefix_stats.CountDelete(request.key);
  kbf::DeleteOptions options;
  // A number that no item has, where the client asks for 0.
  options.cas = request.compare_cas && request.cas == 0 ? kbf::kChainCas + 1 : request.cas;
  options.mark_stale = request.invalidate;
  if (request.exptime) options.expires = state_.clock.Expiry(*request.exptime, now);
  Response response;
  response.status = StatusOf(store_.Delete(request.key, options, now));
  response.key = request.key;
  // An item that is only marked as stale was not deleted.
  if (response.status == Status::kOk && !request.invalidate) counters_.delete_hits.Add();
  if (response.status == Status::kNotFound) counters_.delete_misses.Add();
  Reply(request, response);
}

void Dispatcher::Debug(const Request& request, uint32_t now) {
  counters_.cmd_meta.Add();
  kbf::ReadOptions options;
  options.bump = false;
  const kbf::Reading reading = store_.Get(request.key, options, now);
  Response response = ResponseOf(request.key, reading, now);
  if (!reading.hit) response.status = Status::kNotFound;
  response.item_bytes = kbf::CountedItemBytes(request.key.size(), reading.value.size(),
                                              reading.flags, state_.options.store.keep_cas);
  Format(request, response);
}

void Dispatcher::FlushAll(const Request& request, uint32_t now) {
  Response response;
  if (state_.options.disable_flush) {
    response.status = Status::kNotAllowed;
    response.text = "CLIENT_ERROR flush_all not allowed\r\n";
    return Reply(request, response);
  }
  if (!request.rest.empty()) return Reply(request, response);  // a delay that is none
  counters_.cmd_flush.Add();
  const int64_t delay = request.exptime.value_or(0);
  store_.FlushAll(delay <= 0 ? now : state_.clock.Expiry(delay, now), now);
  Reply(request, response);
}

// As memcached does: the process gets the signal that an operator would send.
Dispatcher::Next Dispatcher::Shutdown(const Request& request) {
  if (!state_.options.enable_shutdown) {
    output_.Append("ERROR: shutdown not enabled\r\n");
    return Next::kTaken;
  }
  if (!request.rest.empty()) {  // an invalid mode
    output_.Append(request.rest);
    return Next::kTaken;
  }
  kill(getpid(), request.graceful ? SIGUSR1 : SIGINT);
  return Next::kClose;
}

}  // namespace server
