// A file with some text, for tests of what reads files. Test code only.
#pragma once

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace load {

// Gone at the end.
class TextFile {
 public:
  explicit TextFile(const std::string& text) {
    const int fd = mkstemp(path_.data());
    REQUIRE(fd >= 0);
    close(fd);
    std::ofstream(path_) << text;
  }
  ~TextFile() { unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = "/tmp/kbfload_test_XXXXXX";
};

}  // namespace load
