// Where the bytes of an image go, and where they come from: a file now, a socket later.
#pragma once

#include <cstddef>
#include <span>

namespace kbf {

class ByteSink {
 public:
  virtual ~ByteSink() = default;
  // All of them, or false: what was written so far is of no use.
  [[nodiscard]] virtual bool Write(std::span<const std::byte> bytes) = 0;
};

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // How many bytes were read. Fewer than asked for: there are no more, or they cannot be had.
  [[nodiscard]] virtual size_t Read(std::span<std::byte> into) = 0;
};

}  // namespace kbf
