// ImageBuffer collects a piece of an image under a lock, to be written when the lock is released.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace kbf {

class ImageBuffer {
 public:
  // These throw std::bad_alloc.
  void Put(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  void Put(std::string_view bytes) { Put(std::as_bytes(std::span(bytes))); }
  template <std::integral Number>
  void Put(Number number) {
    Put(std::as_bytes(std::span(&number, 1)));
  }
  // Room for so many more bytes, which the caller writes.
  std::byte* Extend(size_t bytes) {
    bytes_.resize(bytes_.size() + bytes);
    return bytes_.data() + bytes_.size() - bytes;
  }
  size_t size() const { return bytes_.size(); }
  std::span<const std::byte> bytes() const { return bytes_; }
  void Clear() { bytes_.clear(); }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace kbf
