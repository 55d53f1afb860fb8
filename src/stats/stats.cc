#include "src/stats/stats.h"

#include <array>
#include <cassert>

#include "protocol/binary.h"
#include "protocol/tokens.h"
#include "src/stats/sections.h"

namespace server {
namespace {

using protocol::Request;
using protocol::Wire;

struct Section {
  std::string_view name;
  void (*write)(const State&, StatsWriter*);
};

// Sizes of items are not tracked: memcached's answer then.
void WriteSizes(const State&, StatsWriter* out) { out->Add("sizes_status", "disabled"); }

constexpr Section kSections[] = {
    {"", WriteGeneral},    {"settings", WriteSettings}, {"items", WriteItems},
    {"slabs", WriteSlabs}, {"sizes", WriteSizes},       {"conns", WriteConnections},
    {"kbf", WriteKbf},     {"errors", WriteErrors},
};

// A line where lines are spoken; on the binary wire memcached says "not found" to all of them.
std::string Refuse(const Request& request, std::string_view line) {
  if (request.wire != Wire::kBinary) return std::string(line);
  protocol::Response response;
  response.status = protocol::Status::kNotFound;
  std::array<char, protocol::kHeadBytesMax> head;
  return {head.data(), FormatBinary(request, response, head.data()).bytes};
}

std::string Detail(std::string_view what, PrefixStats& prefixes) {
  if (what != "on" && what != "off") return "CLIENT_ERROR usage: stats detail on|off|dump\r\n";
  prefixes.Enable(what == "on");
  return "OK\r\n";
}

}  // namespace

bool IsPrefixDump(const Request& request) {
  std::string_view rest = request.rest;
  return request.wire != Wire::kBinary && protocol::NextToken(&rest) == "detail" &&
         protocol::NextToken(&rest) == "dump";
}

std::string Statistics(const Request& request, State& state) {
  assert(request.op == protocol::Op::kStats);
  std::string_view rest = request.rest;
  const std::string_view name = request.wire == Wire::kBinary ? rest : protocol::NextToken(&rest);
  for (const Section& section : kSections) {
    if (name != section.name) continue;
    StatsWriter out(request);
    section.write(state, &out);
    return out.Finish();
  }
  if (name == "reset") {
    state.stats_baseline.Reset(state);
    state.prefix_stats.Clear();
    return request.wire == Wire::kBinary ? StatsWriter(request).Finish() : "RESET\r\n";
  }
  if (name == "detail" && request.wire != Wire::kBinary) {
    return Detail(protocol::NextToken(&rest), state.prefix_stats);
  }
  if (name == "cachedump") {
    return Refuse(request, "CLIENT_ERROR stats cachedump not allowed\r\n");
  }
  return Refuse(request, "ERROR\r\n");
}

}  // namespace server
