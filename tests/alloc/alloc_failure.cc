// Fails the n-th allocation of a fixed script of requests, for n = 1, 2, 3, ... until the script
// ends without a failure; then the same with three in a row, and with all until the request ends.
//
// Every run is a process of its own, forked from one that has made and filled the store, so that it
// starts from the same state, and a crash is one failed run. What holds in each of them: nothing
// ends the process; the request that met the failure gets its right answer, an "out of memory", or
// a closed connection; no read ever shows anything but what was stored last under its key; when
// memory is back a new connection is served, and nothing is counted any more that is not held.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "src/net/worker.h"
#include "src/state.h"
#include "storage/shared_bytes.h"
#include "tests/alloc/failing.h"
#include "tests/src/loop_server.h"
#include "tests/src/reply_checker.h"
#include "tests/storage/statistics.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

namespace server {
namespace {

using protocol::Wire;
using Shape = Expected::Shape;

constexpr uint64_t kUntilTheRequestEnds = UINT64_MAX;
constexpr size_t kStepsMax = 1000;

// What a run tells its parent.
struct Report {
  uint64_t calls;
  uint64_t failures;
  size_t step;                   // the last one
  std::array<char, 60> request;  // its beginning
  std::array<char, 400> fault;
};
// Shared with the runs.
struct Board {
  Report report;
  size_t num_steps;
  kbf::ChainCounters chain;               // what the script did there without a failure
  std::array<Answer, kStepsMax> answers;  // without a failure
};
Board* board;

[[noreturn]] void Fault(const std::string& text) {
  std::snprintf(board->report.fault.data(), board->report.fault.size(), "%s", text.c_str());
  _exit(1);
}

// ---- what is stored -----------------------------------------------------------------------------

// What may stand under each key. A miss is always possible; what is right without a failure is
// checked by comparing answers.
class Model {
 public:
  using Values = std::set<std::string>;

  // `change` gives the value afterwards, or nothing for a key that is gone.
  using Change = std::function<std::optional<std::string>(const std::string& before)>;
  enum class Outcome : uint8_t { kDone, kRefused, kUnknown };

  void Apply(const std::string& key, const Change& change, bool drops_on_failure, Outcome outcome) {
    Values& values = values_[key];
    if (outcome == Outcome::kRefused) {
      if (drops_on_failure) values.clear();
      return;
    }
    Values after;
    if (values.empty()) values.insert("");
    for (const std::string& value : values) {
      if (auto changed = change(value)) after.insert(std::move(*changed));
    }
    if (outcome == Outcome::kUnknown) after.merge(values);
    values = std::move(after);
  }
  const char* Check(std::string_view key, std::string_view value) const {
    const auto found = values_.find(key);
    if (found == values_.end()) return "a value under a key that has none";
    if (value.size() <= kPaddedBytesMax) value = value.substr(0, value.find_last_not_of(' ') + 1);
    return found->second.contains(std::string(value)) ? nullptr : "a wrong value";
  }
  Values Of(const std::string& key) const {
    const auto found = values_.find(key);
    return found == values_.end() ? Values() : found->second;
  }
  void Restore(const std::string& key, Values values) { values_[key] = std::move(values); }
  void Clear() { values_.clear(); }

 private:
  // Numbers are padded to the length that they once had.
  static constexpr size_t kPaddedBytesMax = 20;

  std::map<std::string, Values, std::less<>> values_;
};

Model::Change To(std::string value) {
  return [value = std::move(value)](const std::string&) { return std::optional(value); };
}
Model::Change Plus(int delta) {
  return [delta](const std::string& value) {
    return std::optional(std::to_string(std::atoi(value.c_str()) + delta));
  };
}
std::optional<std::string> PlusOrFive(const std::string& value) {
  return value.empty() ? std::string("5") : Plus(1)(value);
}
std::optional<std::string> Gone(const std::string&) { return std::nullopt; }

// ---- clients ------------------------------------------------------------------------------------

// A request, what may come back, and what it does to one key.
struct Step {
  std::string request;
  Expected expected;
  std::string key = {};
  Model::Change change = nullptr;
  bool drops_on_failure = false;
  bool may_miss = false;  // where there is no memory
};

struct Client {
  int fd = -1;
  int send_bytes = 0;
  std::optional<ReplyChecker> checker = {};
};

class Run {
 public:
  Run(State& state, ManualTime& time, Model model)
      : state_(state), time_(time), model_(std::move(model)), server_(state) {}

  // Sends the request in pieces and waits for the answer. Nothing: the connection was closed.
  std::optional<Answer> Do(Client* client, const Step& step, size_t piece = SIZE_MAX) {
    Begin(step);
    // Both what was there and what is written may be seen until the answer is there.
    const Model::Values before = model_.Of(step.key);
    if (step.change) model_.Apply(step.key, step.change, false, Model::Outcome::kUnknown);
    const std::optional<Answer> answer = Send(client, step, piece) ? Await(client) : std::nullopt;
    if (answer) model_.Restore(step.key, before);
    Note(step, answer);
    End(answer ? &*answer : nullptr);
    return answer;
  }
  // Sends a request without reading its answer: Drain does that.
  void Send(Client* client, const Step& step) {
    Begin(step);
    (void)Send(client, step, SIZE_MAX);
    End(nullptr);
  }
  void Drain(Client* client) {
    Begin({.request = "the answers that were left", .expected = {}});
    if (client->fd >= 0) (void)Await(client);
    End(nullptr);
  }
  void Close(Client* client) {
    if (client->fd >= 0) close(client->fd);
    client->fd = -1;
    Turn();
  }
  void Flushed() { model_.Clear(); }
  void Later(int seconds) { time_.monotonic_s += seconds; }
  // What Maintenance does, which nothing catches for either.
  void Maintain() noexcept {
    failing::Arm();
    for (int i = 0; i < 20; ++i) (void)state_.store->Maintain(16, state_.clock.Now());
    state_.store->MeasureErrors(8, 8, state_.clock.Now());
    failing::Disarm();
  }

  // Memory is back: everything works, and nothing is left over.
  void CheckAfterwards() {
    failing::Stop();
    Client client;
    const std::string key = "afterwards";
    const Expected stored{Wire::kText, Shape::kReply, KindsOf(ReplyKind::kStored), {}};
    const Expected values{Wire::kText, Shape::kGroup, 0, {key}};
    const Expected lines{Wire::kText, Shape::kLines, 0, {}};
    if (!Do(&client, {"set " + key + " 0 0 2\r\nok\r\n", stored, key, To("ok")})) Fault("no set");
    const std::optional<Answer> got = Do(&client, {"get " + key + "\r\n", values});
    if (!got || got->num_values != 1) Fault("no get");
    const std::optional<Answer> stats = Do(&client, {"stats\r\n", lines});
    if (!stats || stats->out_of_memory) Fault("no statistics");
    Close(&client);
    for (int i = 0; i < 3; ++i) Turn();
    if (state_.connections.current != 0) Fault("connections that are gone are counted");
    if (state_.connection_memory.buffer_bytes() != 0) Fault("buffers that are gone are counted");
    if (state_.connection_memory.num_waiting() != 0) Fault("somebody waits who is gone");
    if (kbf::DetachedBytes() != 0) Fault("values that are gone are counted");
    if (server_.worker().context().output.overruns() != 0) Fault("the output was overrun");
  }

  size_t steps() const { return step_; }

 private:
  void Begin(const Step& step) {
    may_miss_ = step.may_miss;
    failures_before_ = failing::failures();
    dropped_before_ = state_.store->ChainEvents().filters_dropped;
    board->report.step = step_;
    std::snprintf(board->report.request.data(), board->report.request.size(), "%s",
                  step.request.c_str());
    if (step_ == kStepsMax) Fault("too many steps");
  }

  // `answer`: null if there was none.
  void End(const Answer* answer) {
    if (board->num_steps == 0) {
      if (answer != nullptr) recorded_[step_] = *answer;
    } else if (answer != nullptr && !may_miss_ && failures_before_ == 0 &&
               failing::failures() > 0 && !answer->out_of_memory &&
               *answer != board->answers[step_] && !LostAFilter()) {
      const Answer& right = board->answers[step_];
      Fault("answer " + std::to_string(static_cast<int>(answer->kind)) + " with " +
            std::to_string(answer->num_values) + " values instead of " +
            std::to_string(static_cast<int>(right.kind)) + " with " +
            std::to_string(right.num_values));
    }
    if (failing::failures() > 0 && until_the_request_ends) failing::Stop();
    ++step_;
  }

  // What cannot be hidden in a filter must not be answered by it, so that filter goes with all its
  // keys: these are misses then.
  bool LostAFilter() const { return state_.store->ChainEvents().filters_dropped > dropped_before_; }

  void Note(const Step& step, const std::optional<Answer>& answer) {
    if (!step.change || !answer) return;
    constexpr uint32_t kDone = KindsOf(ReplyKind::kStored, ReplyKind::kOk, ReplyKind::kNumber,
                                       ReplyKind::kDeleted, ReplyKind::kValue, ReplyKind::kEnd);
    const bool done = (kDone & KindsOf(answer->kind)) != 0 && !answer->out_of_memory;
    // Other refusals leave things as they are.
    if (!done && !answer->out_of_memory) return;
    model_.Apply(step.key, step.change, step.drops_on_failure,
                 done ? Model::Outcome::kDone : Model::Outcome::kRefused);
  }

  void Turn() {
    failing::Arm();
    server_.Turn();
    failing::Disarm();
  }

  void Open(Client* client) {
    failing::Arm();
    client->fd = server_.Connect(client->send_bytes);
    failing::Disarm();
    client->checker.emplace(
        [this](std::string_view key, std::string_view value) { return model_.Check(key, value); });
    Turn();
  }

  // False: the connection was closed.
  bool Send(Client* client, const Step& step, size_t piece) {
    if (client->fd < 0) Open(client);
    client->checker->Expect(step.expected);
    std::string_view rest = step.request;
    unsigned stalled = 0;
    while (!rest.empty()) {
      const ssize_t n = send(client->fd, rest.data(), std::min(rest.size(), piece), MSG_NOSIGNAL);
      if (n > 0) rest.remove_prefix(static_cast<size_t>(n));
      if (n < 0 && errno != EAGAIN) return Hang(client);
      Turn();
      stalled = n > 0 ? 0 : stalled + 1;
      if (stalled > 0) Help(stalled);
    }
    return true;
  }

  std::optional<Answer> Await(Client* client) {
    std::array<char, 1 << 16> bytes;
    for (unsigned stalled = 0; client->checker->pending() > 0;) {
      Turn();
      const ssize_t n = recv(client->fd, bytes.data(), bytes.size(), 0);
      if (n == 0 || (n < 0 && errno != EAGAIN)) {
        Hang(client);
        return std::nullopt;
      }
      if (n < 0) {
        Help(++stalled);
        continue;
      }
      stalled = 0;
      const std::string_view received(bytes.data(), static_cast<size_t>(n));
      if (const char* fault = client->checker->Feed(received)) Fault(fault);
    }
    return client->checker->last();
  }

  bool Hang(Client* client) {
    if (failing::failures() == 0) Fault("closed without a failure");
    close(client->fd);
    client->fd = -1;
    return false;
  }

  // Nothing moves: time passes, and in the end memory comes back.
  void Help(unsigned stalled) {
    if (stalled > 6) Fault("no answer");
    if (stalled > 3) failing::Stop();
    if (stalled > 1) server_.FireTimers();
  }

 public:
  bool until_the_request_ends = false;
  std::array<Answer, kStepsMax> recorded_{};

 private:
  State& state_;
  ManualTime& time_;
  Model model_;
  LoopServer server_;
  size_t step_ = 0;
  bool may_miss_ = false;  // this and those below: of the step at hand
  uint64_t failures_before_ = 0;
  uint64_t dropped_before_ = 0;
};

// ---- requests -----------------------------------------------------------------------------------

constexpr uint32_t kWriteKinds =
    KindsOf(ReplyKind::kStored, ReplyKind::kOk, ReplyKind::kNotStored, ReplyKind::kExists,
            ReplyKind::kNotFound, ReplyKind::kServerError, ReplyKind::kClientError);
constexpr uint32_t kOtherKinds =
    kWriteKinds | KindsOf(ReplyKind::kDeleted, ReplyKind::kTouched, ReplyKind::kNumber,
                          ReplyKind::kEnd, ReplyKind::kVersion, ReplyKind::kError);

std::string Big(size_t bytes, char first) {
  std::string value(bytes, 0);
  for (size_t i = 0; i < bytes; ++i) value[i] = static_cast<char>(first + i % 23);
  return value;
}

Step TextWrite(const std::string& verb, const std::string& key, const std::string& value,
               Model::Change change = nullptr, const std::string& more = "") {
  return {
      verb + " " + key + " 0 0 " + std::to_string(value.size()) + more + "\r\n" + value + "\r\n",
      {Wire::kText, Shape::kReply, kWriteKinds, {}},
      key,
      change ? change : To(value),
      verb == "set"};
}

// A line with many keys has no place for an error: a key that cannot be touched is a miss.
Step TextGet(const std::string& verb, const std::vector<std::string>& keys) {
  std::string line = verb;
  for (const std::string& key : keys) line += " " + key;
  Step step{line + "\r\n", {Wire::kText, Shape::kGroup, KindsOf(ReplyKind::kServerError), keys}};
  step.may_miss = verb.starts_with("gat");
  return step;
}

Step Text(const std::string& line, const std::string& key = "", Model::Change change = nullptr) {
  return {line + "\r\n", {Wire::kText, Shape::kReply, kOtherKinds, {key}}, key, std::move(change)};
}

Step Lines(const std::string& line) { return {line + "\r\n", {Wire::kText, Shape::kLines, 0, {}}}; }

Step Meta(const std::string& line, const std::string& key = "", Model::Change change = nullptr,
          bool drops_on_failure = false) {
  return {line + "\r\n",
          {Wire::kMeta, Shape::kReply, kOtherKinds, {key}},
          key,
          std::move(change),
          drops_on_failure};
}

std::string BigEndian(uint64_t number, size_t bytes) {
  std::string out;
  for (size_t i = bytes; i-- > 0;) out += static_cast<char>(number >> (8 * i));
  return out;
}

std::string Packet(uint8_t opcode, std::string_view extras, std::string_view key,
                   std::string_view value = "", uint64_t cas = 0) {
  std::string out = "\x80";
  out += static_cast<char>(opcode);
  out += BigEndian(key.size(), 2) + BigEndian(extras.size(), 1) + BigEndian(0, 3);
  out += BigEndian(extras.size() + key.size() + value.size(), 4) + BigEndian(77, 4);
  out += BigEndian(cas, 8);
  return out.append(extras).append(key).append(value);
}

Step Binary(uint8_t opcode, const std::string& extras, const std::string& key,
            const std::string& value = "", Model::Change change = nullptr) {
  return {Packet(opcode, extras, key, value),
          {Wire::kBinary, Shape::kReply, kOtherKinds, {key}},
          key,
          std::move(change),
          opcode == 0x01};
}

const std::string kExtras8(8, 0);

// ---- the script ---------------------------------------------------------------------------------

std::string FillKey(unsigned i) { return "fill:" + std::to_string(i) + ":with-a-longer-name"; }
std::string FillValue(unsigned i) {
  return "filled with one of many values, number " + std::to_string(i % 230);
}

void TextRequests(Run* run) {
  Client text;
  const std::string big = Big(100'000, 'A');
  run->Do(&text, TextWrite("set", "small", "a value"));
  run->Do(&text, TextWrite("set", "medium", Big(5000, 'B')));
  run->Do(&text, TextWrite("set", "big", big));
  run->Do(&text, TextGet("get", {"small", "medium", "absent", "big"}));
  run->Do(&text, TextGet("gets", {"small"}), 3);
  run->Do(&text, TextWrite("add", "small", "another"));
  run->Do(&text, TextWrite("add", "added", "one more"));
  run->Do(&text, TextWrite("replace", "added", "replaced"));
  run->Do(&text, TextWrite("append", "small", "+",
                           [](const std::string& v) { return std::optional(v + "+"); }));
  run->Do(&text, TextWrite("prepend", "big", "-",
                           [](const std::string& v) { return std::optional("-" + v); }));
  run->Do(&text, TextWrite("append", FillKey(3), "+",
                           [](const std::string& v) { return std::optional(v + "+"); }));
  run->Do(&text, TextWrite("cas", "small", "swapped", nullptr, " 1"));
  run->Do(&text, TextWrite("cas", FillKey(7), "swapped", nullptr, " 1"));
  run->Do(&text, TextWrite("set", "number", "41"));
  run->Do(&text, Text("incr number 1", "number", Plus(1)));
  run->Do(&text, Text("incr number 958", "number", Plus(958)));
  run->Do(&text, Text("decr number 1", "number", Plus(-1)));
  run->Do(&text, Text("incr small 1"));
  run->Do(&text, Text("touch small 100"));
  run->Do(&text, Text("touch " + FillKey(11) + " 1000"));
  run->Do(&text, TextGet("gat 1000", {"small", FillKey(12), "number"}));
  run->Do(&text, TextGet("gats 1000", {FillKey(13)}));
  std::vector<std::string> keys;
  for (unsigned i = 0; i < 150; ++i) keys.push_back(FillKey(i));
  run->Do(&text, TextGet("get", keys), 1000);
  run->Do(&text, TextWrite("set", "pieces", Big(300'000, 'C')), 40'000);
  run->Do(&text, TextGet("get", {"pieces"}));
  run->Do(&text, TextWrite("set", "pieces", std::string(2 << 20, 'x')), 100'000);
  run->Do(&text, Text("delete added", "added", Gone));
  run->Do(&text, Text("delete " + FillKey(17), FillKey(17), Gone));
  run->Do(&text, TextGet("get", {FillKey(17), "added", "small", "number", FillKey(3), FillKey(7)}));
  run->Do(&text, Text("verbosity 1"));
  run->Do(&text, Text("version"));
  run->Do(&text, Text("nonsense"));
  run->Do(&text, Text("set " + std::string(300, 'k') + " 0 0 1"));
  run->Close(&text);
}

void MetaRequests(Run* run) {
  Client meta;
  // "text" and "meta:1".
  const auto set = [&](const std::string& key, const std::string& value, const std::string& flags) {
    run->Do(&meta, Meta("ms " + key + " " + std::to_string(value.size()) + flags + "\r\n" + value,
                        key, To(value), true));
  };
  set("dGV4dA==", "coded", " b k O123");
  run->Do(&meta, Meta("mg dGV4dA== b k v t O123", "dGV4dA=="));
  set("meta:1", Big(20'000, 'D'), " O7 T100 F5 c");
  run->Do(&meta, Meta("mg meta:1 k v f c t O8", "meta:1"));
  run->Do(&meta, Meta("mg meta:2 N30 v", "meta:2", To("")));
  run->Do(&meta, Meta("mg " + FillKey(21) + " T500 v", FillKey(21)));
  run->Do(&meta, Meta("mg " + FillKey(22) + " R5000 v k", FillKey(22)));
  run->Do(&meta, Meta("ma meta:number N60 J5", "meta:number", To("5")));
  run->Do(&meta, Meta("ma meta:number D7", "meta:number", Plus(7)));
  run->Do(&meta, Meta("md meta:1 I T30"));
  run->Do(&meta, Meta("md " + FillKey(23) + " I T30"));
  run->Do(&meta, Meta("mg meta:1 v", "meta:1"));
  set("meta:1", "fresh", " MS");
  run->Do(&meta, Meta("md dGV4dA== b", "dGV4dA==", Gone));
  run->Do(&meta, {"me meta:1\r\n", {Wire::kText, Shape::kLine, 0, {}}});
  run->Do(&meta, {"mg meta:1 k v q\r\nmg meta:absent k v q\r\nmg meta:number k v q\r\nmn\r\n",
                  {Wire::kMeta,
                   Shape::kGroup,
                   KindsOf(ReplyKind::kServerError),
                   {"meta:1", "meta:absent", "meta:number"}}});
  run->Close(&meta);
}

void BinaryRequests(Run* run) {
  Client binary;
  const auto append = [](const std::string& value) { return std::optional(value + "+"); };
  const std::string counter = BigEndian(1, 8) + BigEndian(5, 8) + BigEndian(0, 4);
  run->Do(&binary, Binary(0x01, kExtras8, "b:1", "binary", To("binary")));
  run->Do(&binary, Binary(0x01, kExtras8, "b:2", Big(9000, 'E'), To(Big(9000, 'E'))), 700);
  run->Do(&binary, Binary(0x00, "", "b:1"));
  run->Do(&binary, Binary(0x0c, "", "b:2"));
  run->Do(
      &binary,
      {Packet(0x0d, "", "b:1") + Packet(0x0d, "", "b:0") + Packet(0x0d, "", "b:2") +
           Packet(0x0a, "", ""),
       {Wire::kBinary, Shape::kGroup, KindsOf(ReplyKind::kServerError), {"b:1", "b:0", "b:2"}}});
  run->Do(&binary, Binary(0x0e, "", "b:1", "+", append));
  run->Do(&binary, Binary(0x0e, "", FillKey(31), "+", append));
  run->Do(&binary, Binary(0x02, kExtras8, "b:3", "added", To("added")));
  run->Do(&binary, Binary(0x03, kExtras8, "b:3", "replaced", To("replaced")));
  run->Do(&binary, Binary(0x05, counter, "b:number", "", PlusOrFive));
  run->Do(&binary, Binary(0x05, counter, "b:number", "", PlusOrFive));
  run->Do(&binary, Binary(0x05, counter, FillKey(32), "", To("5")));
  run->Do(&binary, Binary(0x00, "", "b:number"));
  run->Do(&binary, Binary(0x00, "", FillKey(32)));
  run->Do(&binary, Binary(0x1c, BigEndian(500, 4), "b:1"));
  run->Do(&binary, Binary(0x1d, BigEndian(500, 4), FillKey(33)));
  run->Do(&binary, {Packet(0x11, kExtras8, "b:4", "quiet") + Packet(0x0a, "", ""),
                    {Wire::kBinary, Shape::kGroup, kWriteKinds, {}},
                    "b:4",
                    To("quiet"),
                    true});
  run->Do(&binary, Binary(0x00, "", "b:4"));
  run->Do(&binary, Binary(0x04, "", "b:3", "", Gone));
  run->Do(&binary, Binary(0x00, "", "b:3"));
  for (const std::string name : {"", "settings", "items", "conns", "kbf", "nothing"}) {
    run->Do(&binary, {Packet(0x10, "", name), {Wire::kBinary, Shape::kPackets, kOtherKinds, {}}});
  }
  run->Do(&binary, Binary(0x0b, "", ""));
  run->Do(&binary, Binary(0x0a, "", ""));
  run->Close(&binary);
}

void Statistics(Run* run) {
  Client text;
  run->Do(&text, Lines("stats detail on"));
  for (unsigned i = 0; i < 6; ++i) {
    const std::string key = "prefix-longer-than-fits-a-string-" + std::to_string(i) + ":key";
    run->Do(&text, TextWrite("set", key, "v"));
    run->Do(&text, TextGet("get", {key}));
  }
  run->Do(&text, Lines("stats detail dump"));
  for (const char* name : {"", " settings", " items", " slabs", " sizes", " conns", " kbf",
                           " errors", " cachedump 1 5", " nothing"}) {
    run->Do(&text, Lines(std::string("stats") + name));
  }
  run->Do(&text, Lines("stats detail off"));
  run->Do(&text, Lines("stats reset"));
  run->Close(&text);
}

// Replies that wait for their reader, while others replace the values.
void ParkedReplies(Run* run) {
  Client slow{.send_bytes = 4096};
  Client text;
  const std::string value = Big(60'000, 'F');
  run->Do(&text, TextWrite("set", "parked", value));
  run->Do(&text, TextWrite("set", "short", Big(3000, 'G')));
  for (int i = 0; i < 4; ++i) run->Send(&slow, TextGet("get", {"parked", "short", "parked"}));
  run->Send(&slow, Lines("stats settings"));
  // What is replaced was answered before, so only the model of the reader has to know it.
  run->Drain(&slow);
  for (int i = 0; i < 4; ++i) run->Send(&slow, TextGet("get", {"parked", "parked"}));
  run->Do(&text, Text("delete parked", "", nullptr));
  run->Drain(&slow);
  run->Close(&slow);
  run->Close(&text);
}

// Replies wait for their reader while a large request behind them has a buffer of its own.
void ParkedReplyBeforeHalfASet(Run* run) {
  Client slow{.send_bytes = 4096};
  Step get = TextGet("get", std::vector<std::string>(8, "short"));
  Step set = TextWrite("set", "half", Big(100'000, 'H'));
  get.request += set.request.substr(0, 30'000);
  set.request.erase(0, 30'000);
  run->Do(&slow, TextWrite("set", "short", Big(3000, 'G')));
  run->Send(&slow, get);
  run->Drain(&slow);
  run->Do(&slow, set);
  run->Do(&slow, TextGet("get", {"half"}));
  run->Close(&slow);
}

void ManyConnections(Run* run) {
  std::array<Client, 40> many;
  for (Client& one : many) run->Do(&one, TextGet("get", {"small", "number"}));
  for (Client& one : many) run->Do(&one, TextWrite("set", "many", "v"), 7);
  for (Client& one : many) run->Close(&one);
}

// Tables, dictionary, filters and their locator grow, then shrink.
void Growth(Run* run) {
  Client text;
  for (unsigned i = 0; i < 40; ++i) {
    const std::string fresh = "value number " + std::to_string(1000 + i) + " of those that come";
    for (const char* name : {"a", "b", "c"}) {
      run->Do(&text, TextWrite("set", "grow:" + std::to_string(i) + name, fresh));
    }
  }
  run->Maintain();
  for (unsigned i = 0; i < 20; ++i) {
    run->Do(&text, Text("delete " + FillKey(40 + i), FillKey(40 + i), Gone));
  }
  run->Do(&text, TextGet("get", {FillKey(41), FillKey(45), FillKey(80), "grow:1a", "grow:30b"}));
  run->Later(40);  // filters that take no more keys are joined, and made smaller
  run->Maintain();
  run->Close(&text);
}

void Flushes(Run* run) {
  Client text;
  run->Do(&text, Text("flush_all 100"));
  for (int i = 0; i < 5; ++i) {
    if (run->Do(&text, Text("flush_all"))) run->Flushed();
    run->Do(&text, TextGet("get", {"small", FillKey(50)}));
    run->Do(&text, TextWrite("set", "small", "again"));
  }
  run->Maintain();
  run->Do(&text, TextGet("get", {"small", FillKey(50)}));
  run->Close(&text);
}

void Script(Run* run) {
  TextRequests(run);
  MetaRequests(run);
  BinaryRequests(run);
  Statistics(run);
  ParkedReplies(run);
  ManyConnections(run);
  Growth(run);
  Flushes(run);
  ParkedReplyBeforeHalfASet(run);
}

// ---- runs ---------------------------------------------------------------------------------------

// One server, filled to the brink of the next growth, from which the runs are forked.
class Stage {
 public:
  Stage(double front_share, uint64_t filter_keys, unsigned fill) {
    Options options;
    options.store.memory_bytes = 4 << 20;
    options.store.num_slabs = 1;
    options.store.filter_keys = filter_keys;
    options.store.front_share = options.store.exact_share = front_share;
    options.threads = 1;
    auto made = kbf::Store::Create(options.store, kbf::HashSecret::FromSeed(5));
    REQUIRE_MESSAGE(made.store, made.error);
    state_ = std::make_unique<State>(options, std::move(made.store), &time_);
    const uint32_t now = state_->clock.Now();
    for (unsigned i = 0; i < fill; ++i) {
      const std::string key = FillKey(i);
      const std::string value = FillValue(i);
      CHECK(state_->store->Write({.key = key, .value = value}, now).status ==
            kbf::StoreStatus::kOk);
      model_.Apply(key, To(value), false, Model::Outcome::kDone);
    }
    filters_before_ = state_->store->ChainEvents().filters_added;
  }

  uint64_t filters_before() const { return filters_before_; }

  // False: no allocation was left to fail.
  bool FailFrom(uint64_t first, uint64_t count) {
    board->report = {};
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) Child(first, count);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CAPTURE(first);
    CAPTURE(count);
    CAPTURE(board->report.step);
    const std::string request = board->report.request.data();
    CAPTURE(request);
    const bool crashed = !WIFEXITED(status);
    CHECK_MESSAGE(!crashed, "killed by signal ", WTERMSIG(status));
    CHECK_MESSAGE((crashed || WEXITSTATUS(status) == 0), std::string(board->report.fault.data()),
                  " (exit code ", WEXITSTATUS(status), ")");
    return crashed || WEXITSTATUS(status) != 0 || board->report.failures > 0;
  }

 private:
  [[noreturn]] void Child(uint64_t first, uint64_t count) {
    {
      Run run(*state_, time_, model_);
      run.until_the_request_ends = count == kUntilTheRequestEnds;
      failing::Choose(first, count);
      Script(&run);
      board->report.calls = failing::calls();
      board->report.failures = failing::failures();
      if (first == 0) {
        board->num_steps = run.steps();
        board->answers = run.recorded_;
        board->chain = state_->store->ChainEvents();
      }
      run.CheckAfterwards();
    }
    state_
        .reset();  // items point to each other by parts of words, so a leak check must not find any
#if defined(__SANITIZE_ADDRESS__)
    if (__lsan_do_recoverable_leak_check() != 0) Fault("memory was lost");
#endif
    _exit(0);
  }

  ManualTime time_;
  std::unique_ptr<State> state_;
  Model model_;
  uint64_t filters_before_ = 0;
};

void FailEach(Stage* stage) {
  board->num_steps = 0;
  (void)stage->FailFrom(0, 0);
  const uint64_t calls = board->report.calls;
  REQUIRE(calls > 500);
  REQUIRE(board->num_steps > 300);
  MESSAGE(calls, " allocations in ", board->num_steps, " requests");
  // All of them take minutes. Odd steps meet every kind of request in a few runs of make check.
  const uint64_t stride = kbf::Soak() ? 1 : 1 + calls / 250;
  for (const uint64_t count : {uint64_t{1}, uint64_t{3}, kUntilTheRequestEnds}) {
    for (uint64_t first = 1 + count % stride; stage->FailFrom(first, count); first += stride) {
    }
  }
}

// The number of items, from `least` on, behind which the script has the next filter opened: it
// depends on how much memory an item takes.
unsigned FillBeforeNextFilter(unsigned least) {
  for (unsigned fill = least; fill < 3 * least; fill += 50) {
    Stage stage(0, 1024, fill);
    (void)stage.FailFrom(0, 0);
    if (board->chain.filters_added > stage.filters_before()) return fill;
  }
  FAIL("no filter is opened");
  return least;
}

TEST_SUITE("alloc") {
  TEST_CASE("every allocation may fail while all items are kept exactly") {
    Stage stage(1, 1024, 1735);
    FailEach(&stage);
  }

  TEST_CASE("every allocation may fail while items move to the filters") {
    Stage stage(0, 1024, FillBeforeNextFilter(900));
    FailEach(&stage);
    CHECK(board->chain.filters_added > stage.filters_before());
    CHECK(board->chain.tombstones > 0);
  }

  TEST_CASE("every allocation may fail while the first filter is opened and made smaller") {
    Stage stage(0, 4096, 520);
    FailEach(&stage);
    CHECK(stage.filters_before() == 0);
    CHECK(board->chain.filters_added == 1);
    CHECK(board->chain.compressions == 1);
  }
}

struct Setup {
  Setup() {
    failing::InstallForLibevent();
    board = static_cast<Board*>(
        mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  }
} setup;

}  // namespace
}  // namespace server
