#include "src/dispatch/stats_command.h"

#include <array>
#include <cassert>
#include <utility>

#include "protocol/binary.h"
#include "protocol/stats_format.h"
#include "protocol/tokens.h"
#include "src/stats/sink.h"
#include "src/stats/stats.h"

namespace server {
namespace {

using protocol::Request;
using protocol::Wire;

// Statistics in the form that the client of a request understands.
class ReplySink final : public StatsSink {
 public:
  explicit ReplySink(const Request& request) : request_(request) {}

  std::string Finish() {
    protocol::AppendStatsEnd(request_, &reply_);
    return std::move(reply_);
  }

 private:
  void Write(std::string_view name, std::string_view value) override {
    protocol::AppendStat(request_, name, value, &reply_);
  }

  const Request& request_;
  std::string reply_;
};

// The line; on the binary wire memcached says "not found" instead.
std::string Refuse(const Request& request, std::string_view line) {
  if (request.wire != Wire::kBinary) return std::string(line);
  protocol::Response response;
  response.status = protocol::Status::kNotFound;
  std::array<char, protocol::kHeadBytesMax> head;
  return {head.data(), FormatBinary(request, response, head.data()).bytes};
}

std::string SwitchDetail(std::string_view what, PrefixStats& prefixes) {
  if (what != "on" && what != "off") return "CLIENT_ERROR usage: stats detail on|off|dump\r\n";
  prefixes.Enable(what == "on");
  return "OK\r\n";
}

std::string Reset(const Request& request, State& state) {
  state.stats_baseline.Reset(state.View());
  state.prefix_stats.Clear();
  return request.wire == Wire::kBinary ? ReplySink(request).Finish() : "RESET\r\n";
}

}  // namespace

bool IsPrefixDump(const Request& request) {
  std::string_view rest = request.arguments;
  return request.wire != Wire::kBinary && protocol::NextToken(&rest) == "detail" &&
         protocol::NextToken(&rest) == "dump";
}

std::string AnswerStats(const Request& request, State& state) {
  assert(request.op == protocol::Op::kStats);
  std::string_view rest = request.arguments;
  const bool binary = request.wire == Wire::kBinary;
  const std::string_view name = binary ? rest : protocol::NextToken(&rest);
  ReplySink sink(request);
  if (WriteStatistics(name, state.View(), &sink)) return sink.Finish();
  if (name == "reset") return Reset(request, state);
  if (name == "detail" && !binary) {
    return SwitchDetail(protocol::NextToken(&rest), state.prefix_stats);
  }
  if (name == "cachedump") {
    return Refuse(request, "CLIENT_ERROR stats cachedump not allowed\r\n");
  }
  return Refuse(request, "ERROR\r\n");
}

}  // namespace server
