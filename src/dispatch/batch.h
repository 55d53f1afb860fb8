// Batch holds requests until they are carried out together: either keys to read or values to
// write, never both, so that replies keep the order of their requests.
//
// Promises:  a batch has at most kMax keys or writes. It gets smaller while the values that it
//            reads are long, because replies refer to the values of a whole batch at a time.
// Requires:  `(AddGet* | AddWrite*) Clear`. The bytes that requests point to stay where they are
//            until Clear.
// Costs:     memory for kMax requests, once; a copy of each request.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "protocol/request.h"
#include "storage/store.h"

namespace server {

class Batch {
 public:
  // As many as the store prefetches for at once.
  static constexpr size_t kMax = 32;
  // Batches shrink while the values of one add up to more than this.
  static constexpr size_t kValueBytesMax = 256 << 10;

  // Takes keys of the get until it has all of them, or is full: false; then request->keys has the
  // rest.
  [[nodiscard]] bool AddGet(protocol::Request* request);
  // Null: full, or gets are held. Otherwise the write, for the caller to fill.
  kbf::WriteRequest* AddWrite(const protocol::Request& request);

  bool has_gets() const { return num_keys_ > 0; }
  bool has_writes() const { return num_writes_ > 0; }
  bool empty() const { return num_requests_ == 0; }

  // The keys, in order. An empty one stands for the end of a line whose keys were answered before.
  std::span<const std::string_view> keys() const { return {keys_.data(), num_keys_}; }
  // The get that key i is of.
  const protocol::Request& RequestOfKey(size_t i) const { return requests_[held_[i].request]; }
  bool IsLastKey(size_t i) const { return held_[i].last; }
  // All gets have the same options and ask for the value alone.
  bool is_plain() const { return plain_; }

  std::span<const kbf::WriteRequest> writes() const { return {writes_.data(), num_writes_}; }
  const protocol::Request& RequestOfWrite(size_t i) const { return requests_[i]; }

  // The requests were answered, or are dropped. `value_bytes` were read, and decide how large the
  // next batch may be.
  void ClearGets(size_t value_bytes);
  void Clear();

 private:
  struct Held {
    uint8_t request;  // index in requests_
    bool last;        // key of its request
  };

  bool IsFull() const { return num_keys_ >= keys_max_; }
  void Push(std::string_view key, bool last);

  std::array<protocol::Request, kMax> requests_;
  size_t num_requests_ = 0;

  std::array<std::string_view, kMax> keys_;
  std::array<Held, kMax> held_;
  size_t num_keys_ = 0;
  size_t keys_max_ = kMax;
  bool plain_ = true;

  std::array<kbf::WriteRequest, kMax> writes_;
  size_t num_writes_ = 0;
};

}  // namespace server
