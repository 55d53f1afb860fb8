#include "protocol/key_list.h"

#include <algorithm>
#include <optional>

#include "protocol/base64.h"
#include "protocol/framing.h"
#include "protocol/numbers.h"
#include "protocol/reply_writer.h"
#include "protocol/text.h"

namespace protocol {
namespace {

static_assert(kKeyRowBytesMax >= 3 * kKeyBytesMax + 6 * 20 + 64);

// Nothing: it is not a number of a class.
std::optional<ClassSet> ParseClasses(std::string_view ids) {
  if (ids == "all" || ids == "hash") return ~ClassSet{0};
  ClassSet classes = 0;
  while (!ids.empty()) {
    const size_t length = std::min(ids.find(','), ids.size());
    const std::string_view id = ids.substr(0, length);
    ids.remove_prefix(std::min(length + 1, ids.size()));
    if (id.empty()) continue;
    const auto number = ParseU32(id);
    if (!number || *number == 0 || *number >= kClassesEnd) return std::nullopt;
    classes |= ClassSet{1} << *number;
  }
  return classes;
}

std::string_view CheckCrawl(std::string_view ids) {
  const auto classes = ParseClasses(ids);
  if (!classes) return "BADCLASS invalid class id\r\n";
  return *classes == 0 ? "NOTSTARTED no items to crawl\r\n" : "";
}

std::string_view CheckCachedump(const AllTokens& tokens) {
  if (tokens.count() < 4) return "CLIENT_ERROR bad command line\r\n";
  const auto id = ParseU32(tokens[2]);
  if (!id || !ParseU32(tokens[3])) return kBadLine;
  return *id < kClassesEnd ? "" : "CLIENT_ERROR Illegal slab id\r\n";
}

void AddUriEncoded(std::string_view key, ReplyWriter* row) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  for (const char c : key) {
    const auto byte = static_cast<unsigned char>(c);
    const bool letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
    if (letter || (byte >= '0' && byte <= '9') || c == '-' || c == '.' || c == '_' || c == '~') {
      row->Add(c);
    } else {
      row->Add('%');
      row->Add(kDigits[byte >> 4]);
      row->Add(kDigits[byte & 15]);
    }
  }
}

void AddMetadumpRow(const ListedKey& listed, ReplyWriter* row) {
  row->Add("key=");
  AddUriEncoded(listed.key, row);
  row->Add(" exp=");
  row->Number(listed.expires == 0 ? int64_t{-1} : listed.expires);
  row->Add(" la=");
  row->Number(listed.last_access);
  row->Add(" cas=");
  row->Number(listed.cas);
  row->Add(listed.fetched ? " fetch=yes cls=" : " fetch=no cls=");
  row->Number(listed.item_class);
  row->Add(" size=");
  row->Number(listed.item_bytes);
  row->Add(" flags=");
  row->Number(listed.flags);
  row->Add(" \n");
}

void AddMgdumpRow(const ListedKey& listed, ReplyWriter* row) {
  row->Add("mg ");
  if (listed.base64 || !IsWord(listed.key)) {
    row->Commit(EncodeBase64(listed.key, row->Room()));
    row->Add(" b\r\n");
  } else {
    row->Add(listed.key);
    row->Add("\r\n");
  }
}

void AddCachedumpRow(const ListedKey& listed, ReplyWriter* row) {
  if (listed.base64 || !IsWord(listed.key)) return;
  row->Add("ITEM ");
  row->Add(listed.key);
  row->Add(" [");
  row->Number(listed.value_bytes);
  row->Add(" b; ");
  row->Number(listed.expires);
  row->Add(" s]\r\n");
}

}  // namespace

bool ParseKeyList(const AllTokens& tokens, Request* out) {
  if (tokens[0] == "stats" && tokens.count() >= 2 && tokens[1] == "cachedump") {
    out->op = Op::kCachedump;
    out->reply = CheckCachedump(tokens);
    if (!out->reply.empty()) return true;
    // From the first number to the end of the second.
    out->arguments = {tokens[2].data(), tokens[3].data() + tokens[3].size()};
    return true;
  }
  if (tokens[0] != "lru_crawler" || tokens.count() != 3) return false;
  if (tokens[1] != "metadump" && tokens[1] != "mgdump") return false;
  out->op = tokens[1] == "metadump" ? Op::kMetadump : Op::kMgdump;
  out->arguments = tokens[2];
  out->reply = CheckCrawl(tokens[2]);
  return true;
}

ClassSet ClassesOf(const Request& request) {
  if (request.op != Op::kCachedump) return ParseClasses(request.arguments).value_or(0);
  std::string_view rest = request.arguments;
  return ClassSet{1} << ParseU32(NextToken(&rest)).value_or(0) % kClassesEnd;
}

uint32_t RowLimitOf(const Request& request) {
  if (request.op != Op::kCachedump) return 0;
  std::string_view rest = request.arguments;
  NextToken(&rest);
  return ParseU32(NextToken(&rest)).value_or(0);
}

size_t FormatKeyRow(Op op, const ListedKey& listed, char* out) {
  ReplyWriter row(out);
  if (op == Op::kMetadump) {
    AddMetadumpRow(listed, &row);
  } else if (op == Op::kMgdump) {
    AddMgdumpRow(listed, &row);
  } else {
    AddCachedumpRow(listed, &row);
  }
  return row.bytes();
}

std::string_view KeyListBegin(Op op) { return op == Op::kMgdump ? kOkLine : std::string_view(); }
std::string_view KeyListEnd(Op op) { return op == Op::kMgdump ? "EN\r\n" : kEnd; }

std::string_view KeyListRefusal(Op op) {
  if (op == Op::kCachedump) return "CLIENT_ERROR stats cachedump not allowed\r\n";
  return op == Op::kMgdump ? "ERROR key dump not allowed\r\n" : "ERROR metadump not allowed\r\n";
}

}  // namespace protocol
