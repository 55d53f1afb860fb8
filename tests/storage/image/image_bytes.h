// Images in memory, for tests.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "storage/image/image.h"

namespace kbf {

class MemorySink final : public ByteSink {
 public:
  bool Write(std::span<const std::byte> more) override {
    bytes.insert(bytes.end(), more.begin(), more.end());
    edges.push_back(bytes.size());
    return bytes.size() <= bytes_max;
  }
  std::vector<std::byte> bytes;
  std::vector<size_t> edges;  // after the head and after each block
  size_t bytes_max = SIZE_MAX;
};

class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::span<const std::byte> bytes) : left_(bytes) {}
  size_t Read(std::span<std::byte> into) override {
    const size_t part = std::min(into.size(), left_.size());
    if (part > 0) std::memcpy(into.data(), left_.data(), part);
    left_ = left_.subspan(part);
    return part;
  }

 private:
  std::span<const std::byte> left_;
};

// Makes all sums of an image right, as far as its blocks can be followed; what is in them may be
// anything.
inline void FixImageSums(std::vector<std::byte>* image) {
  constexpr size_t kSum = sizeof(ImageSum);
  if (image->size() < kImageHeadBytes) return;
  const std::span<std::byte> bytes(*image);
  std::vector<std::byte> head(bytes.begin(), bytes.begin() + (kImageHeadBytes - kSum));
  std::fill_n(head.begin() + kImageMarkOffset, 4, std::byte{0});
  ImageSum whole = ImageSumOf(head);
  std::memcpy(bytes.data() + head.size(), whole.data(), kSum);
  size_t at = kImageHeadBytes;
  while (bytes.size() - at >= kImageBlockHeadBytes + kSum) {
    uint16_t type = 0;
    uint32_t payload = 0;
    std::memcpy(&type, bytes.data() + at, sizeof type);
    std::memcpy(&payload, bytes.data() + at + 4, sizeof payload);
    const size_t summed = kImageBlockHeadBytes + size_t{payload};
    if (bytes.size() - at - kSum < summed) return;
    if (type == 0 && payload == kSum) {
      std::memcpy(bytes.data() + at + kImageBlockHeadBytes, whole.data(), kSum);
    }
    const ImageSum sum = ImageSumOf(bytes.subspan(at, summed));
    std::memcpy(bytes.data() + at + summed, sum.data(), kSum);
    std::vector<std::byte> both(whole.begin(), whole.end());
    both.insert(both.end(), sum.begin(), sum.end());
    whole = ImageSumOf(both);
    at += summed + kSum;
  }
}

}  // namespace kbf
