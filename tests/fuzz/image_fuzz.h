// What must hold for any bytes that claim to be an image: they are refused, or read to their end.
// Once as they are, and once with sums that are right, because otherwise hardly any input would
// come further than the head.
#pragma once

#include <string_view>
#include <vector>

#include "storage/image/image.h"
#include "tests/fuzz/fuzz.h"
#include "tests/storage/image/image_bytes.h"

namespace kbf {

inline const char* FuzzImageBytes(std::span<const std::byte> bytes) {
  MemorySource source(bytes);
  ImageReader reader(source);
  ImageHead head;
  size_t payload = 0;
  if (reader.ReadHead(&head)) {
    while (reader.Next()) {
      if (reader.type() == 0) return "a section of type 0";
      // In pieces of several sizes.
      uint64_t piece = 0;
      for (size_t size = 1; reader.HasMore(); size = size % 8 + 1) {
        const auto into = std::as_writable_bytes(std::span(&piece, 1)).first(size);
        if (!reader.Get(into)) break;
        payload += size;
      }
      // The last piece may have been too long for the section.
      if (reader.status() == ImageStatus::kImpossible) return nullptr;
    }
  }
  if (reader.bytes_read() > bytes.size() || payload > bytes.size()) return "more than there is";
  if (reader.status() == ImageStatus::kOk &&
      (head.mark != ImageMark::kCurrent && head.mark != ImageMark::kOutdated)) {
    return "an unknown mark";
  }
  if (reader.Next()) return "a section behind the end";
  return nullptr;
}

// The fault that was found, or null.
inline const char* FuzzImage(std::string_view input) {
  const auto* const first = reinterpret_cast<const std::byte*>(input.data());
  std::vector<std::byte> bytes(first, first + input.size());
  if (const char* fault = FuzzImageBytes(bytes)) return fault;
  FixImageSums(&bytes);
  return FuzzImageBytes(bytes);
}

}  // namespace kbf
