#include <event2/event.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "src/io/input.h"
#include "src/process/version.h"
#include "src/stats/sections.h"
#include "src/stats/totals.h"

namespace server {
namespace {

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

void WriteProcess(const State& state, StatsWriter* out) {
  const uint32_t now = state.clock.Now();
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  out->Add("pid", getpid());
  out->Add("uptime", now - Clock::kStart);
  out->Add("time", state.clock.UnixTime(now));
  out->Add("version", VersionString());
  out->Add("libevent", event_get_version());
  out->Add("pointer_size", 8 * sizeof(void*));
  out->AddReal("rusage_user", Seconds(used.ru_utime), 6);
  out->AddReal("rusage_system", Seconds(used.ru_stime), 6);
}

void WriteNetwork(const State& state, const Totals& totals, StatsWriter* out) {
  const uint64_t connections = state.curr_connections.load(std::memory_order_relaxed);
  out->Add("max_connections", state.options.connections_max);
  out->Add("curr_connections", connections);
  out->Add("total_connections", totals.connections);
  if (state.options.maxconns_fast) out->Add("rejected_connections", totals.rejected_connections);
  out->Add("connection_structures", connections + state.listen_fds.size());
  out->AddZeros({"response_obj_oom", "response_obj_count", "response_obj_bytes"});
  // A worker has one that its connections share; what is kept for them grows as needed.
  out->Add("read_buf_count", state.workers.size());
  out->Add("read_buf_bytes",
           state.workers.size() * Input::kScratchBytes + state.connection_memory.buffer_bytes());
  out->AddZeros({"read_buf_bytes_free", "read_buf_oom", "reserved_fds"});
}

void WriteCommands(const State& state, const Totals& totals, StatsWriter* out) {
  const auto add = [&](std::string_view name, WorkerCounter counter) {
    out->Add(name, totals.of(counter));
  };
  add("cmd_get", &WorkerCounters::cmd_get);
  add("cmd_set", &WorkerCounters::cmd_set);
  add("cmd_flush", &WorkerCounters::cmd_flush);
  add("cmd_touch", &WorkerCounters::cmd_touch);
  add("cmd_meta", &WorkerCounters::cmd_meta);
  add("get_hits", &WorkerCounters::get_hits);
  add("get_misses", &WorkerCounters::get_misses);
  out->Add("get_expired", totals.slabs.expired_reads);
  out->Add("get_flushed", totals.slabs.flushed_reads);
  add("delete_misses", &WorkerCounters::delete_misses);
  add("delete_hits", &WorkerCounters::delete_hits);
  add("incr_misses", &WorkerCounters::incr_misses);
  add("incr_hits", &WorkerCounters::incr_hits);
  add("decr_misses", &WorkerCounters::decr_misses);
  add("decr_hits", &WorkerCounters::decr_hits);
  add("cas_misses", &WorkerCounters::cas_misses);
  add("cas_hits", &WorkerCounters::cas_hits);
  add("cas_badval", &WorkerCounters::cas_badval);
  add("touch_hits", &WorkerCounters::touch_hits);
  add("touch_misses", &WorkerCounters::touch_misses);
  add("store_too_large", &WorkerCounters::store_too_large);
  add("store_no_memory", &WorkerCounters::store_no_memory);
  out->AddZeros({"auth_cmds", "auth_errors"});
  if (state.options.idle_timeout_s != 0) add("idle_kicks", &WorkerCounters::idle_kicks);
  add("bytes_read", &WorkerCounters::bytes_read);
  add("bytes_written", &WorkerCounters::bytes_written);
}

void WriteServer(const State& state, const Totals& totals, StatsWriter* out) {
  out->Add("limit_maxbytes", state.options.store.memory_bytes);
  out->Add("accepting_conns", state.accepting ? 1 : 0);
  out->Add("listen_disabled_num", totals.listen_disabled);
  out->AddZeros({"time_in_listen_disabled_us"});
  out->Add("threads", state.options.threads);
  out->Add("conn_yields", totals.of(&WorkerCounters::conn_yields));
  out->AddZeros({"hash_power_level",
                 "hash_bytes",
                 "hash_is_expanding",
                 "slab_reassign_rescues",
                 "slab_reassign_chunk_rescues",
                 "slab_reassign_evictions_nomem",
                 "slab_reassign_inline_reclaim",
                 "slab_reassign_busy_items",
                 "slab_reassign_busy_deletes",
                 "slab_reassign_running",
                 "slabs_moved",
                 "lru_crawler_running",
                 "lru_crawler_starts",
                 "lru_maintainer_juggles",
                 "malloc_fails",
                 "log_worker_dropped",
                 "log_worker_written",
                 "log_watcher_skipped",
                 "log_watcher_sent",
                 "log_watchers",
                 "unexpected_napi_ids",
                 "round_robin_fallback"});
}

void WriteStore(const State& state, const Totals& totals, StatsWriter* out) {
  const kbf::StoreUsage usage = state.store->Usage();
  const kbf::SlabUsage& slabs = usage.slabs;
  out->Add("bytes", usage.total_bytes());
  out->Add("curr_items", CurrentItems(slabs));
  out->Add("total_items", totals.slabs.stored);
  out->AddZeros({"slab_global_page_pool"});
  out->Add("expired_unfetched", totals.slabs.expired_unfetched);
  out->Add("evicted_unfetched", totals.slabs.evicted_unfetched);
  out->AddZeros({"evicted_active"});
  // Gone to make room, and gone because their time had come: from the front, or with a filter.
  out->Add("evictions", totals.slabs.evicted + totals.chain.dropped_keys);
  out->Add("reclaimed", totals.slabs.expired + totals.chain.expired_keys);
  // Keys that go from the front to the chain are no `moves_to_cold`: that is a list's tail, where
  // an item keeps its bytes. `stats kbf` has them as demotions.
  out->AddZeros({"crawler_reclaimed", "crawler_items_checked", "lrutail_reflocked", "moves_to_cold",
                 "moves_to_warm", "moves_within_lru", "direct_reclaims", "lru_bumps_dropped"});
}

}  // namespace

uint64_t CurrentItems(const kbf::SlabUsage& usage) {
  return usage.front_items + usage.chain_keys - std::min(usage.chain_keys, usage.tombstones);
}

void WriteGeneral(const State& state, StatsWriter* out) {
  const Totals totals = state.stats_baseline.Since(state);
  WriteProcess(state, out);
  WriteNetwork(state, totals, out);
  WriteCommands(state, totals, out);
  WriteServer(state, totals, out);
  WriteStore(state, totals, out);
}

}  // namespace server
