// LineArena is the address space of a packed table: places of one size for its segments, of which
// only the pages that hold lines take memory.
//
// Requires:  a place is zero where nothing was written since Create or Discard; movable, not
//            copyable.
// Costs:     address space for all places from the beginning; memory by page, as it is written to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace kbf {

class LineArena {
 public:
  static constexpr uint64_t kPageBytes = 4096;

  // Nothing if there is no address space. REQUIRES: place_bytes is a multiple of kPageBytes
  static std::optional<LineArena> Create(uint32_t places, uint64_t place_bytes);
  LineArena(LineArena&& other) noexcept
      : begin_(std::exchange(other.begin_, nullptr)),
        places_(other.places_),
        place_bytes_(other.place_bytes_) {}
  LineArena& operator=(LineArena&& other) noexcept {
    std::swap(begin_, other.begin_);
    std::swap(places_, other.places_);
    std::swap(place_bytes_, other.place_bytes_);
    return *this;
  }
  ~LineArena();

  std::byte* Place(uint32_t index) const { return begin_ + index * place_bytes_; }
  // Gives the memory of the first `bytes` of a place back; they are zero then.
  void Discard(uint32_t index, uint64_t bytes);

 private:
  LineArena(std::byte* begin, uint32_t places, uint64_t place_bytes)
      : begin_(begin), places_(places), place_bytes_(place_bytes) {}

  std::byte* begin_;
  uint32_t places_;
  uint64_t place_bytes_;
};

}  // namespace kbf
