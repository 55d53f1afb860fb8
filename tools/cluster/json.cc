#include "tools/cluster/json.h"

#include <charconv>
#include <cstdio>

namespace cluster {
namespace {

const Json kNull;

void AppendUtf8(uint32_t code, std::string* out) {
  if (code < 0x80) {
    out->push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    out->push_back(static_cast<char>(0xc0 | code >> 6));
    out->push_back(static_cast<char>(0x80 | (code & 0x3f)));
  } else {
    out->push_back(static_cast<char>(0xe0 | code >> 12));
    out->push_back(static_cast<char>(0x80 | (code >> 6 & 0x3f)));
    out->push_back(static_cast<char>(0x80 | (code & 0x3f)));
  }
}

char Unescaped(char c) {
  switch (c) {
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case '"':
    case '\\':
    case '/':
      return c;
    default:
      return 0;
  }
}

}  // namespace

class Json::Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  bool ReadDocument(Json* out) {
    if (!ReadValue(0, out)) return false;
    SkipSpace();
    return rest_.empty();
  }

 private:
  void SkipSpace() {
    const size_t begin = rest_.find_first_not_of(" \t\r\n");
    rest_.remove_prefix(begin == std::string_view::npos ? rest_.size() : begin);
  }
  bool Take(char c) {
    SkipSpace();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool TakeWord(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  bool ReadValue(unsigned depth, Json* out) {
    if (depth >= kDepthMax) return false;
    SkipSpace();
    if (rest_.empty()) return false;
    switch (rest_[0]) {
      case '{':
        return ReadObject(depth, out);
      case '[':
        return ReadArray(depth, out);
      case '"':
        out->kind_ = Kind::kString;
        return ReadString(&out->text_);
      case 't':
        out->kind_ = Kind::kTrue;
        return TakeWord("true");
      case 'f':
        out->kind_ = Kind::kFalse;
        return TakeWord("false");
      case 'n':
        out->kind_ = Kind::kNull;
        return TakeWord("null");
      default:
        return ReadNumber(out);
    }
  }

  bool ReadNumber(Json* out) {
    const size_t length = std::min(rest_.find_first_not_of("+-.0123456789eE"), rest_.size());
    double number;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + length, number);
    if (error != std::errc() || end != rest_.data() + length) return false;
    out->kind_ = Kind::kNumber;
    out->text_ = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return true;
  }

  bool ReadString(std::string* out) {
    if (!Take('"')) return false;
    for (;;) {
      const size_t plain = rest_.find_first_of("\"\\");
      if (plain == std::string_view::npos) return false;
      out->append(rest_.substr(0, plain));
      const bool ended = rest_[plain] == '"';
      rest_.remove_prefix(plain + 1);
      if (ended) return true;
      if (rest_.empty() || !ReadEscape(out)) return false;
    }
  }

  bool ReadEscape(std::string* out) {
    const char c = rest_[0];
    rest_.remove_prefix(1);
    if (c != 'u') {
      const char plain = Unescaped(c);
      if (plain != 0) out->push_back(plain);
      return plain != 0;
    }
    uint32_t code = 0;
    if (rest_.size() < 4) return false;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + 4, code, 16);
    if (error != std::errc() || end != rest_.data() + 4) return false;
    rest_.remove_prefix(4);
    AppendUtf8(code, out);
    return true;
  }

  bool ReadArray(unsigned depth, Json* out) {
    out->kind_ = Kind::kArray;
    Take('[');
    if (Take(']')) return true;
    do {
      if (!ReadValue(depth + 1, &out->items_.emplace_back())) return false;
    } while (Take(','));
    return Take(']');
  }

  bool ReadObject(unsigned depth, Json* out) {
    out->kind_ = Kind::kObject;
    Take('{');
    if (Take('}')) return true;
    do {
      if (!ReadString(&out->names_.emplace_back()) || !Take(':')) return false;
      if (!ReadValue(depth + 1, &out->items_.emplace_back())) return false;
    } while (Take(','));
    return Take('}');
  }

  std::string_view rest_;
};

std::optional<Json> Json::Parse(std::string_view text) {
  Json json;
  if (!Reader(text).ReadDocument(&json)) return std::nullopt;
  return json;
}

uint64_t Json::Number() const {
  uint64_t number = 0;
  std::from_chars(text_.data(), text_.data() + text_.size(), number);
  return number;
}

const Json& Json::operator[](std::string_view name) const {
  for (size_t i = 0; i < names_.size(); ++i) {
    if (names_[i] == name) return items_[i];
  }
  return kNull;
}

std::string Quote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", static_cast<unsigned>(c));
      out += escape;
      continue;
    }
    if (c == '"' || c == '\\') out.push_back('\\');
    out.push_back(c);
  }
  return out + "\"";
}

}  // namespace cluster
