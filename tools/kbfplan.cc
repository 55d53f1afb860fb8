// kbfplan: how much memory will N keys take? Prints the -m with which kbfcached holds them, part by
// part (storage/store_planner.h), and below that the cell layouts that the planner compared
// (storage/planner.h) and the papers' own setting; as tables, or as JSON for programs.
//
// Exit codes: 0 planned; 1 the numbers cannot be planned for, or the command line is wrong (one
// line on stderr).

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config.h"
#include "storage/packed/packed_store_planner.h"
#include "storage/planner.h"
#include "storage/store_planner.h"
#include "tools/wrong_call.h"

namespace {

using kbf::Plan;

constexpr size_t kRowsShown = 8;
constexpr double kPaperFalsePositive = 1e-3;  // the setting of the papers' experiments
constexpr uint64_t kMegabyte = uint64_t{1} << 20;
// kbfcached gives the store all of -m but a sixteenth, which is for the buffers of connections.
constexpr uint64_t kConnectionShare = 16;
constexpr uint64_t kStoreBytesPerMegabyte = kMegabyte - kMegabyte / kConnectionShare;
constexpr uint64_t kValueBytesMax = uint64_t{1} << 30;

// What is wrong with the user's numbers; main prints it.
struct InputError {
  std::string text;
};

struct Arguments {
  std::string engine = "kbf";
  std::string keys = "1e6";
  std::string values = "3000";
  std::string value_size = "100";
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

// What is asked for, and what was found.
struct Report {
  kbf::StorePlanRequest request;
  kbf::StorePlanOutcome server;
  std::vector<Row> rows;
  Row chosen;
  Row paper;
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

uint64_t MegabytesOf(const kbf::StorePlan& plan) {
  return plan.memory_bytes / kStoreBytesPerMegabyte;
}

struct Part {
  const char* name;
  uint64_t bytes;
  std::string what;
};

// Adds up to all of -m.
std::vector<Part> PartsOf(const kbf::StorePlan& plan, const kbf::StorePlanRequest& request) {
  const kbf::StoreParts& parts = plan.parts;
  const std::string slabs =
      std::to_string(plan.num_slabs) + (plan.num_slabs == 1 ? " slab" : " slabs");
  return {{"filters", parts.cells,
           slabs + " with " + std::to_string(plan.filters_per_slab) + " filters of " +
               std::to_string(plan.filter_keys) + " keys"},
          {"locator", parts.locator, "which filters to ask"},
          {"dictionary", parts.dictionary, "codes of the values, for each slab"},
          {"values", parts.values,
           std::to_string(request.distinct_values) + " times " +
               std::to_string(request.value_bytes) + " bytes"},
          {"exact items", parts.front, "what was used last"},
          {"other", parts.other, "bookkeeping"},
          {"reserve", plan.memory_bytes - parts.total(), "for the allocator and for growing"},
          {"connections", MegabytesOf(plan) * kMegabyte - plan.memory_bytes, "their buffers"}};
}

void PrintServer(const Report& report) {
  if (!report.server.plan) {
    std::printf("No -m of kbfcached holds them: %s.\n\n", report.server.error.c_str());
    return;
  }
  const kbf::StorePlan& plan = *report.server.plan;
  const uint64_t megabytes = MegabytesOf(plan);
  std::printf(
      "kbfcached -m %llu holds them, %.1f bytes per key with everything:\n\n",
      static_cast<unsigned long long>(megabytes),
      static_cast<double>(megabytes * kMegabyte) / static_cast<double>(report.request.keys));
  for (const Part& part : PartsOf(plan, report.request)) {
    std::printf("  %-12s %11s   %s\n", part.name, HumanBytes(part.bytes).c_str(),
                part.what.c_str());
  }
  std::printf("\n");
}

void PrintTable(const Report& report) {
  const kbf::StorePlanRequest& request = report.request;
  std::printf(
      "%llu keys, %llu distinct values; at most %.3g false negatives, %.3g false positives\n\n",
      static_cast<unsigned long long>(request.keys),
      static_cast<unsigned long long>(request.distinct_values), request.false_negative,
      request.false_positive);
  PrintServer(report);
  std::printf("Filters alone, by cell layout:\n\n  %-9s %3s %6s %6s %6s %10s %11s %9s %9s %9s\n",
              "layout", "k", "lines", "load", "check", "bytes/key", "memory", "false-", "false+",
              "accesses");
  for (const Row& row : report.rows) PrintRow(row);
  PrintRow(report.paper);
  const Row& chosen = report.chosen;
  std::printf("\n* %s, k = %u: %s.\n", chosen.layout.c_str(), chosen.num_hashes,
              WhyChosen(chosen, report.rows.front()).c_str());
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

std::string JsonParts(const std::vector<Part>& parts) {
  std::string json = "{";
  const char* separator = "";
  for (const Part& part : parts) {
    std::string name = part.name;
    std::replace(name.begin(), name.end(), ' ', '_');
    json += separator + ("\"" + name + "\": ") + std::to_string(part.bytes);
    separator = ", ";
  }
  return json + "}";
}

std::string JsonServer(const Report& report) {
  if (!report.server.plan) return "null";
  const kbf::StorePlan& plan = *report.server.plan;
  std::string json = "{\"memory_megabytes\": " + std::to_string(MegabytesOf(plan)) +
                     ", \"num_slabs\": " + std::to_string(plan.num_slabs) +
                     ", \"filters_per_slab\": " + std::to_string(plan.filters_per_slab) +
                     ", \"filter_keys\": " + std::to_string(plan.filter_keys) + ", \"bytes\": ";
  return json + JsonParts(PartsOf(plan, report.request)) + "}";
}

void PrintJson(const Report& report) {
  const kbf::StorePlanRequest& request = report.request;
  std::string json = "{\n  \"request\": {\"keys\": " + std::to_string(request.keys) +
                     ", \"values\": " + std::to_string(request.distinct_values) +
                     ", \"value_size\": " + std::to_string(request.value_bytes) +
                     ", \"false_negative\": " + Format("%.6g", request.false_negative) +
                     ", \"false_positive\": " + Format("%.6g", request.false_positive) + "},\n";
  json += "  \"server\": " + JsonServer(report) + ",\n";
  json += "  \"chosen\": " + JsonRow(report.chosen) + ",\n  \"choices\": [";
  const char* separator = "\n    ";
  for (const Row& row : report.rows) {
    json += separator + JsonRow(row);
    separator = ",\n    ";
  }
  json += "\n  ],\n  \"paper\": " + JsonRow(report.paper) + "\n}\n";
  std::fputs(json.c_str(), stdout);
}

// ---- the engine packed ----

struct PackedReport {
  kbf::StorePlanRequest request;
  kbf::PackedStorePlan plan;

  uint64_t megabytes() const { return plan.memory_bytes / kStoreBytesPerMegabyte; }
};

// Adds up to all of -m.
std::vector<Part> PartsOf(const PackedReport& report) {
  const kbf::StoreParts& parts = report.plan.parts;
  return {
      {"lines", parts.cells, "tables of " + std::to_string(report.plan.num_slabs) + " slabs"},
      {"values", parts.values,
       std::to_string(report.request.distinct_values) + " times " +
           std::to_string(report.request.value_bytes) + " bytes"},
      {"exact items", parts.front, "what was used last"},
      {"other", parts.other, "bookkeeping"},
      {"reserve", report.plan.memory_bytes - parts.total(), "for the allocator and for growing"},
      {"connections", report.megabytes() * kMegabyte - report.plan.memory_bytes, "their buffers"}};
}

void PrintPackedTable(const PackedReport& report) {
  const kbf::StorePlanRequest& request = report.request;
  const kbf::PackedPlan& plan = report.plan.plan;
  std::printf(
      "%llu keys, %llu distinct values; no false negatives, at most %.3g false positives\n\n",
      static_cast<unsigned long long>(request.keys),
      static_cast<unsigned long long>(request.distinct_values), request.false_positive);
  std::printf(
      "kbfcached --engine packed --false-positive %.3g --distinct-values %llu -m %llu holds them,\n"
      "%.1f bytes per key with everything:\n\n",
      request.false_positive, static_cast<unsigned long long>(request.distinct_values),
      static_cast<unsigned long long>(report.megabytes()),
      static_cast<double>(report.megabytes() * kMegabyte) / static_cast<double>(request.keys));
  for (const Part& part : PartsOf(report)) {
    std::printf("  %-12s %11s   %s\n", part.name, HumanBytes(part.bytes).c_str(),
                part.what.c_str());
  }
  std::printf(
      "\n%u keys in a line of 64 bytes: %u check bits, %u for the window, %u for the value's "
      "number;\n"
      "%.2f bytes per key in full lines, %.1e false positives.\n",
      plan.slots, plan.layout.CheckBits(), plan.layout.window_bits, plan.layout.number_bits,
      plan.bytes_per_key, plan.false_positive);
}

void PrintPackedJson(const PackedReport& report) {
  const kbf::StorePlanRequest& request = report.request;
  const kbf::PackedPlan& plan = report.plan.plan;
  std::string json =
      "{\n  \"engine\": \"packed\",\n  \"request\": {\"keys\": " + std::to_string(request.keys) +
      ", \"values\": " + std::to_string(request.distinct_values) +
      ", \"value_size\": " + std::to_string(request.value_bytes) +
      ", \"false_positive\": " + Format("%.6g", request.false_positive) + "},\n";
  json += "  \"server\": {\"memory_megabytes\": " + std::to_string(report.megabytes()) +
          ", \"num_slabs\": " + std::to_string(report.plan.num_slabs) +
          ", \"bytes\": " + JsonParts(PartsOf(report)) + "},\n";
  json += "  \"chosen\": {\"slots_per_line\": " + std::to_string(plan.slots) +
          ", \"check_bits\": " + std::to_string(plan.layout.CheckBits()) +
          ", \"window_bits\": " + std::to_string(plan.layout.window_bits) +
          ", \"number_bits\": " + std::to_string(plan.layout.number_bits) +
          ", \"bytes_per_key\": " + Format("%.6g", plan.bytes_per_key) +
          ", \"false_positive\": " + Format("%.6g", plan.false_positive) + "}\n}\n";
  std::fputs(json.c_str(), stdout);
}

void RunPacked(const kbf::StorePlanRequest& request, bool json) {
  const kbf::PackedStorePlanOutcome outcome = kbf::PlanPackedStore(request, kStoreBytesPerMegabyte);
  if (!outcome.plan) throw InputError{outcome.error};
  const PackedReport report{request, *outcome.plan};
  (json ? PrintPackedJson : PrintPackedTable)(report);
}

void Run(const Arguments& arguments) {
  const bool packed = arguments.engine == "packed";
  if (!packed && arguments.engine != "kbf") {
    throw InputError{"--engine must be kbf or packed, not " + arguments.engine};
  }
  kbf::StorePlanRequest request;
  request.keys = ParseCount("--keys", arguments.keys, kbf::kPlanKeysMax);
  request.distinct_values =
      ParseCount("--values", arguments.values, packed ? kbf::kPlanKeysMax : kbf::kPlanValuesMax);
  request.value_bytes = ParseCount("--value-size", arguments.value_size, kValueBytesMax);
  request.false_negative = ParseNumber("--false-negative", arguments.false_negative, false);
  request.false_positive = ParseNumber("--false-positive", arguments.false_positive, false);
  if (packed) return RunPacked(request, arguments.json);

  const kbf::PlanRequest filters{request.false_negative, request.false_positive,
                                 request.distinct_values};
  const kbf::PlanOutcome outcome = kbf::MakePlan(filters);
  if (!outcome.plan) throw InputError{outcome.error};
  const Report report{request, kbf::PlanStore(request, kStoreBytesPerMegabyte),
                      RowsOf(kbf::PlanChoices(filters), *outcome.plan, request.keys),
                      RowOf(*outcome.plan, request.keys, true), PaperRow(request.keys)};
  (arguments.json ? PrintJson : PrintTable)(report);
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app{
      "kbfplan: the memory that kbfcached needs for a number of keys, and the errors to expect",
      "kbfplan"};
  app.option_defaults()->always_capture_default();
  app.add_option("--engine", arguments.engine, "what keeps cold keys: kbf or packed");
  app.add_option("--keys", arguments.keys,
                 "keys to hold; 1000000, 1e9, 10M (k, M, G, T: powers of ten)");
  app.add_option("--values", arguments.values, "distinct values among them");
  app.add_option("--value-size", arguments.value_size, "mean bytes of a value");
  app.add_option("--false-negative", arguments.false_negative,
                 "most stored keys that may miss, as a share");
  app.add_option("--false-positive", arguments.false_positive,
                 "most keys that nobody stored that may be found, as a share");
  app.add_flag("--json", arguments.json, "print JSON instead of a table");
  app.set_version_flag("--version", std::string("kbfplan ") + PACKAGE_VERSION);
  app.footer(
      "Example:\n  kbfplan --keys 1e9 --values 3000 --false-negative 2e-3 --false-positive 2e-5");
  try {
    app.parse(argc, argv);
    Run(arguments);
  } catch (const CLI::ParseError& error) {
    return tools::ExplainCall(app, error);
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
