// LineReader reads a descriptor line by line, many lines at a time.
//
// Promises:  every line once and in order, without its newline, whatever bytes are in it; a last
//            line without a newline counts. A line that is too long is thrown as tools::FileError.
// Requires:  lines are valid until the next call.
// Costs:     a buffer of 1 MiB, or of the longest line where that is longer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace join {

class LineReader {
 public:
  static constexpr size_t kBufferBytes = size_t{1} << 20;

  // The descriptor stays the caller's; `name` is for messages.
  LineReader(int fd, std::string name, size_t line_bytes_max);

  // Up to `lines_max` lines; false at the end. Throws tools::FileError.
  bool Next(size_t lines_max, std::vector<std::string_view>* lines);
  // The number of the first line of the last call, from 1.
  uint64_t first_number() const { return first_number_; }
  const std::string& name() const { return name_; }

 private:
  // False at the end of the input.
  bool Fill();
  [[noreturn]] void ThrowTooLong() const;

  int fd_;
  std::string name_;
  size_t line_bytes_max_;
  std::vector<char> buffer_;
  size_t begin_ = 0;  // of what has not been given out
  size_t end_ = 0;
  size_t searched_ = 0;  // no newline between begin_ and here
  bool at_end_ = false;
  uint64_t first_number_ = 1;
  uint64_t next_number_ = 1;
};

}  // namespace join
