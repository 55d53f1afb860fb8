// Json is one value of a JSON text (RFC 8259), as a tree. It reads what etcd's gateway sends, and
// Quote helps to write what it is sent.
//
// Promises:  a text that is not JSON, or is nested deeper than kDepthMax, gives nothing. A field
//            that is missing reads as null, and null as 0, false or empty: etcd leaves out zeros.
//            Integers may stand in quotation marks, as etcd writes those of 64 bits.
// Requires:  nothing; throws std::bad_alloc only.
// Costs:     about 100 bytes per value.
// Departs:   numbers are kept as their text, and a fraction is cut off; \u escapes of surrogate
//            pairs become one character each. nlohmann/json would do the same and more for 4 s of
//            compile time in each file that includes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cluster {

class Json {
 public:
  static constexpr unsigned kDepthMax = 32;

  static std::optional<Json> Parse(std::string_view text);

  bool is_null() const { return kind_ == Kind::kNull; }
  // The characters of a string, or of a number as it was written.
  const std::string& text() const { return text_; }
  uint64_t Number() const;
  bool True() const { return kind_ == Kind::kTrue; }
  // Of an array.
  const std::vector<Json>& items() const { return items_; }
  // Of an object; of a name that occurs twice the first.
  const Json& operator[](std::string_view name) const;

 private:
  enum class Kind : uint8_t { kNull, kFalse, kTrue, kNumber, kString, kArray, kObject };
  class Reader;

  Kind kind_ = Kind::kNull;
  std::string text_;
  std::vector<Json> items_;         // of an object: its values
  std::vector<std::string> names_;  // of an object
};

// The text as a JSON string, with its quotation marks.
std::string Quote(std::string_view text);

}  // namespace cluster
