// A whole store as an image: a section that describes it, two sections for each slab, and one at
// the end.
//
// Promises:  as slab_image.h. A loaded store has the slabs and the filter size of the image,
//            whatever its configuration asks for, and the memory limit of the configuration.
//            Nothing is loaded unless all of the image is right.
// Requires:  StoreSaver: one at a time; the store outlives it. The clock of the loaded store begins
//            at the time that LoadStore was given, or later, and that is after the saved store's,
//            by at least the time that has passed since.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "storage/image/image.h"
#include "storage/image/slab_image.h"
#include "storage/store.h"

namespace kbf {

// Only a store whose engine has the same digest can use an image. Nothing: the engine has no
// images.
std::optional<ImageSum> ImageDigestOf(const Engine& engine);

// When an image was begun, by the store's clock and by the caller's clocks, which only the caller
// understands.
struct ImageMoment {
  uint32_t store_s = 0;
  int64_t unix_ms = 0;
  int64_t boot_ms = 0;
  std::array<std::byte, 16> boot{};
};

class StoreSaver {
 public:
  // `mark`: kOutdated where the store is used meanwhile. Throws std::bad_alloc. REQUIRES: its
  // engine has images
  StoreSaver(Store& store, ByteSink& sink, ImageMark mark, const ImageMoment& moment);

  // One step. False: that was the last one, or the sink has refused bytes: see ok(). Throws
  // std::bad_alloc.
  bool Step(uint32_t now);
  bool ok() const { return writer_.ok(); }
  uint64_t bytes_written() const { return writer_.bytes_written(); }
  const ImageCounts& counts() const { return counts_; }

 private:
  void Finish();

  Store& store_;
  ImageWriter writer_;
  unsigned slab_ = 0;
  std::unique_ptr<SlabSaver> saver_;
  ImageCounts counts_;
};

struct StoreLoad {
  std::unique_ptr<Store> store;  // null: see `error`
  std::string error;             // such as "it is cut off"
  bool outdated = false;         // that was the error
  ImageCounts counts;
  uint64_t bytes = 0;
};

// `now_at` says what time it is for an image of that moment, or nothing: its expiry times cannot be
// trusted. `progress` is called now and then. The source must end where the image does.
StoreLoad LoadStore(ByteSource& source, const StoreConfig& config, bool accept_outdated,
                    const std::function<std::optional<uint32_t>(const ImageMoment&)>& now_at,
                    const std::function<void()>& progress);

}  // namespace kbf
