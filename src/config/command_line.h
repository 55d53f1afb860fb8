// Reads the command line and the file of --config: the grammar and the long names of memcached
// 1.6.18, and a few options of our own.
//
// Promises:  what ParseOptions returns is complete and in range; options that memcached knows and
//            this server does not need are checked, kept in Options::inert and named in one
//            warning; options that it cannot obey are refused by name. Numbers are strict: no
//            other characters after them, no wrap-around, where memcached would take "64x" for 64.
// Requires:  nothing of the machine: no socket is opened, no user or host looked up. The only
//            file that is read is the one of --config.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/config/options.h"

namespace server {

struct ParsedOptions {
  Options options;
  std::optional<std::string> print;   // of -h, -V, -i: print this and exit with 0
  std::vector<std::string> warnings;  // a line each, for the log
};

// Throws StartupError.
ParsedOptions ParseOptions(int argc, const char* const* argv);

}  // namespace server
