#include "storage/packed/line_arena.h"

#include <sys/mman.h>

#include <cstring>

namespace kbf {

std::optional<LineArena> LineArena::Create(uint32_t places, uint64_t place_bytes) {
  void* const mapped = mmap(nullptr, places * place_bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return std::nullopt;
  return LineArena(static_cast<std::byte*>(mapped), places, place_bytes);
}

LineArena::~LineArena() {
  if (begin_ != nullptr) munmap(begin_, places_ * place_bytes_);
}

void LineArena::Discard(uint32_t index, uint64_t bytes) {
  if (bytes == 0) return;
  if (madvise(Place(index), bytes, MADV_DONTNEED) != 0) std::memset(Place(index), 0, bytes);
}

}  // namespace kbf
