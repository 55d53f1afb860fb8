// What a tool says about a command line that CLI11 does not accept: one line that names the word in
// question and what to do, where CLI11 would print two lines in the terms of its own grammar.
//
// Requires:  included once per program, in the file that has main: CLI11 is a heavy header.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace tools {

// A number as people write it: 0.01, 1e+06 becomes 1000000.
inline std::string Plain(double number) {
  char text[64];
  std::snprintf(text, sizeof text, number == std::floor(number) ? "%.0f" : "%g", number);
  return text;
}

// A check for CLI11: a number from min to max.
inline CLI::Validator Between(double min, double max, bool whole) {
  const auto check = [=](const std::string& text) -> std::string {
    double number = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, code] = std::from_chars(text.data(), end, number);
    const bool is_number = code == std::errc() && stop == end;
    if (is_number && number >= min && number <= max && (!whole || number == std::floor(number))) {
      return {};
    }
    return std::string("needs a ") + (whole ? "whole " : "") + "number from " + Plain(min) +
           " to " + Plain(max) + ", not '" + text + "'";
  };
  return {check, "", ""};
}
inline CLI::Validator Whole(double min, double max) { return Between(min, max, true); }
inline CLI::Validator Real(double min, double max) { return Between(min, max, false); }

// The command that was given, or the program itself.
inline const CLI::App& CommandOf(const CLI::App& app) {
  const auto commands = app.get_subcommands();
  return commands.empty() ? app : *commands.front();
}

inline std::string ExtraWord(const CLI::App& app) {
  const std::vector<std::string> words = app.remaining(true);
  const auto option = std::find_if(words.begin(), words.end(), [](const std::string& word) {
    return word.size() > 1 && word.starts_with('-');
  });
  if (option != words.end()) return "unknown option '" + *option + "'";
  return words.empty() ? "unexpected argument" : "unexpected argument '" + words.front() + "'";
}

// One sentence without a period. `error` is what app.parse threw.
inline std::string Complaint(const CLI::App& app, const CLI::ParseError& error) {
  std::string text = error.what();
  const std::string name = text.substr(0, text.find(':'));
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) return ExtraWord(app);
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    return name + (text.ends_with("missing") ? " needs a value" : " takes one value only");
  }
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) {
    // "Could not convert: --quiet = maybe". All values have checks of their own; this is a flag.
    const size_t begin = text.find(": ") + 2;
    return text.substr(begin, text.find(" = ") - begin) + " takes no value";
  }
  // "--keys: needs a whole number ..." of a check above.
  if (const size_t colon = text.find(": needs "); colon != std::string::npos) text.erase(colon, 1);
  return text;
}

// Prints one line; returns the exit code.
inline int PrintWrongCall(const CLI::App& app, const std::string& complaint) {
  const std::string& program = app.get_name();
  const CLI::App& command = CommandOf(app);
  std::fprintf(stderr, "%s: %s; see %s%s --help\n", program.c_str(), complaint.c_str(),
               program.c_str(), &command == &app ? "" : (" " + command.get_name()).c_str());
  return 1;
}

// Prints help, version or what is wrong; returns the exit code.
inline int ExplainCall(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);
  return PrintWrongCall(app, Complaint(app, error));
}

}  // namespace tools
