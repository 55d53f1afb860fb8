// What must hold for any sequence of requests, however their bytes are split and however slowly the
// replies are read: each connection gets its replies, whole and in order; a value that is read was
// stored under that very key; no connection is closed without a reason; the output is never
// overrun; and when all clients are gone nothing is held or counted any more.
//
// The bytes are a program: the first four choose the limits, the others are instructions with their
// arguments, see Play. Requests are made from a few keys whose values follow from key and length,
// so that every byte of a reply can be checked; one of the four clients sends raw bytes instead,
// which cannot name those keys.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/state.h"
#include "storage/shared_bytes.h"
#include "tests/src/loop_server.h"
#include "tests/src/reply_checker.h"

namespace server {

// ---- the program --------------------------------------------------------------------------------

class FuzzInput {
 public:
  explicit FuzzInput(std::string_view bytes) : rest_(bytes) {}
  bool empty() const { return rest_.empty(); }
  unsigned Byte() {
    if (rest_.empty()) return 0;
    const auto byte = static_cast<uint8_t>(rest_[0]);
    rest_.remove_prefix(1);
    return byte;
  }
  std::string_view Bytes(size_t n) {
    const std::string_view bytes = rest_.substr(0, n);
    rest_.remove_prefix(bytes.size());
    return bytes;
  }
  template <class T, size_t N>
  T Of(const std::array<T, N>& choices) {
    return choices[Byte() % N];
  }

 private:
  std::string_view rest_;
};

// ---- keys and values ----------------------------------------------------------------------------

// Raw bytes have no 'K', and no 'S', with which a base64 key would have to begin.
inline constexpr unsigned kFuzzKeys = 8;
inline constexpr unsigned kJoinedKey = 6;  // append and prepend, or any length
inline constexpr unsigned kNumberKey = 7;  // digits

inline std::string FuzzKey(unsigned i) {
  constexpr std::array<size_t, kFuzzKeys> kLengths = {250, 250, 2, 30, 100, 250, 3, 4};
  std::string key = "K" + std::to_string(i);
  key.resize(kLengths[i], static_cast<char>('a' + i));
  return key;
}

inline constexpr size_t kFuzzValueBytesMax = 20'000;

// The values of a key are the beginnings of one text.
inline std::string_view FuzzValue(unsigned i, size_t bytes) {
  static const std::array<std::string, kFuzzKeys> texts = [] {
    std::array<std::string, kFuzzKeys> made;
    for (unsigned key = 0; key < kFuzzKeys; ++key) {
      made[key].resize(kFuzzValueBytesMax, static_cast<char>('a' + key));
      for (size_t at = 0; at < kFuzzValueBytesMax && key != kJoinedKey; ++at) {
        made[key][at] = static_cast<char>('A' + at * (key + 1) % 57);
      }
    }
    return made;
  }();
  return i == kNumberKey ? std::string_view("17") : std::string_view(texts[i]).substr(0, bytes);
}

inline const char* FuzzCheckValue(std::string_view key, std::string_view value) {
  const auto i = static_cast<unsigned>(key[1] - '0');
  bool right = true;
  if (i == kNumberKey) {
    right = value.find_first_not_of("0123456789 ") == value.npos && value.size() <= 20;
  } else if (i == kJoinedKey) {
    right = value.find_first_not_of(FuzzValue(i, 1)[0]) == value.npos;
  } else {
    right = value == FuzzValue(i, value.size());
  }
  return right ? nullptr : "a value that was never stored under its key";
}

// ---- clients ------------------------------------------------------------------------------------

struct FuzzClient {
  int fd = -1;
  protocol::Wire wire = protocol::Wire::kText;  // kText: also meta
  bool raw = false;                             // framing is not checked
  std::string unsent;
  std::string last_request;
  std::optional<Expected> last_expected;
  bool asked_to_close = false;
  uint64_t shed_before = 0;
  std::optional<ReplyChecker> checker;
};

class ServerFuzz {
 public:
  explicit ServerFuzz(std::string_view bytes) : input_(bytes), state_(MakeState(&input_, &time_)) {
    server_.emplace(*state_);
    server_->Turn();
  }
  ~ServerFuzz() {
    for (FuzzClient& client : clients_) {
      if (client.fd >= 0) close(client.fd);
    }
  }
  ServerFuzz(const ServerFuzz&) = delete;
  ServerFuzz& operator=(const ServerFuzz&) = delete;

  // The fault that was found, or null.
  const char* Run() {
    for (unsigned i = 0; i < kInstructionsMax && !input_.empty() && fault_ == nullptr; ++i) {
      Play(input_.Byte());
      Check(server_->worker().context().output.overruns() == 0, "the output was overrun");
    }
    if (fault_ == nullptr) Finish();
    return fault_;
  }

 private:
  using Wire = protocol::Wire;
  using Shape = Expected::Shape;

  static constexpr unsigned kInstructionsMax = 400;
  static constexpr size_t kClients = 4;
  static constexpr size_t kUnsentMax = 512 << 10;
  static constexpr unsigned kTurnsMax = 20'000;
  static constexpr uint32_t kItemBytesMax = 32 << 10;
  static constexpr uint32_t kErrorKinds =
      KindsOf(ReplyKind::kServerError, ReplyKind::kClientError, ReplyKind::kError);
  static constexpr uint32_t kWriteKinds =
      kErrorKinds | KindsOf(ReplyKind::kStored, ReplyKind::kOk, ReplyKind::kNotStored,
                            ReplyKind::kExists, ReplyKind::kNotFound);

  static std::unique_ptr<kbf::Store> MakeStore(const kbf::StoreConfig& config) {
    return kbf::Store::Create(config, kbf::HashSecret::FromSeed(3)).store;
  }

  static std::unique_ptr<State> MakeState(FuzzInput* input, ManualTime* time) {
    Options options;
    options.threads = 1;
    options.store.memory_bytes = 4 << 20;
    options.store.num_slabs = 1;
    options.store.filter_keys = 1024;
    options.store.distinct_values = 64;
    options.store.item_bytes_max = kItemBytesMax;
    const unsigned shape = input->Byte();
    options.store.front_share = (shape & 1) != 0 ? 0 : 0.5;
    options.store.evictions = (shape & 2) == 0;
    options.idle_timeout_s = (shape & 4) != 0 ? 30 : 0;
    options.requests_per_event = input->Of(std::array{1u, 3u, 20u});
    // 0: no limit. The others let one request of any size in.
    options.read_buffer_bytes_max =
        input->Of(std::array<uint64_t, 4>{0, 2 * kItemBytesMax, 4 * kItemBytesMax, 1 << 20});
    const unsigned limits = input->Byte();
    constexpr std::array<size_t, 5> kFullBytes = {64 << 10, 4096, 1000, 100, 1};
    constexpr std::array<size_t, 4> kCopyMax = {4096, 512, 16, 1};
    auto state = std::make_unique<State>(options, MakeStore(options.store), time);
    state->output_limits = {.full_bytes = kFullBytes[limits % kFullBytes.size()],
                            .copy_max = kCopyMax[limits / 16 % kCopyMax.size()]};
    return state;
  }

  void Check(bool good, const char* fault) {
    if (!good && fault_ == nullptr) fault_ = fault;
  }

  // ---- instructions ----

  void Play(unsigned instruction) {
    switch (instruction % 16) {
      case 0:
        at_ = input_.Byte() % kClients;
        return;
      case 1:
      case 2:
      case 3:
      case 4:
        return Request(instruction / 16);
      case 5:
        return Repeat(input_.Byte() % 64);
      case 6:
        return Write(input_.Byte() + 1);
      case 7:
        Write(kUnsentMax);
        return server_->Turn();
      case 8:
        return server_->Turn();
      case 9:
        return Read(input_.Byte() + 1);
      case 10:
        return Read(kUnsentMax);
      case 11:
        for (unsigned i = input_.Byte() % 8; i > 0; --i) server_->Turn();
        return;
      case 12:
        time_.monotonic_s += input_.Byte();
        return server_->FireTimers();
      case 13:
        return server_->FireTimers();
      case 14:
        return Leave(instruction / 16);
      default:
        (void)state_->store->Maintain(4, state_->clock.Now());
    }
  }

  FuzzClient& Current() {
    FuzzClient& client = clients_[at_];
    if (client.fd >= 0) return client;
    constexpr std::array<int, 3> kSendBytes = {1, 8192, 0};  // 1: the least that the system gives
    client = FuzzClient();
    client.fd = server_->Connect(input_.Of(kSendBytes));
    client.raw = at_ == 3;
    client.wire = at_ == 2 ? Wire::kBinary : Wire::kText;
    client.shed_before = Kicked();
    client.checker.emplace(FuzzCheckValue);
    return client;
  }

  void Send(const std::string& bytes, std::optional<Expected> expected) {
    FuzzClient& client = Current();
    const size_t values = expected ? expected->keys.size() : 0;
    if (client.asked_to_close || client.unsent.size() + bytes.size() > kUnsentMax) return;
    if (values > values_left_) return;
    values_left_ -= values;
    client.unsent += bytes;
    client.last_request = bytes;
    client.last_expected = expected;
    if (expected && !client.raw) client.checker->Expect(std::move(*expected));
  }

  void Repeat(unsigned times) {
    FuzzClient& client = Current();
    const std::string request = client.last_request;
    const std::optional<Expected> expected = client.last_expected;
    for (; times > 0 && !request.empty(); --times) Send(request, expected);
  }

  // Part of what is to be sent, as much of it as the socket takes.
  void Write(size_t bytes) {
    FuzzClient& client = Current();
    bytes = std::min(bytes, client.unsent.size());
    if (bytes == 0) return;
    const ssize_t n = send(client.fd, client.unsent.data(), bytes, MSG_NOSIGNAL);
    if (n > 0) client.unsent.erase(0, static_cast<size_t>(n));
    // Its replies may still be there to be read.
    if (n < 0 && errno != EAGAIN) client.unsent.clear();
  }

  void Read(size_t bytes) {
    FuzzClient& client = clients_[at_];
    if (client.fd < 0) return;
    const ssize_t n = recv(client.fd, received_.data(), std::min(bytes, received_.size()), 0);
    if (n > 0) {
      if (client.raw) return;
      const std::string_view received(received_.data(), static_cast<size_t>(n));
      if (const char* fault = client.checker->Feed(received)) Check(false, fault);
    } else if (n == 0 || errno != EAGAIN) {
      Closed(&client);
    }
  }

  // The server hung up.
  void Closed(FuzzClient* client) {
    Check(server_->worker().context().output.overruns() == 0, "the output was overrun");
    const bool answered = client->asked_to_close && client->checker->pending() == 0;
    Check(client->raw || answered || Kicked() != client->shed_before,
          "a connection was closed without a reason");
    close(client->fd);
    client->fd = -1;
  }

  // Connections that were closed because they were idle, or held too much.
  uint64_t Kicked() {
    const WorkerCounters& counters = server_->worker().counters();
    return counters.connections_shed.value() + counters.idle_kicks.value();
  }

  void Leave(unsigned how) {
    FuzzClient& client = clients_[at_];
    if (client.fd < 0) return;
    if (how % 2 == 0) {
      close(client.fd);
      client = FuzzClient();
    } else if (client.unsent.empty()) {
      (void)shutdown(client.fd, SHUT_WR);
      client.asked_to_close = true;
    }
  }

  // ---- requests ----

  void Request(unsigned kind) {
    const FuzzClient& client = Current();
    if (client.raw) return SendRaw();
    const unsigned key = input_.Byte();
    if (client.wire == Wire::kBinary) return SendBinary(kind, key % kFuzzKeys, key / kFuzzKeys);
    if (key % 16 < 8) return SendText(kind, key % kFuzzKeys, key / 16);
    SendMeta(kind, key % kFuzzKeys, key / 16);
  }

  void SendRaw() {
    std::string bytes(input_.Bytes(1 + input_.Byte() % 64));
    for (char& c : bytes) {
      if (c == 'K' || c == 'S') c = '\n';
    }
    Send(bytes, std::nullopt);
  }

  std::string Value(unsigned key) {
    constexpr std::array<size_t, 16> kBytes = {
        0, 4095, 4096, 1, 15, 16, 17, 300, 3800, 511, 512, 5000, 9000, kFuzzValueBytesMax, 4094, 2};
    return std::string(FuzzValue(key, input_.Of(kBytes)));
  }

  static Expected One(Wire wire, uint32_t kinds, unsigned key) {
    return {wire, Shape::kReply, kinds | kErrorKinds, {FuzzKey(key)}};
  }

  void SendText(unsigned kind, unsigned key, unsigned variant) {
    const std::string name = FuzzKey(key);
    constexpr std::array<const char*, 5> kVerbs = {"set ", "add ", "replace ", "append ",
                                                   "prepend "};
    switch (kind) {
      case 0:
      case 1: {
        const unsigned verb = key == kJoinedKey ? variant % 5 : variant % 3;
        const std::string value = Value(key);
        const bool quiet = variant == 15;
        // Refusals of an add are not said either.
        std::optional<Expected> expected;
        if (!quiet) expected = One(Wire::kText, kWriteKinds, key);
        return Send(kVerbs[verb] + name + " 7 " + (variant > 12 ? "100 " : "0 ") +
                        std::to_string(value.size()) + (expected ? "" : " noreply") + "\r\n" +
                        value + "\r\n",
                    expected);
      }
      case 2:
      case 3:
        return SendGets(variant);
      case 4:
        return Send("delete " + name + "\r\n",
                    One(Wire::kText, KindsOf(ReplyKind::kDeleted, ReplyKind::kNotFound), key));
      case 5:
        return Send("touch " + name + (variant < 8 ? " 60\r\n" : " 0\r\n"),
                    One(Wire::kText, KindsOf(ReplyKind::kTouched, ReplyKind::kNotFound), key));
      case 6:
        return Send((variant < 8 ? "incr " : "decr ") + FuzzKey(kNumberKey) + " 9\r\n",
                    One(Wire::kText, KindsOf(ReplyKind::kNumber, ReplyKind::kNotFound), key));
      case 7:
        return Send("cas " + name + " 0 0 2 " + std::to_string(variant) + "\r\n" +
                        std::string(FuzzValue(key, 2)) + "\r\n",
                    One(Wire::kText, kWriteKinds, key));
      case 8:
        return Send(variant < 8 ? "flush_all\r\n" : "flush_all 50\r\n",
                    One(Wire::kText, KindsOf(ReplyKind::kOk), key));
      case 9:
        return SendStats(variant);
      case 10:
        return Send("version\r\n", One(Wire::kText, KindsOf(ReplyKind::kVersion), key));
      case 11:
        return Send("set " + name + " 0 0 100000\r\n" + std::string(100'000, 'x') + "\r\n",
                    One(Wire::kText, kErrorKinds, key));
      case 12:
        return Send("mn\r\n", One(Wire::kText, KindsOf(ReplyKind::kEnd), key));
      case 13:
        return Send("gats 100 " + name + "\r\n",
                    Expected{Wire::kText, Shape::kGroup, kErrorKinds, {name}});
      case 14:
        return Send("verbosity 0\r\n", One(Wire::kText, KindsOf(ReplyKind::kOk), key));
      default:
        if (variant != 0) return Send("nonsense\r\n", One(Wire::kText, 0, key));
        Send("quit\r\n", std::nullopt);
        Current().asked_to_close = true;
    }
  }

  // A line with as many keys as the next byte says.
  void SendGets(unsigned variant) {
    const unsigned count = 1 + input_.Byte() % 100;
    Expected expected{Wire::kText, Shape::kGroup, kErrorKinds, {}};
    std::string line = variant % 2 == 0 ? "get" : "gets";
    for (unsigned i = 0; i < count; ++i) {
      const std::string name = FuzzKey((variant / 2 * i + variant) % kFuzzKeys);
      line += " " + name;
      expected.keys.push_back(name);
    }
    Send(line + "\r\n", expected);
  }

  void SendStats(unsigned variant) {
    constexpr std::array<const char*, 16> kNames = {
        "",       " settings",  " items",        " slabs",       " conns",       " kbf",
        " sizes", " errors",    " detail on",    " detail dump", " detail dump", " detail off",
        " reset", " cachedump", " nothing here", " detail dump"};
    Send(std::string("stats") + kNames[variant] + "\r\n",
         Expected{Wire::kText, Shape::kLines, 0, {}});
  }

  void SendMeta(unsigned kind, unsigned key, unsigned variant) {
    const std::string name = FuzzKey(key);
    const auto bit = [&](unsigned i, const char* flags) {
      return std::string((variant >> i & 1) != 0 ? flags : "");
    };
    switch (kind) {
      case 0:
      case 1: {
        const std::string value = Value(key);
        return Send("ms " + name + " " + std::to_string(value.size()) + bit(0, " k O12") +
                        bit(1, " c") + bit(2, " T90") + bit(3, " ME") + "\r\n" + value + "\r\n",
                    One(Wire::kMeta, kWriteKinds, key));
      }
      case 2:
      case 3:
        return Send("mg " + name + " v" + bit(0, " k O12") + bit(1, " f t s c l h") +
                        bit(2, " T90") + bit(3, " R200") + "\r\n",
                    One(Wire::kMeta, KindsOf(ReplyKind::kNotFound), key));
      case 4:
        return Send("md " + name + bit(0, " k O12") + bit(1, " I T30") + bit(2, " C5") + "\r\n",
                    One(Wire::kMeta, kWriteKinds, key));
      case 5:
        return Send("ma " + FuzzKey(kNumberKey) + " v" + bit(0, " N60 J5") + bit(1, " MD") +
                        bit(2, " k O12") + "\r\n",
                    One(Wire::kMeta, KindsOf(ReplyKind::kNotFound), kNumberKey));
      case 6:
        return Send("me " + name + "\r\n", Expected{Wire::kText, Shape::kLine, 0, {}});
      case 7:
        // An empty value is one of every key but the number's.
        return Send("mg " + FuzzKey(key % kJoinedKey) + " N30 v" + bit(0, " k") + "\r\n",
                    One(Wire::kMeta, KindsOf(ReplyKind::kNotFound), key % kJoinedKey));
      case 8:
        return Send("mg " + name + bit(0, " k O12") + bit(1, " t") + "\r\n",
                    One(Wire::kMeta, KindsOf(ReplyKind::kOk, ReplyKind::kNotFound), key));
      default: {
        // Quiet gets and the end of their group.
        Expected expected{Wire::kMeta, Shape::kGroup, kErrorKinds, {}};
        std::string group;
        for (unsigned i = 0; i <= kind; ++i) {
          const std::string one = FuzzKey((variant * i + key) % kFuzzKeys);
          group += "mg " + one + " k v q\r\n";
          expected.keys.push_back(one);
        }
        Send(group + "mn\r\n", expected);
      }
    }
  }

  static std::string BigEndian(uint64_t number, size_t bytes) {
    std::string out;
    for (size_t i = bytes; i-- > 0;) out += static_cast<char>(i < 8 ? number >> (8 * i) : 0);
    return out;
  }

  static std::string Packet(unsigned opcode, const std::string& extras, const std::string& key,
                            const std::string& value = "") {
    return '\x80' + BigEndian(opcode, 1) + BigEndian(key.size(), 2) + BigEndian(extras.size(), 1) +
           BigEndian(0, 3) + BigEndian(extras.size() + key.size() + value.size(), 4) +
           BigEndian(0, 12) + extras + key + value;
  }

  void SendBinary(unsigned kind, unsigned key, unsigned variant) {
    const std::string name = FuzzKey(key);
    const auto one = [&](uint32_t kinds) { return One(Wire::kBinary, kinds, key); };
    constexpr uint32_t kReads = KindsOf(ReplyKind::kNotFound);
    switch (kind) {
      case 0:
      case 1: {
        // Set, add and replace.
        const std::string value = Value(key);
        return Send(Packet(1 + variant % 3, BigEndian(7, 4) + BigEndian(0, 4), name, value),
                    one(kWriteKinds));
      }
      case 2:
        return Send(Packet(variant % 2 == 0 ? 0x00 : 0x0c, "", name), one(kReads));
      case 3: {
        Expected expected{Wire::kBinary, Shape::kGroup, kErrorKinds, {}};
        std::string group;
        for (unsigned i = input_.Byte() % 70; i > 0; --i) {
          const std::string each = FuzzKey((variant * i + key) % kFuzzKeys);
          group += Packet(0x0d, "", each);
          expected.keys.push_back(each);
        }
        return Send(group + Packet(0x0a, "", ""), expected);
      }
      case 4:
        return Send(Packet(0x04, "", name), one(KindsOf(ReplyKind::kDeleted) | kReads));
      case 5:
        return Send(Packet(0x1c, BigEndian(60, 4), name),
                    one(KindsOf(ReplyKind::kTouched) | kReads));
      case 6:
        return Send(
            Packet(variant % 2 == 0 ? 0x05 : 0x06,
                   BigEndian(3, 8) + BigEndian(5, 8) + BigEndian(0, 4), FuzzKey(kNumberKey)),
            one(KindsOf(ReplyKind::kNumber) | kReads));
      case 7:
        return Send(Packet(variant % 2 == 0 ? 0x0e : 0x0f, "", FuzzKey(kJoinedKey), "ggg"),
                    one(kWriteKinds));
      case 8:
        return Send(Packet(0x08, "", ""), one(KindsOf(ReplyKind::kOk)));
      case 9: {
        constexpr std::array<const char*, 4> kNames = {"", "settings", "kbf", "nothing here"};
        return Send(Packet(0x10, "", kNames[variant % 4]),
                    Expected{Wire::kBinary, Shape::kPackets, kErrorKinds | kReads, {}});
      }
      case 10:
        return Send(Packet(0x0b, "", ""), one(KindsOf(ReplyKind::kVersion)));
      case 11:
        return Send(Packet(0x01, BigEndian(0, 8), name, std::string(100'000, 'x')), one(0));
      case 12:
        return Send(Packet(0x1d, BigEndian(60, 4), name), one(KindsOf(ReplyKind::kOk) | kReads));
      case 13:
        // Quiet ones: only what goes wrong is said.
        return Send(Packet(0x11, BigEndian(0, 8), name, std::string(FuzzValue(key, 700))) +
                        Packet(0x14, "", FuzzKey(0)) + Packet(0x0a, "", ""),
                    Expected{Wire::kBinary, Shape::kGroup, kWriteKinds, {}});
      case 14:
        return Send(Packet(0x70, "", name), one(0));
      default:
        if (variant != 0) return Send(Packet(0x0a, "", ""), one(KindsOf(ReplyKind::kEnd)));
        Send(Packet(0x07, "", ""), one(KindsOf(ReplyKind::kOk)));
        Current().asked_to_close = true;
    }
  }

  // ---- the end ----

  // Everybody sends what is left and reads all that comes.
  void Finish() {
    for (unsigned turns = 0; fault_ == nullptr && AnyoneWaits(); ++turns) {
      Check(turns < kTurnsMax, "a reply that never came");
      for (at_ = 0; at_ < kClients; ++at_) {
        if (clients_[at_].fd < 0) continue;
        Write(kUnsentMax);
        Read(kUnsentMax);
      }
      server_->Turn();
      if (turns % 64 == 63) server_->FireTimers();
    }
    if (fault_ != nullptr) return;
    for (FuzzClient& client : clients_) {
      if (client.fd >= 0 && !client.raw) {
        Check(!client.checker->has_partial_reply(), "half a reply at the end");
      }
      if (client.fd >= 0) close(client.fd);
      client.fd = -1;
    }
    for (unsigned i = 0; i < kTurnsMax && state_->connections.current > 0; ++i) {
      server_->Turn();
      if (i % 16 == 15) server_->FireTimers();
    }
    Check(state_->connections.current == 0, "a connection that does not end");
    Check(state_->connection_memory.buffer_bytes() == 0, "buffers that are gone are counted");
    Check(state_->connection_memory.num_waiting() == 0, "somebody waits who is gone");
    Check(kbf::DetachedBytes() == 0, "values that are gone are counted");
    Check(server_->worker().context().output.overruns() == 0, "the output was overrun");
  }

  bool AnyoneWaits() const {
    return std::any_of(clients_.begin(), clients_.end(), [](const FuzzClient& client) {
      return client.fd >= 0 && !client.raw &&
             (!client.unsent.empty() || client.checker->pending() > 0);
    });
  }

  FuzzInput input_;
  ManualTime time_;
  const std::unique_ptr<State> state_;
  std::optional<LoopServer> server_;
  std::array<FuzzClient, kClients> clients_;
  std::vector<char> received_ = std::vector<char>(64 << 10);
  unsigned at_ = 0;            // the current client
  size_t values_left_ = 2000;  // that may be asked for, so that a run is short
  const char* fault_ = nullptr;
};

// The fault that was found, or null.
inline const char* FuzzServer(std::string_view input) { return ServerFuzz(input).Run(); }

}  // namespace server
