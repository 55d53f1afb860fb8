// JsonObject writes JSON with names in the order they were put. It does not read any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace load {

class JsonObject {
 public:
  JsonObject& Put(std::string_view name, std::string_view text);
  JsonObject& Put(std::string_view name, const char* text) {
    return Put(name, std::string_view(text));
  }
  JsonObject& Put(std::string_view name, double number);  // not finite: null
  JsonObject& Put(std::string_view name, uint64_t number);
  JsonObject& Put(std::string_view name, unsigned number) { return Put(name, uint64_t{number}); }
  JsonObject& Put(std::string_view name, bool yes);
  JsonObject& Put(std::string_view name, const JsonObject& object);
  JsonObject& Put(std::string_view name, const std::vector<JsonObject>& objects);
  JsonObject& PutNull(std::string_view name);
  template <typename Value>
  JsonObject& Put(std::string_view name, const std::optional<Value>& value) {
    return value ? Put(name, *value) : PutNull(name);
  }

  // Without a final newline.
  std::string Text() const { return "{" + members_ + "\n}"; }

 private:
  JsonObject& PutRaw(std::string_view name, const std::string& text);

  std::string members_;
};

}  // namespace load
