#include "protocol/client.h"

#include <cassert>
#include <charconv>
#include <cstring>
#include <optional>

#include "protocol/binary.h"

namespace protocol {
namespace {

// ---- requests ----

char* Put(char* out, std::string_view text) {
  std::memcpy(out, text.data(), text.size());
  return out + text.size();
}

char* PutNumber(char* out, uint64_t number) { return std::to_chars(out, out + 20, number).ptr; }

char* PutBig(char* out, uint64_t number, unsigned bytes) {
  for (unsigned i = 0; i < bytes; ++i) {
    out[i] = static_cast<char>(number >> (8 * (bytes - 1 - i)));
  }
  return out + bytes;
}

enum Opcode : uint8_t {
  kGet = 0x00,
  kSet = 0x01,
  kAdd = 0x02,
  kReplace = 0x03,
  kDelete = 0x04,
  kIncrement = 0x05,
  kDecrement = 0x06,
  kNoop = 0x0a,
  kVersion = 0x0b,
  kGetK = 0x0c,
  kGetKQ = 0x0d,
  kStat = 0x10,
  kSetQ = 0x11,
  kTouch = 0x1c,
};
constexpr uint32_t kNoInitialValue = 0xffffffff;  // increment: a key that is absent stays so

char* PutHeader(char* out, uint8_t opcode, const ClientRequest& request, unsigned extras_bytes) {
  *out++ = static_cast<char>(kBinaryRequestMagic);
  *out++ = static_cast<char>(opcode);
  out = PutBig(out, request.key_bytes, 2);
  *out++ = static_cast<char>(extras_bytes);
  out = PutBig(out, 0, 3);  // data type, bucket
  out = PutBig(out, extras_bytes + request.key_bytes + request.value_bytes, 4);
  out = PutBig(out, request.opaque, 4);
  return PutBig(out, 0, 8);  // cas
}

RequestFrame Holes(char* out, const ClientRequest& request) {
  char* const value = out + request.key_bytes;
  return {out, value, value + request.value_bytes};
}

RequestFrame FrameBinary(const ClientRequest& request, char* out) {
  const auto storing = [&](uint8_t opcode) {
    out = PutHeader(out, opcode, request, 8);
    return Holes(PutBig(PutBig(out, request.flags, 4), request.exptime, 4), request);
  };
  const auto plain = [&](uint8_t opcode) {
    return Holes(PutHeader(out, opcode, request, 0), request);
  };
  switch (request.op) {
    case Op::kGet:
      return plain(kGetK);
    case Op::kSet:
      return storing(request.quiet ? kSetQ : kSet);
    case Op::kAdd:
      return storing(kAdd);
    case Op::kReplace:
      return storing(kReplace);
    case Op::kDelete:
      return plain(kDelete);
    case Op::kTouch:
      out = PutHeader(out, kTouch, request, 4);
      return Holes(PutBig(out, request.exptime, 4), request);
    case Op::kArithmetic:
      out = PutHeader(out, request.decrement ? kDecrement : kIncrement, request, 20);
      out = PutBig(PutBig(out, request.delta, 8), 0, 8);
      return Holes(PutBig(out, kNoInitialValue, 4), request);
    case Op::kVersion:
      return plain(kVersion);
    case Op::kStats:
      return plain(kStat);
    default:
      return plain(kNoop);
  }
}

// The words before the key, the key, what follows it, and the value with its line end.
RequestFrame FrameLine(std::string_view before, const ClientRequest& request, auto&& after,
                       char* out) {
  RequestFrame frame;
  frame.key = Put(out, before);
  char* rest = after(frame.key + request.key_bytes);
  frame.value = rest = Put(rest, "\r\n");
  if (request.op == Op::kSet || request.op == Op::kAdd || request.op == Op::kReplace) {
    rest = Put(rest + request.value_bytes, "\r\n");
  }
  frame.end = rest;
  return frame;
}

RequestFrame FrameText(const ClientRequest& request, char* out) {
  const auto nothing = [](char* rest) { return rest; };
  const auto storing = [&request](char* rest) {
    rest = PutNumber(Put(rest, " "), request.flags);
    rest = PutNumber(Put(rest, " "), request.exptime);
    return PutNumber(Put(rest, " "), request.value_bytes);
  };
  const auto number = [](uint64_t n) {
    return [n](char* rest) { return PutNumber(Put(rest, " "), n); };
  };
  switch (request.op) {
    case Op::kGet:
      return FrameLine("get ", request, nothing, out);
    case Op::kSet:
      return FrameLine("set ", request, storing, out);
    case Op::kAdd:
      return FrameLine("add ", request, storing, out);
    case Op::kReplace:
      return FrameLine("replace ", request, storing, out);
    case Op::kDelete:
      return FrameLine("delete ", request, nothing, out);
    case Op::kTouch:
      return FrameLine("touch ", request, number(request.exptime), out);
    case Op::kArithmetic:
      return FrameLine(request.decrement ? "decr " : "incr ", request, number(request.delta), out);
    case Op::kVersion:
      return FrameLine("version", request, nothing, out);
    case Op::kStats:
      return FrameLine(request.key_bytes > 0 ? "stats " : "stats", request, nothing, out);
    default:
      return FrameLine("mn", request, nothing, out);
  }
}

RequestFrame FrameMeta(const ClientRequest& request, char* out) {
  const auto word = [](std::string_view text) {
    return [text](char* rest) { return Put(rest, text); };
  };
  // The mode of ms: memcached wants it behind the size.
  const auto storing = [&request](std::string_view mode) {
    return [&request, mode](char* rest) {
      rest = Put(PutNumber(Put(rest, " "), request.value_bytes), mode);
      if (request.flags != 0) rest = PutNumber(Put(rest, " F"), request.flags);
      if (request.exptime != 0) rest = PutNumber(Put(rest, " T"), request.exptime);
      return rest;
    };
  };
  switch (request.op) {
    case Op::kGet:
      if (!request.meta_flags) return FrameLine("mg ", request, word(" f v"), out);
      return FrameLine(
          "mg ", request,
          [&](char* rest) {
            return request.meta_flags->empty() ? rest : Put(Put(rest, " "), *request.meta_flags);
          },
          out);
    case Op::kSet:
      return FrameLine("ms ", request, storing(""), out);
    case Op::kAdd:
      return FrameLine("ms ", request, storing(" ME"), out);
    case Op::kReplace:
      return FrameLine("ms ", request, storing(" MR"), out);
    case Op::kDelete:
      return FrameLine("md ", request, word(""), out);
    case Op::kTouch:
      return FrameLine(
          "mg ", request, [&](char* rest) { return PutNumber(Put(rest, " T"), request.exptime); },
          out);
    case Op::kArithmetic:
      return FrameLine(
          "ma ", request,
          [&](char* rest) {
            return PutNumber(Put(rest, request.decrement ? " v MD D" : " v D"), request.delta);
          },
          out);
    default:
      return FrameText(request, out);
  }
}

// ---- replies ----

constexpr ReplyResult kNotAReply = {ReplyStatus::kBroken, 0, 0};
constexpr ReplyResult More(size_t needed) { return {ReplyStatus::kNeedMore, 0, needed}; }
constexpr ReplyResult Done(size_t consumed) { return {ReplyStatus::kOk, consumed, 0}; }

std::string_view Word(std::string_view* rest) {
  const size_t end = rest->find(' ');
  const std::string_view word = rest->substr(0, end);
  rest->remove_prefix(end == std::string_view::npos ? rest->size() : end + 1);
  return word;
}

template <typename Number>
bool ReadNumber(std::string_view text, Number* out) {
  const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return code == std::errc() && stop == text.data() + text.size();
}

// A value of `bytes` bytes and its line end behind the first `line_bytes` of `all`.
ReplyResult TakeValue(std::string_view all, size_t line_bytes, uint64_t bytes, Reply* out) {
  if (bytes > kReplyValueBytesMax) return kNotAReply;
  const size_t end = line_bytes + bytes + 2;
  if (all.size() < end) return More(end);
  if (all[end - 2] != '\r' || all[end - 1] != '\n') return kNotAReply;
  out->value = all.substr(line_bytes, bytes);
  return Done(end);
}

// VALUE <key> <flags> <bytes> [<cas>]
ReplyResult ParseValue(std::string_view all, std::string_view rest, size_t line_bytes, Reply* out) {
  uint64_t bytes = 0;
  out->kind = ReplyKind::kValue;
  out->key = Word(&rest);
  const bool good = !out->key.empty() && ReadNumber(Word(&rest), &out->flags) &&
                    ReadNumber(Word(&rest), &bytes) &&
                    (rest.empty() || ReadNumber(rest, &out->cas));
  return good ? TakeValue(all, line_bytes, bytes, out) : kNotAReply;
}

// The flags of a meta reply; those that have no field in Reply are skipped.
bool ReadMetaFlags(std::string_view rest, Reply* out) {
  while (!rest.empty()) {
    const std::string_view flag = Word(&rest);
    if (flag.empty()) return false;
    const std::string_view argument = flag.substr(1);
    if (flag[0] == 'k') out->key = argument;
    if (flag[0] == 'f' && !ReadNumber(argument, &out->flags)) return false;
    if (flag[0] == 'c' && !ReadNumber(argument, &out->cas)) return false;
    if (flag[0] == 't' && argument != "-1" && !ReadNumber(argument, &out->ttl)) return false;
    if (flag == "X") out->stale = true;
  }
  return true;
}

// VA <bytes> <flag>*
ReplyResult ParseMetaValue(std::string_view all, std::string_view rest, size_t line_bytes,
                           Reply* out) {
  uint64_t bytes = 0;
  out->kind = ReplyKind::kValue;
  if (!ReadNumber(Word(&rest), &bytes) || !ReadMetaFlags(rest, out)) return kNotAReply;
  return TakeValue(all, line_bytes, bytes, out);
}

struct WordKind {
  std::string_view word;
  ReplyKind kind;
};
constexpr WordKind kWholeLines[] = {
    {"END", ReplyKind::kEnd},
    {"STORED", ReplyKind::kStored},
    {"DELETED", ReplyKind::kDeleted},
    {"NOT_FOUND", ReplyKind::kNotFound},
    {"MN", ReplyKind::kEnd},
    {"TOUCHED", ReplyKind::kTouched},
    {"NOT_STORED", ReplyKind::kNotStored},
    {"EXISTS", ReplyKind::kExists},
    {"OK", ReplyKind::kOk},
    {"RESET", ReplyKind::kOk},
};
// Two letters and flags. A miss of mg repeats the flags k, b and O too.
constexpr WordKind kMetaWords[] = {{"HD", ReplyKind::kOk},
                                   {"EN", ReplyKind::kNotFound},
                                   {"NF", ReplyKind::kNotFound},
                                   {"NS", ReplyKind::kNotStored},
                                   {"EX", ReplyKind::kExists}};
// A word, and a sentence.
constexpr WordKind kErrors[] = {{"ERROR", ReplyKind::kError},
                                {"CLIENT_ERROR", ReplyKind::kClientError},
                                {"SERVER_ERROR", ReplyKind::kServerError}};

std::optional<ReplyKind> KindOf(std::string_view word, const auto& table) {
  for (const WordKind& entry : table) {
    if (entry.word == word) return entry.kind;
  }
  return std::nullopt;
}

// A line that has no value behind it.
bool ParseShortLine(std::string_view line, Reply* out) {
  if (const auto kind = KindOf(line, kWholeLines)) {
    out->kind = *kind;
    return true;
  }
  std::string_view rest = line;
  const std::string_view word = Word(&rest);
  if (const auto kind = KindOf(word, kMetaWords)) {
    out->kind = *kind;
    return ReadMetaFlags(rest, out);
  }
  if (const auto kind = KindOf(word, kErrors)) {
    out->kind = *kind;
    out->text = line;
    return true;
  }
  if (word == "STAT") {
    out->kind = ReplyKind::kStat;
    out->key = Word(&rest);
    out->value = rest;
    return !out->key.empty();
  }
  out->value = rest;
  out->kind = word == "VERSION" ? ReplyKind::kVersion : ReplyKind::kNumber;
  // decr pads the number with spaces up to its old length.
  while (line.ends_with(' ')) line.remove_suffix(1);
  return word == "VERSION" || ReadNumber(line, &out->number);
}

ReplyResult ParseLine(std::string_view bytes, Reply* out) {
  const size_t newline = bytes.substr(0, kReplyLineBytesMax).find('\n');
  if (newline == std::string_view::npos) {
    return bytes.size() >= kReplyLineBytesMax ? kNotAReply : More(bytes.size() + 1);
  }
  if (newline == 0 || bytes[newline - 1] != '\r') return kNotAReply;
  const std::string_view line = bytes.substr(0, newline - 1);
  if (line.starts_with("VALUE ")) return ParseValue(bytes, line.substr(6), newline + 1, out);
  if (line.starts_with("VA ")) return ParseMetaValue(bytes, line.substr(3), newline + 1, out);
  return ParseShortLine(line, out) ? Done(newline + 1) : kNotAReply;
}

uint64_t ReadBig(std::string_view bytes, size_t at, size_t count) {
  uint64_t number = 0;
  for (size_t i = 0; i < count; ++i) number = number << 8 | static_cast<uint8_t>(bytes[at + i]);
  return number;
}

ReplyKind KindOfSuccess(uint8_t opcode, const Reply& reply) {
  switch (opcode) {
    case kGet:
    case kGetK:
    case kGetKQ:
      return ReplyKind::kValue;
    case kSet:
    case kAdd:
    case kReplace:
      return ReplyKind::kStored;
    case kDelete:
      return ReplyKind::kDeleted;
    case kIncrement:
    case kDecrement:
      return ReplyKind::kNumber;
    case kNoop:
      return ReplyKind::kEnd;
    case kVersion:
      return ReplyKind::kVersion;
    case kStat:
      return reply.key.empty() ? ReplyKind::kEnd : ReplyKind::kStat;
    case kTouch:
      return ReplyKind::kTouched;
    default:
      return ReplyKind::kOk;
  }
}

ReplyKind KindOfStatus(uint16_t status) {
  switch (status) {
    case 0x01:
      return ReplyKind::kNotFound;
    case 0x02:
      return ReplyKind::kExists;
    case 0x05:
      return ReplyKind::kNotStored;
    case 0x81:
      return ReplyKind::kError;
    case 0x82:  // out of memory
    case 0x84:
    case 0x85:
    case 0x86:
      return ReplyKind::kServerError;
    default:
      return ReplyKind::kClientError;
  }
}

ReplyResult ParsePacket(std::string_view bytes, Reply* out) {
  if (!bytes.empty() && static_cast<uint8_t>(bytes[0]) != kBinaryResponseMagic) return kNotAReply;
  if (bytes.size() < kBinaryHeaderBytes) return More(kBinaryHeaderBytes);
  const auto opcode = static_cast<uint8_t>(bytes[1]);
  const uint64_t key_bytes = ReadBig(bytes, 2, 2);
  const uint64_t extras_bytes = static_cast<uint8_t>(bytes[4]);
  const auto status = static_cast<uint16_t>(ReadBig(bytes, 6, 2));
  const uint64_t body_bytes = ReadBig(bytes, 8, 4);
  if (key_bytes + extras_bytes > body_bytes || body_bytes > kReplyValueBytesMax) return kNotAReply;
  const size_t end = kBinaryHeaderBytes + body_bytes;
  if (bytes.size() < end) return More(end);

  out->opaque = static_cast<uint32_t>(ReadBig(bytes, 12, 4));
  out->cas = ReadBig(bytes, 16, 8);
  out->key = bytes.substr(kBinaryHeaderBytes + extras_bytes, key_bytes);
  out->value = bytes.substr(0, end).substr(kBinaryHeaderBytes + extras_bytes + key_bytes);
  out->kind = status == 0 ? KindOfSuccess(opcode, *out) : KindOfStatus(status);
  if (status != 0) {
    out->text = out->value;
  } else if (out->kind == ReplyKind::kValue) {
    if (extras_bytes != 4) return kNotAReply;
    out->flags = static_cast<uint32_t>(ReadBig(bytes, kBinaryHeaderBytes, 4));
  } else if (out->kind == ReplyKind::kNumber) {
    if (out->value.size() != 8) return kNotAReply;
    out->number = ReadBig(out->value, 0, 8);
  }
  return Done(end);
}

}  // namespace

RequestFrame FrameRequest(Wire wire, const ClientRequest& request, char* out) {
  assert(request.key_bytes <= kKeyBytesMax);
  if (wire == Wire::kBinary) return FrameBinary(request, out);
  return wire == Wire::kMeta ? FrameMeta(request, out) : FrameText(request, out);
}

char* FrameGetsBegin(Wire wire, char* out) { return wire == Wire::kText ? Put(out, "get") : out; }

RequestFrame FrameGetsKey(Wire wire, size_t key_bytes, uint32_t opaque, char* out) {
  const ClientRequest request{.op = Op::kGet, .opaque = opaque, .key_bytes = key_bytes};
  switch (wire) {
    case Wire::kBinary:
      return Holes(PutHeader(out, kGetKQ, request, 0), request);
    case Wire::kMeta:
      return FrameLine(
          "mg ", request, [](char* rest) { return Put(rest, " f k q v"); }, out);
    default:
      return Holes(Put(out, " "), request);
  }
}

char* FrameGetsEnd(Wire wire, uint32_t opaque, char* out) {
  if (wire == Wire::kText) return Put(out, "\r\n");
  return FrameRequest(wire, {.op = Op::kNoop, .opaque = opaque}, out).end;
}

ReplyResult ParseReply(Wire wire, std::string_view bytes, Reply* out) {
  *out = Reply{};
  if (bytes.empty()) return More(1);
  return wire == Wire::kBinary ? ParsePacket(bytes, out) : ParseLine(bytes, out);
}

}  // namespace protocol
