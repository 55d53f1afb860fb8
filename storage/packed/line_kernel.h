// LineKernel compares one tag with the first 16 tags of two lines at once, without branches: the
// inner loop of a packed table's look-ups. It is an implementation detail of packed_lines.h.
//
// Promises:  all kernels give the same answers (tests/storage/packed/line_kernel_test.cc).
// Requires:  32 readable bytes at each line.
// Costs:     about a nanosecond with AVX2 or SSE2, three with the portable one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kbf {

// Bit i: tag i of the first line is equal; bit 16 + i: tag i of the second line.
using LineKernel = uint32_t (*)(const std::byte* first, const std::byte* second, uint16_t tag);

// The fastest that this CPU has.
LineKernel FastestLineKernel();
uint32_t MatchPortable(const std::byte* first, const std::byte* second, uint16_t tag);
// Null where compiler or CPU lack the instructions.
LineKernel Sse2LineKernel();
LineKernel Avx2LineKernel();

}  // namespace kbf
