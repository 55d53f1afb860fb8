#include "src/dispatch/stats_command.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <initializer_list>
#include <optional>
#include <utility>

#include "protocol/binary.h"
#include "protocol/stats_format.h"
#include "protocol/text.h"
#include "protocol/tokens.h"
#include "src/io/output.h"
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

// What follows "detail", if that is what the request asks for. memcached compares only the
// beginnings of binary keys.
std::optional<std::string_view> DetailOf(const Request& request) {
  std::string_view rest = request.arguments;
  if (request.wire != Wire::kBinary) {
    if (protocol::NextToken(&rest) != "detail") return std::nullopt;
    return protocol::NextToken(&rest);
  }
  if (!rest.starts_with("detail")) return std::nullopt;
  rest.remove_prefix(std::string_view("detail").size());
  for (const std::string_view what : {"on", "off", "dump"}) {
    if (rest.starts_with(' ') && rest.substr(1).starts_with(what)) return what;
  }
  return "";
}

std::string SwitchDetail(const Request& request, std::string_view what, PrefixStats& prefixes) {
  if (what != "on" && what != "off") {
    return Refuse(request, "CLIENT_ERROR usage: stats detail on|off|dump\r\n");
  }
  prefixes.Enable(what == "on");
  return request.wire == Wire::kBinary ? ReplySink(request).Finish() : "OK\r\n";
}

std::string Reset(const Request& request, State& state) {
  state.stats_baseline.Reset(state.View());
  state.prefix_stats.Clear();
  return request.wire == Wire::kBinary ? ReplySink(request).Finish() : "RESET\r\n";
}

}  // namespace

bool IsPrefixDump(const Request& request) { return DetailOf(request) == "dump"; }

size_t WritePrefixes(const Request& request, const PrefixStats& prefixes,
                     PrefixStats::Cursor* cursor, char* out) {
  constexpr size_t kTextBytesMax = Output::kReplyBytesMax - 2 * protocol::kBinaryHeaderBytes - 16;
  const bool binary = request.wire == Wire::kBinary;
  std::array<char, kTextBytesMax> buffer;
  char* const text = binary ? buffer.data() : out;
  size_t bytes = prefixes.Dump(cursor, text, kTextBytesMax - protocol::kEnd.size());
  const bool ended = PrefixStats::Ended(*cursor);
  if (ended) bytes += protocol::kEnd.copy(text + bytes, protocol::kEnd.size());
  if (!binary) return bytes;
  protocol::Response response;
  response.key = "detailed";
  response.value = {text, bytes};
  size_t written = FormatBinary(request, response, out).bytes;
  written += response.value.copy(out + written, bytes);
  return ended ? written + FormatBinary(request, {}, out + written).bytes : written;
}

std::string AnswerLines(const Request& request, std::string_view lines) {
  ReplySink sink(request);
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    const std::string_view line = lines.substr(0, end);
    const size_t space = std::min(line.find(' '), line.size());
    sink.Add(line.substr(0, space), line.substr(std::min(space + 1, line.size())));
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
  return sink.Finish();
}

std::string AnswerStats(const Request& request, State& state) {
  assert(request.op == protocol::Op::kStats);
  std::string_view rest = request.arguments;
  const bool binary = request.wire == Wire::kBinary;
  const std::string_view name = binary ? rest : protocol::NextToken(&rest);
  ReplySink sink(request);
  if (WriteStatistics(name, state.View(), &sink)) return sink.Finish();
  if (name == "reset") return Reset(request, state);
  if (const auto what = DetailOf(request)) return SwitchDetail(request, *what, state.prefix_stats);
  return Refuse(request, "ERROR\r\n");
}

}  // namespace server
