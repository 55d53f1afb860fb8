// What the benches share: the '#' lines at the head of a table, a clock, a median, and a sink that
// keeps the compiler from dropping work whose result nobody reads.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bench {

inline std::string CpuName() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

inline std::string FromEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "unknown";
}

// bench/run sets KBF_COMMIT and KBF_FLAGS.
inline void PrintHead(int argc, char** argv, std::string_view what, uint64_t seed) {
  std::string command =
      std::string_view(argv[0]).substr(std::string_view(argv[0]).rfind('/') + 1).data();
  for (int i = 1; i < argc; ++i) command += std::string(" ") + argv[i];
  std::printf("# %.*s\n", static_cast<int>(what.size()), what.data());
  std::printf("# command: %s\n# commit: %s\n# cpu: %s\n# compiler: %s, %s\n# seed: %llu\n",
              command.c_str(), FromEnvironment("KBF_COMMIT").c_str(), CpuName().c_str(),
              __VERSION__, FromEnvironment("KBF_FLAGS").c_str(),
              static_cast<unsigned long long>(seed));
}

inline double SecondsOf(auto&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Spread {
  double median = 0;
  double low = 0;
  double high = 0;
};

// The work `repeats` times, after one run that warms up.
inline Spread MeasureSeconds(int repeats, auto&& work) {
  work();
  std::vector<double> seconds;
  for (int i = 0; i < repeats; ++i) seconds.push_back(SecondsOf(work));
  std::sort(seconds.begin(), seconds.end());
  return {seconds[seconds.size() / 2], seconds.front(), seconds.back()};
}

inline void Consume(uint64_t value) { asm volatile("" : : "r"(value) : "memory"); }

}  // namespace bench
