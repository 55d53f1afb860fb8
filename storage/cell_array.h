// CellArray is one zeroed, cache-line aligned allocation: the cells of a filter. Large ones request
// huge pages, because scattered single-cell reads otherwise miss the TLB as often as the cache.
//
// Requires:  nothing; movable, not copyable.
// Costs:     allocated_bytes(): the bytes requested, rounded up to a cache line, or to whole pages
//            from 1 MiB on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace kbf {

class CellArray {
 public:
  static constexpr size_t kMappedBytesMin = size_t{1} << 20;

  // Nothing if there is no memory.
  static std::optional<CellArray> Allocate(uint64_t bytes);

  CellArray(CellArray&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        allocated_bytes_(std::exchange(other.allocated_bytes_, 0)) {}
  CellArray& operator=(CellArray&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(allocated_bytes_, other.allocated_bytes_);
    return *this;
  }
  ~CellArray();

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  uint64_t allocated_bytes() const { return allocated_bytes_; }

 private:
  CellArray(std::byte* data, uint64_t bytes) : data_(data), allocated_bytes_(bytes) {}

  std::byte* data_;
  uint64_t allocated_bytes_;
};

}  // namespace kbf
