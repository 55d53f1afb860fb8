#include "tools/kbfload/crush.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "tools/kbfload/commands.h"
#include "tools/kbfload/lines.h"
#include "tools/kbfload/report.h"
#include "tools/kbfload/session.h"

namespace load {
namespace {

using protocol::Wire;

struct Sender {
  std::string_view name;
  Wire wire;
  Verb verb;
  bool many = false;   // takes mget_count
  bool quiet = false;  // is answered only when refused
  bool plain = false;  // takes cmd_postfix
};
constexpr Sender kSenders[] = {
    {"ascii_get", Wire::kText, Verb::kGet},
    {"ascii_mget", Wire::kText, Verb::kGet, true},
    {"ascii_mg", Wire::kMeta, Verb::kGet, false, false, true},
    {"ascii_set", Wire::kText, Verb::kSet},
    {"ascii_incr", Wire::kText, Verb::kIncr},
    {"ascii_decr", Wire::kText, Verb::kDecr},
    {"ascii_delete", Wire::kText, Verb::kDelete},
    {"ascii_touch", Wire::kText, Verb::kTouch},
    {"bin_get", Wire::kBinary, Verb::kGet},
    {"bin_getq", Wire::kBinary, Verb::kGet, true},
    {"bin_set", Wire::kBinary, Verb::kSet},
    {"bin_setq", Wire::kBinary, Verb::kSet, false, true},
    {"bin_touch", Wire::kBinary, Verb::kTouch},
    {"meta_get", Wire::kMeta, Verb::kGet},
    {"meta_set", Wire::kMeta, Verb::kSet},
};

// mc-crusher does not wait between quiet sets. A batch of fewer would measure the waiting for the
// no-op that ends it.
constexpr unsigned kQuietBatchMin = 64;

constexpr uint32_t kValueBytesMax = 1 << 20;
constexpr size_t kPostfixBytesMax = 200;

[[noreturn]] void Refuse(const std::string& why) { throw std::invalid_argument(why); }

const Sender& SenderNamed(const std::string& name) {
  const std::string wanted = name.starts_with("binary_") ? "bin_" + name.substr(7) : name;
  std::string known;
  for (const Sender& sender : kSenders) {
    if (sender.name == wanted) return sender;
    known += " " + std::string(sender.name);
  }
  Refuse("send=" + name + " is not known; there are" + known);
}

// The pairs of a line. Each is taken out by its name, so that what is left at the end is unknown.
class Pairs {
 public:
  explicit Pairs(const std::string& line) {
    std::istringstream parts(line);
    for (std::string part; std::getline(parts, part, ',');) {
      const size_t equals = part.find('=');
      if (equals == 0 || equals == std::string::npos) Refuse("'" + part + "' is not name=value");
      if (!pairs_.emplace(part.substr(0, equals), part.substr(equals + 1)).second) {
        Refuse("'" + part.substr(0, equals) + "' is given twice");
      }
    }
  }

  bool Has(const std::string& name) const { return pairs_.contains(name); }

  std::string Text(const std::string& name, const std::string& otherwise) {
    known_ += " " + name;
    const auto found = pairs_.find(name);
    if (found == pairs_.end()) return otherwise;
    std::string value = found->second;
    pairs_.erase(found);
    return value;
  }

  uint64_t Number(const std::string& name, uint64_t otherwise, uint64_t min, uint64_t max) {
    const std::string text = Text(name, std::to_string(otherwise));
    uint64_t number = 0;
    const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (code != std::errc() || stop != text.data() + text.size() || number < min || number > max) {
      Refuse(name + " must be a number from " + std::to_string(min) + " to " + std::to_string(max) +
             ", not '" + text + "'");
    }
    return number;
  }
  unsigned Small(const std::string& name, unsigned otherwise, unsigned min, unsigned max) {
    return static_cast<unsigned>(Number(name, otherwise, min, max));
  }
  bool Flag(const std::string& name) { return Number(name, 0, 0, 1) == 1; }

  double Exponent(const std::string& name, double otherwise) {
    if (!Has(name)) known_ += " " + name;
    if (!Has(name)) return otherwise;
    const std::string text = Text(name, "");
    double number = 0;
    const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (code != std::errc() || stop != text.data() + text.size() ||
        !(number >= 0 && number <= 10)) {
      Refuse(name + " must be a number from 0 to 10, not '" + text + "'");
    }
    return number;
  }

  void RefuseOthers() const {
    if (pairs_.empty()) return;
    Refuse("'" + pairs_.begin()->first + "' is not known here; there are" + known_);
  }

 private:
  std::map<std::string, std::string> pairs_;
  std::string known_;  // every name that was asked for
};

void TakeSender(Pairs* pairs, CrushLine* crush) {
  if (!pairs->Has("send")) Refuse("send= is missing");
  const Sender& sender = SenderNamed(pairs->Text("send", ""));
  ClientGroup& clients = crush->clients;
  crush->cycle.verb = sender.verb;
  clients.wire = sender.wire;
  clients.quiet_sets = sender.quiet;
  if (sender.many) clients.multiget = pairs->Small("mget_count", 2, 1, kCrushKeysMax);
  if (!sender.plain) return;
  clients.meta_flags = pairs->Text("cmd_postfix", "");
  for (const char c : *clients.meta_flags) {
    if (static_cast<unsigned char>(c) < ' ') Refuse("cmd_postfix has no control characters");
  }
  if (clients.meta_flags->size() > kPostfixBytesMax) {
    Refuse("cmd_postfix has at most " + std::to_string(kPostfixBytesMax) + " bytes");
  }
  if (clients.meta_flags->starts_with('q') || clients.meta_flags->find(" q") != std::string::npos) {
    Refuse("cmd_postfix must not have the flag q: a miss would have no answer");
  }
}

void TakePace(Pairs* pairs, CrushLine* crush) {
  ClientGroup& clients = crush->clients;
  const std::string receive = pairs->Text("recv", "check");
  if (receive != "check" && receive != "blind_read" && receive != "blind_recv") {
    Refuse("recv=" + receive + " is not known; there are check and blind_read");
  }
  clients.check_values = receive == "check";
  clients.own_threads = pairs->Small("thread", 0, 0, 1024);
  crush->cycle.groups = std::max(1u, clients.own_threads);
  clients.connections = pairs->Small("conns", 1, 1, 100000) * crush->cycle.groups;
  clients.pipeline = pairs->Small("pipelines", 1, 1, 100000);
  clients.every_us = pairs->Small("usleep", 0, 0, UINT32_MAX);
  if (clients.quiet_sets && clients.every_us == 0) {
    clients.pipeline = std::max(clients.pipeline, kQuietBatchMin);
  }
  const uint64_t stop_after = pairs->Number("stop_after", 0, 0, UINT64_MAX);
  if (stop_after > 0) crush->cycle.group_ops = stop_after;
}

void TakeKeys(Pairs* pairs, CrushLine* crush) {
  crush->workload.key_prefix = pairs->Text("key_prefix", "foo");
  if (!IsKey(crush->workload.key_prefix)) {
    Refuse("key_prefix has 1 to 250 bytes, and no spaces or control characters");
  }
  crush->workload.keys = crush->cycle.keys = pairs->Number("key_count", 200000, 1, kKeysMax);
  const bool shuffled = pairs->Flag("key_randomize");
  const bool uniform = pairs->Flag("live_rand");
  const bool zipf = pairs->Flag("live_rand_zipf");
  if (shuffled + uniform + zipf > 1) {
    Refuse("key_randomize, live_rand and live_rand_zipf exclude each other");
  }
  crush->cycle.order = shuffled  ? KeyOrder::kShuffled
                       : uniform ? KeyOrder::kUniform
                       : zipf    ? KeyOrder::kZipf
                                 : KeyOrder::kInTurn;
  crush->cycle.zipf_skew = pairs->Exponent("zipf_skew", 0.25);
  pairs->Flag("key_prealloc");
}

// A range gives every key its own value, and the sizes are the values'.
void TakeValues(Pairs* pairs, CrushLine* crush) {
  WorkloadOptions& work = crush->workload;
  work.value_bytes_max = kValueBytesMax;
  work.value = pairs->Text("value", "");
  work.flags = pairs->Small("flags", 0, 0, UINT32_MAX);
  crush->clients.ttl.low_s = crush->clients.ttl.high_s = pairs->Small("expire", 0, 0, UINT32_MAX);
  work.value_size = std::to_string(pairs->Small("value_size", 10, 0, kValueBytesMax));
  work.values = 1;
  const std::string range = pairs->Text("value_range", "");
  if (range.empty()) return;
  if (!work.value.empty()) Refuse("value and value_range exclude each other");
  const size_t dash = range.find('-');
  work.value_size = dash == std::string::npos ? work.value_size + "-" + range : range;
  work.values = 0;
  try {
    ValueSizes(work.value_size, kValueBytesMax);
  } catch (const std::invalid_argument&) {
    Refuse("value_range is A-B, or N not below value_size; at most " +
           std::to_string(kValueBytesMax) + " bytes; not '" + range + "'");
  }
}

void TakeServer(Pairs* pairs, const Address& server, CrushLine* crush) {
  const bool elsewhere = pairs->Has("host") || pairs->Has("port");
  const std::string host = pairs->Text("host", server.is_unix() ? "127.0.0.1" : server.host);
  const std::string port = pairs->Text("port", server.is_unix() ? "11211" : server.port);
  crush->clients.server = elsewhere ? ParseAddress(host + ":" + port) : server;
  if (elsewhere && crush->clients.server.is_unix())
    Refuse("host must be a name, not '" + host + "'");
}

}  // namespace

CrushLine ParseCrushLine(const std::string& line, const Address& server) {
  Pairs pairs(line);
  CrushLine crush;
  crush.text = line;
  TakeSender(&pairs, &crush);
  TakePace(&pairs, &crush);
  TakeKeys(&pairs, &crush);
  TakeValues(&pairs, &crush);
  TakeServer(&pairs, server, &crush);
  pairs.RefuseOthers();
  return crush;
}

std::vector<CrushLine> ReadCrush(const std::string& path, const Address& server) {
  std::vector<CrushLine> lines;
  ReadLines(path, [&](const std::string& line) -> std::string {
    try {
      lines.push_back(ParseCrushLine(line, server));
      return "";
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
  });
  if (lines.empty()) Refuse(path + " describes no connections");
  return lines;
}

int Crush(const Settings& settings) {
  const Session session(settings);
  const auto lines = ReadCrush(settings.crush_file, ParseAddress(settings.servers.front()));
  std::vector<std::unique_ptr<Workload>> workloads;
  std::vector<ClientGroup> client_groups;
  bool ends = true;
  for (const CrushLine& line : lines) {
    workloads.push_back(std::make_unique<Workload>(line.workload));
    client_groups.push_back(line.clients);
    client_groups.back().workload = workloads.back().get();
    CycleOptions cycle = line.cycle;
    if (settings.ops > 0) cycle.ops = settings.ops;
    ends = ends && std::min(cycle.ops, cycle.group_ops) != UINT64_MAX;
    client_groups.back().sources = CycleKeys(cycle);
  }
  // Work that ends by itself is not cut off, unless asked for.
  LoadOptions load = settings.load;
  if (ends && !settings.seconds_given) load.seconds = 0;
  Outcome outcome;
  const Result result = session.MeasureAll("crush", client_groups, load, 0, &outcome);

  FILE* const out = session.out();
  std::vector<JsonObject> list;
  for (size_t i = 0; i < lines.size(); ++i) {
    Outcome part;
    part.seconds = outcome.seconds;
    if (!outcome.client_groups.empty()) part.client_groups = {outcome.client_groups[i]};
    Result one = MakeResult("crush", part, {});
    one.server = client_groups[i].server.Name();
    std::fprintf(out, "%s\n", lines[i].text.c_str());
    PrintCounts(one, out);
    std::fprintf(out, "\n");
    JsonObject json;
    json.Put("line", lines[i].text);
    one.PutInto(&json);
    list.push_back(json);
  }
  std::fprintf(out, "all lines together\n");
  PrintResult(result, out);
  JsonObject json;
  json.Put("kbfload", settings.version).Put("lines", list);
  result.PutInto(&json);
  session.WriteJson(json);
  return session.Conclude({result});
}

}  // namespace load
