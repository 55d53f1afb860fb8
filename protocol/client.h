// The client's side of the text, meta and binary protocols: it frames requests and parses replies.
// It uses no sockets and has no state: the caller knows which reply belongs to which request.
//
// Promises:  the server's parsers (text.h, meta.h, binary.h) accept every framed request. Replies
//            are the same however the bytes are split; "incomplete" and "not a reply of this
//            protocol" are different results. Nothing outside the bytes given is read.
// Requires:  the caller writes key and value into the gaps of a frame, so that they can be
// generated
//            in place. The views in a Reply point into the parsed bytes.
// Costs:     no allocation. One pass over a reply's line; values are skipped, not read.
//
// Replies of a get: text sends any number of kValue and then kEnd. Meta and binary answer a single
// get with kValue or kNotFound. A group of gets works alike everywhere: values of the keys that
// hit, each with its key, then kEnd.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "protocol/request.h"

namespace protocol {

// What a client asks; fields that the op does not have are not sent.
struct ClientRequest {
  Op op = Op::kGet;  // kGet kSet kAdd kReplace kDelete kTouch kArithmetic kNoop kVersion kStats
  uint32_t flags = 0;
  uint32_t exptime = 0;
  uint64_t delta = 1;      // kArithmetic: added to the number that is there, or subtracted
  uint32_t opaque = 0;     // binary: comes back with the reply
  size_t key_bytes = 0;    // kStats: may be 0
  size_t value_bytes = 0;  // kSet kAdd kReplace
  bool decrement = false;  // kArithmetic: subtract
  bool quiet = false;      // kSet, binary: no reply unless the set is refused
  // kGet, meta: these flags instead of "f v". Without v a hit is answered by kOk.
  std::optional<std::string_view> meta_flags = {};
};

// Where the caller writes key and value, and where the next request goes.
struct RequestFrame {
  char* key = nullptr;
  char* value = nullptr;
  char* end = nullptr;
};

// No frame is longer than this, key and value aside.
inline constexpr size_t kFrameBytesMax = 96;

// REQUIRES: room for kFrameBytesMax + key_bytes + value_bytes + the meta flags; a key where the op
// has one.
RequestFrame FrameRequest(Wire wire, const ClientRequest& request, char* out);

// A group of gets in one request: Begin Key+ End. In text one line; elsewhere quiet gets, and a
// noop that marks the end. Each call needs room for kFrameBytesMax, Key for its key also.
char* FrameGetsBegin(Wire wire, char* out);
RequestFrame FrameGetsKey(Wire wire, size_t key_bytes, uint32_t opaque, char* out);
char* FrameGetsEnd(Wire wire, uint32_t opaque, char* out);

enum class ReplyKind : uint8_t {
  kValue,
  kEnd,  // END, MN, NOOP; the end of statistics
  kStored,
  kDeleted,
  kTouched,
  kOk,      // HD, OK, RESET, and binary successes that have no name here
  kNumber,  // of kArithmetic, where it is not sent as a value (meta)
  kNotFound,
  kNotStored,
  kExists,
  kStat,
  kVersion,
  kError,        // the server does not know the command
  kClientError,  // the request is at fault
  kServerError,  // the server is at fault
};

struct Reply {
  ReplyKind kind = ReplyKind::kError;
  uint32_t flags = 0;
  uint32_t opaque = 0;     // binary
  uint64_t cas = 0;        // where it was sent
  uint64_t number = 0;     // kNumber
  int64_t ttl = -1;        // meta flag t: seconds left; -1: never expires, or not sent
  bool stale = false;      // meta flag X
  std::string_view key;    // kValue where it was sent; kStat: the name
  std::string_view value;  // kValue kStat kVersion
  std::string_view text;   // errors: what the server says
};

enum class ReplyStatus : uint8_t {
  kOk,        // *out holds one reply: drop `consumed` bytes
  kNeedMore,  // incomplete: call again when there are `needed` bytes or more
  kBroken,    // not a reply of this protocol: what follows cannot be parsed either
};

struct [[nodiscard]] ReplyResult {
  ReplyStatus status = ReplyStatus::kNeedMore;
  size_t consumed = 0;
  size_t needed = 0;
};

// Longer lines and longer values are kBroken.
inline constexpr size_t kReplyLineBytesMax = 4096;
inline constexpr uint64_t kReplyValueBytesMax = uint64_t{1} << 30;

ReplyResult ParseReply(Wire wire, std::string_view bytes, Reply* out);

}  // namespace protocol
