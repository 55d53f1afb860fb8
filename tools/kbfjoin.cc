// kbfjoin: a reduce-side join whose mappers drop the records that find no partner ([MPCBF] §V).
// This file reads the command line; tools/kbfjoin/ has what the commands do.

#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "config.h"
#include "storage/membership/maths.h"
#include "tools/files.h"
#include "tools/kbfjoin/filter_file.h"
#include "tools/kbfjoin/mapper.h"
#include "tools/wrong_call.h"

namespace {

using Count = unsigned long long;

constexpr size_t kLineBytesDefault = size_t{16} << 20;

struct Settings {
  std::vector<std::string> inputs;
  std::string separator = "\t";
  join::MapSettings map;
  size_t line_bytes_max = kLineBytesDefault;
  std::string filter_file;
  // build
  join::FilterSize size;
  uint64_t seed = 0;
  // map
  bool no_filter = false;
  bool counters = false;
  bool json = false;
};

// Calls visit(reader) for every input in turn; "-" is standard input.
template <class Visit>
void ForEachInput(const Settings& settings, Visit visit) {
  std::vector<std::string> inputs = settings.inputs;
  if (inputs.empty()) inputs.emplace_back("-");
  for (const std::string& input : inputs) {
    const bool is_stdin = input == "-";
    const int fd = is_stdin ? STDIN_FILENO : open(input.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) tools::ThrowFileError("cannot read " + input);
    join::LineReader reader(fd, is_stdin ? "standard input" : input, settings.line_bytes_max);
    visit(&reader);
    if (!is_stdin) close(fd);
  }
}

double FalsePositiveOf(const kbf::Mpcbf& filter) {
  return kbf::WordFalsePositive(filter.size(), filter.shape());
}

// ---- commands ----

void Build(const Settings& settings, bool seeded) {
  const kbf::HashSecret secret =
      seeded ? kbf::HashSecret::FromSeed(settings.seed) : kbf::HashSecret::Random();
  std::vector<kbf::KeyHash> hashes;
  uint64_t skipped = 0;
  // A list of keys is as good as records.
  join::RecordForm form = settings.map.form;
  form.bare_keys = true;
  ForEachInput(settings, [&](join::LineReader* reader) {
    join::ReadKeys(reader, secret, form, settings.map.skip_bad, &hashes, &skipped);
  });
  const uint64_t records = hashes.size();
  const kbf::Mpcbf filter = join::BuildFilter(&hashes, settings.size);
  join::WriteFilter(settings.filter_file, filter, secret);
  std::fprintf(stderr,
               "kbfjoin: %s holds %llu keys of %llu records in %llu bytes; it passes %.3g %% of "
               "the other keys\n",
               settings.filter_file.c_str(), static_cast<Count>(filter.size()),
               static_cast<Count>(records), static_cast<Count>(filter.memory_bytes()),
               100 * FalsePositiveOf(filter));
  if (skipped > 0) {
    std::fprintf(stderr, "kbfjoin: %llu bad lines were left out\n", static_cast<Count>(skipped));
  }
}

// As Hadoop Streaming reads them from standard error.
void PrintCounters(const join::MapCounts& counts) {
  const auto print = [](const char* name, uint64_t count) {
    std::fprintf(stderr, "reporter:counter:kbfjoin,%s,%llu\n", name, static_cast<Count>(count));
  };
  print("records read", counts.read);
  print("records passed", counts.passed);
  print("records dropped", counts.dropped);
  print("bad records left out", counts.skipped);
}

void Map(const Settings& settings) {
  std::optional<kbf::MpcbfImage> filter;
  if (!settings.no_filter) filter = join::ReadFilter(settings.filter_file);
  tools::Output output(STDOUT_FILENO, "standard output");
  join::MapCounts counts;
  ForEachInput(settings, [&](join::LineReader* reader) {
    const join::MapCounts more =
        join::Map(reader, filter ? &*filter : nullptr, settings.map, &output);
    counts.read += more.read;
    counts.passed += more.passed;
    counts.dropped += more.dropped;
    counts.skipped += more.skipped;
  });
  if (settings.counters) PrintCounters(counts);
}

void Info(const Settings& settings) {
  const kbf::MpcbfImage image = join::ReadFilter(settings.filter_file);
  const kbf::Mpcbf& filter = image.filter;
  const kbf::WordShape& shape = filter.shape();
  const double rate = FalsePositiveOf(filter);
  const double bits = 8 * static_cast<double>(filter.memory_bytes());
  const double bits_per_key = filter.size() > 0 ? bits / static_cast<double>(filter.size()) : 0;
  if (settings.json) {
    std::printf(
        "{\"keys\": %llu, \"bytes\": %llu, \"words\": %llu, \"first_level\": %u, "
        "\"num_hashes\": %u, \"num_accesses\": %u, \"stuck_words\": %llu, "
        "\"false_positive\": %.6g}\n",
        static_cast<Count>(filter.size()), static_cast<Count>(filter.memory_bytes()),
        static_cast<Count>(shape.words), shape.positions, shape.num_hashes, shape.num_accesses,
        static_cast<Count>(filter.stuck_words()), rate);
    return;
  }
  std::printf(
      "keys             %llu\n"
      "memory           %llu bytes, %.1f bits per key\n"
      "false positives  %.3g %% of the keys that are not in it\n"
      "layout           %llu words with %u positions, %u hash functions in %u words\n",
      static_cast<Count>(filter.size()), static_cast<Count>(filter.memory_bytes()), bits_per_key,
      100 * rate, static_cast<Count>(shape.words), shape.positions, shape.num_hashes,
      shape.num_accesses);
}

// ---- the command line ----

void AddRecords(CLI::App* app, Settings* settings) {
  const auto one_byte = [](const std::string& text) -> std::string {
    const bool good = text.size() == 1 && text[0] != '\n';
    return good ? "" : "needs one character, not '" + text + "'";
  };
  app->add_option("input", settings->inputs, "files to read; none, or '-': standard input");
  app->add_option("--field", settings->map.form.key_field, "the field that is the key, from 1")
      ->check(tools::Whole(1, 1000));
  app->add_option("--separator", settings->separator, "what separates fields")
      ->check(CLI::Validator(one_byte, "", ""))
      ->default_str("tab")
      ->type_name("CHARACTER");
  app->add_flag("--skip-bad", settings->map.skip_bad, "leave bad lines out, and count them");
  app->add_option("--line-max", settings->line_bytes_max, "bytes of the longest line")
      ->transform(tools::Count())
      ->check(tools::Whole(1, 0x1p40));
}

void AddFilterFile(CLI::App* app, Settings* settings, const char* what) {
  app->add_option("--filter", settings->filter_file, what)->type_name("FILE");
}

void AddBuild(CLI::App* app, Settings* settings) {
  AddFilterFile(app, settings, "the file to write");
  AddRecords(app, settings);
  join::FilterSize& size = settings->size;
  app->add_option("--false-positive", size.false_positive, "share of the other keys that may pass")
      ->check(tools::Real(1e-9, 0.99));
  app->add_option("--accesses", size.num_accesses, "words that a key uses; fewer are faster")
      ->check(tools::Whole(1, kbf::kWordHashesMax));
  app->add_option("--bits-per-key", size.bits_per_key, "memory, in place of --false-positive")
      ->check(tools::Real(1, 1024))
      ->default_str("");
  app->add_option("--hashes", size.num_hashes, "hash functions, with --bits-per-key")
      ->check(tools::Whole(1, kbf::kWordHashesMax))
      ->default_str("");
  app->add_option("--first-level", size.first_level,
                  "positions in a word of 64 bits, with --bits-per-key")
      ->check(tools::Whole(2, 63))
      ->default_str("");
  app->add_option("--seed", settings->seed, "makes the same file of the same keys again")
      ->check(tools::Whole(0, 0x1p53))
      ->default_str("");
}

void AddMap(CLI::App* app, Settings* settings) {
  AddFilterFile(app, settings, "the file that build wrote");
  app->add_flag("--no-filter", settings->no_filter, "pass all records");
  AddRecords(app, settings);
  app->add_option("--tag", settings->map.tag, "a word that is written behind the key");
  app->add_flag("--bare-keys", settings->map.form.bare_keys,
                "a line without a separator is a key without a value");
  app->add_flag("--counters", settings->counters,
                "say on standard error how many records passed, as Hadoop Streaming reads it");
}

// What CLI11 cannot know; empty where all is well.
std::string Contradiction(const CLI::App& command, const Settings& settings) {
  const std::string name = command.get_name();
  if (settings.filter_file.empty() && !settings.no_filter) return name + " needs --filter FILE";
  if (!settings.filter_file.empty() && settings.no_filter) {
    return "--filter and --no-filter contradict each other";
  }
  if (settings.map.tag.find_first_of("\t\n") != std::string::npos) {
    return "--tag needs a word without tab and newline";
  }
  if (name != "build") return {};
  const bool by_hand = settings.size.bits_per_key > 0;
  if (by_hand && command.count("--false-positive") > 0) {
    return "--false-positive and --bits-per-key contradict each other";
  }
  if (!by_hand && (settings.size.num_hashes > 0 || settings.size.first_level > 0)) {
    return "--hashes and --first-level need --bits-per-key";
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  // A reader that goes away and a limit of files are errors like a full disk.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  Settings settings;
  CLI::App app{"kbfjoin: a mapper that drops the records which find no partner in a join",
               "kbfjoin"};
  app.option_defaults()->always_capture_default();
  app.set_version_flag("--version", std::string("kbfjoin ") + PACKAGE_VERSION);
  app.require_subcommand(1);
  CLI::App* const build = app.add_subcommand("build", "make the filter from the smaller input");
  CLI::App* const map = app.add_subcommand("map", "pass the records whose key it may hold");
  CLI::App* const info = app.add_subcommand("info", "say what a filter holds");
  AddBuild(build, &settings);
  AddMap(map, &settings);
  AddFilterFile(info, &settings, "the file that build wrote");
  info->add_flag("--json", settings.json, "print JSON");
  app.footer(
      "Example:\n"
      "  kbfjoin build --filter small.mpcbf < small.tsv\n"
      "  { kbfjoin map --no-filter --tag 0 < small.tsv\n"
      "    kbfjoin map --filter small.mpcbf --tag 1 < large.tsv; } | sort | your-reducer");
  if (const std::string wrong = tools::FirstWordError(app, argc, argv); !wrong.empty()) {
    std::fprintf(stderr, "kbfjoin: %s; see kbfjoin --help\n", wrong.c_str());
    return 1;
  }
  try {
    app.parse(argc, argv);
    const CLI::App& command = tools::CommandOf(app);
    if (const std::string wrong = Contradiction(command, settings); !wrong.empty()) {
      return tools::PrintWrongCall(app, wrong);
    }
    settings.map.form.separator = settings.separator[0];
    if (build->parsed()) Build(settings, build->count("--seed") > 0);
    if (map->parsed()) Map(settings);
    if (info->parsed()) Info(settings);
  } catch (const CLI::ParseError& error) {
    return tools::ExplainCall(app, error);
  } catch (const tools::FileError& error) {
    std::fprintf(stderr, "kbfjoin: %s\n", error.what());
    return 1;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "kbfjoin: there is not enough memory\n");
    return 1;
  }
  // A full disk or a closed pipe must not look like success.
  if (std::fflush(stdout) != 0) {
    std::perror("kbfjoin: cannot write the result");
    return 1;
  }
  return 0;
}
