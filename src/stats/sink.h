// StatsSink takes the names and values of statistics. Implementations give them a form: lines of
// text, binary packets, metrics.
//
// Promises:  numbers look the same in every locale. Control bytes in texts, which may come from
//            options, become '?', so that no value can break its line.
#pragma once

#include <array>
#include <charconv>
#include <concepts>
#include <initializer_list>
#include <string>
#include <string_view>

namespace server {

class StatsSink {
 public:
  virtual ~StatsSink() = default;

  void Add(std::string_view name, std::string_view text) {
    std::string clean(text);
    for (char& c : clean) {
      if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
    }
    Write(name, clean);
  }
  // A bool is "yes" or "no".
  template <std::integral Number>
  void Add(std::string_view name, Number number) {
    if constexpr (std::same_as<Number, bool>) {
      Write(name, number ? "yes" : "no");
    } else {
      AddDigits(name,
                [number](char* begin, char* end) { return std::to_chars(begin, end, number); });
    }
  }
  // Such as 1.25, with so many digits behind the point.
  void AddReal(std::string_view name, double number, int digits) {
    AddDigits(name, [number, digits](char* begin, char* end) {
      return std::to_chars(begin, end, number, std::chars_format::fixed, digits);
    });
  }
  // Such as 1.234e-03.
  void AddRate(std::string_view name, double rate) {
    AddDigits(name, [rate](char* begin, char* end) {
      return std::to_chars(begin, end, rate, std::chars_format::scientific, 3);
    });
  }
  // Names of memcached's statistics that have no meaning here.
  void AddZeros(std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) Add(name, 0);
  }

 private:
  // The value may be empty; neither has control bytes.
  virtual void Write(std::string_view name, std::string_view value) = 0;

  template <class Print>
  void AddDigits(std::string_view name, Print print) {
    std::array<char, 400> digits;  // the largest double has 309 digits before the point
    const char* const end = print(digits.data(), digits.data() + digits.size()).ptr;
    Write(name, {digits.data(), end});
  }
};

}  // namespace server
