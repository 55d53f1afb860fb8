// What must hold for a store that is loaded from an image with wrong contents under right sums: it
// is refused, or it can be used. The input is a list of changes to an image: where, and the new
// byte.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "storage/image/store_image.h"
#include "tests/fuzz/fuzz.h"
#include "tests/storage/image/image_bytes.h"

namespace kbf {

struct SnapshotSeed {
  StoreConfig config;
  std::vector<std::byte> image;
};

inline SnapshotSeed MakeSnapshotSeed() {
  SnapshotSeed seed;
  seed.config.memory_bytes = kMemoryBytesMin;
  seed.config.num_slabs = 1;
  const auto store = std::move(Store::Create(seed.config, HashSecret::FromSeed(1)).store);
  for (int i = 0; i < 6000; ++i) {
    const std::string key = "key" + std::to_string(i);
    const std::string value = "value" + std::to_string(i % 300);
    const auto expires = static_cast<uint32_t>(i % 3 == 0 ? 5000 : 0);
    (void)store->Write({.key = key, .value = value, .expires = expires}, 10);
    if (i % 10 == 0) (void)store->Delete("key" + std::to_string(i / 2), 10);
  }
  MemorySink sink;
  StoreSaver saver(*store, sink, ImageMark::kCurrent, {.store_s = 10});
  while (saver.Step(10)) {
  }
  seed.image = std::move(sink.bytes);
  return seed;
}

// The fault that was found, or null.
inline const char* FuzzSnapshot(std::string_view input) {
  static const SnapshotSeed seed = MakeSnapshotSeed();
  constexpr size_t kChangeBytes = 5;
  std::vector<std::byte> bytes = seed.image;
  for (; input.size() >= kChangeBytes; input.remove_prefix(kChangeBytes)) {
    uint32_t at = 0;
    std::memcpy(&at, input.data(), sizeof at);
    bytes[at % bytes.size()] = static_cast<std::byte>(input[4]);
  }
  FixImageSums(&bytes);
  MemorySource source(bytes);
  const StoreLoad load = LoadStore(
      source, seed.config, false, [](const ImageMoment&) { return 20; }, [] {});
  if (load.store == nullptr) return load.error.empty() ? "refused without a reason" : nullptr;
  if (load.store->Usage().total_bytes() > 2 * seed.config.memory_bytes) return "too much memory";
  for (int i = 0; i < 100; ++i) {
    const std::string key = "key" + std::to_string(i * 59);
    const Reading reading = load.store->Get(key, 20);
    // Reads every byte, for the sanitizer.
    if (reading.hit && std::string(reading.value).size() != reading.value.size()) return "size";
    (void)load.store->Write({.key = key, .value = "new"}, 20);
    (void)load.store->Maintain(1, 40);
  }
  return nullptr;
}

}  // namespace kbf
