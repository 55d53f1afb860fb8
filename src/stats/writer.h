// StatsWriter collects the names and values of one statistics reply, in the form of its wire.
//
// Promises:  numbers look the same in every locale. Control bytes in texts, which may come from
//            options, become '?', so that no value can break its line.
// Requires:  `Add* Finish`.
#pragma once

#include <array>
#include <charconv>
#include <concepts>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "protocol/request.h"
#include "protocol/stats_format.h"

namespace server {

class StatsWriter {
 public:
  explicit StatsWriter(const protocol::Request& request) : request_(request) {}

  void Add(std::string_view name, std::string_view text) {
    std::string clean(text);
    for (char& c : clean) {
      if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
    }
    protocol::AppendStat(request_, name, clean, &reply_);
  }
  // A bool is "yes" or "no".
  template <std::integral Number>
  void Add(std::string_view name, Number number) {
    if constexpr (std::same_as<Number, bool>) {
      protocol::AppendStat(request_, name, number ? "yes" : "no", &reply_);
    } else {
      AddDigits(name,
                [number](char* begin, char* end) { return std::to_chars(begin, end, number); });
    }
  }
  // Such as 1.25, with so many digits behind the dot.
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
  // What memcached counts and does not exist here.
  void AddZeros(std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) Add(name, 0);
  }

  std::string Finish() {
    protocol::AppendStatsEnd(request_, &reply_);
    return std::move(reply_);
  }

 private:
  template <class Print>
  void AddDigits(std::string_view name, Print print) {
    std::array<char, 400> digits;  // the largest double has 309 digits before the dot
    const char* const end = print(digits.data(), digits.data() + digits.size()).ptr;
    protocol::AppendStat(request_, name, {digits.data(), end}, &reply_);
  }

  const protocol::Request& request_;
  std::string reply_;
};

}  // namespace server
