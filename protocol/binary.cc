#include "protocol/binary.h"

#include <array>
#include <bit>
#include <cassert>
#include <concepts>
#include <cstring>
#include <limits>
#include <string_view>

namespace protocol {
namespace {

enum BinaryStatus : uint16_t {
  kSuccess = 0x00,
  kKeyNotFound = 0x01,
  kKeyExists = 0x02,
  kValueTooLarge = 0x03,
  kInvalidArguments = 0x04,
  kItemNotStored = 0x05,
  kNonNumeric = 0x06,
  kAuthError = kBinaryAuthError,
  kAuthContinue = kBinaryAuthContinue,
  kUnknownCommand = 0x81,
  kOutOfMemory = 0x82,
};

// memcached counts a body in an int. A larger body is an attack or a broken client, and is not
// waited for.
constexpr uint32_t kBodyBytesMax = std::numeric_limits<int32_t>::max();

template <std::unsigned_integral T>
T BigEndian(T number) {
  if constexpr (std::endian::native == std::endian::big || sizeof(T) == 1) {
    return number;
  } else if constexpr (sizeof(T) == 2) {
    return __builtin_bswap16(number);
  } else if constexpr (sizeof(T) == 4) {
    return __builtin_bswap32(number);
  } else {
    return __builtin_bswap64(number);
  }
}

template <std::unsigned_integral T>
T Load(const char* from) {
  T number;
  std::memcpy(&number, from, sizeof number);
  return BigEndian(number);
}

template <std::unsigned_integral T>
void Store(T number, char* to) {
  number = BigEndian(number);
  std::memcpy(to, &number, sizeof number);
}

enum class KeyRule : uint8_t { kNone, kNeeded, kOptional };

// What a well-formed request of an opcode looks like.
struct Shape {
  bool known = false;
  Op op = Op::kAnswer;
  KeyRule key = KeyRule::kNone;
  uint8_t extras_bytes = 0;
  bool takes_value = false;
  bool quiet = false;
  bool shows_key = false;  // in the reply
};

constexpr std::array<Shape, 256> MakeShapes() {
  std::array<Shape, 256> shapes{};
  const auto loud = [&](uint8_t opcode, Shape shape) {
    shape.known = true;
    shapes[opcode] = shape;
  };
  const auto both = [&](uint8_t opcode, uint8_t quiet_opcode, Shape shape) {
    loud(opcode, shape);
    shape.quiet = true;
    loud(quiet_opcode, shape);
  };
  constexpr KeyRule kNeeded = KeyRule::kNeeded;
  both(0x00, 0x09, {.op = Op::kGet, .key = kNeeded});
  both(0x0c, 0x0d, {.op = Op::kGet, .key = kNeeded, .shows_key = true});
  both(0x1d, 0x1e, {.op = Op::kGet, .key = kNeeded, .extras_bytes = 4});
  both(0x23, 0x24, {.op = Op::kGet, .key = kNeeded, .extras_bytes = 4, .shows_key = true});
  loud(0x1c, {.op = Op::kTouch, .key = kNeeded, .extras_bytes = 4});
  both(0x01, 0x11, {.op = Op::kSet, .key = kNeeded, .extras_bytes = 8, .takes_value = true});
  both(0x02, 0x12, {.op = Op::kAdd, .key = kNeeded, .extras_bytes = 8, .takes_value = true});
  both(0x03, 0x13, {.op = Op::kReplace, .key = kNeeded, .extras_bytes = 8, .takes_value = true});
  both(0x0e, 0x19, {.op = Op::kAppend, .key = kNeeded, .takes_value = true});
  both(0x0f, 0x1a, {.op = Op::kPrepend, .key = kNeeded, .takes_value = true});
  both(0x04, 0x14, {.op = Op::kDelete, .key = kNeeded});
  both(0x05, 0x15, {.op = Op::kArithmetic, .key = kNeeded, .extras_bytes = 20});
  both(0x06, 0x16, {.op = Op::kArithmetic, .key = kNeeded, .extras_bytes = 20});
  both(0x07, 0x17, {.op = Op::kQuit});
  both(0x08, 0x18, {.op = Op::kFlushAll, .extras_bytes = 4});
  loud(0x0a, {.op = Op::kNoop});
  loud(0x0b, {.op = Op::kVersion});
  loud(0x10, {.op = Op::kStats, .key = KeyRule::kOptional});
  // SASL: list, auth, step.
  loud(0x20, {.op = Op::kSaslList});
  loud(0x21, {.op = Op::kAuthenticate, .key = kNeeded, .takes_value = true});
  loud(0x22, {.op = Op::kSaslStep, .key = kNeeded, .takes_value = true});
  return shapes;
}

constexpr std::array<Shape, 256> kShapes = MakeShapes();

bool IsSasl(Op op) { return op == Op::kSaslList || op == Op::kAuthenticate || op == Op::kSaslStep; }

bool IsDecrement(uint8_t opcode) { return opcode == 0x06 || opcode == 0x16; }

struct Lengths {
  uint32_t extras;
  uint32_t key;
  uint32_t body;
  uint32_t value() const { return body - key - extras; }
};

bool Fits(const Lengths& lengths, const Shape& shape) {
  const bool key_fits =
      shape.key == KeyRule::kOptional || (lengths.key != 0) == (shape.key == KeyRule::kNeeded);
  const bool extras_fit =
      lengths.extras == shape.extras_bytes || (shape.op == Op::kFlushAll && lengths.extras == 0);
  return key_fits && extras_fit && (lengths.value() == 0 || shape.takes_value);
}

struct Refusal {
  BinaryStatus status = kSuccess;
  bool close = false;
};

// In memcached's order, which decides the error of a request with several faults.
Refusal Check(const Lengths& lengths, const Shape& shape, const Limits& limits) {
  if (lengths.key + lengths.extras > lengths.body) return {kUnknownCommand, true};
  if (lengths.key > kKeyBytesMax) return {kInvalidArguments, true};
  const bool endless = lengths.body > kBodyBytesMax;
  if (!shape.known) return {kUnknownCommand, endless};
  if (!Fits(lengths, shape)) return {kInvalidArguments, true};
  if (IsSasl(shape.op) && !limits.sasl) return {kUnknownCommand, endless};
  if (endless) return {kValueTooLarge, true};
  return {};
}

// REQUIRES: the lengths fit the opcode's shape; `body` has extras and key, and the value unless
// out->too_large.
void ReadBody(const char* body, const Lengths& lengths, Request* out) {
  out->key = {body + lengths.extras, lengths.key};
  if (!out->too_large) out->value = {body + lengths.extras + lengths.key, lengths.value()};
  switch (out->op) {
    case Op::kSet:
    case Op::kAdd:
    case Op::kReplace:
      out->flags = Load<uint32_t>(body);
      out->exptime = Load<uint32_t>(body + 4);
      out->compare_cas = out->cas != 0 && !out->too_large;
      if (out->compare_cas) out->op = Op::kCas;
      break;
    case Op::kGet:
    case Op::kTouch:
      out->with_cas = true;
      [[fallthrough]];
    case Op::kFlushAll:
      if (lengths.extras != 0) out->exptime = Load<uint32_t>(body);
      break;
    case Op::kArithmetic: {
      out->decrement = IsDecrement(out->opcode);
      out->delta = Load<uint64_t>(body);
      const uint32_t exptime = Load<uint32_t>(body + 16);
      if (exptime != 0xffffffff) {
        out->initial = Load<uint64_t>(body + 8);
        out->initial_exptime = exptime;
      }
      break;
    }
    case Op::kStats:
      out->arguments = out->key;
      break;
    case Op::kQuit:
      out->close = true;
      break;
    default:
      break;
  }
}

}  // namespace

ParseResult ParseBinary(std::span<char> bytes, const Limits& limits, Request* out) {
  assert(!bytes.empty());
  *out = Request{};
  out->wire = Wire::kBinary;
  const char* header = bytes.data();
  if (Load<uint8_t>(header) != kBinaryRequestMagic) {
    out->close = true;
    return {.status = ParseStatus::kOk, .consumed = kBinaryHeaderBytes};
  }
  if (bytes.size() < kBinaryHeaderBytes) return {.needed = kBinaryHeaderBytes};

  out->opcode = Load<uint8_t>(header + 1);
  out->opaque = Load<uint32_t>(header + 12);
  const Lengths lengths{.extras = Load<uint8_t>(header + 4),
                        .key = Load<uint16_t>(header + 2),
                        .body = Load<uint32_t>(header + 8)};
  const Shape& shape = kShapes[out->opcode];
  const uint64_t end = uint64_t{kBinaryHeaderBytes} + lengths.body;
  const Refusal refusal = Check(lengths, shape, limits);
  if (refusal.status != kSuccess) {
    out->binary_status = refusal.status;
    out->close = refusal.close;
    return {.status = ParseStatus::kOk, .consumed = refusal.close ? kBinaryHeaderBytes : end};
  }

  // A value that is larger than any item is discarded as it arrives, so it is not waited for.
  out->too_large = lengths.value() > limits.value_bytes_max;
  const uint64_t needed = out->too_large ? end - lengths.value() : end;
  if (bytes.size() < needed) return {.needed = needed};
  out->op = shape.op;
  out->quiet = shape.quiet;
  out->cas = Load<uint64_t>(header + 16);
  ReadBody(header + kBinaryHeaderBytes, lengths, out);
  return {.status = ParseStatus::kOk, .consumed = end};
}

void RefuseBinary(std::span<const char> bytes, uint16_t status, Request* out) {
  assert(bytes.size() >= kBinaryHeaderBytes);
  *out = Request{};
  out->wire = Wire::kBinary;
  out->opcode = Load<uint8_t>(bytes.data() + 1);
  out->opaque = Load<uint32_t>(bytes.data() + 12);
  out->binary_status = status;
}

namespace {

// Writes one reply: first the body, at the end the header, which has its length.
class ReplyWriter {
 public:
  ReplyWriter(const Request& request, char* out)
      : request_(request), out_(out), body_(out + kBinaryHeaderBytes) {}

  template <std::unsigned_integral T>
  void Number(T number) {
    Store(number, body_);
    body_ += sizeof number;
  }
  void Extras(uint32_t flags) {
    Number(flags);
    extras_bytes_ = sizeof flags;
  }
  void Key(std::string_view key) {
    Text(key);
    key_bytes_ = static_cast<uint16_t>(key.size());
  }
  void Text(std::string_view text) {
    assert(body_ + text.size() <= out_ + kHeadBytesMax);
    if (text.empty()) return;  // an empty view may point nowhere, which memcpy forbids
    std::memcpy(body_, text.data(), text.size());
    body_ += text.size();
  }

  Head Finish(BinaryStatus status, uint64_t cas, size_t value_bytes = 0) {
    const size_t written = static_cast<size_t>(body_ - out_);
    Store(kBinaryResponseMagic, out_);
    Store(request_.opcode, out_ + 1);
    Store(key_bytes_, out_ + 2);
    Store(extras_bytes_, out_ + 4);
    Store(uint8_t{0}, out_ + 5);
    Store(static_cast<uint16_t>(status), out_ + 6);
    Store(static_cast<uint32_t>(written - kBinaryHeaderBytes + value_bytes), out_ + 8);
    Store(request_.opaque, out_ + 12);
    Store(cas, out_ + 16);
    return {.bytes = written, .with_value = value_bytes != 0};
  }

 private:
  const Request& request_;
  char* const out_;
  char* body_;
  uint16_t key_bytes_ = 0;
  uint8_t extras_bytes_ = 0;
};

std::string_view OutOfMemoryText(const Request& request) {
  if (request.op != Op::kArithmetic) return "Out of memory allocating item";
  return request.initial ? "Out of memory allocating new item" : "Out of memory incrementing value";
}

std::string_view TextOf(const Request& request, BinaryStatus status) {
  switch (status) {
    case kSuccess:
      return "";
    case kKeyNotFound:
      return "Not found";
    case kKeyExists:
      return "Data exists for key.";
    case kValueTooLarge:
      return "Too large.";
    case kInvalidArguments:
      return "Invalid arguments";
    case kItemNotStored:
      return "Not stored.";
    case kNonNumeric:
      return "Non-numeric server-side value for incr or decr";
    case kAuthError:
      return "Auth failure.";
    case kAuthContinue:
      return "";
    case kUnknownCommand:
      return "Unknown command";
    case kOutOfMemory:
      return OutOfMemoryText(request);
  }
  return "";
}

BinaryStatus StatusOf(const Request& request, Status status) {
  switch (status) {
    case Status::kOk:
      return kSuccess;
    case Status::kNotFound:
      return kKeyNotFound;
    case Status::kExists:
      return kKeyExists;
    case Status::kNotStored:
      if (request.op == Op::kAdd) return kKeyExists;
      if (request.op == Op::kReplace) return kKeyNotFound;
      return kItemNotStored;
    case Status::kTooLarge:
      return kValueTooLarge;
    case Status::kNoMemory:
      return kOutOfMemory;
    case Status::kNotNumber:
      return kNonNumeric;
    case Status::kNotAllowed:
      return kAuthError;
  }
  return kInvalidArguments;
}

Head FormatError(const Request& request, BinaryStatus status, char* out) {
  ReplyWriter reply(request, out);
  reply.Text(TextOf(request, status));
  return reply.Finish(status, 0);
}

Head FormatMiss(const Request& request, char* out) {
  if (request.quiet) return {};
  if (!kShapes[request.opcode].shows_key) return FormatError(request, kKeyNotFound, out);
  ReplyWriter reply(request, out);
  reply.Key(request.key);
  return reply.Finish(kKeyNotFound, 0);
}

}  // namespace

Head FormatBinary(const Request& request, const Response& response, char* out) {
  if (request.op == Op::kAnswer) {
    const auto status = static_cast<BinaryStatus>(request.binary_status);
    return status == kSuccess ? Head{} : FormatError(request, status, out);
  }
  if (request.op == Op::kGet && response.status == Status::kNotFound) {
    return FormatMiss(request, out);
  }
  if (response.status != Status::kOk) {
    return FormatError(request, StatusOf(request, response.status), out);
  }
  if (request.quiet && request.op != Op::kGet) return {};

  ReplyWriter reply(request, out);
  switch (request.op) {
    case Op::kGet:
      reply.Extras(response.flags);
      if (kShapes[request.opcode].shows_key) reply.Key(request.key);
      return reply.Finish(kSuccess, response.cas, response.value.size());
    case Op::kTouch:
      reply.Extras(response.flags);
      return reply.Finish(kSuccess, response.cas);
    case Op::kArithmetic:
      reply.Number(response.number);
      return reply.Finish(kSuccess, response.cas);
    case Op::kSet:
    case Op::kAdd:
    case Op::kReplace:
    case Op::kAppend:
    case Op::kPrepend:
    case Op::kCas:
      return reply.Finish(kSuccess, response.cas);
    case Op::kStats:
      reply.Key(response.key);
      return reply.Finish(kSuccess, 0, response.value.size());
    case Op::kVersion:
      reply.Text(response.text);
      return reply.Finish(kSuccess, 0);
    case Op::kSaslList:
      reply.Text("PLAIN");
      return reply.Finish(kSuccess, 0);
    case Op::kAuthenticate:
    case Op::kSaslStep:
      reply.Text("Authenticated");
      return reply.Finish(kSuccess, 0);
    default:
      return reply.Finish(kSuccess, 0);
  }
}

}  // namespace protocol
