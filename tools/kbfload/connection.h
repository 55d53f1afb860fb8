// Connection is one socket's conversation: it makes a batch of requests, sends it in one write,
// matches the replies to what was asked and checks every value.
//
//   (Add+ Send (Write | Receive)*)*      a new batch only when done()
//
// Promises:  a reply that nobody asked for, a key that was not asked for, a wrong opaque number or
//            bytes that are no reply end the conversation (Failure()): counts are never guessed.
// Requires:  one thread. The client group and the tally outlive it.
// Costs:     no allocation once the buffers have grown to the size of a batch. Keys and values are
//            generated in the send buffer; keys of replies are compared with it, values with bytes
//            that are generated again.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/client.h"
#include "tools/kbfload/server.h"
#include "tools/kbfload/source.h"
#include "tools/kbfload/tally.h"
#include "tools/kbfload/workload.h"

namespace load {

// How long sets let their keys live: any number of seconds of the range alike; 0: for ever.
struct Ttl {
  uint32_t low_s = 0;
  uint32_t high_s = 0;
};

// Connections that do the same kind of work.
struct ClientGroup {
  Address server;
  protocol::Wire wire = protocol::Wire::kText;
  unsigned connections = 1;
  unsigned pipeline = 1;  // requests in a batch, at most
  unsigned multiget = 1;  // keys in a get
  Ttl ttl;
  bool read_through = false;  // a get that misses is followed by a set
  bool check_values = true;   // false: any value is a hit
  bool any_size = false;      // values may have other sizes than the workload's (traces)
  unsigned own_threads =
      0;  // 0: any thread of the load; else so many that serve no other client group
  uint32_t every_us = 0;    // not 0: a batch is due so often, and not when the last is answered
  bool quiet_sets = false;  // binary: only refused sets are answered, and a no-op ends a batch
  std::optional<std::string> meta_flags = {};  // of single gets in meta; "f v" where absent
  const Workload* workload = nullptr;
  SourceFactory sources;
};

// Bytes that grow at the end and are dropped at the front.
class Buffer {
 public:
  // Room for so many bytes behind the end; moves what is there.
  char* Reserve(size_t bytes);
  void Grew(size_t bytes) { end_ += bytes; }
  void Drop(size_t bytes);
  void Clear() { begin_ = end_ = 0; }

  std::string_view view() const { return {data_.get() + begin_, end_ - begin_}; }
  const char* at(size_t offset) const { return data_.get() + begin_ + offset; }
  size_t size() const { return end_ - begin_; }
  size_t room() const { return capacity_ - end_; }

 private:
  std::unique_ptr<char[]> data_;
  size_t capacity_ = 0;
  size_t begin_ = 0;
  size_t end_ = 0;
};

class Connection {
 public:
  Connection(Socket socket, const ClientGroup& clients, Tally* tally,
             std::unique_ptr<Source> source);

  // One more request in the batch, whose latency counts from start_ns. False: there is no more
  // work, or the batch is large enough. REQUIRES: nothing of the batch was sent.
  bool Add(int64_t start_ns);
  // Sends as much as the socket takes. Then, when it takes more, Write. False: the peer is gone.
  [[nodiscard]] bool Send(int64_t now_ns);
  [[nodiscard]] bool Write(int64_t now_ns);
  // Reads what one event announces, and takes every whole reply. False: see Failure().
  [[nodiscard]] bool Receive(int64_t now_ns);

  int fd() const { return socket_.fd(); }
  const ClientGroup& clients() const { return *clients_; }
  bool done() const { return answered_ == requests_.size() && !awaits_noop_; }
  bool wants_to_write() const { return sent_ < out_.size(); }
  int64_t last_progress_ns() const { return progress_ns_; }
  const std::string& Failure() const { return failure_; }

 private:
  struct Asked {
    Task task;
    uint32_t key_offset = 0;  // in the send buffer
    uint32_t key_bytes = 0;
  };
  struct Request {
    Verb verb = Verb::kGet;
    uint32_t first = 0;  // in asked_
    uint32_t count = 0;
    int64_t start_ns = 0;
  };

  size_t NextTasks();
  char* AddKey(protocol::RequestFrame frame, const Task& task, uint32_t key_bytes);
  void AddGets(size_t count);
  void AddSingle(const Task& task);
  void AddNoop();
  uint32_t DrawTtl();
  // A get in text, and a group of gets anywhere, is answered by a list.
  bool AnsweredByList(const Request& request) const;

  bool Fail(std::string what);
  bool ReceiveOnce(int64_t now_ns);
  bool Take(const protocol::Reply& reply, int64_t now_ns);
  bool TakeEndOfGet(const protocol::Reply& reply, const Request& request, int64_t now_ns);
  bool TakeGet(const protocol::Reply& reply, const Request& request, int64_t now_ns);
  bool TakeChange(const protocol::Reply& reply, const Request& request, int64_t now_ns);
  bool TakeError(const protocol::Reply& reply, const Request& request, int64_t now_ns);
  bool TakeOfQuiet(const protocol::Reply& reply, bool is_error, int64_t now_ns);
  bool HasOpaque(const protocol::Reply& reply, uint32_t expected) const;
  void CheckValue(const Asked& asked, const protocol::Reply& reply);
  void Miss(const Asked& asked);
  void Finish(const Request& request, int64_t now_ns);

  Socket socket_;
  const ClientGroup* clients_;
  Tally* tally_;
  std::unique_ptr<Source> source_;
  std::vector<Task> tasks_;   // of the request being made
  std::vector<Task> refill_;  // read-through: what missed

  // The batch.
  Buffer out_;
  size_t sent_ = 0;
  std::vector<Asked> asked_;
  std::vector<Request> requests_;

  // Its replies.
  Buffer in_;
  size_t needed_ = 0;         // bytes before the next reply can be whole
  size_t answered_ = 0;       // requests
  uint32_t cursor_ = 0;       // keys of the current request that are settled
  uint32_t key_errors_ = 0;   // of the current group
  bool awaits_noop_ = false;  // the end of a batch of quiet sets
  uint64_t ttls_drawn_ = 0;
  int64_t progress_ns_ = 0;
  std::string failure_;
};

}  // namespace load
