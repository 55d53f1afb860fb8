// A slab as two sections of an image: the items of its front, then its chain. The front comes
// first, so that a key that is demoted in between is there twice rather than not at all.
//
// Promises:  each key that lived through the saving is in the image, with a value that it had
//            meanwhile; without writes meanwhile the loaded slab answers as the saved one. An image
//            that is larger than the slab's memory is made smaller by the usual evictions.
// Requires:  the loaded slab is as after construction, has the same secret and kind of chain, and
// its clock
//            goes on where the saved one's was; it is not used again if loading fails.
// Costs:     a step holds the slab's lock while it copies about 256 KB of items, one item, or
//            the chain, which takes about a millisecond for 4 MB, and writes without the lock.
#pragma once

#include <cstdint>
#include <memory>

#include "storage/image/chain_saver.h"
#include "storage/image/image.h"
#include "storage/image/image_buffer.h"
#include "storage/slab.h"

namespace kbf {

inline constexpr uint16_t kItemsVersion = 1;
inline constexpr uint16_t kChainVersion = 1;

// The types of all sections.
enum class ImageSection : uint16_t { kEnd, kStore, kItems, kChain, kStoreEnd };

struct ImageCounts {
  uint64_t items = 0;  // of fronts
  uint64_t keys = 0;   // of chains
};

class SlabSaver {
 public:
  // `index`: which slab of its store it is. REQUIRES: its engine has images
  SlabSaver(Slab& slab, unsigned index) : slab_(slab), index_(index) {}
  ~SlabSaver();
  SlabSaver(const SlabSaver&) = delete;
  SlabSaver& operator=(const SlabSaver&) = delete;

  // One step. False: that was the last one. Throws std::bad_alloc.
  bool Step(ImageWriter* writer, uint32_t now);
  const ImageCounts& counts() const { return counts_; }

 private:
  enum class State : uint8_t { kStart, kItems, kChain, kDone };

  Slab& slab_;
  const unsigned index_;
  State state_ = State::kStart;
  uint64_t position_ = 0;  // of the front
  std::unique_ptr<ChainSaver> chain_;
  ImageBuffer buffer_;
  ImageCounts counts_;
};

// Reads the section that the reader is in and the next one. False: see its status.
[[nodiscard]] bool LoadSlab(ImageReader* reader, unsigned index, uint32_t now, Slab* slab,
                            ImageCounts* counts);

}  // namespace kbf
