// What compression of values that are alike but not equal gives and costs: bytes before and after,
// and CPU time in and out, by the size of the values.
//
// Runs:    20 s, 50 MB
// Result:  bench/results/compression_bench.tsv; docs/PERFORMANCE.md
//
// Values are the sessions of tools/kbfload/session_values.h: alone, cut off, or one after the other
// in a JSON array. Each row has a compressor of its own, which trains itself from 20,000 values of
// that row; measured are 4,000 others. `shared`: one dictionary for two kinds of values, under keys
// without a prefix; `by prefix`: the same values under two prefixes.
#include <time.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bench/bench.h"
#include "storage/compression/value_compressor.h"
#include "tools/kbfload/session_values.h"

namespace {

constexpr uint64_t kSeed = 20261119;
constexpr uint64_t kMemory = 10 << 20;
constexpr uint64_t kTrained = 20000;
constexpr uint64_t kMeasured = 4000;

using Pair = std::pair<std::string, std::string>;

std::string Session(uint64_t number) {
  char bytes[load::kSessionBytesMax];
  return {bytes, load::WriteSession(number, bytes)};
}

std::string Sessions(uint64_t number, size_t bytes) {
  std::string text = bytes < 300 ? "" : "[";
  for (uint64_t i = 0; text.size() < bytes; ++i) text += Session(number * 1000 + i) + ",";
  text.resize(bytes);
  return text;
}

// The other kind: lines of a log in another form.
std::string Visit(uint64_t number) {
  const uint64_t word = kbf::Mix64(number);
  return "a:6:{s:4:\"page\";s:24:\"/products/" + std::to_string(word % 100000) +
         "/reviews\";s:5:\"agent\";s:29:\"Mozilla/5.0 (X11; Linux x86_64\";s:4:\"time\";i:" +
         std::to_string(1773000000 + word % 9000000) +
         ";s:6:\"status\";i:200;s:5:\"bytes\";i:" + std::to_string(word >> 40) +
         ";s:2:\"id\";s:16:\"" + std::to_string(word) + "\";}";
}

double CpuSeconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void Measure(const std::string& name, const std::function<Pair(uint64_t)>& make) {
  const kbf::HashSecret secret = kbf::HashSecret::FromSeed(kSeed);
  kbf::ValueCompressor compressor(kMemory, secret);
  const auto codec = kbf::ZstdCodec::Create();
  for (uint64_t i = 0; i < kTrained; ++i) {
    const auto [key, value] = make(i);
    (void)compressor.Compress(key, value, *codec);
    (void)compressor.TrainStep(static_cast<uint32_t>(i / 100));
  }
  std::vector<Pair> plain;
  for (uint64_t i = 0; i < kMeasured; ++i) plain.push_back(make(kTrained + i));
  std::vector<std::string> stored(kMeasured);
  uint64_t plain_bytes = 0;
  uint64_t stored_bytes = 0;
  uint64_t refused = 0;
  const double begin = CpuSeconds();
  for (uint64_t i = 0; i < kMeasured; ++i) {
    stored[i] = compressor.Compress(plain[i].first, plain[i].second, *codec);
  }
  const double between = CpuSeconds();
  std::string back(kbf::ValueCompressor::kPlainBytesMax, '\0');
  for (uint64_t i = 0; i < kMeasured; ++i) {
    if (stored[i].empty()) continue;
    if (!compressor.Decompress(stored[i], {back.data(), plain[i].second.size()}, *codec)) abort();
    bench::Consume(static_cast<uint64_t>(back[0]));
  }
  const double end = CpuSeconds();
  for (uint64_t i = 0; i < kMeasured; ++i) {
    const size_t bytes = plain[i].second.size();
    plain_bytes += bytes;
    stored_bytes += stored[i].empty() ? bytes : stored[i].size();
    refused += stored[i].empty();
  }
  const auto mean = [](double sum) { return sum / static_cast<double>(kMeasured); };
  const kbf::CompressionCounters counters = compressor.Counters();
  std::printf("%s\t%.1f\t%.1f\t%.2f\t%.4f\t%.2f\t%.2f\t%llu\t%llu\n", name.c_str(),
              mean(static_cast<double>(plain_bytes)), mean(static_cast<double>(stored_bytes)),
              static_cast<double>(stored_bytes) / static_cast<double>(plain_bytes),
              mean(static_cast<double>(refused)), 1e6 * mean(between - begin),
              1e6 * mean(end - between), static_cast<unsigned long long>(counters.dictionaries),
              static_cast<unsigned long long>(counters.dictionary_bytes));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  bench::PrintHead(argc, argv, "compression of values that are alike", kSeed);
  std::printf(
      "values\tplain_bytes\tstored_bytes\tratio\tleft_alone\tus_in\tus_out\tdictionaries\t"
      "dictionary_bytes\n");
  for (const size_t bytes : {64, 100, 150, 200, 257}) {
    Measure("the first " + std::to_string(bytes) + " bytes of a session", [bytes](uint64_t i) {
      return Pair("session:" + std::to_string(i), Session(i).substr(0, bytes));
    });
  }
  Measure("sessions", [](uint64_t i) { return Pair("session:" + std::to_string(i), Session(i)); });
  for (const size_t bytes : {1000, 4000, 20000, 65536}) {
    Measure("arrays of sessions, " + std::to_string(bytes) + " bytes",
            [bytes](uint64_t i) { return Pair("array:" + std::to_string(i), Sessions(i, bytes)); });
  }
  Measure("random bytes", [](uint64_t i) {
    std::string text(300, '\0');
    for (size_t at = 0; at < text.size(); ++at) {
      text[at] = static_cast<char>(kbf::Mix64(i * 1000 + at));
    }
    return Pair("random:" + std::to_string(i), text);
  });
  const auto either = [](uint64_t i) { return i % 2 == 0 ? Session(i) : Visit(i); };
  Measure("sessions and visits, shared",
          [&](uint64_t i) { return Pair(std::to_string(i), either(i)); });
  Measure("sessions and visits, by prefix", [&](uint64_t i) {
    return Pair((i % 2 == 0 ? "session:" : "visit:") + std::to_string(i), either(i));
  });
}
