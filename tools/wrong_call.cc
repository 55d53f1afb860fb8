#include "tools/wrong_call.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace tools {

namespace {

// A number as people write it: 0.01, 1e+06 becomes 1000000.
std::string Plain(double number) {
  char text[64];
  std::snprintf(text, sizeof text, number == std::floor(number) ? "%.0f" : "%g", number);
  return text;
}

// A check for CLI11: a number from min to max.
CLI::Validator Between(double min, double max, bool whole) {
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

// One sentence without a period. `error` is what app.parse threw.
std::string Complaint(const CLI::App& app, const CLI::ParseError& error) {
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

}  // namespace

CLI::Validator Whole(double min, double max) { return Between(min, max, true); }
CLI::Validator Real(double min, double max) { return Between(min, max, false); }

CLI::Validator Count() {
  const auto read = [](std::string& text) -> std::string {
    double number = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, code] = std::from_chars(text.data(), end, number);
    std::string_view rest(stop, static_cast<size_t>(end - stop));
    constexpr std::string_view kSuffixes = "kmgKMG";
    if (code == std::errc() && rest.size() == 1 && kSuffixes.find(rest[0]) != std::string::npos) {
      number *= std::pow(1000.0, static_cast<double>(kSuffixes.find(rest[0]) % 3 + 1));
      rest = {};
    }
    if (code != std::errc() || !rest.empty() || !(number >= 0 && number < 1e15) ||
        number != std::floor(number)) {
      return "needs a whole number such as 1000000, 1e6 or 10M, not '" + text + "'";
    }
    text = std::to_string(static_cast<unsigned long long>(number));
    return {};
  };
  return {read, "", "count"};
}

std::string FirstWordError(const CLI::App& app, int argc, char** argv) {
  std::string names;
  const std::string word = argc > 1 ? argv[1] : "";
  for (const CLI::App* const command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (word == command->get_name()) return {};
    names += (names.empty() ? "" : ", ") + command->get_name();
  }
  if (word.starts_with("-h") || word.starts_with("--help") || word.starts_with("--version")) {
    return {};
  }
  if (word.empty()) return "give a command: " + names;
  if (word.starts_with('-')) return "give a command before '" + word + "': " + names;
  return "'" + word + "' is no command: use one of " + names;
}

const CLI::App& CommandOf(const CLI::App& app) {
  const auto commands = app.get_subcommands();
  return commands.empty() ? app : *commands.front();
}

std::string ExtraWord(const CLI::App& app) {
  const std::vector<std::string> words = app.remaining(true);
  const auto option = std::find_if(words.begin(), words.end(), [](const std::string& word) {
    return word.size() > 1 && word.starts_with('-');
  });
  if (option != words.end()) return "unknown option '" + *option + "'";
  return words.empty() ? "unexpected argument" : "unexpected argument '" + words.front() + "'";
}

int PrintWrongCall(const CLI::App& app, const std::string& complaint) {
  const std::string& program = app.get_name();
  const CLI::App& command = CommandOf(app);
  std::fprintf(stderr, "%s: %s; see %s%s --help\n", program.c_str(), complaint.c_str(),
               program.c_str(), &command == &app ? "" : (" " + command.get_name()).c_str());
  return 1;
}

int ExplainCall(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);
  return PrintWrongCall(app, Complaint(app, error));
}

}  // namespace tools
