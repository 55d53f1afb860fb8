// kbfload: the Facebook workload for any memcached server, with every answer checked. This file
// reads the command line; tools/kbfload/commands.h has what the commands do, and the exit codes.
//
// Short options are those that mean the same to memcached (-c, -t), and -q and -h. What memcached
// or another load generator understands differently has a long name only: `-p 11311` must not
// become a pipeline for the server on the default port.

#include <CLI/CLI.hpp>
#include <charconv>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "config.h"
#include "tools/kbfload/commands.h"
#include "tools/wrong_call.h"

namespace {

using load::Settings;

const CLI::Validator kCount = tools::Count();
const CLI::Validator kWhole32 = tools::Whole(0, UINT32_MAX);
const CLI::Validator kWhole53 = tools::Whole(0, 0x1p53);

// Short options that are refused, with what to say instead.
struct Misread {
  const char* name;
  const char* instead;
};
constexpr Misread kMisread[] = {
    {"-p", "use HOST:PORT for the server, --pipeline for the pipeline"},
    {"-s", "use unix:/PATH or HOST:PORT for the server, --seconds for the time"},
    {"-n", "use --ops for the number of operations, --multiget for the keys in a get"},
    {"-k", "use --keys for the number of keys"},
    {"-v", "use --values for the number of values"},
};

// They take what follows them, so that it is not read as the server.
void RefuseMisread(CLI::App* app) {
  for (const Misread& misread : kMisread) {
    const auto refuse = [misread](const CLI::results_t&) -> bool {
      throw std::invalid_argument(std::string(misread.name) + " is ambiguous: " + misread.instead);
    };
    app->add_option(misread.name, refuse, "")->expected(0, 1)->group("");
  }
}

void AddOutput(CLI::App* app, Settings* settings) {
  app->add_option("--json", settings->json_file, "write all results to this file ('-': stdout)")
      ->group("Output");
  app->add_flag("-q,--quiet", settings->quiet, "no progress line")->group("Output");
  app->add_flag("!--no-histogram", settings->histogram, "do not draw the latencies")
      ->group("Output");
  app->add_flag("--strict", settings->strict, "exit with 3 if any answer was wrong")
      ->group("Output");
}

void AddServer(CLI::App* app, Settings* settings, int servers) {
  app->add_option("server", settings->servers, "host:port, [v6]:port, tls:host:port or unix:/path")
      ->expected(servers == 2 ? 2 : 0, servers)
      ->required(servers == 2);
  app->add_option("--timeout", settings->load.timeout_s,
                  "seconds without an answer before giving up")
      ->check(tools::Real(0.01, 3600.0));
}

// `lists`: several numbers, separated by commas (sweep).
void AddLoad(CLI::App* app, Settings* settings, bool lists) {
  const std::map<std::string, protocol::Wire> wires = {{"text", protocol::Wire::kText},
                                                       {"binary", protocol::Wire::kBinary},
                                                       {"meta", protocol::Wire::kMeta}};
  const auto set_wire = [wires, settings](const std::string& name) {
    const auto found = wires.find(name);
    if (found == wires.end()) {
      throw CLI::ValidationError("--protocol needs text, binary or meta, not '" + name + "'");
    }
    settings->wire = found->second;
  };
  app->add_option_function<std::string>("--protocol", set_wire, "text, binary or meta")
      ->type_name("text|binary|meta")
      ->default_str("text")
      ->group("Load");
  const auto number = [&](const char* name, std::vector<unsigned>* list, const char* what,
                          unsigned max) {
    auto* const option = app->add_option(name, *list, what)->check(tools::Whole(1, max));
    option->group("Load")->expected(1, lists ? 100 : 1)->delimiter(',');
  };
  number("-c,--connections", &settings->connections, "connections, over all threads", 100000);
  number("--pipeline", &settings->pipeline, "requests that are sent at once", 100000);
  number("--multiget", &settings->multiget, "keys in a get", 10000);
  app->add_option("-t,--threads", settings->load.threads, "threads")
      ->check(tools::Whole(1, 1024u))
      ->group("Load");
}

load::Ttl ParseTtl(const std::string& text) {
  load::Ttl ttl;
  const char* const end = text.data() + text.size();
  auto read = std::from_chars(text.data(), end, ttl.low_s);
  ttl.high_s = ttl.low_s;
  if (read.ec == std::errc() && read.ptr != end && *read.ptr == '-') {
    read = std::from_chars(read.ptr + 1, end, ttl.high_s);
  }
  if (read.ec != std::errc() || read.ptr != end || ttl.low_s > ttl.high_s) {
    throw CLI::ValidationError(
        "--ttl needs a whole number of seconds, or a range such as 10-60, not '" + text + "'");
  }
  return ttl;
}

void AddWorkload(CLI::App* app, Settings* settings) {
  load::WorkloadOptions& work = settings->workload;
  const auto add = [app](const char* name, auto* value, const char* what) {
    return app->add_option(name, *value, what)->group("Workload");
  };
  add("--seed", &work.seed, "all randomness follows from it")->check(kWhole53);
  add("--keys", &work.keys, "how many keys there are")->transform(kCount);
  add("--key-size", &work.key_size, "etc (ETC's distribution), N, A-B or A~B bytes");
  add("--value-size", &work.value_size,
      "etc, tiny (ETC's below 15 bytes), json (sessions), N, A-B or A~B bytes");
  add("--value-max", &work.value_bytes_max, "longer values are drawn as this")
      ->transform(kCount)
      ->check(tools::Whole(0, load::kValueBytesLimit));
  add("--values", &work.values, "distinct values; 0: every key has its own")->transform(kCount);
  add("--value-zipf", &work.value_zipf, "Zipf exponent of the values' popularity; 0: uniform")
      ->check(tools::Real(0.0, 10.0));
  add("--generation", &work.generation, "another generation gives every key another value")
      ->check(kWhole32);
  add("--flags", &work.flags, "client flags that are stored, and checked")->check(kWhole32);
  const auto set_ttl = [settings](const std::string& text) { settings->ttl = ParseTtl(text); };
  app->add_option_function<std::string>(
         "--ttl", set_ttl, "seconds that sets give their keys to live, N or A-B; 0: for ever")
      ->group("Workload");
  add("--keys-file", &settings->keys_file, "keys from this file, one a line");
}

void AddForce(CLI::App* app, Settings* settings) {
  app->add_flag("--force", settings->force, "fill a server that holds items of others")
      ->group("Workload");
}

void AddOps(CLI::App* app, Settings* settings, const char* what) {
  app->add_option("--ops", settings->ops, what)->transform(kCount)->group("Mix");
}

void AddMix(CLI::App* app, Settings* settings, std::string* mix) {
  const auto add = [app](const char* name, auto* value, const char* what) {
    return app->add_option(name, *value, what)->group("Mix");
  };
  add("--mix", mix, "shares of get:set:delete")->capture_default_str();
  add("--zipf", &settings->mix.zipf, "Zipf exponent of the keys' popularity; 0: uniform")
      ->check(tools::Real(0.0, 10.0));
  add("--absent", &settings->mix.absent_asked, "share of gets that ask for keys nobody stored")
      ->check(tools::Real(0.0, 1.0));
  add("--scan", &settings->mix.scan, "share of gets that walk over all keys in turn")
      ->check(tools::Real(0.0, 1.0));
  add("--moves-every", &settings->mix.moves_every,
      "the hot set moves by one key after so many operations; 0: never")
      ->transform(kCount);
  add("--pass", &settings->mix.pass, "another pass draws other keys by the same rules")
      ->check(kWhole32);
  app->add_flag("--read-through", settings->read_through, "set every key that a get missed")
      ->group("Mix");
  add("--seconds", &settings->load.seconds, "how long, where --ops or --trace do not end it")
      ->check(tools::Real(0.01, 1e6));
  app->add_flag("--fill", settings->fill_first, "store all keys first")->group("Mix");
  AddForce(app, settings);
  add("--warmup", &settings->warmup_s, "seconds of the same mix that are not counted")
      ->check(tools::Real(0.0, 1e6));
  AddOps(app, settings, "end after so many operations");
}

// What only a single piece of work has.
void AddRate(CLI::App* app, Settings* settings) {
  app->add_option("--rate", settings->load.rate,
                  "open loop: requests per second, over all connections")
      ->check(tools::Real(0.0, 1e9))
      ->group("Mix");
  app->add_option("--trace", settings->trace_file, "replay the requests of this file")
      ->group("Mix");
}

void AddCrush(CLI::App* app, Settings* settings) {
  app->add_option("--config", settings->crush_file, "the file; see the manual");
  app->add_option("--seconds", settings->load.seconds,
                  "how long, where --ops or stop_after does not end it")
      ->check(tools::Real(0.01, 1e6));
  AddOps(app, settings, "end each line after so many operations");
  app->add_option("-t,--threads", settings->load.threads, "threads of the lines without thread=")
      ->check(tools::Whole(1, 1024u));
}

struct Command {
  CLI::App* app;
  int (*run)(const Settings&);
};

std::vector<Command> AddCommands(CLI::App* app, Settings* settings, std::string* mix) {
  const auto command = [&](const char* name, const char* what, int servers) {
    CLI::App* const sub = app->add_subcommand(name, what);
    RefuseMisread(sub);  // first, so that their message comes before that of a missing server
    AddServer(sub, settings, servers);
    AddOutput(sub, settings);
    return sub;
  };

  CLI::App* const fill = command("fill", "store all keys", 1);
  CLI::App* const verify = command("verify", "ask for all keys, and as many absent keys", 1);
  CLI::App* const run = command("run", "a mix of requests for some time", 1);
  CLI::App* const sweep = command("sweep", "a table over connections, pipeline and multiget", 1);
  CLI::App* const compare = command("compare", "the same work for two servers in turn", 2);
  CLI::App* const crush = command("crush", "what a file in mc-crusher's form describes", 1);
  AddCrush(crush, settings);
  AddForce(fill, settings);
  for (CLI::App* const sub : {fill, verify, run, sweep, compare}) {
    AddLoad(sub, settings, sub == sweep);
    AddWorkload(sub, settings);
  }
  for (CLI::App* const sub : {run, sweep, compare}) {
    AddMix(sub, settings, mix);
  }
  for (CLI::App* const sub : {run, compare}) {
    AddRate(sub, settings);
  }
  compare->add_option("--rounds", settings->rounds, "turns of each server")
      ->check(tools::Whole(1, 1000u))
      ->group("Mix");
  return {{fill, load::Fill},   {verify, load::Verify},   {run, load::Run},
          {sweep, load::Sweep}, {compare, load::Compare}, {crush, load::Crush}};
}

int Dispatch(const std::vector<Command>& commands, Settings* settings, const std::string& mix) {
  settings->mix.mix = load::ParseMix(mix);
  settings->version = PACKAGE_VERSION;
  for (const Command& command : commands) {
    if (!command.app->parsed()) continue;
    if (command.app->get_name() == "crush" && settings->crush_file.empty()) {
      throw std::invalid_argument("crush needs --config FILE: docs/kbfload.md shows one");
    }
    // Work that ends by itself is not cut off, unless asked for.
    const bool ends = settings->ops > 0 || !settings->trace_file.empty();
    if (ends && command.app->count("--seconds") == 0) settings->load.seconds = 0;
    const CLI::Option* const seconds = command.app->get_option_no_throw("--seconds");
    settings->seconds_given = seconds != nullptr && seconds->count() > 0;
    return command.run(*settings);
  }
  return load::kBadSettings;
}

// CLI11 says how many of "server" are required; this says what to write.
int ExplainCall(const CLI::App& app, const CLI::ParseError& error) {
  const std::string command = tools::CommandOf(app).get_name();
  const bool is_about_servers = std::string_view(error.what()).starts_with("server");
  // An unknown option leaves its value behind, which looks like one more server.
  const std::string extra = tools::ExtraWord(app);
  if (is_about_servers && extra.starts_with("unknown option")) {
    return tools::PrintWrongCall(app, extra);
  }
  if (!is_about_servers) return tools::ExplainCall(app, error);
  std::fprintf(stderr, "kbfload: %s %s\n", command.c_str(),
               command == "compare" ? "needs two servers, as in: kbfload compare localhost:11211 "
                                      "localhost:11311"
                                    : "takes one server, as HOST:PORT or unix:/PATH");
  return load::kBadSettings;
}

void StopAtInterrupt() {
  struct sigaction action = {};
  action.sa_handler = [](int) { load::interrupted = true; };
  // The second one ends the program: the server may not answer any more.
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  std::setlocale(LC_CTYPE, "");
  Settings settings;
  settings.load.seconds = 10;
  std::string mix = "30:1:0.23";
  CLI::App app{"kbfload: the Facebook workload for any memcached server, with every answer checked",
               "kbfload"};
  app.option_defaults()->always_capture_default();
  app.set_version_flag("--version", std::string("kbfload ") + PACKAGE_VERSION);
  app.require_subcommand(1);
  const std::vector<Command> commands = AddCommands(&app, &settings, &mix);
  app.footer(
      "Examples:\n"
      "  kbfload fill localhost:11211 --keys 1M --pipeline 20\n"
      "  kbfload verify localhost:11211 --keys 1M --pipeline 20\n"
      "  kbfload run 127.0.0.1:11211 --fill --seconds 10 --json result.json\n"
      "  kbfload compare localhost:11211 localhost:11311 --fill --rounds 5 --seconds 2");
  if (const std::string wrong = tools::FirstWordError(app, argc, argv); !wrong.empty()) {
    std::fprintf(stderr, "kbfload: %s; see kbfload --help\n", wrong.c_str());
    return load::kBadSettings;
  }
  try {
    app.parse(argc, argv);
    StopAtInterrupt();
    const int code = Dispatch(commands, &settings, mix);
    // A full disk or a closed pipe must not look like success.
    if (std::fflush(stdout) != 0) {
      std::perror("kbfload: cannot write the result");
      return load::kBadSettings;
    }
    return code;
  } catch (const CLI::ParseError& error) {
    return ExplainCall(app, error);
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "kbfload: %s\n", error.what());
    return load::kBadSettings;
  }
}
