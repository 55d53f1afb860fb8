#include "src/stats/stats.h"

#include "src/stats/sections.h"

namespace server {
namespace {

struct Section {
  std::string_view name;
  void (*write)(const ServerView&, StatsSink*);
};

// Sizes of items are not tracked: this is memcached's answer then.
void WriteSizes(const ServerView&, StatsSink* out) { out->Add("sizes_status", "disabled"); }

constexpr Section kSections[] = {
    {"", WriteGeneral},    {"settings", WriteSettings}, {"items", WriteItems},
    {"slabs", WriteSlabs}, {"sizes", WriteSizes},       {"conns", WriteConnections},
    {"kbf", WriteKbf},     {"errors", WriteErrors},
};

}  // namespace

bool WriteStatistics(std::string_view section, const ServerView& server, StatsSink* out) {
  for (const Section& known : kSections) {
    if (section != known.name) continue;
    known.write(server, out);
    return true;
  }
  return false;
}

}  // namespace server
