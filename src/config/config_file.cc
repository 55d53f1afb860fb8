#include "src/config/config_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "src/config/option_value.h"
#include "src/process/startup_error.h"

namespace server {

namespace {

constexpr std::string_view kBlanks = " \t\r\v\f";

// The words of a line without its comment. *error says what is wrong with a line.
std::vector<std::string> WordsOf(std::string_view line, const char** error) {
  std::vector<std::string> words;
  std::string word;
  bool in_word = false;
  char quote = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '\\' && quote != '\'') {
      if (++i == line.size()) {
        *error = "ends in a backslash";
        return {};
      }
      word += line[i];
      in_word = true;
    } else if (quote != 0 ? c == quote : c == '\'' || c == '"') {
      quote = quote != 0 ? 0 : c;
      in_word = true;  // '' is a word, an empty one
    } else if (quote != 0) {
      word += c;
    } else if (c == '#') {
      break;
    } else if (kBlanks.find(c) == kBlanks.npos) {
      word += c;
      in_word = true;
    } else if (in_word) {
      words.push_back(std::move(word));
      word.clear();
      in_word = false;
    }
  }
  if (quote != 0) *error = "has a quote without an end";
  if (in_word) words.push_back(std::move(word));
  return words;
}

}  // namespace

std::vector<ConfigLine> ParseConfig(std::string_view text, const std::string& name,
                                    std::vector<std::string>* warnings) {
  if (text.size() > kConfigFileBytesMax) {
    throw StartupError(name + ": larger than " + std::to_string(kConfigFileBytesMax) + " bytes");
  }
  std::vector<ConfigLine> lines;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string where = name + ":" + std::to_string(number) + ": ";
    const char* error = nullptr;
    std::vector<std::string> words;
    if (line.size() > kConfigLineBytesMax) {
      error = "is longer than 4096 bytes";
    } else if (line.find('\0') != line.npos) {
      error = "holds a NUL byte";
    } else {
      words = WordsOf(line, &error);
    }
    if (error != nullptr) throw StartupError(where + "the line " + error);
    if (words.empty()) continue;
    const std::string& first = words.front();
    if (first.starts_with("-d") || first.starts_with("-h")) continue;
    if (first.starts_with('-')) {
      lines.push_back({number, std::move(words)});
    } else if (first != "logfile") {
      warnings->push_back(where + Quoted(first) + " is not an option; the line is ignored");
    }
  }
  return lines;
}

std::string ReadConfigFile(const std::string& path) {
  const auto fail = [&](const char* reason) {
    throw StartupError("--config: cannot read " + path + ": " + reason);
  };
  // O_NONBLOCK, so that opening a FIFO does not wait for a writer; it is refused below.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) fail(std::strerror(errno));
  struct stat status {};
  std::string bytes;
  const char* reason = nullptr;
  if (fstat(fd, &status) != 0) {
    reason = std::strerror(errno);
  } else if (!S_ISREG(status.st_mode)) {
    reason = "it is not a file";
  } else {
    // One byte more than allowed shows that the file is too large, even if it grows meanwhile.
    bytes.resize(kConfigFileBytesMax + 1);
    size_t used = 0;
    ssize_t got = 1;
    while (got > 0 && used < bytes.size()) {
      got = read(fd, bytes.data() + used, bytes.size() - used);
      if (got > 0) used += static_cast<size_t>(got);
    }
    if (got < 0) reason = std::strerror(errno);
    bytes.resize(used);
  }
  close(fd);
  if (reason != nullptr) fail(reason);
  return bytes;
}

}  // namespace server
