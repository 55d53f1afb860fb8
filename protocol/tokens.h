// Words of a command line, which only spaces separate: a tab is part of a word, as in memcached.
//
// Costs:     one memchr per word.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace protocol {

// The next token of a list that is separated by spaces, cut off `rest`; empty at the end.
inline std::string_view NextToken(std::string_view* rest) {
  size_t begin = 0;
  while (begin < rest->size() && (*rest)[begin] == ' ') ++begin;
  rest->remove_prefix(begin);
  const size_t length = std::min(rest->find(' '), rest->size());
  const std::string_view token = rest->substr(0, length);
  rest->remove_prefix(length);
  return token;
}

// True: as a part of a line, this is read as one word and leaves the line whole.
inline bool IsWord(std::string_view text) {
  constexpr std::string_view kBreaks(" \n\0", 3);
  return !text.empty() && text.find_first_of(kBreaks) == text.npos;
}

// The first words of a line, Max at most: a line with more counts as one with Max.
template <size_t Max>
class Tokens {
 public:
  explicit Tokens(std::string_view rest) {
    while (count_ < Max) {
      const std::string_view token = NextToken(&rest);
      if (token.empty()) break;
      tokens_[count_++] = token;
    }
  }

  size_t count() const { return count_; }
  std::string_view operator[](size_t i) const { return tokens_[i]; }
  // Empty where there is none.
  std::string_view last() const { return count_ == 0 ? std::string_view() : tokens_[count_ - 1]; }

 private:
  std::array<std::string_view, Max> tokens_;
  size_t count_ = 0;
};

}  // namespace protocol
