#include "src/dispatch/batch.h"

#include <algorithm>
#include <cassert>

#include "protocol/tokens.h"

namespace server {
namespace {

using protocol::Request;
using protocol::Wire;

bool AsksOnlyForTheValue(const Request& request) {
  return !request.exptime && !request.vivify_exptime && !request.recache_exptime &&
         !request.no_bump;
}

}  // namespace

void Batch::Push(std::string_view key, bool last) {
  keys_[num_keys_] = key;
  held_[num_keys_++] = {static_cast<uint8_t>(num_requests_ - 1), last};
}

bool Batch::AddGet(Request* request) {
  assert(request->op == protocol::Op::kGet);
  if (IsFull() || has_writes()) return false;
  requests_[num_requests_++] = *request;
  plain_ = plain_ && AsksOnlyForTheValue(*request) &&
           (request->wire == Wire::kMeta) == (requests_[0].wire == Wire::kMeta);
  if (request->wire != Wire::kText) {
    Push(request->key, true);
    return true;
  }
  std::string_view key = protocol::NextToken(&request->keys);
  // The line ended behind the keys of the piece before.
  if (key.empty() && !request->more_keys) Push(key, true);
  while (!key.empty() && !IsFull()) {
    const std::string_view before = request->keys;
    const std::string_view next = protocol::NextToken(&request->keys);
    Push(key, next.empty() && !request->more_keys);
    if (IsFull() && !next.empty()) request->keys = before;
    key = next;
  }
  return key.empty();
}

kbf::WriteRequest* Batch::AddWrite(const Request& request) {
  if (num_writes_ == kMax || has_gets()) return nullptr;
  requests_[num_requests_++] = request;
  return &writes_[num_writes_++];
}

void Batch::ClearGets(size_t value_bytes) {
  if (value_bytes > kValueBytesMax) {
    keys_max_ = std::max<size_t>(1, keys_max_ * kValueBytesMax / value_bytes);
  } else {
    keys_max_ = std::min(kMax, 2 * keys_max_);
  }
  Clear();
}

void Batch::Clear() {
  num_keys_ = num_requests_ = num_writes_ = 0;
  plain_ = true;
}

}  // namespace server
