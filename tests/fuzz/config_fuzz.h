// What must hold for any configuration file, and for its words on the command line: the answer is
// options in range or a StartupError of one line, and nothing else is thrown.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/config/command_line.h"
#include "src/config/config_file.h"
#include "src/process/startup_error.h"
#include "tests/fuzz/fuzz.h"

namespace server {

inline bool IsOneLine(std::string_view text) {
  return !text.empty() && text.find_first_of("\n\r") == text.npos;
}

inline const char* FuzzOptions(const std::vector<std::string>& words) {
  std::vector<const char*> argv = {"kbfcached"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  try {
    const ParsedOptions parsed = ParseOptions(static_cast<int>(argv.size()), argv.data());
    const Options& options = parsed.options;
    if (!std::all_of(parsed.warnings.begin(), parsed.warnings.end(), IsOneLine)) {
      return "a warning that is not one line";
    }
    if (parsed.print) return parsed.print->empty() ? "nothing to print" : nullptr;
    if (options.port < kAnyPort || options.port > 65535) return "a port that is none";
    if (options.threads == 0 || options.connections_max == 0) return "a number of 0";
    if (options.store.item_bytes_max > options.store.memory_bytes / 2) return "items too large";
    if (!options.wants_tcp() && options.unix_path.empty()) return "nothing to listen on";
    return nullptr;
  } catch (const StartupError& error) {
    return IsOneLine(error.what()) ? nullptr : "an error that is not one line";
  }
}

// The fault that was found, or null.
inline const char* FuzzConfig(std::string_view input) {
  // On the command line: all words of the file, one after the other.
  std::vector<std::string> words;
  try {
    std::vector<std::string> warnings;
    size_t number = 0;
    for (const ConfigLine& line : ParseConfig(input, "conf", &warnings)) {
      if (line.number <= number) return "line numbers that do not grow";
      number = line.number;
      if (line.words.empty() || !line.words[0].starts_with('-')) return "a line without an option";
      words.insert(words.end(), line.words.begin(), line.words.end());
    }
    if (!std::all_of(warnings.begin(), warnings.end(), IsOneLine)) {
      return "a warning that is not one line";
    }
  } catch (const StartupError& error) {
    return IsOneLine(error.what()) ? nullptr : "an error that is not one line";
  }
  if (const char* fault = FuzzOptions(words)) return fault;
  const fuzz::MemoryFile file(input);
  return FuzzOptions({"--config", file.path()});
}

}  // namespace server
