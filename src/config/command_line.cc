#include "src/config/command_line.h"

#include <sys/un.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <cstdio>
#include <functional>
#include <limits>
#include <sstream>
#include <string_view>
#include <utility>

#include "tools/cluster/etcd_client.h"
#include "tools/cluster/records.h"
#include "src/config/config_file.h"
#include "src/config/listen_address.h"
#include "src/config/option_list.h"
#include "src/config/option_value.h"
#include "src/process/startup_error.h"
#include "src/process/version.h"

namespace server {

namespace {

constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();
// The store needs 2 MB, and gets all but the sixteenth that is for the buffers of connections.
constexpr int64_t kMemoryMegabytesMin = 3;
constexpr int64_t kMemoryMegabytesMax = 1 << 24;
constexpr uint64_t kUsualItemBytes = 1 << 20;
constexpr int64_t kThreadsMax = 1024;
constexpr uint16_t kMemcachedPort = 11211;
constexpr unsigned kThreadsUsual = 64;  // memcached warns above this, too
constexpr size_t kPrefixesMax = 64;
constexpr size_t kUnixPathBytesMax = sizeof(sockaddr_un::sun_path) - 1;

constexpr const char* kLicense =
    "Copyright (c) 2026 the kbfcached authors\n\n"
    "kbfcached is free software under the MIT License: you may use, copy, modify and distribute\n"
    "it, as long as the copyright notice and the licence stay with it. It comes without warranty\n"
    "of any kind. The full text is in the file LICENSE of the source.\n\n"
    "It is linked with libevent and xxHash (BSD licences), jemalloc (BSD licence), liburing\n"
    "(MIT licence) and OpenSSL (Apache licence 2.0).\n";

constexpr const char* kFooter =
    "\nWhat memcached sets for its slabs and LRU lists (-f, -n, -N, most of -o) is accepted "
    "without\n"
    "effect. There is no UDP. See kbfcached(1).\n";

// ---- help ----

// In memcached's form, which scripts look for: "-p, --port=<num>     what it does".
std::string HelpLine(const CLI::Option& option) {
  constexpr size_t kColumn = 26;
  const auto& shorts = option.get_snames();
  const auto& longs = option.get_lnames();
  std::string line;
  if (!shorts.empty()) line += "-" + shorts[0] + (longs.empty() ? "" : ", ");
  if (!longs.empty()) line += "--" + longs[0];
  if (const std::string value = option.get_type_name(); !value.empty()) {
    line += (longs.empty() ? " " : "=") + value;
  }
  const std::string indent(kColumn, ' ');
  line.resize(std::max(kColumn, line.size() + 1), ' ');
  for (const char c : option.get_description()) {
    line += c;
    if (c == '\n') line += indent;
  }
  return line + "\n";
}

// As memcached says it: scripts take the last word for the version.
std::string VersionText() {
  return "kbfcached " + std::string(OwnVersion()) + ", compatible with memcached " +
         std::string(kMemcachedVersion);
}

std::string HelpText(const CLI::App& app) {
  std::string text = VersionText() + "\n" + app.get_description();
  for (const std::string& group : app.get_groups()) {
    if (group.empty()) continue;  // options without effect are not in the help
    text += "\n" + group + ":\n";
    const auto in_group = [&](const CLI::Option* option) { return option->get_group() == group; };
    for (const CLI::Option* option : app.get_options(in_group)) text += HelpLine(*option);
  }
  return text + kFooter;
}

std::string DefaultText(double number) {
  std::ostringstream text;
  text << " (default: " << number << ")";
  return text.str();
}

// An address that one can connect to.
std::optional<ListenAddress> SourceIn(const std::string& text) {
  try {
    const ListenAddress source = ParseAddress(text, kMemcachedPort);
    if (source.host != "*" && source.port != 0 && !source.no_tls) return source;
  } catch (const StartupError&) {
    // Its sentence speaks of -l.
  }
  return std::nullopt;
}

// ---- the parser ----

// Knows all options and applies words to one Options: `ParseFileLine* ParseCommandLine Finish`.
class Parser {
 public:
  Parser() : app_("An approximate cache that speaks memcached's protocols.\n", "kbfcached") {
    app_.set_help_flag();
    app_.allow_extras();
    AddNetwork();
    AddSecurity();
    AddCluster();
    AddProcess();
    AddMemory();
    AddLimits();
    AddStore();
    AddSnapshot();
    AddCommands();
    AddExtended();
    AddInformation();
    AddUnadvertised();
  }

  void ParseFileLine(std::vector<std::string> words) {
    in_file_ = true;
    Apply(std::move(words));
    if (print_ || !config_path_.empty()) {
      throw StartupError("-V, -i, --help and --config belong on the command line");
    }
  }
  void ParseCommandLine(std::vector<std::string> words) {
    in_file_ = false;
    Apply(std::move(words));
  }
  ParsedOptions Finish();

  const std::string& config_path() const { return config_path_; }
  const std::optional<std::string>& print() const { return print_; }
  std::vector<std::string>* warnings() { return &remarks_.warnings; }

 private:
  using Setter = std::function<void(const std::string&)>;

  void AddNetwork();
  void AddSecurity();
  void AddCluster();
  void CheckCluster();
  void AddProcess();
  void AddMemory();
  void AddLimits();
  void AddStore();
  void AddSnapshot();
  void AddCommands();
  void AddExtended();
  void AddInformation();
  void AddUnadvertised();
  void Apply(std::vector<std::string> words);
  std::string_view FlagsBeforeValue(std::string_view word) const;
  void RefuseFlagValues(const std::vector<std::string>& words) const;
  void RaiseTooSmallBuffers();
  void CheckSecurity();
  void WarnOfIdleTls();
  void CheckTogether() const;
  void ResolveAddresses();

  // The helpers below add an option to the group that was opened last. Of an option given twice
  // the last value counts.
  void Group(const char* name) { group_ = name; }
  static std::string NameOf(std::string_view names) {
    return std::string(names.substr(0, names.find(',')));
  }

  void Value(const char* names, const char* value, const std::string& help, const Setter& set) {
    app_.add_option_function<std::string>(names, set, help)
        ->type_name(value)
        ->group(group_)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
  void Text(const char* names, const char* value, const std::string& help, std::string* target) {
    Value(names, value, help, [name = NameOf(names), target](const std::string& text) {
      if (text.empty()) throw StartupError(name + " needs a value");
      *target = text;
    });
  }
  template <class Integer>
  void Whole(const char* names, const std::string& help, Integer* target, int64_t min,
             int64_t max) {
    Value(names, "<num>", help + DefaultText(static_cast<double>(*target)),
          [name = NameOf(names), target, min, max](const std::string& text) {
            *target = static_cast<Integer>(ParseWhole(name, text, min, max));
          });
  }
  void Real(const char* names, const std::string& help, double* target, const RealRange& range) {
    Value(names, "<num>", help + DefaultText(*target),
          [name = NameOf(names), target, range](const std::string& text) {
            *target = ParseReal(name, text, range);
          });
  }
  // A flag says `value` about its target; "--flag=false" takes back what a file said.
  void Flag(const char* names, const char* help, bool* target, bool value = true) {
    app_.add_flag_function(
            names, [=](int64_t count) { *target = (count > 0) == value; }, help)
        ->group(group_);
  }
  // Given more than once, or in several lines of a file, the texts add up; those of the command
  // line replace those of the file.
  // Beginnings of keys; several times.
  void Prefixes(const char* name, const char* help, std::vector<std::string>* prefixes);
  void List(const char* names, const char* value, const std::string& help,
            std::function<void(bool restart, const std::vector<std::string>&)> set) {
    app_.add_option_function<std::vector<std::string>>(
            names,
            [this, set = std::move(set)](const std::vector<std::string>& texts) {
              set(!in_file_, texts);
            },
            help)
        ->type_name(value)
        ->group(group_)
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }
  // A flag that is accepted without effect, and named in the warning about such options.
  void InertFlag(const char* names, const char* help, bool* target) {
    app_.add_flag_function(
            names,
            [this, name = NameOf(names), target](int64_t count) {
              *target = count > 0;
              if (*target) remarks_.inert.push_back(name);
            },
            help)
        ->group(group_);
  }
  void Refuse(const char* names, bool has_value, const char* why) {
    const auto refuse = [text = NameOf(names) + ": " + why] { throw StartupError(text); };
    if (has_value) {
      Value(names, "<value>", "", [refuse](const std::string&) { refuse(); });
    } else {
      app_.add_flag_function(names, [refuse](int64_t) { refuse(); })->group(group_);
    }
  }
  void Print(const char* names, const char* help, std::function<std::string()> text) {
    app_.add_flag_function(
            names, [this, text = std::move(text)](int64_t) { print_ = text(); }, help)
        ->group(group_);
  }

  CLI::App app_;
  std::string group_;
  bool in_file_ = false;

  Options options_;
  OptionRemarks remarks_;
  std::vector<std::string> addresses_;  // of -l
  std::optional<std::string> print_;
  std::string config_path_;
};

void Parser::AddNetwork() {
  Group("Network");
  Whole("-p,--port", "TCP port to listen on; 0: off, -1: any free one", &options_.port, kAnyPort,
        65535);
  List("-l,--listen", "<addr>",
       "addresses to listen on (default: loopback only), such as\n"
       "127.0.0.1,[::1]:11212; also several times",
       [this](bool restart, const std::vector<std::string>& lists) {
         if (restart) addresses_.clear();
         for (const std::string& list : lists) {
           for (std::string& one : AddressesIn(list)) {
             ParseAddress(one, 0);  // here, a mistake is reported with the line of a file
             addresses_.push_back(std::move(one));
           }
         }
       });
  Value("-s,--unix-socket", "<file>", "UNIX socket to listen on; turns TCP off unless -l is given",
        [this](const std::string& path) {
          if (path.empty() || path.size() > kUnixPathBytesMax) {
            throw StartupError("-s needs a path of 1 to " + std::to_string(kUnixPathBytesMax) +
                               " bytes, not " + Quoted(path));
          }
          options_.unix_path = path;
        });
  Value("-a,--unix-mask", "<mask>", "access mask for UNIX socket, in octal (default: 700)",
        [this](const std::string& text) { options_.unix_mask = ParseOctal("-a", text, 0777); });
  Whole("-b,--listen-backlog", "connections that may wait to be accepted", &options_.backlog, 0,
        kInt32Max);
  Value("-B,--protocol", "<name>", "ascii, binary, or auto (default: auto)",
        [this](const std::string& name) {
          if (name != "auto" && name != "ascii" && name != "binary") {
            throw StartupError("-B needs auto, ascii or binary, not " + Quoted(name));
          }
          options_.wire = name == "auto"    ? WireChoice::kAuto
                          : name == "ascii" ? WireChoice::kText
                                            : WireChoice::kBinary;
        });
}

void Parser::AddSecurity() {
  Group("Encryption and authentication");
  Flag("-Z,--enable-ssl",
       "TLS on all TCP addresses but those after notls:; needs\n"
       "-o ssl_chain_cert",
       &options_.tls.enabled);
  Text("-Y,--auth-file", "<file>",
       "clients must give a user and a password of this file,\n"
       "which has lines of user:password; ascii protocol\n"
       "only, unless -S is given",
       &options_.auth_file);
  Flag("-S,--enable-sasl",
       "the same for the binary protocol, by SASL PLAIN;\n"
       "needs -Y",
       &options_.sasl);
}

void Parser::AddCluster() {
  Group("Cluster");
  ClusterOptions& cluster = options_.cluster;
  Text("--cluster", "<name>",
       "be a node of this cluster; needs --etcd, --node and\n"
       "--secret-file",
       &cluster.name);
  Text("--etcd", "<list>", "host:port of the members of etcd", &cluster.etcd);
  Text("--node", "<addr>", "host:port at which clients and nodes reach this one", &cluster.node);
  Value("--inner-port", "<num>", "port for other nodes (default: that of --node + 10000)",
        [&cluster](const std::string& text) {
          cluster.inner_port = static_cast<uint16_t>(ParseWhole("--inner-port", text, 1, 65535));
        });
  Text("--secret-file", "<file>", "what all nodes of the cluster know, 16 bytes or more",
       &cluster.secret_file);
  Value("--cluster-slabs", "<num>", "slabs of a new cluster, a power of two (default: 256)",
        [&cluster](const std::string& text) {
          const int64_t slabs = ParseWhole("--cluster-slabs", text, 1, cluster::kSlabsMax);
          if (!std::has_single_bit(static_cast<uint64_t>(slabs))) {
            throw StartupError("--cluster-slabs needs a power of two, not " + Quoted(text));
          }
          cluster.slabs = static_cast<unsigned>(slabs);
        });
  Flag("--wait-for-etcd", "wait until etcd can be reached", &cluster.wait_for_etcd);
}

void Parser::CheckCluster() {
  ClusterOptions& cluster = options_.cluster;
  if (cluster.name.empty()) {
    if (!cluster.etcd.empty() || !cluster.node.empty() || !cluster.secret_file.empty()) {
      throw StartupError("--etcd, --node and --secret-file need --cluster NAME");
    }
    return;
  }
  if (!cluster::IsClusterName(cluster.name)) {
    throw StartupError("--cluster needs a name of letters, digits, - _ and ., not " +
                       Quoted(cluster.name));
  }
  if (!cluster::ParseEndpoints(cluster.etcd)) {
    throw StartupError("--cluster needs --etcd HOST:PORT[,HOST:PORT...]");
  }
  const auto node = cluster::ParseEndpoints(cluster.node);
  if (!node || node->size() != 1 || !cluster::IsClusterName(cluster.node)) {
    throw StartupError("--cluster needs --node HOST:PORT, an address that clients can reach");
  }
  if (cluster.secret_file.empty()) throw StartupError("--cluster needs --secret-file FILE");
  cluster.inner_host = (*node)[0].host;
  const unsigned inner = cluster.inner_port != 0 ? cluster.inner_port : (*node)[0].port + 10000u;
  if (inner > 65535) throw StartupError("--node has a large port: give --inner-port as well");
  cluster.inner_port = static_cast<uint16_t>(inner);
  if (!options_.auth_file.empty()) {
    throw StartupError("--cluster and -Y do not go together yet");
  }
}

void Parser::AddProcess() {
  Group("Process");
  Text("--config", "<file>",
       "read options from a file, one per line, as Debian's\n"
       "memcached.conf; what is given here wins",
       &config_path_);
  Flag("-d,--daemon", "run as a daemon", &options_.daemonize);
  Text("-u,--user", "<user>", "assume identity of <user> (only when run as root)", &options_.user);
  Text("-P,--pidfile", "<file>", "save PID in <file>", &options_.pid_file);
  Flag("-r,--enable-coredumps", "maximize core file limit", &options_.core_dumps);
  app_.add_flag_function(
          "-v,--verbose",
          [this](int64_t count) {
            options_.verbosity = static_cast<int>((in_file_ ? options_.verbosity : 0) + count);
          },
          "log errors; -vv: also connections and commands;\n"
          "-vvv: also the states of connections")
      ->group(group_);
}

void Parser::AddMemory() {
  Group("Memory");
  kbf::StoreConfig& store = options_.store;
  Value("-m,--memory-limit", "<num>",
        "megabytes for everything: items, filters, values\n"
        "(default: " +
            std::to_string(store.memory_bytes >> 20) + ")",
        [&store](const std::string& text) {
          const int64_t megabytes =
              ParseWhole("-m", text, kMemoryMegabytesMin, kMemoryMegabytesMax, " of megabytes");
          store.memory_bytes = static_cast<uint64_t>(megabytes) << 20;
        });
  Flag("-M,--disable-evictions", "return error on memory exhausted instead of evicting",
       &store.evictions, false);
  Value("-I,--max-item-size", "<num>",
        "adjusts max item size (default: 1m, min: 1k,\n"
        "max: 1024m, half of -m, and half of what the buffers\n"
        "of connections may take: see read_buf_mem_limit)",
        [&store](const std::string& text) {
          store.item_bytes_max = static_cast<uint32_t>(ParseBytes("-I", text, 1 << 10, 1 << 30));
        });
  Flag("-C,--disable-cas", "disable use of CAS; saves 8 bytes per item", &store.keep_cas, false);
  Flag("-k,--lock-memory", "lock down all paged memory", &options_.lock_memory);
  InertFlag("-L,--enable-largepages", "ask for large memory pages (the filters always do)",
            &options_.large_pages);
}

void Parser::AddLimits() {
  Group("Limits");
  Whole("-c,--conn-limit", "max simultaneous connections", &options_.connections_max, 1, kInt32Max);
  Whole("-t,--threads", "number of threads to use", &options_.threads, 1, kThreadsMax);
  Whole("-R,--max-reqs-per-event", "requests of one connection in a row while others\nwait",
        &options_.requests_per_event, 1, kInt32Max);
  Value("--io-uring", "<mode>",
        "auto: one system call for the reads and one for the\n"
        "writes of all connections that are ready, where\n"
        "the system allows it; off: one each (default: auto)",
        [this](const std::string& mode) {
          if (mode != "auto" && mode != "off") {
            throw StartupError("--io-uring needs auto or off, not " + Quoted(mode));
          }
          options_.io_uring = mode == "auto";
        });
}

void Parser::Prefixes(const char* name, const char* help, std::vector<std::string>* prefixes) {
  List(name, "<text>", help, [name, prefixes](bool restart, const std::vector<std::string>& given) {
    if (restart) prefixes->clear();
    for (const std::string& prefix : given) {
      const bool blank = std::any_of(prefix.begin(), prefix.end(), [](char c) {
        return static_cast<unsigned char>(c) <= ' ' || c == 127;
      });
      if (prefix.empty() || prefix.size() > kbf::kKeyBytesMax || blank) {
        throw StartupError(std::string(name) + " needs the beginning of a key, not " +
                           Quoted(prefix));
      }
      prefixes->push_back(prefix);
    }
    if (prefixes->size() > kPrefixesMax) {
      throw StartupError(std::string(name) + " can be given " + std::to_string(kPrefixesMax) +
                         " times at most");
    }
  });
}

void Parser::AddStore() {
  Group("Approximate store");
  kbf::StoreConfig& store = options_.store;
  Value("--engine", "<name>", "what keeps cold items: kbf or packed (default: kbf)",
        [this](const std::string& name) {
          if (name != "kbf" && name != "packed") {
            throw StartupError("--engine needs kbf or packed, not " + Quoted(name));
          }
          options_.engine = name;
          options_.store.engine =
              name == "packed" ? kbf::EngineKind::kPacked : kbf::EngineKind::kKbf;
        });
  Real("--false-negative", "chance that a cold key is not found", &store.false_negative,
       {0, 1, true});
  Real("--false-positive", "chance that a key nobody stored is found", &store.false_positive,
       {0, 1, true});
  Value("--distinct-values", "<num|auto>",
        "values that repeat, which cold keys may have;\nauto: with kbf as many as there are, with "
        "packed\n3000 (default: auto)",
        [&store](const std::string& text) {
          store.distinct_values =
              text == "auto"
                  ? 0
                  : static_cast<uint64_t>(ParseWhole("--distinct-values", text, 1,
                                                     std::numeric_limits<int64_t>::max()));
        });
  Real("--exact-share",
       "nothing is approximate while everything takes less\nthan this part of the memory",
       &store.exact_share, {0, 1});
  Real("--front-share", "part of the memory for items that are exact", &store.front_share, {0, 1});
  Prefixes("--exact-prefix", "keys that begin so are always exact; several times",
           &store.exact_prefixes);
  Prefixes("--approximate-prefix", "only keys that begin so are ever approximate; several\ntimes",
           &store.approximate_prefixes);
  Value("--slabs", "<num>", "parts with a lock each, a power of two (default: by -m)",
        [&store](const std::string& text) {
          const int64_t slabs = ParseWhole("--slabs", text, 0, kbf::kSlabsMax);
          if (slabs != 0 && !std::has_single_bit(static_cast<uint64_t>(slabs))) {
            throw StartupError("--slabs needs a power of two, not " + Quoted(text));
          }
          store.num_slabs = static_cast<unsigned>(slabs);
        });
}

void Parser::AddSnapshot() {
  Group("Restart");
  SnapshotOptions& snapshot = options_.snapshot;
  Text("-e,--snapshot,--memory-file", "<file>",
       "write everything to <file> when stopped by SIGTERM,\n"
       "SIGUSR1 or \"shutdown graceful\", and read it at the\n"
       "next start, which removes it",
       &snapshot.path);
  Flag("--accept-stale",
       "read it after a crash as well: what was deleted or\n"
       "replaced since it was written comes back",
       &snapshot.accept_stale);
  Whole("--snapshot-interval", "write it every so many seconds, too;\nneeds --accept-stale; 0: no",
        &snapshot.interval_s, 0, kInt32Max);
  Value("--warm-from", "<addr>",
        "take over the items of the server at host:port, a\n"
        "memcached or the exact part of a kbfcached, while\n"
        "serving; what clients say here wins",
        [this](const std::string& text) {
          const std::optional<ListenAddress> source = SourceIn(text);
          if (!source) {
            throw StartupError("--warm-from needs a host and a port, such as 10.0.0.5:11211, not " +
                               Quoted(text));
          }
          options_.warm.host = source->host;
          options_.warm.port = source->port;
        });
  Whole("--warm-rate", "items a second that are asked for then", &options_.warm.rate, 1, kInt32Max);
}

void Parser::AddCommands() {
  Group("Commands");
  Flag("-A,--enable-shutdown", "enable ascii \"shutdown\" command", &options_.enable_shutdown);
  Flag("-F,--disable-flush-all", "disable flush_all command", &options_.disable_flush);
  Flag("-X,--disable-dumping", "refuse the commands that list keys", &options_.disable_dumping);
  InertFlag("-W,--disable-watch", "disable watch commands (there are none)",
            &options_.disable_watch);
  Value("-D", "<char>",
        "delimiter of key prefixes for \"stats detail\"\n"
        "(default: \":\"); turns these statistics on",
        [this](const std::string& text) {
          if (text.size() != 1) {
            throw StartupError("-D needs one character, not " + Quoted(text));
          }
          options_.prefix_delimiter = text[0];
          options_.stats_detail = true;
        });
}

void Parser::AddExtended() {
  Group("Extended");
  List("-o,--extended", "<list>",
       "comma separated list of:\n"
       "- maxconns_fast: close connections over the limit\n"
       "  at once (default; no_maxconns_fast: let them wait)\n"
       "- idle_timeout: seconds after which an idle\n"
       "  connection is closed (default: 0, never)\n"
       "- read_buf_mem_limit: megabytes for the buffers of\n"
       "  all connections, at least twice -I (default: 0, a\n"
       "  sixteenth of -m and at least 16; 16 more with -Z)\n"
       "- ssl_chain_cert: certificates of the server, PEM\n"
       "- ssl_key: its private key, if it is not there too\n"
       "- ssl_keyformat: of the key, PEM or DER\n"
       "- ssl_verify_mode: certificates of clients: 0 none,\n"
       "  1 if they have one, 2 needed, 3 needed once\n"
       "- ssl_ca_cert: who may issue those, PEM\n"
       "- ssl_ciphers: ciphers of TLS 1.2\n"
       "- ssl_session_cache: let clients resume sessions\n"
       "- ssl_min_version: 2 TLS 1.2, 3 TLS 1.3 (default: 2)",
       [this](bool, const std::vector<std::string>& lists) {
         for (const std::string& list : lists) ApplyOptionList(list, &options_, &remarks_);
       });
}

void Parser::AddInformation() {
  Group("Information");
  Print("-h,--help", "print this help and exit", [this] { return HelpText(app_); });
  Print("-V,--version", "print version and exit", [] { return VersionText() + "\n"; });
  Print("-i,--license", "print the license and exit",
        [] { return VersionText() + "\n\n" + kLicense; });
}

void Parser::AddUnadvertised() {
  Group("");
  InertSettings& inert = options_.inert;
  Value("-f,--slab-growth-factor", "<num>", "", [&](const std::string& text) {
    inert.growth_factor = ParseReal("-f", text, {1, 1e9, true});
    remarks_.inert.push_back("-f");
  });
  Value("-n,--slab-min-size", "<num>", "", [&](const std::string& text) {
    inert.chunk_size = static_cast<uint32_t>(ParseWhole("-n", text, 1, kInt32Max));
    remarks_.inert.push_back("-n");
  });
  Value("-N,--napi_ids", "<num>", "", [&](const std::string& text) {
    inert.num_napi_ids = static_cast<uint32_t>(ParseWhole("-N", text, 1, kInt32Max));
    remarks_.inert.push_back("-N");
  });
  Value("-U,--udp-port", "<num>", "", [this](const std::string& text) {
    if (ParseWhole("-U", text, 0, 65535) == 0) return;
    remarks_.warnings.push_back("-U " + text + ": UDP is not supported; going on without it");
  });
}

// The flags before the '=' of a word, such as "--help" of "--help=foo" and "-vv" of "-vv=2"; empty
// where what stands there takes a value, or is unknown.
std::string_view Parser::FlagsBeforeValue(std::string_view word) const {
  const std::string_view name = word.substr(0, word.find('='));
  if (name.size() == word.size() || name.size() < 2 || !name.starts_with('-')) return {};
  const auto is_flag = [this](const std::string& one) {
    const CLI::Option* option = app_.get_option_no_throw(one);
    return option != nullptr && option->get_items_expected_max() == 0;
  };
  if (name.starts_with("--")) return is_flag(std::string(name)) ? name : std::string_view();
  for (const char letter : name.substr(1)) {
    if (!is_flag({'-', letter})) return {};
  }
  return name;
}

// CLI11 reads the foo of "--help=foo" as a count, and "-h=foo" as -h, -=, -f and so on: its errors
// do not tell what is wrong. Only "--flag=false" means something: it takes back what a file said.
void Parser::RefuseFlagValues(const std::vector<std::string>& words) const {
  for (const std::string& word : words) {
    const std::string flags(FlagsBeforeValue(word));
    if (flags.empty()) continue;
    const std::string value = word.substr(flags.size() + 1);
    if (flags.starts_with("--") && (value == "true" || value == "false")) continue;
    throw StartupError(flags + " takes no value: leave out " + Quoted("=" + value));
  }
}

void Parser::Apply(std::vector<std::string> words) {
  RefuseFlagValues(words);
  std::reverse(words.begin(), words.end());  // as CLI11 wants them
  try {
    app_.parse(std::move(words));
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string_view text = error.what();  // begins with the option's name
    throw StartupError(std::string(text.substr(0, text.find(':'))) + " needs a value");
  } catch (const CLI::Error& error) {
    throw StartupError(error.what());
  }
  for (const std::string& word : app_.remaining()) {
    if (word.starts_with('-') && word != "-" && word != "--") {
      throw StartupError("unknown option " + Quoted(word) + ": see kbfcached -h");
    }
    // memcached ignores such words.
    remarks_.warnings.push_back(Quoted(word) + " is not an option and is ignored");
  }
}

// "200m", as -I takes it.
std::string BytesText(uint64_t bytes) {
  if (bytes % (1 << 20) == 0) return std::to_string(bytes >> 20) + "m";
  if (bytes % (1 << 10) == 0) return std::to_string(bytes >> 10) + "k";
  return std::to_string(bytes);
}

// The largest request must fit into the buffers of connections, or it would be accepted here and
// refused when it arrives.
void CheckBuffers(const Options& options) {
  const uint64_t item_bytes = options.store.item_bytes_max;
  const uint64_t given = options.read_buffer_bytes_max;
  const uint64_t buffer_bytes = given != 0 ? given : DefaultBufferBytes(options.store.memory_bytes);
  if (item_bytes <= buffer_bytes / 2) return;
  const uint64_t needed_mb = ((2 * item_bytes - 1) >> 20) + 1;
  const std::string needed = std::to_string(needed_mb);
  const std::string limit = "-o read_buf_mem_limit=";
  const std::string has = std::to_string(buffer_bytes >> 20);
  const std::string advice = limit + needed + " or a smaller -I";
  throw StartupError("-I " + BytesText(item_bytes) + " needs " + needed +
                     " MB for the buffers of connections, " +
                     (given != 0 ? "and " + limit + has + " gives them less: give " + advice
                                 : "and -m " + std::to_string(options.store.memory_bytes >> 20) +
                                       " gives them " + has + ": give -m " +
                                       std::to_string(needed_mb * 16) + " or more, " + advice));
}

// In memcached the limit is for something else, so that old configurations give less than items of
// the usual size need here. They get what they need; where -I was raised, the limits must fit.
void Parser::RaiseTooSmallBuffers() {
  constexpr uint64_t kNeeded = 2 * kUsualItemBytes;
  uint64_t& given = options_.read_buffer_bytes_max;
  if (given == 0 || given >= kNeeded || options_.store.item_bytes_max != kUsualItemBytes) return;
  remarks_.warnings.push_back("-o read_buf_mem_limit=" + std::to_string(given >> 20) +
                              " is too little for items of " + BytesText(kUsualItemBytes) +
                              " (-I); going on with " + std::to_string(kNeeded >> 20));
  given = kNeeded;
}

void CheckSnapshot(const SnapshotOptions& snapshot) {
  if (snapshot.path.empty() && (snapshot.accept_stale || snapshot.interval_s > 0)) {
    throw StartupError("--accept-stale and --snapshot-interval need a file: give --snapshot FILE");
  }
  if (snapshot.interval_s > 0 && !snapshot.accept_stale) {
    throw StartupError(
        "--snapshot-interval is of use only with --accept-stale: without it, nothing but the file "
        "of a stop in order is read");
  }
}

// Who may talk to the server, and how.
void Parser::CheckSecurity() {
  if (options_.tls.enabled && options_.port == 0) {
    throw StartupError("-Z encrypts TCP connections, and -p 0 turns TCP off: give -p a port");
  }
  if (options_.tls.enabled && !options_.wants_tcp()) {
    remarks_.warnings.push_back("-Z encrypts nothing: a unix socket alone has no TLS");
  }
  CheckTlsOptions(options_.tls);
  if (options_.sasl && options_.auth_file.empty()) {
    throw StartupError("-S needs users and passwords: give -Y FILE as well");
  }
  if (options_.sasl && options_.wire == WireChoice::kText) {
    throw StartupError("-S is for the binary protocol, and -B ascii turns it off: leave one out");
  }
  if (options_.auth_file.empty() || options_.sasl) return;
  if (options_.wire == WireChoice::kBinary) {
    throw StartupError("-Y is for the ascii protocol: give -S as well for -B binary");
  }
  // The binary protocol would be a way in without a password.
  options_.wire = WireChoice::kText;
}

// Idle connections are closed when all of them together take too much: better to say so now.
void Parser::WarnOfIdleTls() {
  if (!options_.tls.enabled) return;
  const uint64_t idle_mb = ((options_.connections_max * kTlsIdleBytes - 1) >> 20) + 1;
  const uint64_t limit_mb = options_.read_buffer_bytes_max >> 20;
  if (idle_mb <= limit_mb / 2) return;
  const std::string connections = std::to_string(options_.connections_max);
  remarks_.warnings.push_back(
      "-c " + connections + " with -Z: " + connections + " idle TLS connections take " +
      std::to_string(idle_mb) + " MB, more than half of what connections may have (" +
      std::to_string(limit_mb) + "), and some may be closed; -o read_buf_mem_limit=" +
      std::to_string(2 * idle_mb) + " keeps them");
}

// Limits that no option can check alone.
void Parser::CheckTogether() const {
  const kbf::StoreConfig& store = options_.store;
  if (store.item_bytes_max > store.memory_bytes / 2) {
    throw StartupError("-I must not be more than half of -m: give -m " +
                       std::to_string((uint64_t{store.item_bytes_max} * 2 - 1) / (1 << 20) + 1) +
                       " or more, or a smaller -I");
  }
  CheckBuffers(options_);
  CheckSnapshot(options_.snapshot);
  if (!options_.cluster.name.empty() &&
      (!options_.snapshot.path.empty() || !options_.warm.host.empty())) {
    throw StartupError("--snapshot and --warm-from do not work with --cluster yet");
  }
  if (options_.inert.hot_lru_percent + options_.inert.warm_lru_percent > 80) {
    throw StartupError("-o hot_lru_pct and -o warm_lru_pct must not be more than 80 together");
  }
  if (!options_.wants_tcp() && options_.unix_path.empty()) {
    throw StartupError("nothing to listen on: give -p a port or -s a path");
  }
}

void Parser::ResolveAddresses() {
  options_.listen_given = !addresses_.empty();
  const auto port = static_cast<uint16_t>(std::max(options_.port, 0));
  for (const std::string& text : addresses_) {
    options_.listen.push_back(ParseAddress(text, port));
    options_.listen_text += (options_.listen_text.empty() ? "" : ",") + text;
    const std::string& host = options_.listen.back().host;
    if (options_.port != 0 && options_.auth_file.empty() &&
        (host == "0.0.0.0" || host == "::" || host == "*")) {
      remarks_.warnings.push_back("-l " + text +
                                  ": every host that reaches this one can read and change the "
                                  "cache; keep a firewall in front");
    }
  }
}

ParsedOptions Parser::Finish() {
  ResolveAddresses();
  RaiseTooSmallBuffers();
  CheckTogether();
  CheckSecurity();
  CheckCluster();
  if (options_.read_buffer_bytes_max == 0) {
    options_.read_buffer_bytes_max = DefaultBufferBytes(options_.store.memory_bytes);
    if (options_.tls.enabled) {
      options_.read_buffer_bytes_max += DefaultTlsBytes(options_.connections_max);
    }
  }
  WarnOfIdleTls();
  if (options_.threads > kThreadsUsual) {
    remarks_.warnings.push_back("-t " + std::to_string(options_.threads) +
                                " is high; as many threads as cores are enough");
  }
  if (!remarks_.inert.empty()) {
    std::string names;
    std::vector<std::string>& inert = remarks_.inert;
    for (auto name = inert.begin(); name != inert.end(); ++name) {
      if (std::find(inert.begin(), name, *name) != name) continue;  // a file may have said it too
      names += (names.empty() ? "" : ", ") + *name;
    }
    remarks_.warnings.push_back("accepted without effect: " + names);
  }
  return {std::move(options_), std::nullopt, std::move(remarks_.warnings)};
}

// The file's options, then those of the command line over them.
ParsedOptions ParseWithFile(const std::string& path, const std::vector<std::string>& words) {
  Parser parser;
  const std::string text = ReadConfigFile(path);
  for (ConfigLine& line : ParseConfig(text, path, parser.warnings())) {
    try {
      parser.ParseFileLine(std::move(line.words));
    } catch (const StartupError& error) {
      throw StartupError(path + ":" + std::to_string(line.number) + ": " + error.what());
    }
  }
  parser.ParseCommandLine(words);
  return parser.Finish();
}

}  // namespace

ParsedOptions ParseOptions(int argc, const char* const* argv) {
  const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  Parser parser;
  parser.ParseCommandLine(words);
  if (parser.print()) return {{}, parser.print(), {}};
  if (!parser.config_path().empty()) return ParseWithFile(parser.config_path(), words);
  return parser.Finish();
}

}  // namespace server
