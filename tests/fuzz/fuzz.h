// What the fuzz targets share. A target is a function that says which fault it found in some bytes,
// or null; tests/fuzz/<name>_fuzz.cc hands it to libFuzzer (`make fuzz`), and corpus_test.cc
// replays tests/fuzz/corpus/<name> through the same function in `make check`.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace fuzz {

using Check = const char* (*)(std::string_view input);

// The body of LLVMFuzzerTestOneInput: a fault ends the program, so that libFuzzer keeps the input.
inline int Run(Check check, const uint8_t* data, size_t size) {
  const char* const fault = check({reinterpret_cast<const char*>(data), size});
  if (fault == nullptr) return 0;
  std::fprintf(stderr, "fault: %s\n", fault);
  std::abort();
}

inline bool Inside(std::string_view view, std::string_view bytes) {
  const std::less_equal<> before;
  return view.empty() || (before(bytes.data(), view.data()) &&
                          before(view.data() + view.size(), bytes.data() + bytes.size()));
}

// A file without a directory, for what reads files by their names.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : fd_(memfd_create("fuzz", MFD_CLOEXEC)) {
    if (fd_ < 0 || write(fd_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
      throw std::runtime_error("cannot make a file in memory");
    }
  }
  ~MemoryFile() { close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

}  // namespace fuzz
