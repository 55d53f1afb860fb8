// kbfcached: a cache server that speaks memcached's protocols and keeps most of its data
// approximately. docs/ARCHITECTURE.md follows a request through it.
#include <cstdio>
#include <exception>
#include <string>

#include "src/config/command_line.h"
#include "src/log.h"
#include "src/server.h"

int main(int argc, char** argv) try {
  const server::ParsedOptions parsed = server::ParseOptions(argc, argv);
  if (parsed.print) {
    std::fputs(parsed.print->c_str(), stdout);
    return 0;
  }
  for (const std::string& warning : parsed.warnings) {
    server::Log(server::kLogAlways, "%s", warning.c_str());
  }
  return server::RunServer(parsed.options);
} catch (const std::exception& error) {
  std::fprintf(stderr, "kbfcached: %s\n", error.what());
  return 1;
}
