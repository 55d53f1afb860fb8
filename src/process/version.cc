#include "src/process/version.h"

#include "config.h"

namespace server {

std::string_view VersionString() { return "1.6.18-kbf" PACKAGE_VERSION; }

}  // namespace server
