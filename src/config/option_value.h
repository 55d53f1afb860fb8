// Strict readers of option values, with one form of error message for all options.
//
// Promises:  all of `text` is the number, and it is in range; otherwise a StartupError that names
//            the option, the range and what was given, in readable bytes and not too many.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace server {

struct RealRange {
  double min;
  double max;
  bool open = false;  // the ends do not belong to it
};

// `unit`, such as " of megabytes", is for the message.
int64_t ParseWhole(std::string_view option, std::string_view text, int64_t min, int64_t max,
                   std::string_view unit = {});
double ParseReal(std::string_view option, std::string_view text, const RealRange& range);
uint32_t ParseOctal(std::string_view option, std::string_view text, uint32_t max);
// Bytes; "k" and "m" after the number multiply.
uint64_t ParseBytes(std::string_view option, std::string_view text, uint64_t min, uint64_t max);

// `text` in quotes, fit for a message of one line.
std::string Quoted(std::string_view text);

}  // namespace server
