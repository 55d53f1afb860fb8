#include <doctest/doctest.h>

#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "src/config/command_line.h"
#include "src/process/startup_error.h"
#include "src/process/version.h"
#include "tests/src/temporary.h"

namespace server {
namespace {

using Words = std::vector<std::string>;

ParsedOptions Parse(const Words& words) {
  std::vector<const char*> argv = {"kbfcached"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  return ParseOptions(static_cast<int>(argv.size()), argv.data());
}
Options OptionsOf(const Words& words) { return Parse(words).options; }

// The message, or "" where the words are fine.
std::string ErrorOf(const Words& words) {
  try {
    Parse(words);
    return "";
  } catch (const StartupError& error) {
    return error.what();
  }
}
bool Contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

}  // namespace

TEST_SUITE("src") {
  TEST_CASE("without options memcached's defaults hold, and only loopback is listened on") {
    const ParsedOptions parsed = Parse({});
    const Options& options = parsed.options;
    CHECK(!parsed.print);
    CHECK(parsed.warnings.empty());
    CHECK(options.port == 11211);
    CHECK(!options.listen_given);
    CHECK(options.wants_tcp());
    CHECK(options.unix_path.empty());
    CHECK(options.unix_mask == 0700);
    CHECK(options.store.memory_bytes == 64 << 20);
    CHECK(options.store.item_bytes_max == 1 << 20);
    CHECK(options.store.evictions);
    CHECK(options.store.keep_cas);
    CHECK(options.connections_max == 1024);
    CHECK(options.threads == 4);
    CHECK(options.requests_per_event == 20);
    CHECK(options.backlog == 1024);
    CHECK(options.wire == WireChoice::kAuto);
    CHECK(options.maxconns_fast);
    CHECK(options.idle_timeout_s == 0);
    CHECK(options.read_buffer_bytes_max == 16 << 20);
    CHECK(options.prefix_delimiter == ':');
    CHECK(!options.stats_detail);
  }

  TEST_CASE("short options take their value attached or apart, and bundle, as getopt has it") {
    CHECK(OptionsOf({"-m64"}).store.memory_bytes == 64 << 20);
    CHECK(OptionsOf({"-m", "100"}).store.memory_bytes == 100 << 20);
    CHECK(OptionsOf({"--memory-limit=100"}).store.memory_bytes == 100 << 20);
    CHECK(OptionsOf({"--memory-limit", "100"}).store.memory_bytes == 100 << 20);
    CHECK(OptionsOf({"-m", "64", "-m", "100"}).store.memory_bytes == 100 << 20);
    CHECK(OptionsOf({"-vvv"}).verbosity == 3);
    CHECK(OptionsOf({"-v", "-vv", "--verbose"}).verbosity == 4);
    const Options bundled = OptionsOf({"-dvvMm", "32"});
    CHECK(bundled.daemonize);
    CHECK(bundled.verbosity == 2);
    CHECK(!bundled.store.evictions);
    CHECK(bundled.store.memory_bytes == 32 << 20);
    for (const Words& words : {Words{"-D|"}, Words{"-D", "|"}}) {
      CHECK(OptionsOf(words).prefix_delimiter == '|');
      CHECK(OptionsOf(words).stats_detail);
    }
  }

  TEST_CASE("every option with an effect reaches its field under both of its names") {
    const auto both = [](const char* letter, const std::string& name, const std::string& value,
                         auto field, auto wanted) {
      CAPTURE(letter);
      if (value.empty()) {
        CHECK(field(OptionsOf({letter})) == wanted);
        CHECK(field(OptionsOf({name})) == wanted);
      } else {
        CHECK(field(OptionsOf({letter, value})) == wanted);
        CHECK(field(OptionsOf({name + "=" + value})) == wanted);
      }
    };
    using O = const Options&;
    both(
        "-p", "--port", "99", [](O o) { return o.port; }, 99);
    both(
        "-s", "--unix-socket", "/x", [](O o) { return o.unix_path; }, "/x");
    both(
        "-a", "--unix-mask", "0777", [](O o) { return o.unix_mask; }, 0777u);
    both(
        "-u", "--user", "me", [](O o) { return o.user; }, "me");
    both(
        "-d", "--daemon", "", [](O o) { return o.daemonize; }, true);
    both(
        "-P", "--pidfile", "/p", [](O o) { return o.pid_file; }, "/p");
    both(
        "-r", "--enable-coredumps", "", [](O o) { return o.core_dumps; }, true);
    both(
        "-M", "--disable-evictions", "", [](O o) { return o.store.evictions; }, false);
    both(
        "-c", "--conn-limit", "7", [](O o) { return o.connections_max; }, 7u);
    both(
        "-t", "--threads", "7", [](O o) { return o.threads; }, 7u);
    both(
        "-R", "--max-reqs-per-event", "7", [](O o) { return o.requests_per_event; }, 7u);
    both(
        "-b", "--listen-backlog", "7", [](O o) { return o.backlog; }, 7);
    both(
        "-I", "--max-item-size", "512k", [](O o) { return o.store.item_bytes_max; }, 524288u);
    both(
        "-B", "--protocol", "ascii", [](O o) { return o.wire; }, WireChoice::kText);
    both(
        "-B", "--protocol", "binary", [](O o) { return o.wire; }, WireChoice::kBinary);
    both(
        "-A", "--enable-shutdown", "", [](O o) { return o.enable_shutdown; }, true);
    both(
        "-F", "--disable-flush-all", "", [](O o) { return o.disable_flush; }, true);
    both(
        "-X", "--disable-dumping", "", [](O o) { return o.disable_dumping; }, true);
    both(
        "-W", "--disable-watch", "", [](O o) { return o.disable_watch; }, true);
    both(
        "-C", "--disable-cas", "", [](O o) { return o.store.keep_cas; }, false);
    both(
        "-k", "--lock-memory", "", [](O o) { return o.lock_memory; }, true);
    both(
        "-L", "--enable-largepages", "", [](O o) { return o.large_pages; }, true);
    both(
        "-o", "--extended", "idle_timeout=5", [](O o) { return o.idle_timeout_s; }, 5u);
  }

  TEST_CASE("io_uring is used unless it is switched off") {
    CHECK(OptionsOf({}).io_uring);
    CHECK(OptionsOf({"--io-uring", "auto"}).io_uring);
    CHECK(OptionsOf({"--io-uring=auto"}).io_uring);
    CHECK(!OptionsOf({"--io-uring", "off"}).io_uring);
    CHECK(!OptionsOf({"--io-uring=off"}).io_uring);
  }

  TEST_CASE("addresses come with commas or repeated, with ports, and IPv6 in brackets") {
    using Addresses = std::vector<ListenAddress>;
    const auto of = [](const Words& words) { return OptionsOf(words).listen; };
    CHECK(of({"-l", "127.0.0.1,b:12", "-l", "c", "-p", "99"}) ==
          Addresses{{"127.0.0.1", 99}, {"b", 12}, {"c", 99}});
    CHECK(of({"--listen=[::1]:12,[::1],::1"}) ==
          Addresses{{"::1", 12}, {"::1", 11211}, {"::1", 11211}});
    CHECK(of({"-l", "a,, b ;c,"}) == Addresses{{"a", 11211}, {"b", 11211}, {"c", 11211}});
    CHECK(of({"-l", "notls:a:12"}) == Addresses{{"a", 12, true}});
    CHECK(of({"-l", "a,b:0", "-p", "-1"}) == Addresses{{"a", 0}, {"b", 0}});
    CHECK(OptionsOf({"-l", "a,b:1", "-l", "c"}).listen_text == "a,b:1,c");
    for (const char* bad : {"", ",", "[::1", "[::1]12", "[]:12", ":12", "a:", "a:x", "a:65536",
                            "a:-1", "a:1x", "[::1]:", "[", "notls:"}) {
      CAPTURE(bad);
      CHECK(Contains(ErrorOf({"-l", bad}), "-l"));
    }
  }

  TEST_CASE("a unix socket turns TCP off unless addresses are given, and something must listen") {
    CHECK(!OptionsOf({"-s", "/x"}).wants_tcp());
    CHECK(OptionsOf({"-s", "/x", "-l", "a"}).wants_tcp());
    CHECK(!OptionsOf({"-s", "/x", "-p", "0"}).wants_tcp());
    CHECK(Contains(ErrorOf({"-p", "0"}), "nothing to listen on"));
    CHECK(OptionsOf({"-s", std::string(107, 'x')}).unix_path.size() == 107);
    CHECK(Contains(ErrorOf({"-s", std::string(108, 'x')}), "107 bytes"));
  }

  TEST_CASE("listening on all interfaces gives a warning") {
    for (const char* host : {"0.0.0.0", "[::]:11211", "::"}) {
      const auto warnings = Parse({"-l", host}).warnings;
      REQUIRE(warnings.size() == 1);
      CHECK(Contains(warnings[0], "firewall"));
    }
    CHECK(Parse({"-l", "127.0.0.1"}).warnings.empty());
  }

  TEST_CASE("an invalid number is refused in one line that names the option") {
    const std::vector<std::pair<std::string, Words>> bad = {
        {"-m",
         {"0", "1", "-1", "64x", "x", " 64", "+64", "1e3", "16777217", "18446744073709551680"}},
        {"-p", {"-2", "65536", "x", "11211x"}},
        {"-t", {"0", "-1", "4x", "1025"}},
        {"-R", {"0", "-1", "5x", "2147483648"}},
        {"-b", {"-1", "x", "2147483648"}},
        {"-c", {"0", "-4", "12x", "4294967297"}},
        {"-a", {"999", "0778", "-1", "1000", "rwx"}},
        {"-I", {"512", "1023", "0k", "2mb", "m", "2g", "-1m", "1025m", "18446744073709551615k"}},
        {"-f", {"1", "0.5", "x", "1.25x", "nan", "inf"}},
        {"-n", {"0", "-5", "5x"}},
        {"-N", {"0", "x"}},
        {"-U", {"-1", "65536", "x"}},
        {"-D", {"::", ""}},
        {"-B", {"Ascii", "negotiate", ""}},
        {"--false-negative", {"0", "1", "-1", "nan", "x", "0.1x"}},
        {"--false-positive", {"0", "1", "inf"}},
        {"--front-share", {"-0.1", "1.1", "nan"}},
        {"--slabs", {"3", "-2", "131072", "x"}},
        {"--engine", {"pack", "x", ""}},
        {"--distinct-values", {"0", "-1", "x", "1e6"}},
        {"--io-uring", {"on", "", "Auto"}},
        {"--exact-prefix", {"", "a b", "a\n", std::string(251, 'x')}},
        {"--approximate-prefix", {"", "a b", "a\n", std::string(251, 'x')}},
        {"-u", {""}},
    };
    for (const auto& [option, values] : bad) {
      for (const std::string& value : values) {
        CAPTURE(option);
        CAPTURE(value);
        const std::string error = ErrorOf({option, value});
        CHECK(error.starts_with(option));
        CHECK(!Contains(error, "\n"));
        CHECK(error.size() < 200);
      }
    }
  }

  TEST_CASE("numbers at the ends of their ranges are accepted") {
    CHECK(OptionsOf({"-m", "3"}).store.memory_bytes == 3 << 20);
    CHECK(OptionsOf({"-I", "1k"}).store.item_bytes_max == 1024);
    CHECK(OptionsOf({"-I", "1024"}).store.item_bytes_max == 1024);
    CHECK(OptionsOf({"-I", "1024m", "-m", "32768"}).store.item_bytes_max == 1 << 30);
    CHECK(OptionsOf({"-p", "65535"}).port == 65535);
    CHECK(OptionsOf({"-b", "0"}).backlog == 0);
    CHECK(OptionsOf({"-a", "0"}).unix_mask == 0);
    CHECK(OptionsOf({"--slabs", "65536"}).store.num_slabs == 65536);
    CHECK(OptionsOf({"--slabs", "0"}).store.num_slabs == 0);
    CHECK(OptionsOf({"--front-share", "0"}).store.front_share == 0);
    CHECK(OptionsOf({"--front-share", "1"}).store.front_share == 1);
    CHECK(OptionsOf({"--false-negative", "1e-4"}).store.false_negative == 1e-4);
    CHECK(OptionsOf({"--false-positive", "1e-9"}).store.false_positive == 1e-9);
    CHECK(OptionsOf({"--exact-prefix", "a", "--exact-prefix", "b,c"}).store.exact_prefixes ==
          Words{"a", "b,c"});
    CHECK(OptionsOf({"--approximate-prefix", "a", "--approximate-prefix", "b"})
              .store.approximate_prefixes == Words{"a", "b"});
  }

  TEST_CASE("an item may take half of the memory and no more, and the message says what to give") {
    const std::string buffers = "read_buf_mem_limit=1000";
    CHECK(ErrorOf({"-I", "32m", "-o", buffers}) == "");
    CHECK(Contains(ErrorOf({"-I", "33m", "-o", buffers}), "-m 66"));
    CHECK(ErrorOf({"-I", "33m", "-m", "66", "-o", buffers}) == "");
    CHECK(Contains(ErrorOf({"-I", "33554433", "-o", buffers}), "-m 65"));
  }

  TEST_CASE("-I 200m is refused where the buffers would refuse an item of 40 MB") {
    CHECK(ErrorOf({"-I", "200m", "-m", "1024"}) ==
          "-I 200m needs 400 MB for the buffers of connections, and -m 1024 gives them 64: give -m "
          "6400 or more, -o read_buf_mem_limit=400 or a smaller -I");
    CHECK(ErrorOf({"-I", "200m", "-m", "6400"}) == "");
    CHECK(ErrorOf({"-I", "200m", "-m", "1024", "-o", "read_buf_mem_limit=400"}) == "");
    CHECK(ErrorOf({"-I", "200m", "-m", "1024", "-o", "read_buf_mem_limit=399"}) ==
          "-I 200m needs 400 MB for the buffers of connections, and -o read_buf_mem_limit=399 "
          "gives them less: give -o read_buf_mem_limit=400 or a smaller -I");
    CHECK(ErrorOf({"-I", "8m"}) == "");
    CHECK(Contains(ErrorOf({"-I", "8388609"}), "-I 8388609 needs 17 MB"));
    CHECK(Contains(ErrorOf({"-I", "8193k"}), "-m 272 or more"));
    CHECK(ErrorOf({"-I", "8193k", "-m", "272"}) == "");
    // The usual item works with the smallest memory.
    CHECK(ErrorOf({"-m", "3"}) == "");
  }

  TEST_CASE("buffers get a sixteenth of the memory and at least 16 MB, unless a limit is given") {
    const auto megabytes = [](const Words& words) {
      return OptionsOf(words).read_buffer_bytes_max >> 20;
    };
    CHECK(megabytes({"-m", "3"}) == 16);
    CHECK(megabytes({"-m", "256"}) == 16);
    CHECK(megabytes({"-m", "1024"}) == 64);
    CHECK(megabytes({"-m", "1024", "-o", "read_buf_mem_limit=0"}) == 64);
    CHECK(megabytes({"-m", "1024", "-o", "read_buf_mem_limit=5"}) == 5);
    // Configurations of memcached may say so, and start.
    CHECK(megabytes({"-o", "read_buf_mem_limit=1"}) == 2);
    CHECK(Parse({"-o", "read_buf_mem_limit=1"}).warnings ==
          Words{"-o read_buf_mem_limit=1 is too little for items of 1m (-I); going on with 2"});
    CHECK(Contains(ErrorOf({"-I", "2m", "-o", "read_buf_mem_limit=1"}), "read_buf_mem_limit=4"));
  }

  TEST_CASE("a value for an option that takes none is refused and named") {
    const std::vector<std::pair<std::string, std::string>> wrong = {
        {"--help=foo", "--help takes no value: leave out '=foo'"},
        {"-h=foo", "-h takes no value: leave out '=foo'"},
        {"--version=x", "--version takes no value: leave out '=x'"},
        {"--license=", "--license takes no value: leave out '='"},
        {"-d=5", "-d takes no value: leave out '=5'"},
        {"-vv=1", "-vv takes no value: leave out '=1'"},
        {"-Mk=maybe", "-Mk takes no value: leave out '=maybe'"},
        {"--verbose=2", "--verbose takes no value: leave out '=2'"},
        {"--daemon=no", "--daemon takes no value: leave out '=no'"},
        {"--disable-cas=x", "--disable-cas takes no value: leave out '=x'"},
    };
    for (const auto& [word, message] : wrong) {
      CAPTURE(word);
      CHECK(ErrorOf({word}) == message);
    }
    CHECK(OptionsOf({"--daemon=true"}).daemonize);
    CHECK_FALSE(OptionsOf({"--daemon=false"}).daemonize);
    // A '=' that belongs to a value.
    CHECK(OptionsOf({"-s=x"}).unix_path == "=x");
    CHECK(OptionsOf({"-D="}).prefix_delimiter == '=');
    CHECK(OptionsOf({"-vP", "a=b"}).pid_file == "a=b");
    CHECK(OptionsOf({"-vPa=b"}).pid_file == "a=b");
    CHECK(Contains(ErrorOf({"--nonsense=5"}), "unknown option '--nonsense"));
    CHECK(Contains(ErrorOf({"-=5"}), "unknown option '-=5'"));
  }

  TEST_CASE("-m counts megabytes, from what a store needs") {
    for (const char* text : {"0", "1", "2", "1g", "64m", "-5", "x", ""}) {
      CAPTURE(text);
      const std::string error = ErrorOf({"-m", text});
      CHECK((Contains(error, "-m needs a whole number of megabytes from 3 to 16777216, not '") ||
             Contains(error, "needs a value")));
    }
  }

  TEST_CASE("a snapshot has three names, and what goes with it needs it") {
    CHECK(OptionsOf({}).snapshot.path.empty());
    for (const Words& words : {Words{"-e", "f"}, {"--memory-file=f"}, {"--snapshot", "f"}}) {
      CHECK(OptionsOf(words).snapshot.path == "f");
    }
    const SnapshotOptions all =
        OptionsOf({"--snapshot=f", "--accept-stale", "--snapshot-interval=60"}).snapshot;
    CHECK(all.accept_stale);
    CHECK(all.interval_s == 60);
    CHECK(Contains(ErrorOf({"--accept-stale"}), "--snapshot FILE"));
    CHECK(Contains(ErrorOf({"--snapshot-interval", "60"}), "--snapshot FILE"));
    CHECK(Contains(ErrorOf({"--snapshot", "f", "--snapshot-interval", "60"}), "--accept-stale"));
    CHECK(Contains(ErrorOf({"--snapshot", ""}), "needs a value"));
  }

  TEST_CASE("a server to warm from has a host and a port") {
    CHECK(OptionsOf({}).warm.host.empty());
    const WarmOptions warm = OptionsOf({"--warm-from", "[::1]:5", "--warm-rate", "7"}).warm;
    CHECK(warm.host == "::1");
    CHECK(warm.port == 5);
    CHECK(warm.rate == 7);
    CHECK(OptionsOf({"--warm-from", "host"}).warm.port == 11211);
    for (const char* text : {"host:0", "*:5", "host:x", "notls:host:5", "", ":5"}) {
      CAPTURE(text);
      CHECK(Contains(ErrorOf({"--warm-from", text}), "--warm-from needs"));
    }
    CHECK(!ErrorOf({"--warm-rate", "0"}).empty());
  }

  TEST_CASE("unsupported options are refused by name") {
    const std::vector<std::pair<Words, const char*>> refused = {
        {{"-o", "ext_path=/f:64m"}, "ext_path"},
        {{"-o", "proxy_config=x"}, "proxy_config"},
        {{"-x"}, "'-x'"},
        {{"--nonsense"}, "'--nonsense'"},
        {{"-o", "foo"}, "'foo'"},
        {{"-m"}, "needs a value"},
    };
    for (const auto& [words, part] : refused) {
      CAPTURE(words[0]);
      CHECK(Contains(ErrorOf(words), part));
    }
  }

  TEST_CASE("a port for UDP is warned about in one line, and the server goes on without it") {
    CHECK(Parse({"-U", "0"}).warnings.empty());
    const ParsedOptions parsed = Parse({"-U", "11211", "-p", "5"});
    CHECK(parsed.options.port == 5);
    REQUIRE(parsed.warnings.size() == 1);
    CHECK(Contains(parsed.warnings[0], "-U 11211: UDP is not supported"));
  }

  TEST_CASE("TLS options are kept, and those that do not go together are refused") {
    const std::string files = "ssl_chain_cert=a.crt,ssl_key=a.key";
    CHECK_FALSE(OptionsOf({"-o", files}).tls.enabled);
    const TlsOptions tls =
        OptionsOf({"-Z", "-o",
                   files + ",ssl_ca_cert=ca,ssl_verify_mode=2,ssl_keyformat=1,ssl_ciphers=HIGH,"
                           "ssl_session_cache,ssl_min_version=3"})
            .tls;
    CHECK(tls.enabled);
    CHECK(tls.chain_cert == "a.crt");
    CHECK(tls.key_file() == "a.key");
    CHECK(tls.ca_cert == "ca");
    CHECK(tls.verify_mode == 2);
    CHECK(tls.ciphers == "HIGH");
    CHECK(tls.session_cache);
    CHECK(tls.min_version == 3);
    CHECK(OptionsOf({"--enable-ssl", "-o", "ssl_chain_cert=a"}).tls.key_file() == "a");
    CHECK(OptionsOf({"-o", "ssl_keyformat=DER"}).tls.key_format == 2);
    CHECK(Contains(Parse({"-o", "ssl_wbuf_size=64,ssl_kernel_tls"}).warnings.at(0),
                   "accepted without effect: -o ssl_wbuf_size, -o ssl_kernel_tls"));
    const std::vector<std::pair<Words, std::string>> refused = {
        {{"-Z"}, "ssl_chain_cert"},
        {{"-Z", "-o", "ssl_chain_cert="}, "ssl_chain_cert"},
        {{"-Z", "-o", files, "-p", "0", "-s", "x"}, "-p 0"},
        {{"-Z", "-o", files + ",ssl_verify_mode=1"}, "ssl_ca_cert"},
        {{"-Z", "-o", files + ",ssl_verify_mode=4"}, "ssl_verify_mode"},
        {{"-Z", "-o", files + ",ssl_min_version=0"}, "TLS 1.0"},
        {{"-Z", "-o", files + ",ssl_min_version=4"}, "ssl_min_version"},
        {{"-Z", "-o", files + ",ssl_keyformat=ENGINE"}, "PEM"},
        {{"-Z", "-o", "ssl_chain_cert=a,ssl_keyformat=DER"}, "ssl_key"},
        {{"-o", "ssl_nonsense=1"}, "'ssl_nonsense'"},
    };
    for (const auto& [words, part] : refused) {
      CAPTURE(words.back());
      CHECK(Contains(ErrorOf(words), part));
    }
    CHECK(Contains(Parse({"-Z", "-o", files, "-s", "x"}).warnings.at(0), "-Z encrypts nothing"));
  }

  TEST_CASE(
      "connections may have more memory with TLS, and a warning says when that is not enough") {
    const Words base = {"-Z", "-o", "ssl_chain_cert=a", "-m", "1024"};
    const auto with = [&](const Words& more) {
      Words words = base;
      words.insert(words.end(), more.begin(), more.end());
      return Parse(words);
    };
    CHECK(with({}).options.read_buffer_bytes_max == (64 + 16) << 20);
    CHECK(with({"-c", "512"}).options.read_buffer_bytes_max == (64 + 8) << 20);
    CHECK(with({"-c", "5000"}).options.read_buffer_bytes_max == (64 + 16) << 20);
    CHECK(with({}).warnings.empty());
    CHECK(Contains(with({"-c", "5000"}).warnings.at(0), "-o read_buf_mem_limit=158"));
    CHECK(with({"-c", "5000", "-o", "read_buf_mem_limit=158"}).warnings.empty());
  }

  TEST_CASE("authentication decides which protocols are spoken") {
    CHECK(OptionsOf({"-Y", "f"}).wire == WireChoice::kText);
    CHECK(OptionsOf({"--auth-file=f"}).auth_file == "f");
    CHECK(OptionsOf({"-Y", "f", "-B", "auto"}).wire == WireChoice::kText);
    CHECK(OptionsOf({"-Y", "f", "-S"}).wire == WireChoice::kAuto);
    CHECK(OptionsOf({"-Y", "f", "-S", "-B", "binary"}).wire == WireChoice::kBinary);
    CHECK(Contains(ErrorOf({"-S"}), "-Y FILE"));
    CHECK(Contains(ErrorOf({"-S", "-Y", "f", "-B", "ascii"}), "-B ascii"));
    CHECK(Contains(ErrorOf({"-Y", "f", "-B", "binary"}), "-S"));
    // Whoever may not do anything without a password is no reason for a warning.
    CHECK(Parse({"-l", "0.0.0.0"}).warnings.size() == 1);
    CHECK(Parse({"-l", "0.0.0.0", "-Y", "f"}).warnings.empty());
  }

  TEST_CASE("settings of slabs and lists are kept for the statistics and named in one warning") {
    const ParsedOptions parsed =
        Parse({"-f", "1.5", "-n", "64", "-N", "3", "-o", "hashpower=20,no_lru_crawler,modern", "-o",
               "slab_automove_ratio=0.5,slab_sizes=100-200,temporary_ttl=30"});
    CHECK(parsed.options.inert.growth_factor == 1.5);
    CHECK(parsed.options.inert.chunk_size == 64);
    CHECK(parsed.options.inert.num_napi_ids == 3);
    CHECK(parsed.options.inert.hashpower == 20);
    CHECK(parsed.options.inert.slab_automove_ratio == 0.5);
    CHECK(parsed.options.inert.temp_lru);
    CHECK(parsed.options.inert.temporary_ttl_s == 30);
    REQUIRE(parsed.warnings.size() == 1);
    for (const char* name : {"-f", "-n", "-N", "-o hashpower", "-o no_lru_crawler", "-o modern",
                             "-o slab_sizes", "-o temporary_ttl"}) {
      CAPTURE(name);
      CHECK(Contains(parsed.warnings[0], name));
    }
  }

  TEST_CASE("every extended option of memcached is accepted with what memcached accepts") {
    const char* known[] = {
        "maxconns_fast",
        "no_maxconns_fast",
        "hashpower=13",
        "no_hashexpand",
        "tail_repair_time=10",
        "slab_reassign",
        "no_slab_reassign",
        "slab_automove",
        "slab_automove=2",
        "no_slab_automove",
        "slab_automove_ratio=0.8",
        "slab_automove_window=3",
        "slab_automove_freeratio=0.01",
        "slab_sizes=100",
        "slab_chunk_max=16384",
        "lru_crawler",
        "no_lru_crawler",
        "lru_crawler_sleep=1000000",
        "lru_crawler_tocrawl=5",
        "lru_maintainer",
        "no_lru_maintainer",
        "hot_lru_pct=1",
        "warm_lru_pct=60",
        "hot_max_factor=0.2",
        "warm_max_factor=2",
        "temporary_ttl=61",
        "idle_timeout=0",
        "watcher_logbuf_size=256",
        "worker_logbuf_size=64",
        "track_sizes",
        "inline_ascii_resp",
        "no_inline_ascii_resp",
        "no_chunked_items",
        "resp_obj_mem_limit=5",
        "read_buf_mem_limit=0",
        "sock_cookie_id=5",
        "drop_privileges",
        "relaxed_privileges",
        "no_drop_privileges",
        "modern",
        "no_modern",
        "hash_algorithm=xxh3",
        "",
        "maxconns_fast,",
    };
    for (const char* one : known) {
      CAPTURE(one);
      CHECK(ErrorOf({"-o", one}) == "");
    }
    for (const char* bad : {"idle_timeout",
                            "idle_timeout=",
                            "idle_timeout=5x",
                            "idle_timeout=-1",
                            "hashpower",
                            "hashpower=33",
                            "hashpower=2",
                            "slab_automove=3",
                            "slab_automove_ratio=1",
                            "slab_automove_window=2",
                            "slab_sizes",
                            "slab_sizes=200-100",
                            "slab_sizes=1-",
                            "hot_lru_pct=0",
                            "hot_lru_pct=70",
                            "warm_lru_pct=80",
                            "hot_max_factor=0",
                            "tail_repair_time=9",
                            "lru_crawler_sleep=1000001",
                            "read_buf_mem_limit=x",
                            "hash_algorithm=md5",
                            "no_idle_timeout=5",
                            "=",
                            "no_",
                            " maxconns_fast"}) {
      CAPTURE(bad);
      CHECK(Contains(ErrorOf({"-o", bad}), "-o"));
    }
  }

  TEST_CASE("extended options with an effect have it") {
    const Options options = OptionsOf(
        {"-o", "no_maxconns_fast,idle_timeout=5", "-o", "read_buf_mem_limit=7,track_sizes"});
    CHECK(!options.maxconns_fast);
    CHECK(options.idle_timeout_s == 5);
    CHECK(options.read_buffer_bytes_max == 7 << 20);
    CHECK(options.track_sizes);
    CHECK(!OptionsOf({"-o", "no_modern"}).maxconns_fast);  // the default of memcached 1.4
    CHECK(OptionsOf({"-o", "no_modern,maxconns_fast"}).maxconns_fast);
    CHECK(Contains(Parse({"-o", "hash_algorithm=jenkins"}).warnings.at(0), "xxh3"));
    const ParsedOptions valued = Parse({"-o", "maxconns_fast=0"});  // memcached: on
    CHECK(valued.options.maxconns_fast);
    CHECK(valued.warnings.size() == 1);
  }

  TEST_CASE("flags without an effect are accepted, kept and named") {
    const ParsedOptions parsed = Parse({"-L", "-W", "-o", "track_sizes,idle_timeout=1"});
    CHECK(parsed.options.large_pages);
    CHECK(parsed.options.disable_watch);
    REQUIRE(parsed.warnings.size() == 1);
    CHECK(Contains(parsed.warnings[0], "accepted without effect: "));
    for (const char* name : {"-L", "-W", "-o track_sizes"}) {
      CHECK(Contains(parsed.warnings[0], name));
    }
    CHECK(!Contains(parsed.warnings[0], "idle_timeout"));
  }

  TEST_CASE("words that are not options are ignored, as by memcached, with a warning") {
    const ParsedOptions parsed = Parse({"-m", "100", "megabytes"});
    CHECK(parsed.options.store.memory_bytes == 100 << 20);
    REQUIRE(parsed.warnings.size() == 1);
    CHECK(Contains(parsed.warnings[0], "'megabytes'"));
    CHECK(Parse({"-t", "65"}).warnings.size() == 1);
  }

  TEST_CASE("-V names our version and memcached's") {
    CHECK(!OwnVersion().empty());
    CHECK(Parse({"-V"}).print ==
          "kbfcached " + std::string(OwnVersion()) + ", compatible with memcached 1.6.18\n");
    CHECK(Contains(*Parse({"--license"}).print, "MIT License"));
  }

  TEST_CASE("the help names what works, with defaults, and nothing that is refused or inert") {
    const std::string help = *Parse({"-h"}).print;
    CHECK(help.starts_with("kbfcached " + std::string(OwnVersion())));
    for (const char* part : {"\nNetwork:\n",
                             "\nMemory:\n",
                             "\nLimits:\n",
                             "\nApproximate store:\n",
                             "-p, --port=<num>",
                             "(default: 11211)",
                             "-s, --unix-socket=<file>",
                             "-d, --daemon",
                             "-m, --memory-limit=<num>",
                             "for everything",
                             "-c, --conn-limit=<num>",
                             "-t, --threads=<num>",
                             "--enable-shutdown",
                             "--disable-cas",
                             "-D <char>",
                             "--engine=<name>",
                             "--distinct-values=<num|auto>",
                             "(default: 0.002)",
                             "--front-share=<num>",
                             "--exact-prefix=<text>",
                             "--approximate-prefix=<text>",
                             "--slabs=<num>",
                             "--config=<file>",
                             "idle_timeout",
                             "maxconns_fast"}) {
      CAPTURE(part);
      CHECK(Contains(help, part));
    }
    for (const char* part : {"udp-port", "memory-file", "ext_", "slab-growth", "slab-min-size",
                             "napi", "lru_crawler", "<value>"}) {
      CAPTURE(part);
      CHECK(!Contains(help, part));
    }
    size_t start = 0;
    for (size_t end; (end = help.find('\n', start)) != help.npos; start = end + 1) {
      CHECK(end - start <= 98);
    }
  }

  TEST_CASE("the command line wins over the file: values, lists and flags") {
    const TemporaryDirectory directory;
    const std::string path = directory.Write("conf",
                                             "-d\nlogfile /var/log/memcached.log\n-m 100 -vv\n"
                                             "-l a\n-l b\n-M\n-o idle_timeout=5\n-o track_sizes\n"
                                             "-u memcache # who\n--exact-prefix x\n");
    const Options file = OptionsOf({"--config", path});
    CHECK(!file.daemonize);
    CHECK(file.store.memory_bytes == 100 << 20);
    CHECK(file.verbosity == 2);
    CHECK(file.listen_text == "a,b");
    CHECK(!file.store.evictions);
    CHECK(file.idle_timeout_s == 5);
    CHECK(file.track_sizes);
    CHECK(file.user == "memcache");

    const Options both =
        OptionsOf({"-m", "32", "--config=" + path, "-d", "-l", "c", "-v", "-o", "idle_timeout=7",
                   "--exact-prefix", "y", "--disable-evictions=false"});
    CHECK(both.daemonize);
    CHECK(both.store.memory_bytes == 32 << 20);
    CHECK(both.verbosity == 1);
    CHECK(both.listen_text == "c");
    CHECK(both.store.evictions);
    CHECK(both.idle_timeout_s == 7);
    CHECK(both.track_sizes);
    CHECK(both.store.exact_prefixes == Words{"y"});
    CHECK(both.user == "memcache");
  }

  TEST_CASE("a mistake in the file is reported with file and line") {
    const TemporaryDirectory directory;
    const auto error_of = [&](const std::string& text) {
      return ErrorOf({"--config", directory.Write("conf", text)});
    };
    CHECK(Contains(error_of("# fine\n-m 64\n\n-t many\n"), "conf:4: -t needs"));
    CHECK(Contains(error_of("-v\n-l [::1\n"), "conf:2: -l needs"));
    CHECK(Contains(error_of("-x"), "conf:1: unknown option '-x'"));
    CHECK(Contains(error_of("-m"), "conf:1: "));
    CHECK(Contains(error_of("-V"), "conf:1: "));
    CHECK(Contains(error_of("--help"), "conf:1: "));
    CHECK(Contains(error_of("--config other"), "conf:1: "));
    CHECK(Contains(error_of("-m 64 \"\n"), "conf:1: "));
    CHECK(Contains(error_of("-I 40m"), "half of -m"));
    CHECK(Contains(ErrorOf({"--config", directory.path() + "/none"}), "--config: cannot read"));
    CHECK(Contains(ErrorOf({"--config", directory.path()}), "not a file"));
    CHECK(Parse({"--config", directory.path() + "/none", "-V"}).print);
  }

  TEST_CASE("any words give options or one error line") {
    const Words pieces = {"-m",        "64",
                          "-l",        "[",
                          "]",         ":",
                          ",",         "=",
                          "-",         "--",
                          "-o",        "a",
                          "=",         "\\",
                          "'",         "{}",
                          "%%",        "[a,b]",
                          "",          "-D",
                          "--listen=", "-dvv",
                          "-x",        "\xff",
                          "no_",       "99999999999999999999",
                          "--config",  "-h",
                          "-V",        "-p",
                          "-1"};
    const unsigned seed = 20240517;
    CAPTURE(seed);
    std::mt19937 random(seed);
    unsigned refused = 0;
    unsigned taken = 0;
    for (int i = 0; i < 2000; ++i) {
      Words words(random() % 5);
      for (std::string& word : words) {
        word = pieces[random() % pieces.size()];
        if (random() % 3 == 0) word += pieces[random() % pieces.size()];
      }
      const std::string error = ErrorOf(words);
      CHECK(error.find('\n') == error.npos);
      ++(error.empty() ? taken : refused);
    }
    CHECK(refused > 100);
    CHECK(taken > 100);
  }
}

}  // namespace server
