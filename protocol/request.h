// A Request is one client command of any protocol, and a Response is its result. This is the header
// to begin with in protocol/. The parsers (text.h, meta.h, binary.h; request_parser.h chooses among
// them) turn bytes into requests, the formatters turn responses into bytes. Neither reads a socket
// nor keeps an item.
//
// Promises:  every input gives the same requests however it is split into reads. "Incomplete" and
//            "wrong" are different results. Nothing is read outside the bytes given, nothing is
//            allocated. A command that is wrong or has no effect becomes a request of op kAnswer,
//            which holds the line to send, so that errors are sent in order like other replies.
// Requires:  the views in a request point into the parsed bytes, and live as long as those do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace protocol {

inline constexpr size_t kKeyBytesMax = 250;
inline constexpr size_t kOpaqueBytesMax = 32;  // with the letter O

enum class Wire : uint8_t { kText, kMeta, kBinary };

enum class Op : uint8_t {
  kGet,    // get gets gat gats, mg, GET and its variants; one or more keys
  kTouch,  // touch, TOUCH
  kSet,
  kAdd,
  kReplace,
  kAppend,
  kPrepend,
  kCas,         // cas, ms with C; elsewhere the cas number stands beside another op
  kArithmetic,  // incr decr, ma
  kDelete,
  kDebug,  // me
  kFlushAll,
  kStats,
  kCachedump,  // these three list keys: see key_list.h
  kMetadump,
  kMgdump,
  kVersion,
  kVerbosity,
  kNoop,  // mn, NOOP
  kQuit,
  kShutdown,
  kRefreshCerts,
  kAuthenticate,  // the fake set, or SASL_AUTH: `key` is the mechanism, `value` what proves it
  kSaslStep,      // `value` goes on where the last kAuthenticate ended
  kSaslList,      // which mechanisms there are
  kAnswer,        // the parser knows the reply: an error, or a command without effect
};

struct Request {
  Op op = Op::kAnswer;
  Wire wire = Wire::kText;
  bool quiet = false;      // noreply, meta q, the Q opcodes
  bool close = false;      // close the connection once the reply is sent
  bool too_large = false;  // the value is longer than any item: it is skipped, not in `value`
  // get: the line goes on, and so does the list of keys: ParseMoreKeys has the next request.
  bool more_keys = false;
  // The rest of the line must be skipped with ParseMoreKeys.
  bool skip_line = false;

  std::string_view key = {};    // the first, decoded
  std::string_view value = {};  // of a write
  // get in text: its keys as they were sent, from the first byte of the first to the last of the
  // last. Of a line that is longer than `line_bytes_max`, those in this piece of it.
  std::string_view keys = {};
  std::string_view arguments = {};   // kStats, and of the commands that list keys
  std::string_view meta_flags = {};  // as they were sent: the reply repeats them in this order
  // Text. kAnswer: the whole reply. kFlushAll, kShutdown, lists of keys: empty, or the error to
  // send instead of obeying, unless an option forbids the command in the first place.
  std::string_view reply = {};

  uint32_t flags = 0;
  bool with_cas = false;                 // gets, gats: show the number
  bool compare_cas = false;              // kCas, mg and md with C: `cas` counts even where it is 0
  uint64_t cas = 0;                      // 0: none asked for
  std::optional<uint64_t> new_cas = {};  // E of the meta commands: the item's number from now on
  std::optional<int64_t> exptime = {};   // as the client gave it: relative, absolute or negative

  // kArithmetic
  uint64_t delta = 1;
  std::optional<uint64_t> initial = {};  // create where there is none
  int64_t initial_exptime = 0;
  bool decrement = false;

  bool graceful = false;   // kShutdown
  uint32_t verbosity = 0;  // kVerbosity

  // meta: what the flags ask of the store; how to answer is read again from `meta_flags`.
  bool base64_key = false;
  bool no_bump = false;                         // u
  bool invalidate = false;                      // I
  bool remove_value = false;                    // x of md
  std::optional<int32_t> vivify_exptime = {};   // N of mg, and of ms that appends or prepends
  std::optional<int32_t> recache_exptime = {};  // R of mg
  bool recache_first = false;                   // R comes before T and is applied before it
  bool wants_value = false;                     // v

  // binary
  uint8_t opcode = 0;
  uint32_t opaque = 0;
  uint16_t binary_status = 0;  // kAnswer: the error to send
};

// The ops that store a value.
constexpr bool IsWrite(Op op) {
  switch (op) {
    case Op::kSet:
    case Op::kAdd:
    case Op::kReplace:
    case Op::kAppend:
    case Op::kPrepend:
    case Op::kCas:
      return true;
    default:
      return false;
  }
}

enum class Status : uint8_t {
  kOk,  // hit, stored, deleted, touched, done
  kNotFound,
  kNotStored,
  kExists,
  kTooLarge,
  kNoMemory,
  kNotNumber,
  kNotAllowed,  // switched off by an option
};

// The result of a request. Fields that its reply does not show are not read.
struct Response {
  Status status = Status::kOk;
  bool fetched = false;
  bool stale = false;     // X
  bool win = false;       // W
  bool win_sent = false;  // Z
  bool same_cas = false;  // mg C: the item is the one that the client has
  uint32_t flags = 0;
  bool created = false;  // mg, ma: by N
  int64_t ttl = -1;      // seconds left, -1: for ever
  // mg, ma: before T changed it, for a t that comes before the T.
  std::optional<int64_t> ttl_before = {};
  uint32_t idle = 0;  // seconds since the last access
  uint64_t cas = 0;
  uint64_t number = 0;        // kArithmetic; ms: bytes of the value that was stored
  std::string_view key = {};  // of the item read, decoded
  std::string_view value = {};
  // kVersion: the version. kNotAllowed: the whole line, with its end.
  std::string_view text = {};
  // mg, me: the item was stored under a base64 key. Unknown: as the request says.
  std::optional<bool> base64_key = {};
  uint64_t item_bytes = 0;  // me
};

enum class ParseStatus : uint8_t {
  kOk,        // *out holds one request (kAnswer where it was bad): drop `consumed` bytes
  kNeedMore,  // incomplete: call again when there are `needed` bytes or more
};

struct [[nodiscard]] ParseResult {
  ParseStatus status = ParseStatus::kNeedMore;
  // May be more than have arrived: then the rest of a refused value must be discarded.
  uint64_t consumed = 0;
  uint64_t needed = 0;
};

struct Limits {
  uint64_t value_bytes_max = 1 << 20;  // -I: no item with a longer value can fit
  // As in memcached. Lines of get, gets, gat and gats may be longer, and are parsed in pieces of
  // this size.
  size_t line_bytes_max = 2048;
  bool sasl = false;  // on the binary wire; else its commands are unknown
};

// What is known of a get line whose end was not parsed yet.
struct KeyList {
  bool open = false;
  bool skip = false;  // the rest of the line is ignored
  bool with_cas = false;
  std::optional<int64_t> exptime = {};

  // After a request of such a line.
  static KeyList After(const Request& request) {
    return {request.more_keys || request.skip_line, request.skip_line, request.with_cas,
            request.exptime};
  }
};

// The beginning of a reply. With `with_value` the value follows, and after it a CRLF, except in the
// binary protocol.
struct Head {
  size_t bytes = 0;
  bool with_value = false;
};
// The longest head.
inline constexpr size_t kHeadBytesMax = 1024;

}  // namespace protocol
