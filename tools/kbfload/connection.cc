#include "tools/kbfload/connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <cassert>
#include <cstring>

#include "storage/hash.h"

namespace load {
namespace {

using protocol::Reply;
using protocol::ReplyKind;
using protocol::Wire;

constexpr size_t kBatchBytesMax = 4 << 20;  // a batch stops growing here, whatever --pipeline says
constexpr size_t kReadBytes = 64 << 10;
constexpr uint32_t kNoopOpaque = UINT32_MAX;  // no request of a batch has it

protocol::Op OpOf(Verb verb) {
  switch (verb) {
    case Verb::kGet:
      return protocol::Op::kGet;
    case Verb::kSet:
      return protocol::Op::kSet;
    case Verb::kDelete:
      return protocol::Op::kDelete;
    case Verb::kTouch:
      return protocol::Op::kTouch;
    default:
      return protocol::Op::kArithmetic;
  }
}

// What a server says when the change was made. Meta has one word for all, and shows numbers as
// values.
bool IsSuccess(Verb verb, ReplyKind kind, Wire wire) {
  if (wire == Wire::kMeta) {
    const bool number = verb == Verb::kIncr || verb == Verb::kDecr;
    return kind == (number ? ReplyKind::kValue : ReplyKind::kOk);
  }
  constexpr ReplyKind kSuccess[kVerbs] = {ReplyKind::kValue,   ReplyKind::kStored,
                                          ReplyKind::kDeleted, ReplyKind::kTouched,
                                          ReplyKind::kNumber,  ReplyKind::kNumber};
  return kind == kSuccess[static_cast<size_t>(verb)];
}

// The beginning of some bytes, for a message.
std::string Shown(std::string_view bytes) {
  std::string text;
  for (const char c : bytes.substr(0, 40)) text += c >= ' ' && c <= '~' ? c : '.';
  return "'" + text + (bytes.size() > 40 ? "…'" : "'");
}

}  // namespace

char* Buffer::Reserve(size_t bytes) {
  if (room() < bytes) {
    if (capacity_ - size() < bytes || begin_ < capacity_ / 2) {
      capacity_ = std::max(2 * capacity_, size() + bytes);
      auto larger = std::make_unique_for_overwrite<char[]>(capacity_);
      if (size() > 0) std::memcpy(larger.get(), data_.get() + begin_, size());
      data_ = std::move(larger);
    } else {
      std::memmove(data_.get(), data_.get() + begin_, size());
    }
    end_ -= begin_;
    begin_ = 0;
  }
  return data_.get() + end_;
}

void Buffer::Drop(size_t bytes) {
  begin_ += bytes;
  if (begin_ == end_) Clear();
}

Connection::Connection(Socket socket, const ClientGroup& clients, Tally* tally,
                       std::unique_ptr<Source> source)
    : socket_(std::move(socket)),
      clients_(&clients),
      tally_(tally),
      source_(std::move(source)),
      tasks_(clients.multiget) {}

// ---- making a batch ----

size_t Connection::NextTasks() {
  if (refill_.empty()) return source_->Next(tasks_);
  tasks_[0] = refill_.back();
  refill_.pop_back();
  return 1;
}

bool Connection::Add(int64_t start_ns) {
  assert(sent_ == 0 || done());
  if (done()) {
    out_.Clear();
    asked_.clear();
    requests_.clear();
    sent_ = answered_ = 0;
  }
  if (out_.size() >= kBatchBytesMax) return false;
  const size_t count = NextTasks();
  if (count == 0) return false;
  const Verb verb = tasks_[0].verb;
  requests_.push_back(
      {verb, static_cast<uint32_t>(asked_.size()), static_cast<uint32_t>(count), start_ns});
  if (verb == Verb::kGet && clients_->multiget > 1) {
    AddGets(count);
  } else {
    AddSingle(tasks_[0]);
  }
  return true;
}

char* Connection::AddKey(protocol::RequestFrame frame, const Task& task, uint32_t key_bytes) {
  clients_->workload->WriteKey(task.key, frame.key);
  asked_.push_back({task, static_cast<uint32_t>(frame.key - out_.at(0)), key_bytes});
  return frame.end;
}

void Connection::AddGets(size_t count) {
  const Wire wire = clients_->wire;
  const size_t request = requests_.size() - 1;
  char* const begin = out_.Reserve(protocol::kFrameBytesMax);
  out_.Grew(static_cast<size_t>(protocol::FrameGetsBegin(wire, begin) - begin));
  for (size_t i = 0; i < count; ++i) {
    const uint32_t key_bytes = clients_->workload->KeyBytes(tasks_[i].key);
    char* const at = out_.Reserve(protocol::kFrameBytesMax + key_bytes);
    const auto opaque = static_cast<uint32_t>(asked_.size());
    const auto frame = protocol::FrameGetsKey(wire, key_bytes, opaque, at);
    out_.Grew(static_cast<size_t>(AddKey(frame, tasks_[i], key_bytes) - at));
  }
  char* const end = out_.Reserve(protocol::kFrameBytesMax);
  const auto opaque = static_cast<uint32_t>(request);
  out_.Grew(static_cast<size_t>(protocol::FrameGetsEnd(wire, opaque, end) - end));
}

void Connection::AddSingle(const Task& task) {
  ValueId value;
  if (task.verb == Verb::kSet) {
    value = clients_->workload->ValueOf(task.key);
    if (task.value_bytes != Task::kDrawnBytes) value = Workload::Resized(value, task.value_bytes);
  }
  const uint32_t key_bytes = clients_->workload->KeyBytes(task.key);
  const std::optional<std::string>& meta_flags = clients_->meta_flags;
  char* const at = out_.Reserve(protocol::kFrameBytesMax + key_bytes + value.bytes +
                                (meta_flags ? meta_flags->size() : 0));
  const auto frame = protocol::FrameRequest(clients_->wire,
                                            {.op = OpOf(task.verb),
                                             .flags = clients_->workload->options().flags,
                                             .exptime = DrawTtl(),
                                             .opaque = static_cast<uint32_t>(asked_.size()),
                                             .key_bytes = key_bytes,
                                             .value_bytes = value.bytes,
                                             .decrement = task.verb == Verb::kDecr,
                                             .quiet = clients_->quiet_sets,
                                             .meta_flags = meta_flags},
                                            at);
  if (task.verb == Verb::kSet) clients_->workload->WriteValue(value, frame.value);
  out_.Grew(static_cast<size_t>(AddKey(frame, task, key_bytes) - at));
}

uint32_t Connection::DrawTtl() {
  const Ttl& ttl = clients_->ttl;
  if (ttl.low_s == ttl.high_s) return ttl.low_s;
  return ttl.low_s + static_cast<uint32_t>(kbf::ScaleTo(kbf::Mix64(++ttls_drawn_),
                                                        uint64_t{ttl.high_s} - ttl.low_s + 1));
}

void Connection::AddNoop() {
  char* const at = out_.Reserve(protocol::kFrameBytesMax);
  const auto frame = protocol::FrameRequest(clients_->wire,
                                            {.op = protocol::Op::kNoop, .opaque = kNoopOpaque}, at);
  out_.Grew(static_cast<size_t>(frame.end - at));
  awaits_noop_ = true;
}

// ---- sockets ----

bool Connection::Fail(std::string what) {
  failure_ = clients_->server.Name() + " " + std::move(what);
  if (!tally_->last_error.empty()) failure_ += "; the last error was '" + tally_->last_error + "'";
  return false;
}

bool Connection::Send(int64_t now_ns) {
  cursor_ = key_errors_ = 0;
  if (clients_->quiet_sets) AddNoop();
  return Write(now_ns);
}

bool Connection::Write(int64_t now_ns) {
  while (wants_to_write()) {
    const ssize_t count = socket_.Send(out_.at(sent_), out_.size() - sent_);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    if (count < 0) {
      // Whoever hangs up may have said why.
      const std::string why = std::strerror(errno);
      return Receive(now_ns) ? Fail("takes no more requests: " + why) : false;
    }
    sent_ += static_cast<size_t>(count);
    tally_->bytes_sent += static_cast<uint64_t>(count);
    progress_ns_ = now_ns;
  }
  return true;
}

bool Connection::Receive(int64_t now_ns) {
  do {
    if (!ReceiveOnce(now_ns)) return false;
  } while (socket_.HasPending());
  return true;
}

bool Connection::ReceiveOnce(int64_t now_ns) {
  char* const at = in_.Reserve(std::max(kReadBytes, needed_));
  const ssize_t count = socket_.Receive(at, in_.room());
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return true;
  if (count < 0) return Fail(std::string("broke the connection: ") + std::strerror(errno));
  if (count == 0) {
    return Fail(done() ? "closed the connection"
                       : "closed the connection; unanswered requests: " +
                             std::to_string(requests_.size() - answered_));
  }
  in_.Grew(static_cast<size_t>(count));
  tally_->bytes_received += static_cast<uint64_t>(count);
  progress_ns_ = now_ns;
  if (in_.size() < needed_) return true;

  Reply reply;
  while (in_.size() > 0) {
    const auto [status, consumed, needed] =
        protocol::ParseReply(clients_->wire, in_.view(), &reply);
    if (status == protocol::ReplyStatus::kBroken) {
      return Fail("answers garbage: " + Shown(in_.view()));
    }
    needed_ = needed;
    if (status == protocol::ReplyStatus::kNeedMore) break;
    if (!Take(reply, now_ns)) return Fail("answers what was not asked: " + Shown(in_.view()));
    in_.Drop(consumed);
  }
  return true;
}

// ---- replies ----

bool Connection::AnsweredByList(const Request& request) const {
  return request.verb == Verb::kGet && (clients_->wire == Wire::kText || clients_->multiget > 1);
}

bool Connection::HasOpaque(const Reply& reply, uint32_t expected) const {
  return clients_->wire != Wire::kBinary || reply.opaque == expected;
}

bool Connection::Take(const Reply& reply, int64_t now_ns) {
  const bool is_error = reply.kind == ReplyKind::kError || reply.kind == ReplyKind::kClientError ||
                        reply.kind == ReplyKind::kServerError;
  if (done()) {
    // A server that is full says so unasked, and hangs up.
    if (is_error) tally_->last_error = reply.text;
    return false;
  }
  if (awaits_noop_) return TakeOfQuiet(reply, is_error, now_ns);
  const Request& request = requests_[answered_];
  if (is_error) return TakeError(reply, request, now_ns);
  return request.verb == Verb::kGet ? TakeGet(reply, request, now_ns)
                                    : TakeChange(reply, request, now_ns);
}

// The server works in order: what was sent before the request that is answered has been stored. A
// set's opaque number is its place in the batch.
bool Connection::TakeOfQuiet(const Reply& reply, bool is_error, int64_t now_ns) {
  const bool is_end = reply.kind == ReplyKind::kEnd && reply.opaque == kNoopOpaque;
  const size_t settled = is_end ? requests_.size() : reply.opaque;
  if (settled < answered_ || settled > requests_.size()) return false;
  if (settled == requests_.size() && !is_end) return false;
  while (answered_ < settled) Finish(requests_[answered_], now_ns);
  if (is_end) {
    awaits_noop_ = false;
    return true;
  }
  const Request& request = requests_[answered_];
  return is_error ? TakeError(reply, request, now_ns) : TakeChange(reply, request, now_ns);
}

bool Connection::TakeError(const Reply& reply, const Request& request, int64_t now_ns) {
  uint64_t& count = reply.kind == ReplyKind::kServerError   ? tally_->server_errors
                    : reply.kind == ReplyKind::kClientError ? tally_->client_errors
                                                            : tally_->errors;
  tally_->last_error = reply.text;
  // In a group outside of text the error is one key's, and the end still comes.
  if (AnsweredByList(request) && clients_->wire != Wire::kText) {
    ++count;
    return ++key_errors_ <= request.count;
  }
  count += request.count - cursor_;
  Finish(request, now_ns);
  return true;
}

// Keys that no value came for were missed, but for those that errors came for.
bool Connection::TakeEndOfGet(const Reply& reply, const Request& request, int64_t now_ns) {
  const uint32_t opaque = clients_->multiget > 1 ? static_cast<uint32_t>(answered_) : request.first;
  if (!HasOpaque(reply, opaque)) return false;
  const uint32_t unanswered = request.count - cursor_;
  const uint32_t missed = unanswered - std::min(unanswered, key_errors_);
  for (uint32_t i = 0; i < missed; ++i) Miss(asked_[request.first + cursor_ + i]);
  Finish(request, now_ns);
  return true;
}

bool Connection::TakeGet(const Reply& reply, const Request& request, int64_t now_ns) {
  const bool list = AnsweredByList(request);
  if (reply.kind == (list ? ReplyKind::kEnd : ReplyKind::kNotFound)) {
    return TakeEndOfGet(reply, request, now_ns);
  }
  const Asked* const asked = &asked_[request.first];
  const bool hit = reply.kind == ReplyKind::kValue ||
                   (reply.kind == ReplyKind::kOk && clients_->meta_flags.has_value());
  if (!hit) return false;
  // Only meta's single get does not repeat the key.
  const bool keyed = list || clients_->wire == Wire::kBinary;
  // A request can have a key twice, and the first of them may have missed: so the opaque too.
  const auto is_asked = [&](uint32_t i) {
    const Asked& one = asked[i];
    return !keyed || (HasOpaque(reply, request.first + i) && one.key_bytes == reply.key.size() &&
                      std::memcmp(out_.at(one.key_offset), reply.key.data(), one.key_bytes) == 0);
  };
  for (; cursor_ < request.count && !is_asked(cursor_); ++cursor_) Miss(asked[cursor_]);
  if (cursor_ == request.count) return false;
  CheckValue(asked[cursor_++], reply);
  if (!list) Finish(request, now_ns);
  return true;
}

bool Connection::TakeChange(const Reply& reply, const Request& request, int64_t now_ns) {
  if (!HasOpaque(reply, request.first)) return false;
  if (reply.kind == ReplyKind::kNotFound) {
    ++tally_->not_found;
  } else if (reply.kind == ReplyKind::kNotStored || reply.kind == ReplyKind::kExists) {
    ++tally_->not_stored;
  } else if (!IsSuccess(request.verb, reply.kind, clients_->wire)) {
    return false;
  }
  Finish(request, now_ns);
  return true;
}

void Connection::CheckValue(const Asked& asked, const Reply& reply) {
  if (IsAbsentKey(asked.task.key)) {
    ++tally_->absent_asked;
    ++tally_->false_positives;
    return;
  }
  const Workload& workload = *clients_->workload;
  bool right = true;
  if (clients_->check_values && reply.kind == ReplyKind::kValue) {
    ValueId value = workload.ValueOf(asked.task.key);
    if (clients_->any_size && reply.value.size() <= workload.options().value_bytes_max) {
      value = Workload::Resized(value, static_cast<uint32_t>(reply.value.size()));
    }
    const bool with_flags =
        !clients_->meta_flags || clients_->meta_flags->find('f') != std::string::npos;
    right = workload.IsValue(value, reply.value) &&
            (!with_flags || reply.flags == workload.options().flags);
  }
  ++(right ? tally_->hits : tally_->wrong);
}

void Connection::Miss(const Asked& asked) {
  if (IsAbsentKey(asked.task.key)) {
    ++tally_->absent_asked;
    return;
  }
  ++tally_->misses;
  if (clients_->read_through) refill_.push_back({Verb::kSet, asked.task.key});
}

void Connection::Finish(const Request& request, int64_t now_ns) {
  const auto verb = static_cast<size_t>(request.verb);
  tally_->ops[verb] += request.count;
  tally_->latency[verb].Add(static_cast<uint64_t>(std::max<int64_t>(0, now_ns - request.start_ns)));
  ++answered_;
  cursor_ = key_errors_ = 0;
}

}  // namespace load
