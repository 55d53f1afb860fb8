// Files as the tools read and write them: everything is checked, and what goes wrong is thrown as
// one line that names the file.
#pragma once

#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tools {

// "cannot read FILE: No such file or directory" and the like.
struct FileError : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// With the text of errno behind it.
[[noreturn]] void ThrowFileError(const std::string& what);

// Bytes on their way to a descriptor, which stays the caller's. Append and Flush throw FileError.
class Output {
 public:
  // `name` is for messages.
  Output(int fd, std::string name) : fd_(fd), name_(std::move(name)) {}

  void Append(std::string_view bytes) {
    if (buffer_.size() + bytes.size() > kBufferBytes) Flush();
    if (bytes.size() >= kBufferBytes) return Write(bytes);
    buffer_ += bytes;
  }
  void Append(char byte) { Append(std::string_view(&byte, 1)); }
  void Flush() {
    Write(buffer_);
    buffer_.clear();
  }

 private:
  static constexpr size_t kBufferBytes = size_t{1} << 18;
  void Write(std::string_view bytes);

  int fd_;
  std::string name_;
  std::string buffer_;
};

// All bytes of a file. Throws FileError, also where it has more than `bytes_max`.
std::vector<std::byte> ReadFile(const std::string& path, size_t bytes_max);

// The file has the new bytes or is as it was: they go to a temporary file beside it, to the disk,
// and then take its name. What exists and is no regular file, such as a pipe, is written directly.
// Throws FileError.
void ReplaceFile(const std::string& path, std::span<const std::byte> bytes);

}  // namespace tools
