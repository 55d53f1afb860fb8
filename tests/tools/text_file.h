// A file with some text, for tests of what reads files. Test code only.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>

namespace load {

// Gone at the end.
class TextFile {
 public:
  explicit TextFile(const std::string& text) {
    const int fd = mkstemp(path_.data());
    if (fd < 0) throw std::runtime_error("cannot make " + path_);
    close(fd);
    std::ofstream(path_) << text;
  }
  ~TextFile() { unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = "/tmp/kbfload_test_XXXXXX";
};

}  // namespace load
