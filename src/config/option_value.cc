#include "src/config/option_value.h"

#include <charconv>
#include <cstdio>
#include <system_error>

#include "src/process/startup_error.h"

namespace server {

namespace {

constexpr size_t kQuotedBytesMax = 60;

// False: not all of `text` is the number, or the number does not fit.
template <class Number, class... Format>
bool ReadAll(std::string_view text, Number* number, Format... format) {
  const char* end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, *number, format...);
  return code == std::errc() && stop == end;
}

std::string Shown(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", number);
  return text;
}

[[noreturn]] void Refuse(std::string_view option, const std::string& wanted,
                         std::string_view text) {
  throw StartupError(std::string(option) + " needs " + wanted + ", not " + Quoted(text));
}

std::string Between(const std::string& what, const std::string& min, const std::string& max) {
  return what + " from " + min + " to " + max;
}

}  // namespace

std::string Quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text.substr(0, kQuotedBytesMax)) {
    quoted += static_cast<unsigned char>(c) < ' ' || c == 127 ? '?' : c;
  }
  return quoted + (text.size() > kQuotedBytesMax ? "...'" : "'");
}

int64_t ParseWhole(std::string_view option, std::string_view text, int64_t min, int64_t max,
                   std::string_view unit) {
  int64_t number = 0;
  if (!ReadAll(text, &number) || number < min || number > max) {
    Refuse(option,
           Between("a whole number" + std::string(unit), std::to_string(min), std::to_string(max)),
           text);
  }
  return number;
}

double ParseReal(std::string_view option, std::string_view text, const RealRange& range) {
  double number = 0;
  // These comparisons also refuse NaN.
  const auto fits = [&] {
    return range.open ? number > range.min && number < range.max
                      : number >= range.min && number <= range.max;
  };
  if (!ReadAll(text, &number) || !fits()) {
    const std::string min = Shown(range.min);
    const std::string max = Shown(range.max);
    Refuse(option,
           range.open ? "a number between " + min + " and " + max : Between("a number", min, max),
           text);
  }
  return number;
}

uint32_t ParseOctal(std::string_view option, std::string_view text, uint32_t max) {
  uint32_t number = 0;
  if (!ReadAll(text, &number, 8) || number > max) {
    char limit[16];
    std::snprintf(limit, sizeof limit, "%o", max);
    Refuse(option, Between("an octal number", "0", limit), text);
  }
  return number;
}

uint64_t ParseBytes(std::string_view option, std::string_view text, uint64_t min, uint64_t max) {
  uint64_t unit = 1;
  std::string_view digits = text;
  if (text.ends_with('k') || text.ends_with('K')) unit = uint64_t{1} << 10;
  if (text.ends_with('m') || text.ends_with('M')) unit = uint64_t{1} << 20;
  if (unit != 1) digits.remove_suffix(1);
  uint64_t number = 0;
  if (!ReadAll(digits, &number) || number > max / unit || number * unit < min) {
    Refuse(option,
           Between("a number of bytes", std::to_string(min), std::to_string(max)) +
               " (k and m after it multiply)",
           text);
  }
  return number * unit;
}

}  // namespace server
