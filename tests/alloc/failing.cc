#include "tests/alloc/failing.h"

#include <errno.h>
#include <event2/event.h>
#include <sys/mman.h>
#include <sys/types.h>

#include <algorithm>
#include <cstdlib>
#include <new>

// The linker's names of the real functions, and of those that stand in for them.
extern "C" {
void* __real_malloc(size_t bytes);
void* __real_calloc(size_t count, size_t bytes);
void* __real_realloc(void* memory, size_t bytes);
void* __real_aligned_alloc(size_t alignment, size_t bytes);
void* __real_mmap(void* address, size_t bytes, int protection, int flags, int fd, off_t offset);
}

namespace failing {
namespace {

struct {
  bool armed = false;
  uint64_t first = 0;
  uint64_t end = 0;
  uint64_t calls = 0;
  uint64_t failures = 0;
} now;

bool Fails() {
  if (!now.armed) return false;
  ++now.calls;
  if (now.calls < now.first || now.calls >= now.end) return false;
  ++now.failures;
  errno = ENOMEM;
  return true;
}

void* New(size_t bytes) { return Fails() ? nullptr : __real_malloc(std::max<size_t>(bytes, 1)); }

void* NewAligned(size_t bytes, std::align_val_t alignment) {
  const auto unit = static_cast<size_t>(alignment);
  return Fails()
             ? nullptr
             : __real_aligned_alloc(unit, (std::max<size_t>(bytes, 1) + unit - 1) & ~(unit - 1));
}

void* OrThrow(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void* Malloc(size_t bytes) { return Fails() ? nullptr : __real_malloc(bytes); }
void* Realloc(void* memory, size_t bytes) {
  return Fails() ? nullptr : __real_realloc(memory, bytes);
}

}  // namespace

void InstallForLibevent() { event_set_mem_functions(Malloc, Realloc, std::free); }
void Arm() { now.armed = true; }
void Disarm() { now.armed = false; }
void Choose(uint64_t first, uint64_t count) {
  now.first = first;
  now.end = first == 0 ? 0 : count > UINT64_MAX - first ? UINT64_MAX : first + count;
  now.calls = now.failures = 0;
}
void Stop() { now.first = now.end = 0; }
uint64_t calls() { return now.calls; }
uint64_t failures() { return now.failures; }

}  // namespace failing

extern "C" {
void* __wrap_malloc(size_t bytes) { return failing::Malloc(bytes); }
void* __wrap_calloc(size_t count, size_t bytes) {
  return failing::Fails() ? nullptr : __real_calloc(count, bytes);
}
void* __wrap_realloc(void* memory, size_t bytes) { return failing::Realloc(memory, bytes); }
void* __wrap_aligned_alloc(size_t alignment, size_t bytes) {
  return failing::Fails() ? nullptr : __real_aligned_alloc(alignment, bytes);
}
void* __wrap_mmap(void* address, size_t bytes, int protection, int flags, int fd, off_t offset) {
  return failing::Fails() ? MAP_FAILED : __real_mmap(address, bytes, protection, flags, fd, offset);
}
}

void* operator new(size_t bytes) { return failing::OrThrow(failing::New(bytes)); }
void* operator new[](size_t bytes) { return failing::OrThrow(failing::New(bytes)); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return failing::New(bytes); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return failing::New(bytes); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return failing::OrThrow(failing::NewAligned(bytes, alignment));
}
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return failing::OrThrow(failing::NewAligned(bytes, alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
