#include "tools/kbfload/crush.h"

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
  bool many;  // takes mget_count
};
constexpr Sender kSenders[] = {
    {"ascii_get", Wire::kText, Verb::kGet, false},
    {"ascii_mget", Wire::kText, Verb::kGet, true},
    {"ascii_set", Wire::kText, Verb::kSet, false},
    {"ascii_incr", Wire::kText, Verb::kIncr, false},
    {"ascii_delete", Wire::kText, Verb::kDelete, false},
    {"ascii_touch", Wire::kText, Verb::kTouch, false},
    {"binary_get", Wire::kBinary, Verb::kGet, false},
    {"binary_getq", Wire::kBinary, Verb::kGet, true},
    {"binary_set", Wire::kBinary, Verb::kSet, false},
    {"bin_get", Wire::kBinary, Verb::kGet, false},
    {"bin_getq", Wire::kBinary, Verb::kGet, true},
    {"bin_set", Wire::kBinary, Verb::kSet, false},
    {"meta_get", Wire::kMeta, Verb::kGet, false},
    {"meta_set", Wire::kMeta, Verb::kSet, false},
};

[[noreturn]] void Refuse(const std::string& why) { throw std::invalid_argument(why); }

const Sender& SenderNamed(const std::string& name) {
  std::string known;
  for (const Sender& sender : kSenders) {
    if (sender.name == name) return sender;
    known += " " + std::string(sender.name);
  }
  Refuse("send=" + name + " is not known; there are" + known);
}

using Pairs = std::map<std::string, std::string>;

Pairs Split(const std::string& line) {
  Pairs pairs;
  std::istringstream parts(line);
  for (std::string part; std::getline(parts, part, ',');) {
    const size_t equals = part.find('=');
    if (equals == 0 || equals == std::string::npos) Refuse("'" + part + "' is not name=value");
    if (!pairs.emplace(part.substr(0, equals), part.substr(equals + 1)).second) {
      Refuse("'" + part.substr(0, equals) + "' is given twice");
    }
  }
  return pairs;
}

// Takes a pair out, so that what is left at the end is unknown.
std::string TakeText(Pairs* pairs, const std::string& name, const std::string& otherwise) {
  const auto found = pairs->find(name);
  if (found == pairs->end()) return otherwise;
  std::string value = found->second;
  pairs->erase(found);
  return value;
}

uint64_t TakeNumber(Pairs* pairs, const std::string& name, uint64_t otherwise, uint64_t min,
                    uint64_t max) {
  const std::string text = TakeText(pairs, name, std::to_string(otherwise));
  uint64_t number = 0;
  const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || stop != text.data() + text.size() || number < min || number > max) {
    Refuse(name + " must be a number from " + std::to_string(min) + " to " + std::to_string(max) +
           ", not '" + text + "'");
  }
  return number;
}

}  // namespace

CrushLine ParseCrushLine(const std::string& line, const Address& server) {
  Pairs pairs = Split(line);
  CrushLine crush;
  crush.text = line;
  if (!pairs.contains("send")) Refuse("send= is missing");
  const Sender& sender = SenderNamed(TakeText(&pairs, "send", ""));
  const auto small = [&pairs](const char* name, uint64_t otherwise, uint64_t min, uint64_t max) {
    return static_cast<unsigned>(TakeNumber(&pairs, name, otherwise, min, max));
  };
  const std::string receive = TakeText(&pairs, "recv", "check");
  if (receive != "check" && receive != "blind_read") {
    Refuse("recv=" + receive + " is not known; there are check and blind_read");
  }
  crush.verb = sender.verb;
  crush.crew.wire = sender.wire;
  crush.crew.check_values = receive == "check";
  crush.crew.connections = small("conns", 1, 1, 100000);
  crush.crew.pipeline = small("pipelines", 1, 1, 100000);
  if (sender.many) crush.crew.multiget = small("mget_count", 2, 1, 10000);
  crush.crew.ttl_s = small("expire", 0, 0, UINT32_MAX);
  crush.shuffled = small("key_randomize", 0, 0, 1) == 1;
  small("key_prealloc", 0, 0, 1);
  crush.workload.key_prefix = TakeText(&pairs, "key_prefix", "foo");
  if (!IsKey(crush.workload.key_prefix)) {
    Refuse("key_prefix has 1 to 250 bytes, and no spaces or control characters");
  }
  crush.workload.keys = TakeNumber(&pairs, "key_count", 200000, 1, kKeysMax);
  crush.workload.value_size = std::to_string(small("value_size", 10, 0, 1 << 20));
  crush.workload.value_bytes_max = 1 << 20;
  crush.workload.value = TakeText(&pairs, "value", "");
  crush.workload.values = 1;
  const bool elsewhere = pairs.contains("host") || pairs.contains("port");
  const std::string host = TakeText(&pairs, "host", server.is_unix() ? "127.0.0.1" : server.host);
  const std::string port = TakeText(&pairs, "port", server.is_unix() ? "11211" : server.port);
  crush.crew.server = elsewhere ? ParseAddress(host + ":" + port) : server;
  if (elsewhere && crush.crew.server.is_unix()) Refuse("host must be a name, not '" + host + "'");
  if (!pairs.empty()) Refuse("'" + pairs.begin()->first + "' is not known here");
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
  std::vector<Crew> crews;
  for (const CrushLine& line : lines) {
    workloads.push_back(std::make_unique<Workload>(line.workload));
    crews.push_back(line.crew);
    crews.back().workload = workloads.back().get();
    crews.back().sources =
        CycleKeys(line.verb, line.workload.keys, line.shuffled,
                  settings.ops > 0 ? settings.ops : UINT64_MAX, line.crew.connections);
  }
  Outcome outcome;
  const Result result = session.MeasureAll("crush", crews, settings.load, 0, &outcome);

  FILE* const out = session.out();
  std::vector<JsonObject> list;
  for (size_t i = 0; i < lines.size(); ++i) {
    Outcome part;
    part.seconds = outcome.seconds;
    if (!outcome.crews.empty()) part.crews = {outcome.crews[i]};
    Result one = MakeResult("crush", part, {});
    one.server = crews[i].server.Name();
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
