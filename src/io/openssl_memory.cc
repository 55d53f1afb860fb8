#include "src/io/openssl_memory.h"

#include <malloc.h>
#include <openssl/crypto.h>

#include <cstdlib>

namespace server {
namespace {

thread_local int64_t balance = 0;
thread_local uint64_t left = kNeverFail;  // until one fails, that one included

bool MayAllocate() {
  if (left == kNeverFail) return true;
  if (left > 0) --left;
  return left > 0;
}

int64_t SizeOf(void* block) { return static_cast<int64_t>(malloc_usable_size(block)); }

void* Allocate(size_t bytes, const char*, int) {
  if (bytes == 0 || !MayAllocate()) return nullptr;
  void* const block = std::malloc(bytes);
  if (block != nullptr) balance += SizeOf(block);
  return block;
}

void Release(void* block, const char*, int) {
  if (block == nullptr) return;
  balance -= SizeOf(block);
  std::free(block);
}

void* Reallocate(void* block, size_t bytes, const char* file, int line) {
  if (block == nullptr) return Allocate(bytes, file, line);
  if (bytes == 0) {
    Release(block, file, line);
    return nullptr;
  }
  if (!MayAllocate()) return nullptr;
  const int64_t before = SizeOf(block);
  void* const larger = std::realloc(block, bytes);
  if (larger != nullptr) balance += SizeOf(larger) - before;
  return larger;
}

}  // namespace

void CountOpenSslMemory() { CRYPTO_set_mem_functions(Allocate, Reallocate, Release); }

int64_t OpenSslBalance() { return balance; }

void FailOpenSslAllocations(uint64_t n) { left = n; }

uint64_t OpenSslAllocationsLeft() { return left; }

}  // namespace server
