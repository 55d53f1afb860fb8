#include "src/process/version.h"

#include "config.h"

namespace server {

std::string_view OwnVersion() { return PACKAGE_VERSION; }

}  // namespace server
