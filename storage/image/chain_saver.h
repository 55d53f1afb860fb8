// ChainSaver gives a chain as a section of an image, in pieces.
//
// Promises:  a chain that loads the section answers as the saved one did, but for what changed
// while
//            it was saved: of the parts that were dropped or opened meanwhile nothing is in the
//            image. While a saver exists no number is given to another value, and there is no
//            background work.
// Requires:  the slab's lock around everything, also around the saver's life, which ends before the
//            chain's.
#pragma once

#include "storage/image/image_buffer.h"

namespace kbf {

class ChainSaver {
 public:
  virtual ~ChainSaver() = default;
  // Appends the next piece. False: that was the last one. Throws std::bad_alloc.
  virtual bool Step(ImageBuffer* out) = 0;
};

}  // namespace kbf
