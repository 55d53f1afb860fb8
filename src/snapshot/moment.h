// How much time has passed between the writing of a snapshot and its loading, perhaps by another
// process after a restart of the machine, and what the store's clock must show then.
//
// Promises:  never too little, so that nothing expires late: while the machine runs, its clock
//            since the boot counts, whatever the wall clock does; after a restart, the wall clock,
//            and if that went back there is no answer. At most a second and a fraction too much,
//            unless the wall clock jumped ahead and the boots cannot be told apart.
#pragma once

#include <cstdint>
#include <optional>

#include "storage/image/store_image.h"

namespace server {

// The present, by the system's clocks.
kbf::ImageMoment MomentNow(uint32_t store_s);

// The time of the store's clock at `now`, whose store_s does not count. Nothing: it is not known.
std::optional<uint32_t> StoreTimeAt(const kbf::ImageMoment& now, const kbf::ImageMoment& saved);

}  // namespace server
