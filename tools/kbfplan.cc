// kbfplan: how much memory will N keys take? Prints what the planner (storage/planner.h) chooses
// for given error budgets, the runners-up, and the papers' own setting beside them; as a table, or
// as JSON for programs.
//
// Exit codes: 0 planned; 1 the numbers cannot be planned for (one line on stderr); CLI11's own for
// unknown options.

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config.h"
#include "storage/planner.h"

namespace {

using kbf::Plan;

constexpr size_t kRowsShown = 8;
constexpr double kPaperFalsePositive = 1e-3;  // the setting of the papers' experiments

// What is wrong with the user's numbers; main prints it.
struct InputError {
  std::string text;
};

struct Arguments {
  std::string keys = "1e6";
  std::string values = "3000";
  std::string false_negative = "2e-3";
  std::string false_positive = "2e-5";
  bool json = false;
};

// One line of the output, ours or the papers'.
struct Row {
  std::string layout;
  unsigned num_hashes;
  unsigned num_lines;
  double load;
  unsigned check_bits;
  double bytes_per_key;
  uint64_t total_bytes;
  double false_negative;
  double false_positive;
  unsigned memory_accesses;
  std::optional<uint64_t>
      values_max;  // the papers' dictionary has no limit that follows from the cell
  bool chosen = false;
};

// ---- reading numbers ----

double ParseNumber(std::string_view option, std::string_view text, bool suffixes) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, number);
  std::string_view rest(stop, static_cast<size_t>(end - stop));
  if (code == std::errc() && suffixes && rest.size() == 1) {
    // Powers of ten: these count things, not bytes.
    constexpr std::string_view kSuffixes = "kmgtKMGT";
    if (const size_t at = kSuffixes.find(rest[0]); at != std::string_view::npos) {
      number *= std::pow(1000.0, static_cast<double>(at % 4 + 1));
      rest = {};
    }
  }
  if (code != std::errc() || !rest.empty() || !std::isfinite(number)) {
    throw InputError{std::string(option) + " needs a number" +
                     (suffixes ? " such as 1000000, 1e9 or 10M" : " such as 2e-3") + ", not '" +
                     std::string(text) + "'"};
  }
  return number;
}

uint64_t ParseCount(std::string_view option, std::string_view text, uint64_t limit) {
  const double number = ParseNumber(option, text, true);
  // Limits are below 2^53, so a double that passes is an exact count.
  if (!(number >= 1 && number <= static_cast<double>(limit))) {
    throw InputError{std::string(option) + " must be between 1 and " + std::to_string(limit) +
                     ", not " + std::string(text)};
  }
  if (number != std::floor(number)) {
    throw InputError{std::string(option) + " must be a whole number, not " + std::string(text)};
  }
  return static_cast<uint64_t>(number);
}

// ---- the rows ----

uint64_t SizeOf(double bytes_per_key, uint64_t keys) {
  const kbf::SizeOutcome size = kbf::TotalBytes(bytes_per_key, keys);
  if (!size.bytes) throw InputError{size.error};
  return *size.bytes;
}

Row RowOf(const Plan& plan, uint64_t keys, bool chosen) {
  return {.layout = std::string(kbf::CellKindName(plan.layout.kind)),
          .num_hashes = plan.layout.num_hashes,
          .num_lines = plan.layout.num_lines,
          .load = plan.load,
          .check_bits = plan.layout.check_bits,
          .bytes_per_key = plan.bytes_per_key,
          .total_bytes = SizeOf(plan.bytes_per_key, keys),
          .false_negative = plan.predicted.false_negative,
          .false_positive = plan.predicted.false_positive,
          .memory_accesses = plan.memory_accesses,
          .values_max = plan.values_max,
          .chosen = chosen};
}

// The best few and, where it is not among them, the chosen one.
std::vector<Row> RowsOf(const std::vector<Plan>& choices, const Plan& chosen, uint64_t keys) {
  std::vector<Row> rows;
  for (const Plan& plan : choices) {
    const bool is_chosen = plan.layout == chosen.layout;
    if (rows.size() < kRowsShown || is_chosen) rows.push_back(RowOf(plan, keys, is_chosen));
  }
  return rows;
}

Row PaperRow(uint64_t keys) {
  const kbf::PaperSetting paper = kbf::PaperPlan(kPaperFalsePositive).value();
  return {.layout = "papers",
          .num_hashes = paper.num_hashes,
          .num_lines = paper.num_hashes,
          .load = paper.load,
          .check_bits = 0,
          .bytes_per_key = paper.bytes_per_key,
          .total_bytes = SizeOf(paper.bytes_per_key, keys),
          .false_negative = paper.undecodable,
          .false_positive = paper.false_positive,
          .memory_accesses = paper.num_hashes,
          .values_max = std::nullopt};
}

// ---- printing ----

std::string Format(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string HumanBytes(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double amount = static_cast<double>(bytes);
  size_t unit = 0;
  while (amount >= 1024 && unit + 1 < std::size(kUnits)) {
    amount /= 1024;
    ++unit;
  }
  return Format(unit == 0 ? "%.0f " : "%.1f ", amount) + kUnits[unit];
}

void PrintRow(const Row& row) {
  std::printf("%c %-9s %3u %6u %6.3f %6u %10.1f %11s %9.1e %9.1e %9u\n", row.chosen ? '*' : ' ',
              row.layout.c_str(), row.num_hashes, row.num_lines, row.load, row.check_bits,
              row.bytes_per_key, HumanBytes(row.total_bytes).c_str(), row.false_negative,
              row.false_positive, row.memory_accesses);
}

std::string WhyChosen(const Row& chosen, const Row& smallest) {
  const std::string size = Format("%.1f bytes/key", chosen.bytes_per_key);
  if (chosen.bytes_per_key <= smallest.bytes_per_key) {
    return size + " is the smallest, and none about as small touches less memory";
  }
  return size + Format(" is within %.0f %%", 100 * kbf::kPlanBytesTolerance) +
         Format(" of the smallest (%.1f)", smallest.bytes_per_key) +
         ", and a lookup touches fewer cache lines (" + std::to_string(chosen.memory_accesses) +
         " instead of " + std::to_string(smallest.memory_accesses) + ")";
}

void PrintTable(const std::vector<Row>& rows, const Row& chosen, const Row& paper, uint64_t keys,
                const kbf::PlanRequest& request) {
  std::printf(
      "%llu keys, %llu distinct values; at most %.3g false negatives, %.3g false positives\n\n",
      static_cast<unsigned long long>(keys),
      static_cast<unsigned long long>(request.distinct_values), request.false_negative,
      request.false_positive);
  std::printf("  %-9s %3s %6s %6s %6s %10s %11s %9s %9s %9s\n", "layout", "k", "lines", "load",
              "check", "bytes/key", "memory", "false-", "false+", "accesses");
  for (const Row& row : rows) PrintRow(row);
  PrintRow(paper);
  std::printf("\n* %s, k = %u: %s.\n", chosen.layout.c_str(), chosen.num_hashes,
              WhyChosen(chosen, rows.front()).c_str());
  std::printf(
      "  It holds up to %llu distinct values. Rates are predictions, planned to %.0f %% of the "
      "budgets.\n",
      static_cast<unsigned long long>(chosen.values_max.value_or(0)), 100 * kbf::kPlanMargin);
}

// REQUIRES: text needs no escapes; all ours are layout names.
std::string JsonRow(const Row& row) {
  std::string json = "{\"layout\": \"" + row.layout + "\"";
  const auto add = [&json](const char* name, const std::string& value) {
    json += std::string(", \"") + name + "\": " + value;
  };
  add("num_hashes", std::to_string(row.num_hashes));
  add("num_lines", std::to_string(row.num_lines));
  add("load", Format("%.6g", row.load));
  add("check_bits", std::to_string(row.check_bits));
  add("bytes_per_key", Format("%.6g", row.bytes_per_key));
  add("total_bytes", std::to_string(row.total_bytes));
  add("false_negative", Format("%.6g", row.false_negative));
  add("false_positive", Format("%.6g", row.false_positive));
  add("memory_accesses", std::to_string(row.memory_accesses));
  add("values_max", row.values_max ? std::to_string(*row.values_max) : "null");
  return json + "}";
}

void PrintJson(const std::vector<Row>& rows, const Row& chosen, const Row& paper, uint64_t keys,
               const kbf::PlanRequest& request) {
  std::string json = "{\n  \"request\": {\"keys\": " + std::to_string(keys) +
                     ", \"values\": " + std::to_string(request.distinct_values) +
                     ", \"false_negative\": " + Format("%.6g", request.false_negative) +
                     ", \"false_positive\": " + Format("%.6g", request.false_positive) + "},\n";
  json += "  \"chosen\": " + JsonRow(chosen) + ",\n  \"choices\": [";
  for (size_t i = 0; i < rows.size(); ++i) json += (i ? ",\n    " : "\n    ") + JsonRow(rows[i]);
  json += "\n  ],\n  \"paper\": " + JsonRow(paper) + "\n}\n";
  std::fputs(json.c_str(), stdout);
}

void Run(const Arguments& arguments) {
  const uint64_t keys = ParseCount("--keys", arguments.keys, kbf::kPlanKeysMax);
  kbf::PlanRequest request;
  request.distinct_values = ParseCount("--values", arguments.values, kbf::kPlanValuesMax);
  request.false_negative = ParseNumber("--false-negative", arguments.false_negative, false);
  request.false_positive = ParseNumber("--false-positive", arguments.false_positive, false);

  const kbf::PlanOutcome outcome = kbf::MakePlan(request);
  if (!outcome.plan) throw InputError{outcome.error};
  const std::vector<Row> rows = RowsOf(kbf::PlanChoices(request), *outcome.plan, keys);
  const Row chosen = RowOf(*outcome.plan, keys, true);
  (arguments.json ? PrintJson : PrintTable)(rows, chosen, PaperRow(keys), keys, request);
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app{"kbfplan: memory and error rates of a key-value Bloom filter, before you build it"};
  app.option_defaults()->always_capture_default();
  app.add_option("--keys", arguments.keys,
                 "keys to hold; 1000000, 1e9, 10M (k, M, G, T: powers of ten)");
  app.add_option("--values", arguments.values, "distinct values among them");
  app.add_option("--false-negative", arguments.false_negative,
                 "budget: share of stored keys that may miss");
  app.add_option("--false-positive", arguments.false_positive,
                 "budget: share of never-stored keys that may hit");
  app.add_flag("--json", arguments.json, "print JSON instead of a table");
  app.set_version_flag("--version", std::string("kbfplan ") + PACKAGE_VERSION);
  app.footer(
      "Example:\n  kbfplan --keys 1e9 --values 3000 --false-negative 2e-3 --false-positive 2e-5");
  CLI11_PARSE(app, argc, argv);
  try {
    Run(arguments);
  } catch (const InputError& error) {
    std::fprintf(stderr, "kbfplan: %s\n", error.text.c_str());
    return 1;
  }
  // A full disk or a closed pipe must not look like success.
  if (std::fflush(stdout) != 0) {
    std::perror("kbfplan: cannot write the result");
    return 1;
  }
  return 0;
}
