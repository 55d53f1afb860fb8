// Options is what the command line and a configuration file ask for, with defaults; command_line.h
// reads them.
//
// Departs:   without -l the server listens on loopback only; -s and -l go together; -m bounds
//            everything, not only items; read_buf_mem_limit has a default, and -I must fit into it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "protocol/request_parser.h"
#include "src/config/listen_address.h"
#include "src/config/tls_options.h"
#include "storage/store.h"

namespace server {

using protocol::WireChoice;

// Options of memcached that are accepted without effect, because its slabs, LRU lists and watchers
// do not exist here; `stats settings` shows them. The defaults are memcached's, except lru_crawler
// and lru_maintainer: if these were "yes", monitors would expect statistics of LRU lists.
// (hash_algorithm has no field: it is always xxh3.)
struct InertSettings {
  double growth_factor = 1.25;  // -f
  uint32_t chunk_size = 48;     // -n
  uint32_t num_napi_ids = 0;    // -N; 0: not given
  uint32_t hashpower = 0;
  bool hash_expand = true;
  bool slab_reassign = true;
  uint32_t slab_automove = 1;
  double slab_automove_ratio = 0.8;
  uint32_t slab_automove_window = 30;
  double slab_automove_freeratio = 0.01;
  uint32_t slab_chunk_bytes_max = 512 << 10;
  bool chunked_items = true;
  bool lru_crawler = false;
  uint32_t lru_crawler_sleep_us = 100;
  uint32_t lru_crawler_tocrawl = 0;
  bool lru_maintainer = false;  // also lru_segmented
  uint32_t hot_lru_percent = 20;
  uint32_t warm_lru_percent = 40;
  double hot_max_factor = 0.2;
  double warm_max_factor = 2;
  bool temp_lru = false;
  uint32_t temporary_ttl_s = 61;
  uint32_t tail_repair_time_s = 0;
  uint32_t watcher_logbuf_kb = 256;
  uint32_t worker_logbuf_kb = 64;
  bool inline_ascii_response = false;
  uint32_t resp_obj_mem_limit_mb = 0;
  uint32_t sock_cookie_id = 0;
  bool modern = true;
  bool drop_privileges = false;
  bool relaxed_privileges = false;
};

struct ClusterOptions {
  std::string name;         // empty: this server is alone
  std::string etcd;         // "host:port,..."
  std::string node;         // "host:port": this server's address for clients, and its id
  uint16_t inner_port = 0;  // for other nodes, on the same host
  std::string inner_host;   // of `node`
  std::string secret_file;  // what all nodes of the cluster know
  unsigned slabs = 256;     // of a cluster that is made
  bool wait_for_etcd = false;
};

struct SnapshotOptions {
  std::string path;           // --snapshot, -e; empty: none
  bool accept_stale = false;  // also one that is older than what the server did last
  uint32_t interval_s = 0;    // 0: only when the server stops
};

// Of --warm-from: another server whose items are taken over.
struct WarmOptions {
  std::string host;  // empty: none
  uint16_t port = 0;
  uint32_t rate = 50000;  // items a second
};

inline constexpr int kAnyPort = -1;  // for -p: the kernel chooses

struct Options {
  // Network
  int port = 11211;           // 0: no TCP; kAnyPort
  bool listen_given = false;  // else: loopback at `port`
  WireChoice wire = WireChoice::kAuto;
  bool io_uring = true;               // where it is there
  std::vector<ListenAddress> listen;  // of -l, ports filled in
  std::string listen_text;            // of -l as it was given, joined by commas
  std::string unix_path;              // empty: no unix socket
  unsigned unix_mask = 0700;
  int backlog = 1024;
  // A unix socket alone turns TCP off, as in memcached; -l brings it back.
  bool wants_tcp() const { return port != 0 && (unix_path.empty() || listen_given); }

  // Encryption and authentication
  TlsOptions tls;         // -Z, -o ssl_...
  std::string auth_file;  // -Y; empty: everybody may do everything
  bool sasl = false;      // -S: also on the binary wire

  // Process
  std::string user;
  std::string pid_file;
  bool daemonize = false;
  bool core_dumps = false;
  int verbosity = 0;

  // Memory and the approximate store: -m -M -C -I, --false-negative, --false-positive,
  // --front-share, --exact-prefix, --slabs
  kbf::StoreConfig store{.exact_share = 0.25};
  std::string engine = "kbf";
  bool lock_memory = false;
  bool large_pages = false;  // -L; the store asks for huge pages in any case

  // Limits
  unsigned connections_max = 1024;
  bool maxconns_fast = true;  // over the limit: refuse at once, instead of not accepting
  unsigned threads = 4;
  unsigned requests_per_event = 20;
  uint32_t idle_timeout_s = 0;  // 0: never
  // For the buffers of all connections. 0, not given: ParseOptions puts DefaultBufferBytes there.
  uint64_t read_buffer_bytes_max = 0;

  // Commands
  bool enable_shutdown = false;
  bool disable_flush = false;
  bool disable_dumping = false;
  bool disable_watch = false;
  char prefix_delimiter = ':';
  bool stats_detail = false;  // -D was given
  bool track_sizes = false;

  ClusterOptions cluster;  // --cluster and what belongs to it
  SnapshotOptions snapshot;
  WarmOptions warm;

  InertSettings inert;
};

// What the buffers of all connections may take without -o read_buf_mem_limit: a sixteenth of -m,
// but enough for some items of the usual size. A request that grows has its old and its new buffer
// for a moment, so one item may take half of it.
constexpr uint64_t DefaultBufferBytes(uint64_t memory_bytes) {
  constexpr uint64_t kLeast = uint64_t{16} << 20;
  return memory_bytes / 16 > kLeast ? memory_bytes / 16 : kLeast;
}

// What is added to that for TLS, so that as many connections as -c allows by default can be idle;
// no more, because it comes on top of -m.
constexpr uint64_t DefaultTlsBytes(unsigned connections_max) {
  constexpr uint64_t kMost = uint64_t{16} << 20;
  return connections_max * kTlsIdleBytes < kMost ? connections_max * kTlsIdleBytes : kMost;
}

}  // namespace server
