#include "tools/kbfload/lines.h"

#include <cstdint>
#include <fstream>
#include <stdexcept>

namespace load {

void ReadLines(const std::string& path,
               const std::function<std::string(const std::string& line)>& take) {
  std::ifstream file(path);
  if (!file) throw std::invalid_argument("cannot read " + path);
  uint64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty() || line[0] == '#') continue;
    const std::string complaint = take(line);
    if (!complaint.empty()) {
      std::string text = path + ":";
      text += std::to_string(number) + ": ";
      throw std::invalid_argument(text += complaint);
    }
  }
  if (file.bad()) throw std::invalid_argument("cannot read " + path);
}

}  // namespace load
