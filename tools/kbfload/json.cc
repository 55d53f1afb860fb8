#include "tools/kbfload/json.h"

#include <charconv>
#include <cmath>
#include <cstdio>

namespace load {
namespace {

// Bytes above 127 become question marks: what a server says need not be UTF-8.
std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", byte);
      quoted += escape;
    } else {
      quoted += byte < 0x80 ? c : '?';
    }
  }
  return quoted + "\"";
}

std::string Indented(const std::string& text) {
  std::string indented;
  for (const char c : text) indented += c == '\n' ? "\n  " : std::string(1, c);
  return indented;
}

}  // namespace

JsonObject& JsonObject::PutRaw(std::string_view name, const std::string& text) {
  members_ += (members_.empty() ? "\n  " : ",\n  ") + Quoted(name) + ": " + text;
  return *this;
}

JsonObject& JsonObject::Put(std::string_view name, std::string_view text) {
  return PutRaw(name, Quoted(text));
}

JsonObject& JsonObject::Put(std::string_view name, double number) {
  if (!std::isfinite(number)) return PutNull(name);
  char text[40] = {};
  std::to_chars(text, text + sizeof text, number);
  return PutRaw(name, text);
}

JsonObject& JsonObject::Put(std::string_view name, uint64_t number) {
  return PutRaw(name, std::to_string(number));
}

JsonObject& JsonObject::Put(std::string_view name, bool yes) {
  return PutRaw(name, yes ? "true" : "false");
}

JsonObject& JsonObject::Put(std::string_view name, const JsonObject& object) {
  return PutRaw(name, Indented(object.Text()));
}

JsonObject& JsonObject::Put(std::string_view name, const std::vector<JsonObject>& objects) {
  std::string text = "[";
  for (const JsonObject& object : objects) {
    text += (text.size() > 1 ? ",\n  " : "\n  ") + Indented(object.Text());
  }
  return PutRaw(name, Indented(text + "\n]"));
}

JsonObject& JsonObject::PutNull(std::string_view name) { return PutRaw(name, "null"); }

}  // namespace load
