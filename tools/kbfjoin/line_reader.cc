#include "tools/kbfjoin/line_reader.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "tools/files.h"

namespace join {

LineReader::LineReader(int fd, std::string name, size_t line_bytes_max)
    : fd_(fd), name_(std::move(name)), line_bytes_max_(line_bytes_max), buffer_(kBufferBytes) {}

void LineReader::ThrowTooLong() const {
  throw tools::FileError(name_ + ", line " + std::to_string(next_number_) + ": longer than " +
                         std::to_string(line_bytes_max_) + " bytes; see --line-max");
}

bool LineReader::Fill() {
  if (at_end_) return false;
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    searched_ -= begin_;
    begin_ = 0;
  }
  if (end_ > line_bytes_max_) ThrowTooLong();
  if (end_ == buffer_.size()) buffer_.resize(std::min(2 * end_, line_bytes_max_ + kBufferBytes));
  ssize_t got = 0;
  do {
    got = read(fd_, buffer_.data() + end_, buffer_.size() - end_);
  } while (got < 0 && errno == EINTR);
  if (got < 0) tools::ThrowFileError("cannot read " + name_);
  at_end_ = got == 0;
  end_ += static_cast<size_t>(got);
  return !at_end_;
}

bool LineReader::Next(size_t lines_max, std::vector<std::string_view>* lines) {
  lines->clear();
  first_number_ = next_number_;
  while (lines->size() < lines_max) {
    const char* const from = buffer_.data() + searched_;
    const auto* const newline = static_cast<const char*>(std::memchr(from, '\n', end_ - searched_));
    size_t line_end = newline != nullptr ? static_cast<size_t>(newline - buffer_.data()) : end_;
    searched_ = end_;
    if (newline == nullptr) {
      // What was found is given out before more is read over it.
      if (!lines->empty()) break;
      if (Fill()) continue;
      line_end = end_;
      if (begin_ == end_) break;
    }
    if (line_end - begin_ > line_bytes_max_) {
      // The next call throws, when the lines before have been taken.
      searched_ = begin_;
      if (!lines->empty()) break;
      ThrowTooLong();
    }
    lines->emplace_back(buffer_.data() + begin_, line_end - begin_);
    begin_ = std::min(line_end + 1, end_);
    searched_ = begin_;
    ++next_number_;
  }
  return !lines->empty();
}

}  // namespace join
