#include <event2/event.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "src/io/input.h"
#include "src/io/tls_context.h"
#include "src/process/version.h"
#include "src/stats/sections.h"
#include "src/stats/totals.h"

namespace server {
namespace {

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

void WriteProcess(const ServerView& server, StatsSink* out) {
  const uint32_t now = server.clock.Now();
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  out->Add("pid", getpid());
  out->Add("uptime", now - server.clock.start());
  out->Add("time", server.clock.UnixTime(now));
  out->Add("version", kMemcachedVersion);
  out->Add("libevent", event_get_version());
  out->Add("pointer_size", 8 * sizeof(void*));
  out->AddReal("rusage_user", Seconds(used.ru_utime), 6);
  out->AddReal("rusage_system", Seconds(used.ru_stime), 6);
}

// The counters from `first` to `last` in the order of their table.
void AddCounters(const WorkerTotals& totals, std::string_view first, std::string_view last,
                 StatsSink* out) {
  const auto* at = std::ranges::find(kWorkerTotals, first, &NamedCounter<WorkerTotals>::name);
  for (; at != std::end(kWorkerTotals); ++at) {
    out->Add(at->name, totals.*at->field);
    if (at->name == last) return;
  }
}

void WriteNetwork(const ServerView& server, const Totals& totals, StatsSink* out) {
  const uint64_t connections = server.connections.current.load(std::memory_order_relaxed);
  out->Add("max_connections", server.options.connections_max);
  out->Add("curr_connections", connections);
  out->Add("total_connections", totals.connections);
  if (server.options.maxconns_fast) out->Add("rejected_connections", totals.rejected_connections);
  out->Add("connection_structures", connections + server.listen_fds.size());
  out->AddZeros({"response_obj_oom", "response_obj_count", "response_obj_bytes"});
  // Each worker has one that its connections share. What connections keep is added to the bytes.
  out->Add("read_buf_count", server.workers.size());
  out->Add("read_buf_bytes",
           server.workers.size() * Input::kScratchBytes + server.connection_memory.buffer_bytes());
  out->AddZeros({"read_buf_bytes_free", "read_buf_oom", "reserved_fds"});
}

void WriteCommands(const ServerView& server, const Totals& totals, StatsSink* out) {
  AddCounters(totals.workers, "cmd_get", "get_misses", out);
  out->Add("get_expired", totals.slabs.expired_reads);
  out->Add("get_flushed", totals.slabs.flushed_reads);
  AddCounters(totals.workers, "delete_misses", "auth_errors", out);
  if (server.options.idle_timeout_s != 0) out->Add("idle_kicks", totals.workers.idle_kicks);
  AddCounters(totals.workers, "bytes_read", "bytes_written", out);
}

void WriteTls(const ServerView& server, const Totals& totals, StatsSink* out) {
  if (server.options.tls.session_cache) out->Add("ssl_new_sessions", totals.tls_new_sessions);
  out->Add("ssl_handshake_errors", totals.tls_handshake_errors);
  out->Add("time_since_server_cert_refresh",
           server.clock.Now() - std::max(server.tls->loaded_at(), server.clock.start()));
}

void WriteServer(const ServerView& server, const Totals& totals, StatsSink* out) {
  out->Add("limit_maxbytes", server.options.store.memory_bytes);
  out->Add("accepting_conns", server.connections.accepting ? 1 : 0);
  out->Add("listen_disabled_num", totals.listen_disabled);
  out->AddZeros({"time_in_listen_disabled_us"});
  out->Add("threads", server.options.threads);
  out->Add("conn_yields", totals.workers.conn_yields);
  out->AddZeros({"hash_power_level", "hash_bytes", "hash_is_expanding", "slab_reassign_rescues",
                 "slab_reassign_chunk_rescues", "slab_reassign_evictions_nomem",
                 "slab_reassign_inline_reclaim", "slab_reassign_busy_items",
                 "slab_reassign_busy_deletes", "slab_reassign_busy_nomem"});
  out->Add("slab_reassign_last_busy_status", "none");
  out->AddZeros({"slab_reassign_running", "slabs_moved", "lru_crawler_running",
                 "lru_crawler_starts", "lru_maintainer_juggles", "malloc_fails",
                 "log_worker_dropped", "log_worker_written", "log_watcher_skipped",
                 "log_watcher_sent", "log_watchers"});
  if (server.tls != nullptr) WriteTls(server, totals, out);
  out->AddZeros({"unexpected_napi_ids", "round_robin_fallback"});
}

void WriteStore(const ServerView& server, const Totals& totals, StatsSink* out) {
  const kbf::StoreUsage usage = server.store.Usage();
  const kbf::SlabUsage& slabs = usage.slabs;
  // memcached counts items alone: what is there before the first of them does not count.
  out->Add("bytes", CurrentItems(slabs) == 0 ? 0 : usage.total_bytes());
  out->Add("curr_items", CurrentItems(slabs));
  out->Add("total_items", totals.slabs.stored);
  out->AddZeros({"slab_global_page_pool"});
  out->Add("expired_unfetched", totals.slabs.expired_unfetched);
  out->Add("evicted_unfetched", totals.slabs.evicted_unfetched);
  out->AddZeros({"evicted_active"});
  // Evicted and expired items, from the front or with a filter.
  out->Add("evictions", totals.slabs.evicted + totals.chain.dropped_keys);
  out->Add("reclaimed", totals.slabs.expired + totals.chain.expired_keys);
  // Moves from the front to the chain do not count as moves_to_cold, because memcached keeps the
  // bytes of such items. `stats kbf` counts them as demotions.
  out->AddZeros({"crawler_reclaimed", "crawler_items_checked", "lrutail_reflocked", "moves_to_cold",
                 "moves_to_warm", "moves_within_lru", "direct_reclaims", "lru_bumps_dropped"});
}

}  // namespace

uint64_t CurrentItems(const kbf::SlabUsage& usage) {
  return usage.front_items + usage.chain_keys - std::min(usage.chain_keys, usage.tombstones);
}

void WriteGeneral(const ServerView& server, StatsSink* out) {
  const Totals totals = server.baseline.Since(server);
  WriteProcess(server, out);
  WriteNetwork(server, totals, out);
  WriteCommands(server, totals, out);
  WriteServer(server, totals, out);
  WriteStore(server, totals, out);
}

}  // namespace server
