#include "tools/cluster/etcd_client.h"

#include <event2/buffer.h>
#include <event2/http.h>
#include <event2/http_struct.h>

#include <algorithm>
#include <charconv>
#include <new>
#include <utility>

#include "protocol/base64.h"

namespace cluster {
namespace {

// A watch may be silent for long. The read time-out of evhttp would end it after 50 s.
constexpr unsigned kWatchTimeoutMs = 24 * 3600 * 1000;
// The lines of a watch that reports changes are short: etcd splits long ones.
constexpr size_t kLineBytesMax = size_t{4} << 20;
constexpr int kHttpOk = 200;

std::string Encoded(std::string_view bytes) {
  std::string text(protocol::Base64Bytes(bytes.size()), '\0');
  text.resize(protocol::EncodeBase64(bytes, text.data()));
  return text;
}

std::string Decoded(const std::string& text) {
  std::string bytes = text;
  bytes.resize(protocol::DecodeBase64(text, bytes.data()).value_or(0));
  return bytes;
}

std::string Field(std::string_view name, std::string_view bytes) {
  return "\"" + std::string(name) + "\":\"" + Encoded(bytes) + "\"";
}

std::string NumberField(std::string_view name, uint64_t number) {
  return "\"" + std::string(name) + "\":\"" + std::to_string(number) + "\"";
}

std::optional<Endpoint> ParseEndpoint(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return std::nullopt;
  Endpoint endpoint;
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const std::string_view port = text.substr(colon + 1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), endpoint.port);
  if (error != std::errc() || end != port.data() + port.size() || endpoint.port == 0) {
    return std::nullopt;
  }
  endpoint.host = host;
  if (endpoint.host.empty()) return std::nullopt;
  return endpoint;
}

// The gateway's errors have one form in replies and another one in streams.
std::string ErrorIn(const Json& body) {
  const Json& error = body["error"];
  if (error.is_null()) return {};
  for (const Json* text : {&error["message"], &body["message"], &error}) {
    if (!text->text().empty()) return text->text();
  }
  return "etcd reports an error";
}

// Errors that say nothing about what was done with the request.
bool LeavesOpen(std::string_view error) {
  return error.find("timed out") != std::string_view::npos ||
         error.find("leader changed") != std::string_view::npos ||
         error.find("no leader") != std::string_view::npos;
}

}  // namespace

std::optional<std::vector<Endpoint>> ParseEndpoints(std::string_view list) {
  std::vector<Endpoint> endpoints;
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    std::optional<Endpoint> endpoint = ParseEndpoint(list.substr(0, comma));
    if (!endpoint) return std::nullopt;
    endpoints.push_back(std::move(*endpoint));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  if (endpoints.empty()) return std::nullopt;
  return endpoints;
}

std::vector<KeyValue> KeyValuesOf(const Json& range) {
  std::vector<KeyValue> found;
  for (const Json& kv : range["kvs"].items()) {
    found.push_back({Decoded(kv["key"].text()), Decoded(kv["value"].text()),
                     kv["create_revision"].Number(), kv["mod_revision"].Number()});
  }
  return found;
}

// ---- bodies -------------------------------------------------------------------------------------

std::string PrefixEnd(std::string_view prefix) {
  std::string end(prefix);
  while (!end.empty() && static_cast<unsigned char>(end.back()) == 0xff) end.pop_back();
  if (end.empty()) return std::string(1, '\0');
  end.back() = static_cast<char>(end.back() + 1);
  return end;
}

std::string RangeBody(std::string_view key, std::string_view range_end, uint64_t min_mod_revision) {
  std::string body = "{" + Field("key", key);
  if (!range_end.empty()) body += "," + Field("range_end", range_end);
  if (min_mod_revision > 0) body += "," + NumberField("min_mod_revision", min_mod_revision);
  return body + "}";
}

std::string PutBody(std::string_view key, std::string_view value, uint64_t lease) {
  std::string body = "{" + Field("key", key) + "," + Field("value", value);
  if (lease != 0) body += "," + NumberField("lease", lease);
  return body + "}";
}

std::string DeleteBody(std::string_view key) { return "{" + Field("key", key) + "}"; }

void Txn::Compare(std::string_view key, std::string_view what, std::string_view field,
                  uint64_t revision) {
  if (!compares_.empty()) compares_ += ",";
  compares_ += "{" + Field("key", key) + ",\"target\":\"" + std::string(what) +
               "\",\"result\":\"EQUAL\"," + NumberField(field, revision) + "}";
}

Txn& Txn::IfModRevision(std::string_view key, uint64_t revision) {
  Compare(key, "MOD", "mod_revision", revision);
  return *this;
}

Txn& Txn::IfCreateRevision(std::string_view key, uint64_t revision) {
  Compare(key, "CREATE", "create_revision", revision);
  return *this;
}

void Txn::Add(std::string_view kind, const std::string& body) {
  if (!operations_.empty()) operations_ += ",";
  operations_ += "{\"" + std::string(kind) + "\":" + body + "}";
}

Txn& Txn::Range(std::string_view key, std::string_view range_end, uint64_t min_mod_revision) {
  Add("request_range", RangeBody(key, range_end, min_mod_revision));
  return *this;
}

Txn& Txn::Put(std::string_view key, std::string_view value, uint64_t lease) {
  Add("request_put", PutBody(key, value, lease));
  return *this;
}

Txn& Txn::Delete(std::string_view key) {
  Add("request_delete_range", DeleteBody(key));
  return *this;
}

std::string Txn::body() const {
  return "{\"compare\":[" + compares_ + "],\"success\":[" + operations_ + "]}";
}

// ---- calls --------------------------------------------------------------------------------------

// One HTTP request on its own connection: a call or a watch.
struct EtcdClient::Exchange {
  EtcdClient* client = nullptr;
  size_t endpoint = 0;
  evhttp_connection* connection = nullptr;  // owns the request
  event* start = nullptr;                   // reports that the request could not be made
  Done done;
  std::function<void()> changed;  // of a watch
  std::function<void(const std::string&)> ended;
  std::string line;  // the piece of a watch's line that has arrived
  bool over = false;

  ~Exchange() {
    if (connection != nullptr) evhttp_connection_free(connection);
    if (start != nullptr) event_free(start);
  }
};

EtcdClient::EtcdClient(event_base* base, std::vector<Endpoint> endpoints)
    : base_(base), endpoints_(std::move(endpoints)), sweep_(event_new(base, -1, 0, OnSweep, this)) {
  if (sweep_ == nullptr) throw std::bad_alloc();
}

EtcdClient::~EtcdClient() {
  // Freeing a connection may call OnDone.
  for (const auto& exchange : exchanges_) exchange->over = true;
  exchanges_.clear();
  event_free(sweep_);
}

std::string EtcdClient::endpoint() const {
  return endpoints_[current_].host + ":" + std::to_string(endpoints_[current_].port);
}

void EtcdClient::UseNextEndpoint(size_t failed) {
  if (failed == current_) current_ = (current_ + 1) % endpoints_.size();
}

EtcdClient::Exchange* EtcdClient::Begin(std::string_view path, const std::string& body,
                                        unsigned timeout_ms, bool streams) {
  Exchange* const exchange = exchanges_.emplace_back(std::make_unique<Exchange>()).get();
  exchange->client = this;
  exchange->endpoint = current_;
  exchange->start = event_new(base_, -1, 0, OnStart, exchange);
  if (exchange->start == nullptr) throw std::bad_alloc();
  const Endpoint& endpoint = endpoints_[current_];
  exchange->connection =
      evhttp_connection_base_new(base_, nullptr, endpoint.host.c_str(), endpoint.port);
  evhttp_request* const request = evhttp_request_new(OnDone, exchange);
  bool made = exchange->connection != nullptr && request != nullptr;
  if (made) {
    const timeval timeout = {timeout_ms / 1000, static_cast<suseconds_t>(timeout_ms % 1000) * 1000};
    evhttp_connection_set_timeout_tv(exchange->connection, &timeout);
    evkeyvalq* const headers = evhttp_request_get_output_headers(request);
    evhttp_add_header(headers, "Host", this->endpoint().c_str());
    evhttp_add_header(headers, "Content-Type", "application/json");
    evhttp_add_header(headers, "Connection", "close");
    // Without it, a member that has lost its leader lets calls and watches hang.
    evhttp_add_header(headers, "Grpc-Metadata-hasleader", "true");
    evbuffer_add(evhttp_request_get_output_buffer(request), body.data(), body.size());
    const std::string uri = "/v3" + std::string(path);
    // From here on the connection owns the request, also where this fails.
    made = evhttp_make_request(exchange->connection, request, EVHTTP_REQ_POST, uri.c_str()) == 0;
    if (made && streams) evhttp_request_set_chunked_cb(request, OnChunk);
  } else if (request != nullptr) {
    evhttp_request_free(request);
  }
  if (!made) event_active(exchange->start, EV_TIMEOUT, 0);
  return exchange;
}

void EtcdClient::Call(std::string_view path, std::string body, unsigned timeout_ms, Done done) {
  Begin(path, body, timeout_ms, false)->done = std::move(done);
}

void EtcdClient::Watch(std::string_view prefix, uint64_t revision, std::function<void()> changed,
                       std::function<void(const std::string& error)> ended) {
  if (watch_ != nullptr) FreeLater(std::exchange(watch_, nullptr));
  const std::string body = "{\"create_request\":{" + Field("key", prefix) + "," +
                           Field("range_end", PrefixEnd(prefix)) + "," +
                           NumberField("start_revision", revision + 1) + "}}";
  watch_ = Begin("/watch", body, kWatchTimeoutMs, true);
  watch_->changed = std::move(changed);
  watch_->ended = std::move(ended);
}

// The connection must not be freed within its own callbacks.
void EtcdClient::FreeLater(Exchange* exchange) {
  exchange->over = true;
  event_active(sweep_, EV_TIMEOUT, 0);
}

void EtcdClient::OnSweep(evutil_socket_t, short, void* client) noexcept {
  auto* const self = static_cast<EtcdClient*>(client);
  std::erase_if(self->exchanges_, [](const auto& exchange) { return exchange->over; });
}

void EtcdClient::OnStart(evutil_socket_t, short, void* exchange) noexcept {
  auto* const self = static_cast<Exchange*>(exchange);
  if (self->over) return;
  OnDone(nullptr, exchange);
}

void EtcdClient::Finish(Exchange* exchange, const EtcdReply& reply) {
  if (!reply.ok()) UseNextEndpoint(exchange->endpoint);
  FreeLater(exchange);
  if (exchange->done) exchange->done(reply);
}

void EtcdClient::EndWatch(Exchange* exchange, const std::string& error) {
  if (exchange == watch_) watch_ = nullptr;
  UseNextEndpoint(exchange->endpoint);
  FreeLater(exchange);
  if (exchange->ended) exchange->ended(error);
}

void EtcdClient::OnDone(evhttp_request* request, void* exchange) noexcept try {
  auto* const self = static_cast<Exchange*>(exchange);
  if (self->over) return;
  EtcdReply reply;
  const int status = request == nullptr ? 0 : evhttp_request_get_response_code(request);
  if (status != 0) {
    evbuffer* const buffer = evhttp_request_get_input_buffer(request);
    std::string text(evbuffer_get_length(buffer), '\0');
    evbuffer_copyout(buffer, text.data(), text.size());
    if (std::optional<Json> body = Json::Parse(text)) {
      reply.body = std::move(*body);
      reply.error = ErrorIn(reply.body);
    } else {
      reply.error = "the answer is not JSON";
    }
    if (status == kHttpOk && reply.error.empty()) {
      reply.status = EtcdReply::Status::kOk;
    } else if (status != kHttpOk && !reply.error.empty() && !LeavesOpen(reply.error)) {
      reply.status = EtcdReply::Status::kRefused;
    }
  } else {
    reply.error = "no answer from " + self->client->endpoint();
  }
  if (self->ended) {
    self->client->EndWatch(self, reply.error.empty() ? "the watch has ended" : reply.error);
  } else {
    self->client->Finish(self, reply);
  }
} catch (const std::bad_alloc&) {
  auto* const self = static_cast<Exchange*>(exchange);
  if (self->over) return;
  // Without a text, which would need memory.
  self->ended ? self->client->EndWatch(self, {}) : self->client->Finish(self, {});
}

void EtcdClient::OnChunk(evhttp_request* request, void* exchange) noexcept try {
  auto* const self = static_cast<Exchange*>(exchange);
  evbuffer* const buffer = evhttp_request_get_input_buffer(request);
  const size_t size = evbuffer_get_length(buffer);
  if (self->over) {
    evbuffer_drain(buffer, size);
    return;
  }
  const size_t before = self->line.size();
  self->line.resize(before + size);
  evbuffer_remove(buffer, self->line.data() + before, size);
  self->client->ReadLines(self);
} catch (const std::bad_alloc&) {
  static_cast<Exchange*>(exchange)->line.clear();
}

// One JSON text per line; a line may come in several chunks.
void EtcdClient::ReadLines(Exchange* exchange) {
  bool changed = false;
  for (size_t end; (end = exchange->line.find('\n')) != std::string::npos;) {
    const std::optional<Json> message = Json::Parse(exchange->line.substr(0, end));
    exchange->line.erase(0, end + 1);
    if (!message) return EndWatch(exchange, "the watch sends what is not JSON");
    const Json& result = (*message)["result"];
    const std::string error = ErrorIn(*message);
    if (!error.empty() || result["canceled"].True()) {
      return EndWatch(exchange, error.empty() ? "etcd has ended the watch" : error);
    }
    changed = changed || !result["events"].items().empty();
  }
  if (exchange->line.size() > kLineBytesMax) return EndWatch(exchange, "a line is too long");
  if (changed) exchange->changed();
}

}  // namespace cluster
