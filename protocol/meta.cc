#include "protocol/meta.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <optional>

#include "protocol/base64.h"
#include "protocol/framing.h"
#include "protocol/numbers.h"
#include "protocol/reply_writer.h"
#include "protocol/tokens.h"

namespace protocol {
namespace {

constexpr std::string_view kBadToken = "CLIENT_ERROR bad token in command line format\r\n";
constexpr std::string_view kBadFlag = "CLIENT_ERROR invalid or duplicate flag\r\n";
constexpr std::string_view kInvalidFlag = "CLIENT_ERROR invalid flag\r\n";
constexpr std::string_view kDuplicateFlag = "CLIENT_ERROR duplicate flag\r\n";
constexpr std::string_view kOpaqueTooLong = "CLIENT_ERROR opaque token too long\r\n";

// Words behind the key, the size of ms among them.
constexpr size_t kFlagsMax = 17;

// A set of letters.
constexpr uint64_t Letter(unsigned char letter) { return uint64_t{1} << (letter & 63); }
constexpr uint64_t Letters(std::string_view letters) {
  uint64_t set = 0;
  for (const char letter : letters) set |= Letter(static_cast<unsigned char>(letter));
  return set;
}

// ---- requests -----------------------------------------------------------------------------------

// What the flags say and is not stored in the request at once.
struct Flags {
  bool quiet = false;
  bool with_cas = false;
  bool opaque_too_long = false;
  char mode = 0;
  std::optional<int32_t> vivify;       // N, or the T behind it
  std::optional<int32_t> only_vivify;  // N
  uint64_t initial = 0;
  size_t key_bytes = 0;    // of a base64 key
  char key[kKeyBytesMax];  // decoded, until the request is known to be complete
};

// Reads one flag. False: there is no such flag. Sets *error if its argument is wrong.
bool ReadFlag(std::string_view token, std::string_view key, Flags* flags, Request* out,
              std::optional<std::string_view>* error) {
  const std::string_view argument = token.substr(1);
  const auto check = [error](bool good, std::string_view line) {
    if (!good) *error = line;
  };
  switch (token[0]) {
    case 'c':
    case 'f':
    case 'h':
    case 'k':
    case 'l':
    case 's':
    case 't':
    case 'L':
    case 'P':
      return true;
    case 'O':
      flags->opaque_too_long = token.size() > kOpaqueBytesMax;
      return true;
    case 'q':
      flags->quiet = true;
      return true;
    case 'u':
      out->no_bump = true;
      return true;
    case 'v':
      out->wants_value = true;
      return true;
    case 'I':
      out->invalidate = true;
      return true;
    case 'x':
      out->remove_value = true;
      return true;
    case 'E':
      // Only digits, as in the version that brought it.
      out->new_cas = ParseDigits(argument);
      check(out->new_cas.has_value(), kBadToken);
      return true;
    case 'b': {
      const auto decoded = DecodeBase64(key, flags->key);
      check(decoded.has_value(), "CLIENT_ERROR error decoding key\r\n");
      flags->key_bytes = decoded.value_or(0);
      return true;
    }
    case 'T': {
      out->exptime = ParseI32(argument);
      check(out->exptime.has_value(), kBadToken);
      if (flags->vivify) flags->vivify = ParseI32(argument);
      return true;
    }
    case 'N':
      flags->vivify = flags->only_vivify = ParseI32(argument);
      check(flags->vivify.has_value(), kBadToken);
      return true;
    case 'R':
      out->recache_exptime = ParseI32(argument);
      out->recache_first = !out->exptime.has_value();
      check(out->recache_exptime.has_value(), kBadToken);
      return true;
    case 'F': {
      const auto number = ParseU32(argument);
      out->flags = number.value_or(0);
      // memcached has no error line of its own for this flag.
      check(number.has_value(), error->value_or(kBadLine));
      return true;
    }
    case 'C': {
      const auto number = ParseU64(argument);
      out->cas = number.value_or(0);
      flags->with_cas = true;
      check(number.has_value(), kBadToken);
      return true;
    }
    case 'J': {
      const auto number = ParseU64(argument);
      flags->initial = number.value_or(0);
      check(number.has_value(), "CLIENT_ERROR invalid numeric initial value\r\n");
      return true;
    }
    case 'D': {
      const auto number = ParseU64(argument);
      out->delta = number.value_or(0);
      check(number.has_value(), "CLIENT_ERROR invalid numeric delta value\r\n");
      return true;
    }
    case 'M':
      check(argument.size() == 1, "CLIENT_ERROR incorrect length for M token\r\n");
      flags->mode = argument.empty() ? 0 : argument[0];
      return true;
    default:
      return false;
  }
}

// The error to reply with: an unknown or repeated flag, or else the last bad argument.
std::optional<std::string_view> ReadFlags(std::string_view rest, std::string_view key, Flags* flags,
                                          Request* out) {
  std::optional<std::string_view> error;
  uint64_t seen = 0;
  for (std::string_view token = NextToken(&rest); !token.empty(); token = NextToken(&rest)) {
    const auto letter = static_cast<unsigned char>(token[0]);
    if (letter >= 127) return kDuplicateFlag;  // as in memcached
    if (letter < 64) return kInvalidFlag;
    if ((seen & Letter(letter)) != 0) return kDuplicateFlag;
    seen |= Letter(letter);
    if (!ReadFlag(token, key, flags, out, &error)) return kInvalidFlag;
  }
  return error;
}

bool TooManyFlags(std::string_view rest) {
  if (rest.size() < 2 * kFlagsMax + 1) return false;  // a space in front of each
  return Tokens<kFlagsMax + 1>(rest).count() > kFlagsMax;
}

// The parts of a line, and all bytes that have arrived.
struct MetaLine {
  std::span<char> bytes;
  size_t line_bytes;
  std::string_view key;
  std::string_view rest;
};

// The request is complete: its key can be decoded where it stands.
void FinishKey(const MetaLine& line, const Flags& flags, Request* out) {
  out->key = line.key;
  if (flags.key_bytes == 0) return;
  char* const key = line.bytes.data() + (line.key.data() - line.bytes.data());
  std::memcpy(key, flags.key, flags.key_bytes);
  out->key = {key, flags.key_bytes};
  out->base64_key = true;
}

std::optional<Op> ModeOfSet(char mode) {
  switch (mode) {
    case 0:
    case 'S':
      return Op::kSet;
    case 'E':
      return Op::kAdd;
    case 'A':
      return Op::kAppend;
    case 'P':
      return Op::kPrepend;
    case 'R':
      return Op::kReplace;
    default:
      return std::nullopt;
  }
}

// What the mode and the flags of ms together ask for.
void SetModeAndFlags(Op mode, const Flags& flags, Request* out) {
  out->op = mode;
  out->quiet = flags.quiet;
  if (flags.with_cas && (mode == Op::kSet || mode == Op::kReplace)) out->op = Op::kCas;
  if (mode == Op::kAdd) out->cas = 0;
  out->compare_cas = out->op == Op::kCas;
  out->invalidate = out->invalidate && out->op == Op::kCas;
  if (mode == Op::kAppend || mode == Op::kPrepend) out->vivify_exptime = flags.only_vivify;
}

ParseResult ParseSet(MetaLine line, const Limits& limits, Request* out) {
  const std::string_view all = line.rest;
  const auto length = ParseI32(NextToken(&line.rest));
  if (TooManyFlags(all)) {
    return Answer("CLIENT_ERROR options flags too long\r\n", line.line_bytes, out);
  }
  if (!length || *length < 0 || *length > INT_MAX - 2) {
    return Answer(kBadLine, line.line_bytes, out);
  }
  const auto value_bytes = static_cast<uint64_t>(*length);
  // From here on the value is discarded together with a bad line.
  const uint64_t line_and_value = line.line_bytes + value_bytes + 2;
  Flags flags;
  if (const auto error = ReadFlags(line.rest, line.key, &flags, out)) {
    return Answer(*error, line_and_value, out);
  }
  const auto mode = ModeOfSet(flags.mode);
  if (!mode) return Answer("CLIENT_ERROR invalid mode for ms M token\r\n", line_and_value, out);
  if (flags.opaque_too_long) return Answer(kOpaqueTooLong, line_and_value, out);

  SetModeAndFlags(*mode, flags, out);
  out->meta_flags = line.rest;
  const ParseResult result = TakeValue(line.bytes, line.line_bytes, value_bytes, limits, out);
  if (result.status == ParseStatus::kOk) FinishKey(line, flags, out);
  return result;
}

// As in memcached, me has one flag, b, which must be the first. Others are ignored.
ParseResult ParseDebug(MetaLine line, Request* out) {
  Flags flags;
  if (NextToken(&line.rest) == "b") {
    const auto decoded = DecodeBase64(line.key, flags.key);
    if (!decoded) return Answer(kBadLine, line.line_bytes, out);
    flags.key_bytes = *decoded;
  }
  out->op = Op::kDebug;
  FinishKey(line, flags, out);
  return Done(line.line_bytes);
}

// mg, md and ma: flags and no value.
ParseResult ParseFlagged(char command, const MetaLine& line, Request* out) {
  const auto answer = [&](std::string_view reply) { return Answer(reply, line.line_bytes, out); };
  if (TooManyFlags(line.rest)) {
    return answer(command == 'g' ? "CLIENT_ERROR options flags are too long\r\n"
                                 : "CLIENT_ERROR options flags too long\r\n");
  }
  Flags flags;
  if (const auto error = ReadFlags(line.rest, line.key, &flags, out)) {
    return answer(command == 'g' ? *error : kBadFlag);
  }
  constexpr std::string_view kModes = "I+D-";
  const bool moded = command == 'a' && flags.mode != 0;
  if (moded && kModes.find(flags.mode) == kModes.npos) {
    return answer("CLIENT_ERROR invalid mode for ma M token\r\n");
  }
  if (flags.opaque_too_long) return answer(kOpaqueTooLong);

  out->quiet = flags.quiet;
  out->meta_flags = line.rest;
  if (command == 'g') {
    out->op = Op::kGet;
    out->compare_cas = flags.with_cas;
    out->vivify_exptime = flags.vivify;
  } else if (command == 'd') {
    out->op = Op::kDelete;
    out->compare_cas = flags.with_cas;
  } else {
    out->op = Op::kArithmetic;
    out->decrement = flags.mode == 'D' || flags.mode == '-';
    if (flags.vivify) {
      out->initial = flags.initial;
      out->initial_exptime = *flags.vivify;
    }
  }
  FinishKey(line, flags, out);
  return Done(line.line_bytes);
}

// ---- replies ------------------------------------------------------------------------------------

void AddKey(std::string_view key, bool base64, ReplyWriter* reply) {
  if (base64) {
    reply->Commit(EncodeBase64(key, reply->Room()));
  } else {
    reply->Add(key);
  }
}

// Those flags of the request that are among `shown`, with their values.
void AddFlags(const Request& request, const Response& response, uint64_t shown, bool base64,
              ReplyWriter* reply) {
  int64_t ttl = response.created ? -1 : response.ttl_before.value_or(response.ttl);
  std::string_view rest = request.meta_flags;
  for (std::string_view token = NextToken(&rest); !token.empty(); token = NextToken(&rest)) {
    const char letter = token[0];
    if (letter == 'T' || (letter == 'N' && response.created)) ttl = response.ttl;
    if ((Letter(static_cast<unsigned char>(letter)) & shown) == 0) continue;
    reply->Add(' ');
    if (letter == 'O') {
      reply->Add(token);
      continue;
    }
    reply->Add(letter);
    switch (letter) {
      case 'c':
        reply->Number(response.cas);
        break;
      case 'f':
        reply->Number(response.flags);
        break;
      case 'h':
        reply->Add(response.fetched ? '1' : '0');
        break;
      case 'l':
        reply->Number(response.idle);
        break;
      case 's':
        reply->Number(IsWrite(request.op) ? response.number : response.value.size());
        break;
      case 't':
        reply->Number(ttl);
        break;
      case 'k':
        base64 = base64 || !IsWord(request.key);
        AddKey(request.key, base64, reply);
        if (base64) reply->Add(" b");
        break;
      default:
        break;
    }
  }
}

Head FormatRead(const Request& request, const Response& response, char* out) {
  ReplyWriter reply(out);
  if (response.status != Status::kOk) {
    if (request.quiet) return {};
    reply.Add("EN");
    AddFlags(request, response, Letters("Ok"), request.base64_key, &reply);
    reply.Add("\r\n");
    return {reply.bytes(), false};
  }
  const bool with_value = request.wants_value && !response.same_cas;
  if (with_value) {
    reply.Add("VA ");
    reply.Number(response.value.size());
  } else {
    reply.Add("HD");
  }
  AddFlags(request, response, Letters("cfhklstO"), response.base64_key.value_or(request.base64_key),
           &reply);
  if (response.win_sent) reply.Add(" Z");
  if (response.stale) reply.Add(" X");
  if (response.win) reply.Add(" W");
  reply.Add("\r\n");
  return {reply.bytes(), with_value};
}

Head FormatNumber(const Request& request, const Response& response, char* out) {
  if (request.quiet && !response.created) return {};
  ReplyWriter reply(out);
  char digits[20];
  const size_t length = static_cast<size_t>(
      std::to_chars(digits, digits + sizeof(digits), response.number).ptr - digits);
  if (request.wants_value) {
    reply.Add("VA ");
    reply.Number(length);
  } else {
    reply.Add("HD");
  }
  AddFlags(request, response, Letters("ctkO"), request.base64_key, &reply);
  reply.Add("\r\n");
  if (request.wants_value) {
    reply.Add({digits, length});
    reply.Add("\r\n");
  }
  return {reply.bytes(), false};
}

std::string_view CodeOf(Status status) {
  switch (status) {
    case Status::kNotFound:
      return "NF";
    case Status::kNotStored:
      return "NS";
    case Status::kExists:
      return "EX";
    default:
      return "HD";
  }
}

// ms, md, and ma if it fails. Only success can be quiet.
Head FormatChange(const Request& request, Response response, char* out) {
  const bool ok = response.status == Status::kOk;
  if (ok && request.quiet) return {};
  const bool set = IsWrite(request.op);
  if (!ok) response.cas = 0;  // ms shows one even so
  if (!ok) response.number = request.value.size();
  ReplyWriter reply(out);
  reply.Add(CodeOf(response.status));
  AddFlags(request, response, set ? Letters("cksO") : Letters("kO"), request.base64_key, &reply);
  reply.Add("\r\n");
  return {reply.bytes(), false};
}

Head FormatDebug(const Request& request, const Response& response, char* out) {
  ReplyWriter reply(out);
  if (response.status != Status::kOk) {
    reply.Add("EN\r\n");
    return {reply.bytes(), false};
  }
  reply.Add("ME ");
  const bool base64 = response.base64_key.value_or(request.base64_key) || !IsWord(request.key);
  AddKey(request.key, base64, &reply);
  reply.Add(" exp=");
  reply.Number(response.ttl < 0 ? int64_t{-1} : -response.ttl);
  reply.Add(" la=");
  reply.Number(response.idle);
  reply.Add(" cas=");
  reply.Number(response.cas);
  reply.Add(response.fetched ? " fetch=yes" : " fetch=no");
  reply.Add(" cls=0 size=");  // there are no classes of items
  reply.Number(response.item_bytes);
  reply.Add("\r\n");
  return {reply.bytes(), false};
}

}  // namespace

ParseResult ParseMeta(std::span<char> bytes, size_t line_length, size_t line_bytes,
                      const Limits& limits, Request* out) {
  out->wire = Wire::kMeta;
  std::string_view rest(bytes.data(), line_length);
  const char command = NextToken(&rest)[1];
  const std::string_view key = NextToken(&rest);
  const MetaLine line = {bytes, line_bytes, key, rest};
  switch (command) {
    case 'n':
      out->op = Op::kNoop;
      return Done(line_bytes);
    case 'g':
    case 's':
    case 'd':
    case 'a':
      if (key.empty()) return Answer(kError, line_bytes, out);
      break;
    case 'e':
      if (key.empty()) return Answer(kBadLine, line_bytes, out);
      break;
    default:
      return Answer(kError, line_bytes, out);
  }
  if (key.size() > kKeyBytesMax) return Answer(kBadLine, line_bytes, out);
  if (command == 's') return ParseSet(line, limits, out);
  if (command == 'e') return ParseDebug(line, out);
  return ParseFlagged(command, line, out);
}

Head FormatMeta(const Request& request, const Response& response, char* out) {
  std::string_view text = ErrorLine(request, response);
  if (text.empty()) {
    switch (request.op) {
      case Op::kGet:
        return FormatRead(request, response, out);
      case Op::kDebug:
        return FormatDebug(request, response, out);
      case Op::kArithmetic:
        if (response.status == Status::kOk) return FormatNumber(request, response, out);
        return FormatChange(request, response, out);
      case Op::kNoop:
        text = "MN\r\n";
        break;
      case Op::kAnswer:
        text = request.reply;
        break;
      default:
        return FormatChange(request, response, out);
    }
  }
  ReplyWriter reply(out);
  reply.Add(text);
  return {reply.bytes(), false};
}

}  // namespace protocol
