// ReplyWriter writes the pieces of a reply one after another.
//
// Requires:  room for all of them: kHeadBytesMax for a head.
#pragma once

#include <charconv>
#include <cstdint>
#include <string_view>

namespace protocol {

class ReplyWriter {
 public:
  explicit ReplyWriter(char* out) : begin_(out), at_(out) {}

  void Add(char c) { *at_++ = c; }
  void Add(std::string_view text) { at_ += text.copy(at_, text.size()); }
  template <class Integer>
  void Number(Integer number) {
    at_ = std::to_chars(at_, at_ + kNumberBytesMax, number).ptr;
  }
  // For pieces that other functions write: they write to Room(), then Commit how many bytes.
  char* Room() { return at_; }
  void Commit(size_t bytes) { at_ += bytes; }

  size_t bytes() const { return static_cast<size_t>(at_ - begin_); }

 private:
  static constexpr size_t kNumberBytesMax = 20;  // 2^64 - 1, or - 2^63

  char* begin_;
  char* at_;
};

}  // namespace protocol
