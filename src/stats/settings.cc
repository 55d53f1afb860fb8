#include <charconv>

#include "src/io/tls_context.h"
#include "src/log.h"
#include "src/stats/sections.h"

namespace server {
namespace {

std::string_view OrNull(std::string_view text) { return text.empty() ? "NULL" : text; }

std::string_view NameOf(WireChoice wire) {
  switch (wire) {
    case WireChoice::kAuto:
      return "auto-negotiate";
    case WireChoice::kText:
      return "ascii";
    case WireChoice::kBinary:
      return "binary";
  }
  return "";
}

std::string_view InterfaceOf(const Options& options) {
  if (options.listen_given) return options.listen_text;
  return options.wants_tcp() ? "localhost" : "NULL";
}

void WriteServer(const ServerView& server, StatsSink* out) {
  const Options& options = server.options;
  char mask[16];
  const char* const mask_end = std::to_chars(mask, mask + sizeof(mask), options.unix_mask, 8).ptr;
  out->Add("maxbytes", options.store.memory_bytes);
  out->Add("maxconns", options.connections_max);
  out->Add("tcpport", options.port);
  out->Add("udpport", 0);
  out->Add("inter", InterfaceOf(options));
  out->Add("verbosity", LogVerbosity());
  out->Add("oldest", 0);
  out->Add("evictions", options.store.evictions ? "on" : "off");
  out->Add("domain_socket", OrNull(options.unix_path));
  out->Add("umask", std::string_view(mask, mask_end));
  out->Add("shutdown_command", options.enable_shutdown);
  out->AddReal("growth_factor", options.inert.growth_factor, 2);
  out->Add("chunk_size", options.inert.chunk_size);
  out->Add("num_threads", options.threads);
  out->Add("num_threads_per_udp", 0);
  out->Add("stat_key_prefix", std::string_view(&options.prefix_delimiter, 1));
  out->Add("detail_enabled", server.prefix_stats.enabled());
  out->Add("reqs_per_event", options.requests_per_event);
  out->Add("cas_enabled", options.store.keep_cas);
  out->Add("tcp_backlog", options.backlog);
  out->Add("binding_protocol", NameOf(options.wire));
  out->Add("auth_enabled_sasl", options.sasl);
  out->Add("auth_enabled_ascii", options.auth_file.empty() ? "no" : options.auth_file);
  out->Add("item_size_max", options.store.item_bytes_max);
  out->Add("maxconns_fast", options.maxconns_fast);
}

// Mostly about slabs and LRU lists of memcached, which do not exist here.
void WriteTuning(const Options& options, StatsSink* out) {
  const InertSettings& inert = options.inert;
  out->Add("hashpower_init", inert.hashpower);
  out->Add("slab_reassign", inert.slab_reassign);
  out->Add("slab_automove", inert.slab_automove);
  out->AddReal("slab_automove_ratio", inert.slab_automove_ratio, 2);
  out->Add("slab_automove_window", inert.slab_automove_window);
  out->Add("slab_chunk_max", inert.slab_chunk_bytes_max);
  // Always "no": after a "yes", memcached_exporter expects statistics of LRU lists.
  out->Add("lru_crawler", false);
  out->Add("lru_crawler_sleep", inert.lru_crawler_sleep_us);
  out->Add("lru_crawler_tocrawl", inert.lru_crawler_tocrawl);
  out->Add("tail_repair_time", inert.tail_repair_time_s);
  out->Add("flush_enabled", !options.disable_flush);
  out->Add("dump_enabled", !options.disable_dumping);
  out->Add("hash_algorithm", "xxh3");
  out->Add("lru_maintainer_thread", inert.lru_maintainer);
  out->Add("lru_segmented", inert.lru_maintainer);
  out->Add("hot_lru_pct", inert.hot_lru_percent);
  out->Add("warm_lru_pct", inert.warm_lru_percent);
  out->AddReal("hot_max_factor", inert.hot_max_factor, 2);
  out->AddReal("warm_max_factor", inert.warm_max_factor, 2);
  out->Add("temp_lru", inert.temp_lru);
  out->Add("temporary_ttl", inert.temporary_ttl_s);
  out->Add("idle_timeout", options.idle_timeout_s);
  out->Add("watcher_logbuf_size", uint64_t{inert.watcher_logbuf_kb} << 10);
  out->Add("worker_logbuf_size", uint64_t{inert.worker_logbuf_kb} << 10);
  out->Add("read_buf_mem_limit", options.read_buffer_bytes_max);
  out->Add("track_sizes", false);
  out->Add("inline_ascii_response", inert.inline_ascii_response);
}

void WriteTls(const TlsOptions& tls, StatsSink* out) {
  const auto file = [](const std::string& path) { return path.empty() ? "(null)" : path; };
  out->Add("ssl_enabled", tls.enabled);
  out->Add("ssl_chain_cert", file(tls.chain_cert));
  out->Add("ssl_key", file(tls.key));
  out->Add("ssl_verify_mode", VerifyFlags(tls.verify_mode));
  out->Add("ssl_keyformat", tls.key_format);
  out->Add("ssl_ciphers", OrNull(tls.ciphers));
  out->Add("ssl_ca_cert", OrNull(tls.ca_cert));
  out->Add("ssl_wbuf_size", uint64_t{tls.write_buffer_kb} << 10);
  out->Add("ssl_session_cache", tls.session_cache);
  out->Add("ssl_kernel_tls", tls.kernel_tls);
  out->Add("ssl_min_version", tls.min_version == 3 ? "tlsv1.3" : "tlsv1.2");
}

// memcached's values of features that do not exist here, for clients that expect every name.
void WriteAbsent(const Options& options, StatsSink* out) {
  constexpr std::pair<std::string_view, std::string_view> kExternal[] = {
      {"ext_item_size", "512"},     {"ext_item_age", "4294967295"}, {"ext_low_ttl", "0"},
      {"ext_recache_rate", "2000"}, {"ext_wbuf_size", "4194304"},   {"ext_compact_under", "0"},
      {"ext_drop_under", "0"},      {"ext_max_sleep", "1000000"},   {"ext_max_frag", "0.80"},
  };
  for (const auto& [name, value] : kExternal) out->Add(name, value);
  out->AddReal("slab_automove_freeratio", options.inert.slab_automove_freeratio, 3);
  out->Add("ext_drop_unread", false);
  WriteTls(options.tls, out);
  const uint32_t napi_ids = options.inert.num_napi_ids;
  out->Add("num_napi_ids", napi_ids == 0 ? "(null)" : std::to_string(napi_ids));
  out->Add("memory_file", "(null)");
  out->Add("client_flags_size", sizeof(uint32_t));
}

}  // namespace

void WriteSettings(const ServerView& server, StatsSink* out) {
  WriteServer(server, out);
  WriteTuning(server.options, out);
  WriteAbsent(server.options, out);
}

}  // namespace server
