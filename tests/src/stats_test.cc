// The statistics: names and formats are those of memcached 1.6.18 as Debian's server prints them,
// and what the rules of memcached_exporter ask for; the numbers are compared with what was done.
#include "src/stats/stats.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstring>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "src/dispatch/stats_command.h"
#include "src/log.h"
#include "src/net/worker.h"
#include "tests/src/temporary.h"

namespace server {
namespace {

constexpr std::string_view kGeneralNames =
    "pid uptime time version libevent pointer_size rusage_user rusage_system max_connections "
    "curr_connections total_connections rejected_connections connection_structures "
    "response_obj_oom response_obj_count response_obj_bytes read_buf_count read_buf_bytes "
    "read_buf_bytes_free read_buf_oom reserved_fds cmd_get cmd_set cmd_flush cmd_touch "
    "cmd_meta get_hits get_misses get_expired get_flushed delete_misses delete_hits "
    "incr_misses incr_hits decr_misses decr_hits cas_misses cas_hits cas_badval touch_hits "
    "touch_misses store_too_large store_no_memory auth_cmds auth_errors bytes_read "
    "bytes_written limit_maxbytes accepting_conns listen_disabled_num "
    "time_in_listen_disabled_us threads conn_yields hash_power_level hash_bytes "
    "hash_is_expanding slab_reassign_rescues slab_reassign_chunk_rescues "
    "slab_reassign_evictions_nomem slab_reassign_inline_reclaim slab_reassign_busy_items "
    "slab_reassign_busy_deletes slab_reassign_busy_nomem slab_reassign_last_busy_status "
    "slab_reassign_running slabs_moved lru_crawler_running lru_crawler_starts "
    "lru_maintainer_juggles malloc_fails log_worker_dropped "
    "log_worker_written log_watcher_skipped log_watcher_sent log_watchers unexpected_napi_ids "
    "round_robin_fallback bytes curr_items total_items slab_global_page_pool "
    "expired_unfetched evicted_unfetched evicted_active evictions reclaimed crawler_reclaimed "
    "crawler_items_checked lrutail_reflocked moves_to_cold moves_to_warm moves_within_lru "
    "direct_reclaims lru_bumps_dropped";
constexpr std::string_view kSettingsNames =
    "maxbytes maxconns tcpport udpport inter verbosity oldest evictions domain_socket umask "
    "shutdown_command growth_factor chunk_size num_threads num_threads_per_udp "
    "stat_key_prefix detail_enabled reqs_per_event cas_enabled tcp_backlog binding_protocol "
    "auth_enabled_sasl auth_enabled_ascii item_size_max maxconns_fast hashpower_init "
    "slab_reassign slab_automove slab_automove_ratio slab_automove_window slab_chunk_max "
    "lru_crawler lru_crawler_sleep lru_crawler_tocrawl tail_repair_time flush_enabled "
    "dump_enabled hash_algorithm lru_maintainer_thread lru_segmented hot_lru_pct warm_lru_pct "
    "hot_max_factor warm_max_factor temp_lru temporary_ttl idle_timeout watcher_logbuf_size "
    "worker_logbuf_size read_buf_mem_limit track_sizes inline_ascii_response ext_item_size "
    "ext_item_age ext_low_ttl ext_recache_rate ext_wbuf_size ext_compact_under ext_drop_under "
    "ext_max_sleep ext_max_frag slab_automove_freeratio ext_drop_unread ssl_enabled "
    "ssl_chain_cert ssl_key ssl_verify_mode ssl_keyformat ssl_ciphers ssl_ca_cert "
    "ssl_wbuf_size ssl_session_cache ssl_kernel_tls ssl_min_version num_napi_ids memory_file "
    "client_flags_size";
constexpr std::string_view kItemsNames =
    "number number_hot number_warm number_cold age_hot age_warm age mem_requested evicted "
    "evicted_nonzero evicted_time outofmemory tailrepairs reclaimed expired_unfetched "
    "evicted_unfetched evicted_active crawler_reclaimed crawler_items_checked "
    "lrutail_reflocked moves_to_cold moves_to_warm moves_within_lru direct_reclaims "
    "hits_to_hot hits_to_warm hits_to_cold hits_to_temp";
constexpr std::string_view kSlabsNames =
    "chunk_size chunks_per_page total_pages total_chunks used_chunks free_chunks "
    "free_chunks_end get_hits cmd_set delete_hits incr_hits decr_hits cas_hits cas_badval "
    "touch_hits";
constexpr std::string_view kKbfNames =
    "version engine cell_kind cell_bits symbol_bits check_bits hashes lines planned_load "
    "planned_bytes_per_key filters_max filter_keys slabs exact_share front_share exact_prefixes "
    "approximate_prefixes "
    "memory_bytes_max "
    "memory_bytes "
    "curr_front_items front_bytes curr_chain_keys tombstones cells_bytes locator_bytes "
    "dictionary_bytes value_bytes other_bytes bytes_per_chain_key filters load distinct_values "
    "codes connection_bytes_max connection_bytes front_hits chain_hits misses "
    "demotions promotions "
    "front_evictions refused_memory refused_size inserted_keys removed_keys hidden_keys "
    "dropped_keys expired_keys flushed_keys filters_added filters_dropped filters_expired joins "
    "compressions disagreements values_admitted values_refused values_refused_full codes_upgraded "
    "codes_downgraded "
    "codes_recycled code_space_doubled connections_shed io_uring_rounds log_lines_dropped "
    "snapshot_loaded_items snapshot_loaded_keys snapshot_rejected snapshots_written "
    "snapshots_failed warm_running warm_listed warm_fetched warm_stored warm_errors";
constexpr std::string_view kErrorsNames =
    "promised_false_negative predicted_false_negative measured_false_negative measured_wrong "
    "stored_asked stored_missed stored_wrong promised_false_positive predicted_false_positive "
    "measured_false_positive absent_probes absent_found predicted_weak "
    "predicted_false_candidates";

Options SmallOptions(uint64_t megabytes = 8) {
  Options options;
  options.store.memory_bytes = megabytes << 20;
  options.threads = 2;
  return options;
}

// Its workers do not run unless a test starts them: their counters are all that is needed.
struct Server {
  explicit Server(const Options& options = SmallOptions())
      : state(options,
              std::move(kbf::Store::Create(options.store, kbf::HashSecret::FromSeed(1)).store)) {
    for (unsigned i = 0; i < options.threads; ++i) {
      workers.push_back(std::make_unique<Worker>(state));
    }
  }
  ~Server() {
    for (const auto& worker : workers) {
      worker->Stop();
      worker->Join();
    }
  }
  kbf::Store& store() { return *state.store; }

  State state;
  std::vector<std::unique_ptr<Worker>> workers;
};

protocol::Request StatsRequest(protocol::Wire wire, std::string_view rest) {
  protocol::Request request;
  request.op = protocol::Op::kStats;
  request.wire = wire;
  request.opcode = 0x10;
  request.arguments = request.key = rest;
  request.opaque = 7;
  return request;
}

// As Dispatcher::DumpPrefixes writes it, in small pieces.
std::string Dump(const PrefixStats& prefixes) {
  std::string dump;
  std::array<char, PrefixStats::kLineBytesMax + 100> piece;
  PrefixStats::Cursor cursor;
  while (const size_t size = prefixes.Dump(&cursor, piece.data(), piece.size())) {
    dump.append(piece.data(), size);
  }
  return dump + "END\r\n";
}

std::string Reply(State& state, std::string_view rest) {
  return AnswerStats(StatsRequest(protocol::Wire::kText, rest), state);
}

struct Report {
  std::vector<std::string> names;
  std::map<std::string, std::string> values;

  const std::string& text(const std::string& name) const {
    CAPTURE(name);
    REQUIRE(values.contains(name));
    return values.at(name);
  }
  uint64_t number(const std::string& name) const {
    const std::string& value = text(name);
    CAPTURE(value);
    uint64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    REQUIRE((error == std::errc() && end == value.data() + value.size()));
    return number;
  }
  std::string joined() const {
    std::string all;
    for (const std::string& name : names) all += (all.empty() ? "" : " ") + name;
    return all;
  }
};

// "STAT name value" lines up to END.
Report Ask(State& state, std::string_view rest) {
  const std::string reply = Reply(state, rest);
  REQUIRE(reply.ends_with("END\r\n"));
  Report report;
  size_t at = 0;
  while (reply.compare(at, std::string::npos, "END\r\n") != 0) {
    const size_t end = reply.find("\r\n", at);
    REQUIRE(end != std::string::npos);
    const std::string line = reply.substr(at, end - at);
    CAPTURE(line);
    REQUIRE(line.starts_with("STAT "));
    const size_t space = line.find(' ', 5);
    REQUIRE(space != std::string::npos);
    report.names.push_back(line.substr(5, space - 5));
    CHECK(report.values.emplace(report.names.back(), line.substr(space + 1)).second);
    at = end + 2;
  }
  return report;
}

std::vector<std::string> Split(std::string_view names) {
  std::istringstream words{std::string(names)};
  return std::vector<std::string>(std::istream_iterator<std::string>(words), {});
}

std::string Without(std::string_view names, const std::string& name) {
  std::string left(names);
  const size_t at = left.find(" " + name + " ");
  REQUIRE(at != std::string::npos);
  return left.erase(at, name.size() + 1);
}

void Set(Server* server, const std::string& key, std::string_view value, uint32_t expires,
         uint32_t now) {
  kbf::WriteRequest write;
  write.key = key;
  write.value = value;
  write.expires = expires;
  REQUIRE(server->store().Write(write, now).status == kbf::StoreStatus::kOk);
}

// Most of the keys end up in the chain.
void FillChain(Server* server, unsigned keys) {
  for (unsigned i = 0; i < keys; ++i) {
    Set(server, "key:" + std::to_string(i), i % 2 == 0 ? "even value" : "odd value", 0, 100);
    if (i % 1024 == 0) (void)server->store().Maintain(4, 100);
  }
}

Options ChainOptions() {
  Options options = SmallOptions(4);
  options.store.front_share = 0.02;
  return options;
}

bool IsYesOrNo(const std::string& value) { return value == "yes" || value == "no"; }

TEST_SUITE("src") {
  TEST_CASE("stats has memcached's fields in memcached's order") {
    CHECK(Split(kGeneralNames).size() == 94);
    Options options = SmallOptions();
    SUBCASE("as it comes") {
      Server server(options);
      CHECK(Ask(server.state, "").joined() == kGeneralNames);
    }
    SUBCASE("rejections are counted only where they happen") {
      options.maxconns_fast = false;
      Server server(options);
      CHECK(Ask(server.state, "").joined() == Without(kGeneralNames, "rejected_connections"));
    }
    SUBCASE("idle kicks are counted only where there is a timeout") {
      options.idle_timeout_s = 5;
      Server server(options);
      CHECK(Without(Ask(server.state, "").joined(), "idle_kicks") == kGeneralNames);
      CHECK(Reply(server.state, "").find("STAT idle_kicks 0\r\nSTAT bytes_read 0\r\n") !=
            std::string::npos);
    }
  }

  TEST_CASE("stats settings has memcached's fields in memcached's order") {
    Server server;
    CHECK(Ask(server.state, "settings").joined() == kSettingsNames);
  }

  TEST_CASE("stats kbf and stats errors have the documented fields") {
    Server server;
    CHECK(Ask(server.state, "kbf").joined() == kKbfNames);
    CHECK(Ask(server.state, "errors").joined() == kErrorsNames);
  }

  TEST_CASE("stats has the formats that memcached_exporter needs") {
    Server server;
    const Report stats = Ask(server.state, "");
    for (const std::string& name : stats.names) {
      const bool is_text =
          name == "version" || name == "libevent" || name == "slab_reassign_last_busy_status";
      if (!is_text && !name.starts_with("rusage_")) (void)stats.number(name);
    }
    for (const char* name : {"rusage_user", "rusage_system"}) {
      const std::string& value = stats.text(name);
      CAPTURE(value);
      CHECK(std::ranges::count(value, '.') == 1);
      CHECK(value.size() - value.find('.') == 7);
      CHECK(value.find_first_not_of("0123456789.") == std::string::npos);
    }
    CHECK(stats.text("version") == "1.6.18");

    const Report settings = Ask(server.state, "settings");
    CHECK(settings.number("maxconns") == 1024);
    CHECK(settings.text("lru_crawler") == "no");
    CHECK(settings.text("dump_enabled") == "yes");
    for (const char* name : {"shutdown_command", "cas_enabled", "maxconns_fast", "slab_reassign",
                             "flush_enabled", "lru_maintainer_thread", "lru_segmented", "temp_lru",
                             "track_sizes", "detail_enabled", "dump_enabled"}) {
      CAPTURE(name);
      CHECK(IsYesOrNo(settings.text(name)));
    }
  }

  TEST_CASE("every counter of the workers is summed, shown and reset") {
    Options options = SmallOptions();
    options.idle_timeout_s = 5;
    Server server(options);
    const auto check = [&server](uint64_t factor) {
      const Report general = Ask(server.state, "");
      const Report ours = Ask(server.state, "kbf");
      for (size_t i = 0; i < std::size(kWorkerCounters); ++i) {
        const std::string_view name = kWorkerCounters[i].name;
        const bool is_ours = name == "connections_shed" || name == "io_uring_rounds";
        const Report& stats = is_ours ? ours : general;
        CHECK_MESSAGE(stats.number(std::string(kWorkerCounters[i].name)) == factor * (i + 1),
                      kWorkerCounters[i].name);
      }
    };
    for (size_t i = 0; i < std::size(kWorkerCounters); ++i) {
      for (const auto& worker : server.workers) {
        (worker->counters().*kWorkerCounters[i].field).Add(i + 1);
      }
    }
    check(2);
    CHECK(Reply(server.state, "reset") == "RESET\r\n");
    check(0);
    for (size_t i = 0; i < std::size(kWorkerCounters); ++i) {
      (server.workers[1]->counters().*kWorkerCounters[i].field).Add(i + 1);
    }
    check(1);
  }

  TEST_CASE("stats counts what happened in the store, and a reset keeps the items") {
    Server server;
    kbf::Store& store = server.store();
    Set(&server, "stays", "1", 0, 100);
    Set(&server, "expires", "2", 110, 100);
    CHECK_FALSE(store.Get("expires", 120).hit);
    store.FlushAll(120, 120);
    CHECK_FALSE(store.Get("stays", 121).hit);
    Set(&server, "new", "3", 0, 121);
    server.state.connections.total = 5;
    server.state.connections.current = 3;
    server.state.connections.rejected = 2;
    server.state.connections.listen_disabled = 4;

    Report stats = Ask(server.state, "");
    CHECK(stats.number("curr_items") == 1);
    CHECK(stats.number("total_items") == 3);
    CHECK(stats.number("get_expired") == 1);
    CHECK(stats.number("get_flushed") == 1);
    CHECK(stats.number("expired_unfetched") == 1);
    CHECK(stats.number("reclaimed") == 1);
    CHECK(stats.number("evictions") == 0);
    CHECK(stats.number("bytes") == store.Usage().total_bytes());
    CHECK(stats.number("limit_maxbytes") == 8 << 20);
    CHECK(stats.number("curr_connections") == 3);
    CHECK(stats.number("total_connections") == 5);
    CHECK(stats.number("rejected_connections") == 2);
    CHECK(stats.number("listen_disabled_num") == 4);
    CHECK(stats.number("connection_structures") == 3);
    CHECK(stats.number("threads") == 2);
    CHECK(stats.number("accepting_conns") == 1);
    CHECK(stats.number("pid") == static_cast<uint64_t>(getpid()));
    CHECK(stats.number("pointer_size") == 64);

    // What memcached resets, and what it does not.
    (void)Reply(server.state, "reset");
    server.state.connections.accepting = false;
    stats = Ask(server.state, "");
    for (const char* name :
         {"total_items", "get_expired", "get_flushed", "expired_unfetched", "reclaimed",
          "total_connections", "rejected_connections", "listen_disabled_num", "accepting_conns"}) {
      CHECK_MESSAGE(stats.number(name) == 0, name);
    }
    CHECK(stats.number("curr_items") == 1);
    CHECK(stats.number("curr_connections") == 3);
    CHECK(stats.number("limit_maxbytes") == 8 << 20);
  }

  TEST_CASE("stats settings shows the options") {
    Options options = SmallOptions();
    options.port = 11299;
    options.listen_given = true;
    options.listen_text = "127.0.0.1,[::1]:11300";
    options.unix_path = "/run/a\r\nEND";
    options.unix_mask = 0644;
    options.store.evictions = false;
    options.store.keep_cas = false;
    options.store.item_bytes_max = 2 << 20;
    options.wire = WireChoice::kText;
    options.connections_max = 77;
    options.maxconns_fast = false;
    options.idle_timeout_s = 9;
    options.read_buffer_bytes_max = 7 << 20;
    options.enable_shutdown = true;
    options.disable_flush = true;
    options.prefix_delimiter = ',';
    options.inert.growth_factor = 1.5;
    options.inert.worker_logbuf_kb = 1;
    options.inert.num_napi_ids = 2;
    options.inert.lru_crawler = true;
    Server server(options);
    const Report settings = Ask(server.state, "settings");
    const std::pair<const char*, const char*> expected[] = {
        {"maxbytes", "8388608"},
        {"maxconns", "77"},
        {"tcpport", "11299"},
        {"inter", "127.0.0.1,[::1]:11300"},
        {"evictions", "off"},
        {"domain_socket", "/run/a??END"},
        {"umask", "644"},
        {"shutdown_command", "yes"},
        {"growth_factor", "1.50"},
        {"num_threads", "2"},
        {"stat_key_prefix", ","},
        {"cas_enabled", "no"},
        {"tcp_backlog", "1024"},
        {"binding_protocol", "ascii"},
        {"item_size_max", "2097152"},
        {"maxconns_fast", "no"},
        {"slab_automove_ratio", "0.80"},
        {"lru_crawler", "no"},
        {"flush_enabled", "no"},
        {"hash_algorithm", "xxh3"},
        {"idle_timeout", "9"},
        {"worker_logbuf_size", "1024"},
        {"read_buf_mem_limit", "7340032"},
        {"slab_automove_freeratio", "0.010"},
        {"num_napi_ids", "2"},
    };
    for (const auto& [name, value] : expected) CHECK(settings.text(name) == value);
  }

  TEST_CASE("stats settings of a server without options") {
    Server server;
    const int before = LogVerbosity();
    SetLogVerbosity(2);
    const Report settings = Ask(server.state, "settings");
    SetLogVerbosity(static_cast<uint32_t>(before));
    CHECK(settings.text("verbosity") == "2");
    CHECK(settings.text("inter") == "localhost");
    CHECK(settings.text("domain_socket") == "NULL");
    CHECK(settings.text("umask") == "700");
    CHECK(settings.text("evictions") == "on");
    CHECK(settings.text("binding_protocol") == "auto-negotiate");
    CHECK(settings.text("num_napi_ids") == "(null)");
  }

  TEST_CASE("an empty store has no classes") {
    Server server;
    CHECK(Reply(server.state, "items") == "END\r\n");
    const Report slabs = Ask(server.state, "slabs");
    CHECK(slabs.joined() == "active_slabs total_malloced");
    CHECK(slabs.number("active_slabs") == 0);
  }

  TEST_CASE("the classes of stats items and stats slabs add up to the store") {
    Options options = SmallOptions(32);
    unsigned classes = 0;
    SUBCASE("a class for each slab") { classes = options.store.num_slabs = 4; }
    SUBCASE("a class for several slabs") {
      options.store.num_slabs = 64;
      classes = 32;
    }
    Server server(options);
    for (unsigned i = 0; i < 1000; ++i) Set(&server, "k" + std::to_string(i), "v", 0, 100);
    const Report items = Ask(server.state, "items");
    const Report slabs = Ask(server.state, "slabs");
    CHECK(slabs.number("active_slabs") == classes);
    CHECK(items.names.size() == classes * Split(kItemsNames).size());
    CHECK(slabs.names.size() == classes * Split(kSlabsNames).size() + 2);
    uint64_t number = 0, bytes = 0, used = 0, pages = 0;
    for (unsigned id = 1; id <= classes; ++id) {
      const std::string in_items = "items:" + std::to_string(id) + ":";
      const std::string in_slabs = std::to_string(id) + ":";
      for (const std::string& name : Split(kItemsNames)) (void)items.number(in_items + name);
      for (const std::string& name : Split(kSlabsNames)) (void)slabs.number(in_slabs + name);
      number += items.number(in_items + "number");
      bytes += items.number(in_items + "mem_requested");
      used += slabs.number(in_slabs + "used_chunks");
      pages += slabs.number(in_slabs + "total_pages");
      CHECK(slabs.number(in_slabs + "used_chunks") == items.number(in_items + "number"));
      CHECK(slabs.number(in_slabs + "total_chunks") >= slabs.number(in_slabs + "used_chunks"));
      // The mean, rounded up.
      const uint64_t chunk = slabs.number(in_slabs + "chunk_size");
      const uint64_t items_here = items.number(in_items + "number");
      CHECK(chunk * items_here >= items.number(in_items + "mem_requested"));
      CHECK((chunk - 1) * items_here < items.number(in_items + "mem_requested"));
    }
    CHECK(number == 1000);
    CHECK(used == 1000);
    CHECK(pages == server.store().num_slabs());
    CHECK(bytes == server.store().Usage().slabs.total_bytes());
    CHECK(slabs.number("total_malloced") == server.store().Usage().total_bytes());
  }

  TEST_CASE("stats kbf shows the parts of the chain") {
    Server server(ChainOptions());
    FillChain(&server, 40000);
    unsigned hits = 0;
    for (unsigned i = 0; i < 1000; ++i) {
      hits += server.store().Get("key:" + std::to_string(i), 100).hit;
    }
    const kbf::StoreUsage usage = server.store().Usage();
    REQUIRE(usage.slabs.chain_keys > 20000);
    const Report kbf = Ask(server.state, "kbf");
    CHECK(kbf.text("engine") == "kbf");
    CHECK(kbf.number("slabs") == server.store().num_slabs());
    CHECK(kbf.number("cell_bits") == 64);
    CHECK(kbf.number("curr_front_items") == usage.slabs.front_items);
    CHECK(kbf.number("curr_chain_keys") == usage.slabs.chain_keys);
    CHECK(kbf.number("memory_bytes") == kbf.number("front_bytes") + kbf.number("cells_bytes") +
                                            kbf.number("locator_bytes") +
                                            kbf.number("dictionary_bytes") +
                                            kbf.number("value_bytes") + kbf.number("other_bytes"));
    CHECK(kbf.number("memory_bytes") <= kbf.number("memory_bytes_max"));
    CHECK(kbf.number("distinct_values") == 2);
    CHECK(kbf.number("front_hits") + kbf.number("chain_hits") == hits);
    CHECK(kbf.number("misses") == 1000 - hits);
    CHECK(kbf.number("demotions") == kbf.number("inserted_keys"));
    CHECK(kbf.number("filters") > 0);
    CHECK(kbf.number("filters") <= kbf.number("filters_max"));
    CHECK(std::stod(kbf.text("load")) > 0);
    CHECK(std::stod(kbf.text("load")) <= std::stod(kbf.text("planned_load")));
    CHECK(std::stod(kbf.text("bytes_per_chain_key")) >
          std::stod(kbf.text("planned_bytes_per_key")));
    const Report stats = Ask(server.state, "");
    CHECK(stats.number("curr_items") ==
          usage.slabs.front_items + usage.slabs.chain_keys - usage.slabs.tombstones);

    (void)Reply(server.state, "reset");
    const Report again = Ask(server.state, "kbf");
    CHECK(again.number("demotions") == 0);
    CHECK(again.number("filters_added") == 0);
    CHECK(again.number("values_admitted") == 0);
    CHECK(again.number("curr_chain_keys") == usage.slabs.chain_keys);
  }

  TEST_CASE("keys that are lost with a filter count as evictions") {
    Options options = ChainOptions();
    options.store.memory_bytes = 2 << 20;
    Server server(options);
    FillChain(&server, 100000);
    const Report stats = Ask(server.state, "");
    const Report kbf = Ask(server.state, "kbf");
    CHECK(kbf.number("filters_dropped") > 0);
    CHECK(kbf.number("dropped_keys") > 0);
    CHECK(stats.number("evictions") == kbf.number("front_evictions") + kbf.number("dropped_keys"));
    // A false positive that a write meets is hidden by a tombstone, which counts as one key less.
    CHECK(stats.number("curr_items") + stats.number("evictions") + kbf.number("tombstones") ==
          100000);
    CHECK(stats.number("bytes") <= stats.number("limit_maxbytes"));
  }

  TEST_CASE("stats errors tells promises, predictions and measurements") {
    Server server(ChainOptions());
    CHECK(Ask(server.state, "errors").text("measured_false_negative") == "0.000e+00");
    FillChain(&server, 40000);
    server.store().MeasureErrors(200, 300, 100);
    const Report errors = Ask(server.state, "errors");
    CHECK(errors.text("promised_false_negative") == "2.000e-03");
    CHECK(errors.text("promised_false_positive") == "2.000e-05");
    CHECK(errors.number("stored_asked") == 200 * server.store().num_slabs());
    CHECK(errors.number("absent_probes") == 300 * server.store().num_slabs());
    CHECK(std::stod(errors.text("predicted_false_negative")) > 0);
    CHECK(std::stod(errors.text("predicted_false_candidates")) > 0);
    CHECK(std::stod(errors.text("measured_false_negative")) ==
          doctest::Approx(static_cast<double>(errors.number("stored_missed")) /
                          static_cast<double>(errors.number("stored_asked")))
              .epsilon(1e-3));
  }

  TEST_CASE("unknown stats are refused in memcached's words") {
    Server server;
    CHECK(Reply(server.state, "sizes") == "STAT sizes_status disabled\r\nEND\r\n");
    for (const char* rest : {"detail", "detail x", "detail ON"}) {
      CHECK(Reply(server.state, rest) == "CLIENT_ERROR usage: stats detail on|off|dump\r\n");
    }
    for (const char* rest : {"foo", "RESET", "settingsx", "detailon", "noreply"}) {
      CHECK(Reply(server.state, rest) == "ERROR\r\n");
    }
    CHECK(Reply(server.state, std::string(2000, 'x')) == "ERROR\r\n");
    // Spaces around the word and words behind it are no error.
    CHECK(Reply(server.state, "  sizes  extra ") == Reply(server.state, "sizes"));
    CHECK(Reply(server.state, " reset x") == "RESET\r\n");
  }

  TEST_CASE("stats detail counts by prefix while it is on, and no more than its limit") {
    Server server;
    PrefixStats& prefixes = server.state.prefix_stats;
    CHECK(!prefixes.enabled());
    CHECK(Dump(prefixes) == "END\r\n");
    CHECK(Reply(server.state, "detail on") == "OK\r\n");
    CHECK(prefixes.enabled());
    CHECK(Ask(server.state, "settings").text("detail_enabled") == "yes");
    prefixes.CountGet("foo:1", true);
    prefixes.CountGet("foo:2", false);
    prefixes.CountSet("foo:");
    prefixes.CountDelete("foo:bar:baz");
    prefixes.CountGet("plain", true);
    prefixes.CountSet("a\r\nEND\r\n:x");
    CHECK(Dump(prefixes) == "PREFIX foo get 2 hit 1 set 1 del 1\r\nEND\r\n");
    CHECK(Reply(server.state, "detail off") == "OK\r\n");
    CHECK(!prefixes.enabled());
    CHECK(Reply(server.state, "reset") == "RESET\r\n");
    CHECK(Dump(prefixes) == "END\r\n");

    for (size_t i = 0; i < PrefixStats::kPrefixesMax + 10; ++i) {
      prefixes.CountSet(std::to_string(i) + ":k");
    }
    const std::string dump = Dump(prefixes);
    CHECK(std::ranges::count(dump, '\n') == PrefixStats::kPrefixesMax + 1);
    CHECK(dump.find("PREFIX 65535 ") != dump.npos);
    CHECK(dump.find("PREFIX 65536 ") == dump.npos);
  }

  TEST_CASE("on the binary wire stats are packets up to an empty one") {
    Server server;
    const auto ask = [&server](std::string_view key) {
      return AnswerStats(StatsRequest(protocol::Wire::kBinary, key), server.state);
    };
    const std::string end("\x81\x10\0\0\0\0\0\0\0\0\0\0\0\0\0\7\0\0\0\0\0\0\0\0", 24);
    const std::string none("\x81\x10\0\0\0\0\0\1\0\0\0\t\0\0\0\7\0\0\0\0\0\0\0\0Not found", 33);
    CHECK(ask("items") == end);
    CHECK(ask("reset") == end);
    CHECK(ask("sizes") == std::string("\x81\x10\0\x0c\0\0\0\0\0\0\0\x14\0\0\0\7\0\0\0\0\0\0\0\0"
                                      "sizes_statusdisabled",
                                      44) +
                              end);
    for (const char* key : {"foo", "detail", "detail x", "detailon", "cachedump 1 0", "items x"}) {
      CHECK(ask(key) == none);
    }

    CHECK(ask("detail on") == end);
    CHECK(server.state.prefix_stats.enabled());
    CHECK(ask("detail off") == end);
    CHECK(!server.state.prefix_stats.enabled());

    const std::string reply = ask("");
    std::string names;
    size_t at = 0;
    while (at + 24 < reply.size()) {
      const auto byte = [&](size_t i) { return static_cast<unsigned char>(reply[at + i]); };
      const size_t key_bytes = byte(2) << 8 | byte(3);
      const size_t body_bytes = byte(10) << 8 | byte(11);
      REQUIRE(at + 24 + body_bytes <= reply.size());
      names += (names.empty() ? "" : " ") + reply.substr(at + 24, key_bytes);
      at += 24 + body_bytes;
    }
    CHECK(names == kGeneralNames);
    CHECK(reply.substr(at) == end);
  }

  TEST_CASE("resetting and reading in several threads never shows a count below zero") {
    // A total that was taken before a reset and compared with it afterwards would wrap around to
    // nearly 2^64. Both threads do nothing else for thousands of rounds, so that they meet.
    Server server;
    std::atomic<bool> done{false};
    std::atomic<uint64_t> counted{0};
    std::thread resetting([&] {
      for (; !done; ++counted) {
        server.workers[0]->counters().cmd_get.Add();
        server.state.stats_baseline.Reset(server.state.View());
      }
    });
    uint64_t most = 0;
    for (unsigned i = 0; i < 20000 || counted < 20000; ++i) {
      const Totals totals = server.state.stats_baseline.Since(server.state.View());
      most = std::max(most, totals.workers.cmd_get);
    }
    done = true;
    resetting.join();
    CHECK(most <= counted);
  }
}

// ---- sockets ----------------------------------------------------------------------------------

struct Socket {
  explicit Socket(int fd) : fd(fd) { REQUIRE(fd >= 0); }
  ~Socket() { close(fd); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  const int fd;
};

template <class Address>
const sockaddr* Any(const Address& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

sockaddr_in LocalAddress(int fd) {
  sockaddr_in address{};
  socklen_t length = sizeof(address);
  REQUIRE(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0);
  return address;
}

std::string TcpName(int fd) {
  return "tcp:127.0.0.1:" + std::to_string(ntohs(LocalAddress(fd).sin_port));
}

// A client that has just come in, served by the first worker.
void Connect(Server* server, int listening, int client, const sockaddr* address, socklen_t length) {
  REQUIRE(connect(client, address, length) == 0);
  const int fd = accept4(listening, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  REQUIRE(fd >= 0);
  server->state.connections.current.fetch_add(1);
  server->workers[0]->Adopt(fd);
}

size_t CountConnections(Server* server) {
  size_t count = 0;
  for (const auto& worker : server->workers) {
    worker->VisitConnections([&count](const ConnectionInfo&) { ++count; });
  }
  return count;
}

TEST_SUITE("src") {
  TEST_CASE("stats conns lists listening sockets and clients, TCP and unix") {
    const TemporaryDirectory directory;
    const Socket tcp(socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in loopback{};
    loopback.sin_family = AF_INET;
    loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(bind(tcp.fd, Any(loopback), sizeof(loopback)) == 0);
    REQUIRE(listen(tcp.fd, 4) == 0);
    loopback = LocalAddress(tcp.fd);

    // As long as a path may be: the kernel's answer has no zero behind it.
    sockaddr_un local{};
    local.sun_family = AF_UNIX;
    std::string path = directory.path() + "/";
    path.resize(sizeof(local.sun_path) - 1, 's');
    std::memcpy(local.sun_path, path.data(), path.size());
    const Socket unix_socket(socket(AF_UNIX, SOCK_STREAM, 0));
    REQUIRE(bind(unix_socket.fd, Any(local), sizeof(local)) == 0);
    REQUIRE(listen(unix_socket.fd, 4) == 0);

    const Socket tcp_client(socket(AF_INET, SOCK_STREAM, 0));
    const Socket unix_client(socket(AF_UNIX, SOCK_STREAM, 0));
    Server server;
    server.state.listen_fds = {tcp.fd, unix_socket.fd};
    server.workers[0]->Start();
    Connect(&server, tcp.fd, tcp_client.fd, Any(loopback), sizeof(loopback));
    Connect(&server, unix_socket.fd, unix_client.fd, Any(local), sizeof(local));
    while (CountConnections(&server) < 2) std::this_thread::yield();

    const Report conns = Ask(server.state, "conns");
    CHECK(conns.names.size() == 2 * 3 + 2 * 4);
    std::map<std::string, int> fd_of;  // by what they are connected to
    int last_fd = -1;
    for (const std::string& name : conns.names) {
      const int fd = std::stoi(name);
      CHECK(fd >= last_fd);
      last_fd = fd;
      if (name.ends_with(":listen_addr")) fd_of[conns.text(name)] = fd;
      if (name.ends_with(":secs_since_last_cmd")) (void)conns.number(name);
    }
    const auto field = [&conns](int fd, const char* name) {
      return conns.text(std::to_string(fd) + ":" + name);
    };
    CHECK(field(tcp.fd, "addr") == TcpName(tcp.fd));
    CHECK(field(tcp.fd, "state") == "conn_listening");
    CHECK(field(unix_socket.fd, "addr") == "unix:" + path);
    REQUIRE(fd_of.contains(TcpName(tcp.fd)));
    CHECK(field(fd_of[TcpName(tcp.fd)], "addr") == TcpName(tcp_client.fd));
    CHECK(field(fd_of[TcpName(tcp.fd)], "state") == "conn_read");
    REQUIRE(fd_of.contains("unix:" + path));
    CHECK(field(fd_of["unix:" + path], "addr") == "?:<AF 0>");
    CHECK(Ask(server.state, "").number("connection_structures") == 4);
  }
}

}  // namespace
}  // namespace server
