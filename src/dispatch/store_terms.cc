#include "src/dispatch/store_terms.h"

#include "protocol/binary.h"

namespace server {

using protocol::Op;
using protocol::Request;
using protocol::Response;
using protocol::Status;
using protocol::Wire;

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
      return Status::kNotFound;  // the parsers refuse such keys
  }
  return Status::kNotFound;
}

namespace {

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

// As in memcached, an item that is gone by now has a number beyond 2^31.
int64_t TimeToLive(uint32_t expires, uint32_t now) {
  return expires == 0 ? -1 : static_cast<int64_t>(expires - now);
}

}  // namespace

bool DropsOldValue(const Request& request) {
  switch (request.wire) {
    case Wire::kText:
      return request.op == Op::kSet;
    case Wire::kMeta:
      return true;
    case Wire::kBinary:
      return protocol::IsBinarySet(request.opcode);
  }
  return false;
}

kbf::ReadOptions ReadOptionsOf(const Request& request, const Clock& clock, uint32_t now) {
  kbf::ReadOptions options;
  options.touch = request.exptime.has_value();
  options.expires = clock.Expiry(request.exptime.value_or(0), now);
  options.bump = !request.no_bump;
  options.claim_win = request.wire == Wire::kMeta;
  if (request.vivify_exptime) {
    options.vivify_expires = clock.Expiry(*request.vivify_exptime, now);
    options.new_cas = request.new_cas;
  }
  options.recache_first = request.recache_first;
  if (request.recache_exptime) options.recache_before = clock.Expiry(*request.recache_exptime, now);
  return options;
}

void FillWrite(const Request& request, const Clock& clock, uint32_t now, kbf::WriteRequest* write) {
  write->mode = ModeOf(request.op);
  write->key = request.key;
  write->value = request.value;
  write->flags = request.flags;
  write->expires = clock.Expiry(request.exptime.value_or(0), now);
  write->cas = request.cas;
  write->invalidate = request.invalidate;
  write->base64_key = request.base64_key;
  write->new_cas = request.new_cas;
  write->vivify_expires.reset();
  if (request.vivify_exptime) write->vivify_expires = clock.Expiry(*request.vivify_exptime, now);
  write->drop_on_failure = DropsOldValue(request);
}

kbf::ArithmeticRequest ArithmeticRequestOf(const Request& request, const Clock& clock,
                                           uint32_t now) {
  kbf::ArithmeticRequest change;
  change.key = request.key;
  change.delta = request.delta;
  change.decrement = request.decrement;
  change.cas = request.cas;
  change.new_cas = request.new_cas;
  change.initial = request.initial;
  change.initial_expires = clock.Expiry(request.initial_exptime, now);
  if (request.exptime) change.expires = clock.Expiry(*request.exptime, now);
  return change;
}

kbf::DeleteOptions DeleteOptionsOf(const Request& request, const Clock& clock, uint32_t now) {
  kbf::DeleteOptions options;
  // A client that asks for 0 gets a number that no item has.
  options.cas = request.compare_cas && request.cas == 0 ? kbf::kChainCas + 1 : request.cas;
  options.mark_stale = request.invalidate;
  options.remove_value = request.remove_value;
  options.flags = request.flags;
  options.new_cas = request.new_cas;
  if (request.exptime) options.expires = clock.Expiry(*request.exptime, now);
  return options;
}

Response ResponseOf(std::string_view key, const kbf::Reading& reading, uint32_t now) {
  Response response;
  response.key = key;
  if (!reading.hit) {
    response.status = reading.no_memory ? Status::kNoMemory : Status::kNotFound;
    return response;
  }
  response.fetched = reading.fetched;
  response.stale = reading.stale;
  response.win = reading.win;
  response.win_sent = reading.win_sent;
  response.flags = reading.flags;
  response.created = reading.created;
  response.ttl = TimeToLive(reading.expires, now);
  if (!reading.created) response.ttl_before = TimeToLive(reading.expires_before, now);
  // Keys in the chain have no time of their last access.
  response.idle = reading.last_access == 0 ? 0 : now - reading.last_access;
  response.cas = reading.cas;
  response.value = reading.value;
  return response;
}

Response ResponseOf(std::string_view key, const kbf::ArithmeticResult& result, uint32_t now) {
  Response response;
  response.status = StatusOf(result.status);
  response.key = key;
  response.number = result.number;
  response.cas = result.cas;
  response.flags = result.flags;
  response.created = result.created;
  response.ttl = TimeToLive(result.expires, now);
  if (!result.created) response.ttl_before = TimeToLive(result.expires_before, now);
  return response;
}

}  // namespace server
