// ChainSaver gives a chain as a section of an image, in pieces.
//
// Promises:  a chain that loads the section answers as the saved one did when the first step was
//            taken: engines copy all that changes in that step.
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
