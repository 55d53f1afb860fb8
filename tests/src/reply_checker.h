// ReplyChecker reads what a server sends over one connection and holds it against what was asked:
// every request gets its replies, in order, and nothing else.
//
// Promises:  finds bytes that are no reply, replies of a kind that the request cannot have, values
//            of keys that were not asked for, in another order or twice, and whatever ValueCheck
//            finds in a value. Bytes may arrive in any pieces.
// Requires:  Expect() in the order in which requests are sent, before their replies are fed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/client.h"

namespace server {

using protocol::ReplyKind;

// A set of kinds of replies.
template <class... Kinds>
constexpr uint32_t KindsOf(Kinds... kinds) {
  return (0u | ... | (1u << static_cast<unsigned>(kinds)));
}

struct Expected {
  enum class Shape : uint8_t {
    kReply,    // one reply, a value perhaps
    kGroup,    // values of `keys`, errors in the place of some, and then kEnd
    kLine,     // one line of any text
    kLines,    // lines up to END, or one of OK, RESET and errors
    kPackets,  // statistics on the binary wire
  };
  protocol::Wire wire = protocol::Wire::kText;
  Shape shape = Shape::kReply;
  uint32_t kinds = 0;             // kReply: of it; kGroup: besides values and kEnd
  std::vector<std::string> keys;  // whose values may come, in this order
};

// What the last complete answer was.
struct Answer {
  ReplyKind kind = ReplyKind::kEnd;
  size_t num_values = 0;
  bool out_of_memory = false;  // the server said so, in place of some reply

  bool operator==(const Answer&) const = default;
};

class ReplyChecker {
 public:
  // The fault of a value, or null.
  using ValueCheck = std::function<const char*(std::string_view key, std::string_view value)>;

  explicit ReplyChecker(ValueCheck check) : check_(std::move(check)) {}

  void Expect(Expected expected) { expected_.push_back(std::move(expected)); }
  // Requests that are not answered completely.
  size_t pending() const { return expected_.size(); }
  const Answer& last() const { return last_; }
  bool has_partial_reply() const { return !bytes_.empty(); }

  // The fault, or null.
  const char* Feed(std::string_view bytes) {
    bytes_ += bytes;
    size_t used = 0;
    const char* fault = nullptr;
    while (used < bytes_.size() && fault == nullptr) {
      if (expected_.empty()) {
        fault = "a reply that nobody asked for";
        break;
      }
      const size_t taken = TakeOne(std::string_view(bytes_).substr(used), &fault);
      if (taken == 0) break;
      used += taken;
    }
    bytes_.erase(0, used);
    return fault;
  }

 private:
  using Shape = Expected::Shape;

  // Bytes of the next reply; 0: it is not complete.
  size_t TakeOne(std::string_view bytes, const char** fault) {
    const Expected& expected = expected_.front();
    if (expected.shape == Shape::kLine || expected.shape == Shape::kLines) {
      return TakeLine(bytes, expected.shape == Shape::kLines, fault);
    }
    protocol::Reply reply;
    const protocol::ReplyResult result = protocol::ParseReply(expected.wire, bytes, &reply);
    if (result.status == protocol::ReplyStatus::kNeedMore) return 0;
    *fault = result.status == protocol::ReplyStatus::kBroken ? "bytes that are no reply"
                                                             : Check(expected, reply);
    return *fault == nullptr ? result.consumed : 0;
  }

  size_t TakeLine(std::string_view bytes, bool many, const char** fault) {
    const size_t end = bytes.find('\n');
    if (end == bytes.npos) return 0;
    std::string_view line = bytes.substr(0, end + 1);
    if (!line.ends_with("\r\n")) *fault = "a line without its end";
    line.remove_suffix(std::min<size_t>(2, line.size()));
    Note({}, line);
    if (many &&
        (line.starts_with("STAT ") || line.starts_with("PREFIX ") || line.starts_with("ITEM ")))
      return end + 1;
    const bool last = line == "END" || line == "OK" || line == "RESET" || IsError(line);
    if (many && !last) *fault = "a line that is no statistic";
    Finish(line == "END" ? ReplyKind::kEnd : ReplyKind::kOk);
    return end + 1;
  }

  static bool IsError(std::string_view line) {
    return line == "ERROR" || line.starts_with("CLIENT_ERROR ") ||
           line.starts_with("SERVER_ERROR ");
  }

  void Note(const protocol::Reply& reply, std::string_view text) {
    const bool error = text.starts_with("SERVER_ERROR") || reply.kind == ReplyKind::kServerError;
    const bool memory = text.find("ut of memory") != text.npos;
    answer_.out_of_memory = answer_.out_of_memory || (error && memory);
  }

  void Finish(ReplyKind kind) {
    answer_.kind = kind;
    last_ = std::exchange(answer_, {});
    expected_.pop_front();
    next_key_ = 0;
  }

  const char* Check(const Expected& expected, const protocol::Reply& reply) {
    Note(reply, reply.text);
    if (reply.kind == ReplyKind::kValue) {
      if (const char* fault = CheckValue(expected, reply)) return fault;
      if (expected.shape == Shape::kReply) Finish(reply.kind);
      return nullptr;
    }
    const bool allowed = (expected.kinds & KindsOf(reply.kind)) != 0;
    switch (expected.shape) {
      case Shape::kPackets:
        if (reply.kind == ReplyKind::kStat) return nullptr;
        if (reply.kind != ReplyKind::kEnd && !allowed) return "no statistic";
        break;
      case Shape::kGroup:
        if (reply.kind == ReplyKind::kEnd) break;
        return allowed ? nullptr : "a reply that does not belong to this group";
      default:
        if (!allowed) return "a reply that this request cannot have";
    }
    Finish(reply.kind);
    return nullptr;
  }

  const char* CheckValue(const Expected& expected, const protocol::Reply& reply) {
    if (expected.shape == Shape::kPackets) return "a value among statistics";
    ++answer_.num_values;
    while (next_key_ < expected.keys.size() && !reply.key.empty() &&
           expected.keys[next_key_] != reply.key) {
      ++next_key_;
    }
    if (next_key_ >= expected.keys.size()) return "a value that was not asked for";
    return check_(expected.keys[next_key_++], reply.value);
  }

  ValueCheck check_;
  std::deque<Expected> expected_;
  std::string bytes_;
  size_t next_key_ = 0;  // of the first expected request
  Answer answer_;        // of the first expected request, so far
  Answer last_;
};

}  // namespace server
