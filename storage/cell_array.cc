#include "storage/cell_array.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "storage/layout.h"

namespace kbf {

namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kHugePageBytes = uint64_t{2} << 20;

constexpr uint64_t RoundUp(uint64_t bytes, uint64_t to) { return (bytes + to - 1) / to * to; }

// A mapping that starts on a huge page, so that all but its tail can be huge; the slack around it
// is unmapped.
std::byte* MapAligned(uint64_t bytes) {
  const uint64_t slack = bytes + kHugePageBytes;
  void* mapped = mmap(nullptr, slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* begin = static_cast<std::byte*>(mapped);
  const uint64_t skip =
      (kHugePageBytes - reinterpret_cast<uintptr_t>(begin) % kHugePageBytes) % kHugePageBytes;
  if (skip > 0) munmap(begin, skip);
  munmap(begin + skip + bytes, slack - skip - bytes);
  madvise(begin + skip, bytes, MADV_HUGEPAGE);  // a hint: without it the array is only slower
  return begin + skip;
}

}  // namespace

std::optional<CellArray> CellArray::Allocate(uint64_t bytes) {
  // Half the address space is more than any machine has, and cannot overflow when rounded up.
  if (bytes == 0 || bytes > uint64_t{1} << 46) return std::nullopt;
  if (bytes >= kMappedBytesMin) {
    bytes = RoundUp(bytes, kPageBytes);
    std::byte* data = MapAligned(bytes);
    if (data == nullptr) return std::nullopt;
    return CellArray(data, bytes);
  }
  bytes = RoundUp(bytes, kCacheLineBytes);
  auto* data = static_cast<std::byte*>(std::aligned_alloc(kCacheLineBytes, bytes));
  if (data == nullptr) return std::nullopt;
  std::memset(data, 0, bytes);
  return CellArray(data, bytes);
}

CellArray::~CellArray() {
  if (data_ == nullptr) return;
  if (allocated_bytes_ >= kMappedBytesMin) {
    munmap(data_, allocated_bytes_);
  } else {
    std::free(data_);
  }
}

}  // namespace kbf
