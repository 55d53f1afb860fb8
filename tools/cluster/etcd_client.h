// EtcdClient talks to etcd by its JSON gateway (/v3), over libevent's HTTP client.
//
// Promises:  every call ends in one call of its Done, never within Call itself, unless the client
//            is destroyed first. A call that failed without an answer may still be carried out by
//            etcd later: such a reply has status kUnknown. After a failure the next call goes to
//            the next endpoint. A watch ends when its endpoint loses touch with etcd's leader.
// Requires:  one thread, that of the event base, which outlives the client. Done may make further
//            calls. Callbacks must not throw but std::bad_alloc, which counts as a failed call.
// Costs:     a TCP connection per call: at some calls a second that is nothing, and no call waits
//            behind one that hangs.
// Departs:   host names are looked up by the C library, which may block the thread.
#pragma once

#include <event2/event.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/cluster/json.h"

struct evhttp_request;

namespace cluster {

struct Endpoint {
  std::string host;
  uint16_t port = 0;
};

// "host:port", "[::1]:port"; several are separated by commas. Nothing: one of them is invalid.
std::optional<std::vector<Endpoint>> ParseEndpoints(std::string_view list);

struct EtcdReply {
  enum class Status : uint8_t {
    kOk,
    kRefused,  // etcd says that it did not do it; `error` says why
    kUnknown,  // no answer: it may have been done, or be done later
  };
  Status status = Status::kUnknown;
  Json body;
  std::string error;

  bool ok() const { return status == Status::kOk; }
  // Of the store, when etcd answered.
  uint64_t revision() const { return body["header"]["revision"].Number(); }
};

// A key and what etcd says of it.
struct KeyValue {
  std::string key;
  std::string value;
  uint64_t create_revision = 0;
  uint64_t mod_revision = 0;
};
// Those of a range reply, or of a response_range within a transaction.
std::vector<KeyValue> KeyValuesOf(const Json& range);

// ---- the bodies of requests; keys and values are plain bytes

// The end of the range of all keys that begin with `prefix`.
std::string PrefixEnd(std::string_view prefix);
// One key, or with `range_end` all from key on to that. min_mod_revision: only what changed since.
std::string RangeBody(std::string_view key, std::string_view range_end = {},
                      uint64_t min_mod_revision = 0);
// lease 0: none.
std::string PutBody(std::string_view key, std::string_view value, uint64_t lease = 0);
std::string DeleteBody(std::string_view key);

// `compare`s that must all hold, then the operations.
class Txn {
 public:
  Txn& IfModRevision(std::string_view key, uint64_t revision);
  // 0: the key does not exist.
  Txn& IfCreateRevision(std::string_view key, uint64_t revision);
  Txn& Range(std::string_view key, std::string_view range_end = {}, uint64_t min_mod_revision = 0);
  Txn& Put(std::string_view key, std::string_view value, uint64_t lease = 0);
  Txn& Delete(std::string_view key);
  std::string body() const;

 private:
  void Compare(std::string_view key, std::string_view what, std::string_view field,
               uint64_t revision);
  void Add(std::string_view kind, const std::string& body);

  std::string compares_;
  std::string operations_;
};

class EtcdClient {
 public:
  using Done = std::function<void(const EtcdReply&)>;

  EtcdClient(event_base* base, std::vector<Endpoint> endpoints);
  ~EtcdClient();  // calls no Done
  EtcdClient(const EtcdClient&) = delete;
  EtcdClient& operator=(const EtcdClient&) = delete;

  // `path` begins behind /v3: "/kv/range", "/kv/txn", "/lease/grant".
  void Call(std::string_view path, std::string body, unsigned timeout_ms, Done done);

  // Calls `changed` when keys with the prefix have changed after `revision`; one call may stand for
  // several changes. `ended` is called once, when the watch has failed or was lost. A new watch
  // replaces the old one.
  void Watch(std::string_view prefix, uint64_t revision, std::function<void()> changed,
             std::function<void(const std::string& error)> ended);

  // Which answers at present: for messages.
  std::string endpoint() const;

 private:
  struct Exchange;
  Exchange* Begin(std::string_view path, const std::string& body, unsigned timeout_ms,
                  bool streams);
  void Finish(Exchange* exchange, const EtcdReply& reply);
  void EndWatch(Exchange* exchange, const std::string& error);
  void FreeLater(Exchange* exchange);
  void UseNextEndpoint(size_t failed);
  void ReadLines(Exchange* exchange);

  static void OnDone(evhttp_request* request, void* exchange) noexcept;
  static void OnChunk(evhttp_request* request, void* exchange) noexcept;
  static void OnStart(evutil_socket_t fd, short what, void* exchange) noexcept;
  static void OnSweep(evutil_socket_t fd, short what, void* client) noexcept;

  event_base* const base_;
  const std::vector<Endpoint> endpoints_;
  size_t current_ = 0;
  event* sweep_ = nullptr;
  std::vector<std::unique_ptr<Exchange>> exchanges_;
  Exchange* watch_ = nullptr;
};

}  // namespace cluster
