#include "storage/compression/zstd_dictionary.h"

#include <zdict.h>
#include <zstd.h>

#include <algorithm>
#include <cstdlib>
#include <new>

namespace kbf {

namespace {

// zstd learns nothing useful from less.
constexpr size_t kSamplesMin = 16;

// More than training takes: 11.7 MB with samples of 128 KB and a text of 16 KB.
constexpr size_t kTrainingBytes = 16 << 20;

// zstd before 1.5.6 crashes where it gets no memory for a dictionary (its pull request 3847), so it
// is not asked for one when memory is short.
bool HasMemoryForTraining() {
  void* const memory = std::malloc(kTrainingBytes);
  // Otherwise the compiler may leave both calls out.
  asm volatile("" : : "r"(memory) : "memory");
  std::free(memory);
  return memory != nullptr;
}

}  // namespace

std::unique_ptr<ZstdDictionary> ZstdDictionary::Train(std::string_view samples,
                                                      std::span<const size_t> sizes,
                                                      size_t text_bytes_max) {
  if (sizes.size() < kSamplesMin || !HasMemoryForTraining()) return nullptr;
  std::unique_ptr<char[]> text(new (std::nothrow) char[text_bytes_max]);
  std::unique_ptr<ZstdDictionary> dictionary(new (std::nothrow) ZstdDictionary);
  if (text == nullptr || dictionary == nullptr) return nullptr;
  const size_t bytes =
      ZDICT_trainFromBuffer(text.get(), text_bytes_max, samples.data(), sizes.data(),
                            static_cast<unsigned>(std::min<size_t>(sizes.size(), 1 << 20)));
  if (ZDICT_isError(bytes)) return nullptr;
  dictionary->compression_ = ZSTD_createCDict(text.get(), bytes, kLevel);
  dictionary->decompression_ = ZSTD_createDDict(text.get(), bytes);
  if (dictionary->compression_ == nullptr || dictionary->decompression_ == nullptr) return nullptr;
  return dictionary;
}

ZstdDictionary::~ZstdDictionary() {
  ZSTD_freeCDict(compression_);
  ZSTD_freeDDict(decompression_);
}

size_t ZstdDictionary::memory_bytes() const {
  return sizeof(*this) + ZSTD_sizeof_CDict(compression_) + ZSTD_sizeof_DDict(decompression_);
}

}  // namespace kbf
