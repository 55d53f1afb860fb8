#include "tools/kbfload/result.h"

#include <algorithm>

namespace load {
namespace {

std::optional<double> Share(uint64_t part, uint64_t whole) {
  if (whole == 0) return std::nullopt;
  return static_cast<double>(part) / static_cast<double>(whole);
}

JsonObject LatencyJson(const Histogram& latency) {
  JsonObject json;
  const auto us = [&](double share) { return latency.Percentile(share) / 1000; };
  json.Put("count", latency.count()).Put("mean", latency.mean_ns() / 1000);
  json.Put("min", static_cast<double>(latency.min_ns()) / 1000);
  json.Put("p50", us(0.5)).Put("p90", us(0.9)).Put("p99", us(0.99)).Put("p999", us(0.999));
  json.Put("max", static_cast<double>(latency.max_ns()) / 1000);
  return json;
}

}  // namespace

double Result::ops_per_second() const {
  return seconds > 0 ? static_cast<double>(tally.AllOps()) / seconds : 0;
}

double Result::client_cpu_share() const {
  return seconds > 0 ? std::min(1.0, client_cpu_seconds / (seconds * threads)) : 0;
}

std::optional<double> Result::server_cpu_us_per_op() const {
  if (!server_cpu_seconds || tally.AllOps() == 0) return std::nullopt;
  return 1e6 * *server_cpu_seconds / static_cast<double>(tally.AllOps());
}

std::optional<double> Result::rss_bytes_per_key() const {
  const uint64_t keys = misses_are_errors ? tally.hits : items.value_or(0);
  if (!rss_bytes || keys == 0) return std::nullopt;
  return static_cast<double>(*rss_bytes) / static_cast<double>(keys);
}

std::optional<double> Result::false_negative() const {
  return misses_are_errors ? Share(tally.misses, tally.StoredGets()) : std::nullopt;
}

std::optional<double> Result::false_positive() const {
  return Share(tally.false_positives, tally.absent_asked);
}

std::optional<double> Result::wrong() const { return Share(tally.wrong, tally.StoredGets()); }

std::optional<double> Result::hit_ratio() const { return Share(tally.hits, tally.StoredGets()); }

void Result::PutInto(JsonObject* json) const {
  const Histogram latency = tally.AllLatency();
  JsonObject ops;
  for (size_t i = 0; i < kVerbs; ++i) ops.Put(kVerbNames[i], tally.ops[i]);
  JsonObject errors;
  errors.Put("error", tally.errors).Put("client_error", tally.client_errors);
  errors.Put("server_error", tally.server_errors).Put("not_stored", tally.not_stored);
  errors.Put("last", tally.last_error);
  json->Put("command", command).Put("server", server).Put("server_version", server_version);
  json->Put("seconds", seconds).Put("ops", tally.AllOps()).Put("ops_per_second", ops_per_second());
  json->Put("requests", latency.count()).Put("ops_by_kind", ops);
  json->Put("hits", tally.hits).Put("misses", tally.misses).Put("hit_ratio", hit_ratio());
  json->Put("not_found", tally.not_found).Put("absent_asked", tally.absent_asked);
  json->Put("wrong_count", tally.wrong).Put("false_positive_count", tally.false_positives);
  json->Put("false_negative", false_negative()).Put("false_positive", false_positive());
  json->Put("wrong", wrong()).Put("errors", errors);
  json->Put("latency_us", LatencyJson(latency));
  JsonObject by_kind;
  for (size_t i = 0; i < kVerbs; ++i) {
    if (tally.latency[i].count() > 0) by_kind.Put(kVerbNames[i], LatencyJson(tally.latency[i]));
  }
  json->Put("latency_us_by_kind", by_kind).Put("late_seconds", late_s);
  json->Put("bytes_sent", tally.bytes_sent).Put("bytes_received", tally.bytes_received);
  json->Put("client_cpu_share", client_cpu_share());
  json->Put("server_cpu_us_per_op", server_cpu_us_per_op());
  json->Put("items", items).Put("evictions", evictions).Put("rss_bytes", rss_bytes);
  json->Put("rss_bytes_per_key", rss_bytes_per_key()).Put("rss_growth_bytes", rss_growth_bytes);
  json->Put("interrupted", interrupted);
  failure.empty() ? json->PutNull("failure") : json->Put("failure", failure);
}

Result MakeResult(const std::string& command, const Outcome& outcome, const ServerAround& server) {
  Result result;
  result.command = command;
  result.tally = outcome.All();
  result.seconds = outcome.seconds;
  result.threads = outcome.threads;
  result.client_cpu_seconds = outcome.cpu_seconds;
  result.late_s = outcome.late_s;
  result.failure = outcome.failure;
  result.interrupted = outcome.interrupted;
  if (server.before) result.server_version = server.before->version();
  if (!server.after) return result;
  const ServerState& after = *server.after;
  result.items = after.items();
  result.rss_bytes = after.rss_bytes;
  if (!server.before) return result;
  const ServerState& before = *server.before;
  const auto grown = [](const auto& from, const auto& to) -> std::optional<double> {
    if (!from || !to) return std::nullopt;
    return static_cast<double>(*to) - static_cast<double>(*from);
  };
  result.server_cpu_seconds = grown(before.cpu_seconds(), after.cpu_seconds());
  result.rss_growth_bytes = grown(before.rss_bytes, after.rss_bytes);
  if (const auto count = grown(before.Number("evictions"), after.Number("evictions"))) {
    result.evictions = static_cast<uint64_t>(std::max(0.0, *count));
  }
  return result;
}

}  // namespace load
