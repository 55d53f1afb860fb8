#include "protocol/text.h"

#include <cstring>
#include <optional>

#include "protocol/framing.h"
#include "protocol/key_list.h"
#include "protocol/meta.h"
#include "protocol/numbers.h"
#include "protocol/reply_writer.h"
#include "protocol/tuning.h"

namespace protocol {
namespace {

constexpr std::string_view kNoReply = "noreply";
constexpr std::string_view kLineTooLong = "CLIENT_ERROR line too long\r\n";
constexpr size_t kLeadingSpacesMax = 100;  // of a long get, as in memcached

// ---- lines --------------------------------------------------------------------------------------

enum class LineStatus {
  kFound,
  kUnfinished,
  kLongGet,  // longer than a line may be, but a list of keys
  kTooLong,
};

struct Line {
  size_t length = 0;  // without its end
  size_t bytes = 0;   // with it
};

bool MayBeLong(std::string_view begin) {
  const size_t spaces = std::min(begin.find_first_not_of(' '), begin.size());
  begin.remove_prefix(spaces);
  return spaces <= kLeadingSpacesMax && (begin.starts_with("get ") || begin.starts_with("gets ") ||
                                         begin.starts_with("gat ") || begin.starts_with("gats "));
}

// memcached's lines are C strings, which end at a NUL.
std::string_view UpToNul(std::string_view text) { return text.substr(0, text.find('\0')); }

// The part of a line without newline that is parsed.
std::string_view TextOf(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  return UpToNul(line);
}

LineStatus FindLine(std::string_view bytes, const Limits& limits, Line* line) {
  const size_t newline = bytes.substr(0, limits.line_bytes_max + 1).find('\n');
  if (newline == bytes.npos) {
    if (bytes.size() <= limits.line_bytes_max) return LineStatus::kUnfinished;
    return MayBeLong(bytes) ? LineStatus::kLongGet : LineStatus::kTooLong;
  }
  line->bytes = newline + 1;
  line->length = TextOf(bytes.substr(0, newline)).size();
  return LineStatus::kFound;
}

// ---- commands: `rest` is what follows the command's name, `line_bytes` are those of the line ----

// The keys from `key` on, which was cut off `rest`.
ParseResult TakeKeys(std::string_view key, std::string_view rest, size_t consumed, Request* out) {
  out->key = key;
  const char* end = key.data();
  for (; !key.empty(); key = NextToken(&rest)) {
    if (key.size() > kKeyBytesMax) return Answer(kBadLine, consumed, out);
    end = key.data() + key.size();
  }
  out->keys = {out->key.data(), static_cast<size_t>(end - out->key.data())};
  return Done(consumed);
}

ParseResult ParseGet(std::string_view name, std::string_view rest, size_t line_bytes,
                     Request* out) {
  const bool touch = name == "gat" || name == "gats";
  if (!touch && name != "get" && name != "gets") return Answer(kError, line_bytes, out);
  std::string_view key = NextToken(&rest);
  if (key.empty()) return Answer(kError, line_bytes, out);
  if (touch) {
    out->exptime = ParseI32(key);
    if (!out->exptime) return Answer(kBadExptime, line_bytes, out);
    key = NextToken(&rest);
    if (key.empty()) return Answer(kEnd, line_bytes, out);
  }
  out->op = Op::kGet;
  out->with_cas = name.back() == 's';
  return TakeKeys(key, rest, line_bytes, out);
}

// The keys of a later piece of a long get, in the middle of the line: up to the last space, behind
// which a key may go on.
ParseResult TakeSomeKeys(std::string_view piece, Request* out) {
  const size_t end = piece.rfind(' ');
  if (end == piece.npos) {
    out->skip_line = true;
    return Answer(kBadLine, piece.size(), out);
  }
  std::string_view rest = UpToNul(piece.substr(0, end));
  const size_t consumed = std::max<size_t>(end, 1);
  const bool cut = rest.size() < end;  // by a NUL: the rest of the line is not seen
  const std::string_view key = NextToken(&rest);
  const ParseResult result = TakeKeys(key, rest, consumed, out);
  out->more_keys = out->op == Op::kGet && !cut;
  out->skip_line = !out->more_keys;
  if (out->more_keys && key.empty()) return Answer({}, consumed, out);
  return result;
}

// The beginning of a get line that is longer than a piece: up to the last space, behind which a key
// may go on.
ParseResult ParseLongGet(std::string_view bytes, const Limits& limits, Request* out) {
  const std::string_view piece = bytes.substr(0, limits.line_bytes_max);
  const size_t end = piece.rfind(' ');
  std::string_view rest = UpToNul(piece.substr(0, end));
  const bool cut = rest.size() < end;  // by a NUL: what follows on the line is not seen
  const std::string_view name = NextToken(&rest);
  const ParseResult result = ParseGet(name, rest, end, out);
  if (out->op != Op::kGet && out->reply != kBadLine) {
    // No key within a whole piece.
    out->close = true;
    return Answer(kLineTooLong, bytes.size(), out);
  }
  out->more_keys = out->op == Op::kGet && !cut;
  out->skip_line = !out->more_keys;
  return result;
}

std::optional<Op> WriteOf(std::string_view name) {
  if (name == "set") return Op::kSet;
  if (name == "add") return Op::kAdd;
  if (name == "cas") return Op::kCas;
  if (name == "replace") return Op::kReplace;
  if (name == "append") return Op::kAppend;
  if (name == "prepend") return Op::kPrepend;
  return std::nullopt;
}

ParseResult ParseWrite(Op op, std::string_view rest, std::span<char> bytes, size_t line_bytes,
                       const Limits& limits, Request* out) {
  const Tokens<7> tokens(rest);
  const size_t wanted = op == Op::kCas ? 5 : 4;
  if (tokens.count() != wanted && tokens.count() != wanted + 1) {
    return Answer(kError, line_bytes, out);
  }
  out->quiet = tokens.last() == kNoReply;
  const auto flags = ParseU32(tokens[1]);
  const auto exptime = ParseI32(tokens[2]);
  const auto value_bytes = ParseI32(tokens[3]);
  const auto cas = op == Op::kCas ? ParseU64(tokens[4]) : 0;
  if (tokens[0].size() > kKeyBytesMax || !flags || !exptime || !value_bytes || !cas ||
      *value_bytes < 0 || *value_bytes >= kValueBytesEnd) {
    return Answer(kBadLine, line_bytes, out);
  }
  out->op = op;
  out->key = tokens[0];
  out->flags = *flags;
  out->exptime = *exptime;
  out->cas = *cas;
  out->compare_cas = op == Op::kCas;
  return TakeValue(bytes, line_bytes, static_cast<uint64_t>(*value_bytes), limits, out);
}

// incr and decr, and touch: a key and a number.
ParseResult ParseChange(std::string_view name, std::string_view rest, size_t line_bytes,
                        Request* out) {
  const Tokens<4> tokens(rest);
  if (tokens.count() != 2 && tokens.count() != 3) return Answer(kError, line_bytes, out);
  out->quiet = tokens.last() == kNoReply;
  out->key = tokens[0];
  if (out->key.size() > kKeyBytesMax) return Answer(kBadLine, line_bytes, out);
  if (name == "touch") {
    out->op = Op::kTouch;
    out->exptime = ParseI32(tokens[1]);
    return out->exptime ? Done(line_bytes) : Answer(kBadExptime, line_bytes, out);
  }
  const auto delta = ParseU64(tokens[1]);
  if (!delta) return Answer("CLIENT_ERROR invalid numeric delta argument\r\n", line_bytes, out);
  out->op = Op::kArithmetic;
  out->delta = *delta;
  out->decrement = name == "decr";
  return Done(line_bytes);
}

// A 0 may follow the key: in old versions it was a time during which adds were refused.
ParseResult ParseDelete(std::string_view rest, size_t line_bytes, Request* out) {
  const Tokens<4> tokens(rest);
  if (tokens.count() < 1 || tokens.count() > 3) return Answer(kError, line_bytes, out);
  if (tokens.count() > 1) {
    out->quiet = tokens.last() == kNoReply;
    const bool hold = tokens[1] == "0";
    if (!(tokens.count() == 2 ? hold || out->quiet : hold && out->quiet)) {
      return Answer("CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n",
                    line_bytes, out);
    }
  }
  out->op = Op::kDelete;
  out->key = tokens[0];
  return out->key.size() > kKeyBytesMax ? Answer(kBadLine, line_bytes, out) : Done(line_bytes);
}

ParseResult ParseFlushAll(const AllTokens& tokens, size_t line_bytes, Request* out) {
  if (tokens.count() > 3) return Answer(kError, line_bytes, out);
  out->op = Op::kFlushAll;
  out->quiet = tokens.last() == kNoReply;
  if (tokens.count() > (out->quiet ? 2u : 1u)) {
    out->exptime = ParseI32(tokens[1]);
    if (!out->exptime) out->reply = kBadExptime;
  }
  return Done(line_bytes);
}

ParseResult ParseVerbosity(const AllTokens& tokens, size_t line_bytes, Request* out) {
  if (tokens.count() != 2 && tokens.count() != 3) return Answer(kError, line_bytes, out);
  out->quiet = tokens.last() == kNoReply;
  const auto level = ParseU32(tokens[1]);
  if (!level) return Answer(kBadLine, line_bytes, out);
  out->op = Op::kVerbosity;
  out->verbosity = *level;
  return Done(line_bytes);
}

ParseResult ParseShutdown(const AllTokens& tokens, size_t line_bytes, Request* out) {
  out->op = Op::kShutdown;
  out->graceful = tokens.count() == 2 && tokens[1] == "graceful";
  if (tokens.count() > 1 && !out->graceful) {
    out->reply = "CLIENT_ERROR invalid shutdown mode\r\n";
  }
  return Done(line_bytes);
}

// The body of an HTTP request must not be read as commands: a web page could make a browser send
// one. In memcached, names with these first letters do not reach that check.
ParseResult ParseUnknown(const AllTokens& tokens, size_t line_bytes, Request* out) {
  constexpr std::string_view kUnchecked = "acdgist";
  if (kUnchecked.find(tokens[0][0]) == kUnchecked.npos && tokens.last().starts_with("HTTP/")) {
    out->close = true;
    return Answer({}, line_bytes, out);
  }
  return Answer(kError, line_bytes, out);
}

// Commands that are neither frequent nor about a key.
ParseResult ParseAdminCommand(std::string_view line, std::string_view rest, size_t line_bytes,
                              Request* out) {
  const AllTokens tokens(line);
  const std::string_view name = tokens[0];
  if (name == "version") {
    out->op = Op::kVersion;
    return Done(line_bytes);
  }
  if (ParseKeyList(tokens, out)) return Done(line_bytes);
  if (name == "stats") {
    out->op = Op::kStats;
    out->arguments = rest;
    return Done(line_bytes);
  }
  if (name == "quit") {
    out->op = Op::kQuit;
    out->close = true;
    return Done(line_bytes);
  }
  if (name == "flush_all") return ParseFlushAll(tokens, line_bytes, out);
  if (name == "verbosity") return ParseVerbosity(tokens, line_bytes, out);
  if (name == "shutdown") return ParseShutdown(tokens, line_bytes, out);
  if (name == "refresh_certs") {
    out->op = Op::kRefreshCerts;
    out->quiet = tokens.last() == kNoReply;
    return Done(line_bytes);
  }
  if (const auto reply = AnswerTuning(tokens, &out->quiet)) {
    return Answer(*reply, line_bytes, out);
  }
  return ParseUnknown(tokens, line_bytes, out);
}

// ---- replies ------------------------------------------------------------------------------------

std::string_view SuccessOf(Op op) {
  switch (op) {
    case Op::kTouch:
      return "TOUCHED\r\n";
    case Op::kDelete:
      return "DELETED\r\n";
    case Op::kSet:
    case Op::kAdd:
    case Op::kReplace:
    case Op::kAppend:
    case Op::kPrepend:
    case Op::kCas:
    case Op::kAuthenticate:
      return "STORED\r\n";
    case Op::kFlushAll:
    case Op::kVerbosity:
    case Op::kRefreshCerts:
      return kOkLine;
    default:
      return {};
  }
}

std::string_view LineOf(const Request& request, const Response& response) {
  switch (response.status) {
    case Status::kOk:
      return SuccessOf(request.op);
    case Status::kNotFound:
      return "NOT_FOUND\r\n";
    case Status::kNotStored:
      return "NOT_STORED\r\n";
    case Status::kExists:
      return "EXISTS\r\n";
    default:
      return ErrorLine(request, response);
  }
}

Head FormatValue(const Request& request, const Response& response, char* out) {
  ReplyWriter reply(out);
  reply.Add("VALUE ");
  reply.Add(response.key);
  reply.Add(' ');
  reply.Number(response.flags);
  reply.Add(' ');
  reply.Number(response.value.size());
  if (request.with_cas) {
    reply.Add(' ');
    reply.Number(response.cas);
  }
  reply.Add("\r\n");
  return {reply.bytes(), true};
}

}  // namespace

ParseResult ParseText(std::span<char> bytes, const Limits& limits, Request* out) {
  *out = Request{};
  Line line;
  switch (FindLine({bytes.data(), bytes.size()}, limits, &line)) {
    case LineStatus::kFound:
      break;
    case LineStatus::kUnfinished:
      return NeedMore(bytes.size() + 1);
    case LineStatus::kLongGet:
      return ParseLongGet({bytes.data(), bytes.size()}, limits, out);
    case LineStatus::kTooLong:
      out->close = true;
      return Answer(kLineTooLong, bytes.size(), out);
  }
  const std::string_view text(bytes.data(), line.length);
  std::string_view rest = text;
  const std::string_view name = NextToken(&rest);
  if (name.size() < 2) return Answer(kError, line.bytes, out);
  switch (name[0]) {
    case 'g':
      return ParseGet(name, rest, line.bytes, out);
    case 'm':
      if (name.size() == 2) return ParseMeta(bytes, line.length, line.bytes, limits, out);
      break;
    default:
      break;
  }
  if (const auto op = WriteOf(name)) return ParseWrite(*op, rest, bytes, line.bytes, limits, out);
  if (name == "incr" || name == "decr" || name == "touch") {
    return ParseChange(name, rest, line.bytes, out);
  }
  if (name == "delete") return ParseDelete(rest, line.bytes, out);
  return ParseAdminCommand(text, rest, line.bytes, out);
}

ParseResult ParseMoreKeys(std::span<char> bytes, const Limits& limits, const KeyList& list,
                          Request* out) {
  *out = Request{};
  out->op = Op::kGet;
  out->with_cas = list.with_cas;
  out->exptime = list.exptime;
  const std::string_view all(bytes.data(), bytes.size());
  const std::string_view piece = all.substr(0, limits.line_bytes_max);
  const size_t newline = piece.find('\n');
  const bool ends = newline != piece.npos;
  out->skip_line = list.skip && !ends;
  if (list.skip) return Answer({}, ends ? newline + 1 : piece.size(), out);
  if (ends) {
    std::string_view rest = TextOf(piece.substr(0, newline));
    const std::string_view key = NextToken(&rest);
    return TakeKeys(key, rest, newline + 1, out);
  }
  if (piece.size() < limits.line_bytes_max) return NeedMore(bytes.size() + 1);
  return TakeSomeKeys(piece, out);
}

Head FormatText(const Request& request, const Response& response, char* out) {
  if (request.op == Op::kGet) {
    return response.status == Status::kOk ? FormatValue(request, response, out) : Head{};
  }
  if (request.quiet) return {};
  ReplyWriter reply(out);
  const bool ok = response.status == Status::kOk;
  if (ok && request.op == Op::kArithmetic) {
    reply.Number(response.number);
    reply.Add("\r\n");
  } else if (ok && request.op == Op::kVersion) {
    reply.Add("VERSION ");
    reply.Add(response.text);
    reply.Add("\r\n");
  } else if (ok && !request.reply.empty()) {
    reply.Add(request.reply);
  } else {
    reply.Add(LineOf(request, response));
  }
  return {reply.bytes(), false};
}

}  // namespace protocol
