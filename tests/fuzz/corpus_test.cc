// The corpora of the fuzz targets, replayed: what the fuzzers once found, and the seeds they start
// from, show no fault. `make fuzz` looks for more.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "tests/fuzz/authentication_fuzz.h"
#include "tests/fuzz/binary_fuzz.h"
#include "tests/fuzz/capture_fuzz.h"
#include "tests/fuzz/client_fuzz.h"
#include "tests/fuzz/config_fuzz.h"
#include "tests/fuzz/crush_fuzz.h"
#include "tests/fuzz/filter_fuzz.h"
#include "tests/fuzz/image_fuzz.h"
#include "tests/fuzz/meta_fuzz.h"
#include "tests/fuzz/password_fuzz.h"
#include "tests/fuzz/replica_fuzz.h"
#include "tests/fuzz/server_fuzz.h"
#include "tests/fuzz/snapshot_fuzz.h"
#include "tests/fuzz/text_fuzz.h"
#include "tests/fuzz/trace_fuzz.h"

namespace fuzz {
namespace {

struct Target {
  const char* name;
  Check check;
  size_t files_min;  // so that a corpus that is not found does not pass
};
constexpr Target kTargets[] = {
    {"password", server::FuzzPasswords, 10}, {"authentication", protocol::FuzzAuthentication, 9},
    {"text", protocol::FuzzText, 21},        {"meta", protocol::FuzzMeta, 5},
    {"binary", protocol::FuzzBinary, 13},    {"client", protocol::FuzzClient, 8},
    {"config", server::FuzzConfig, 6},       {"crush", load::FuzzCrush, 5},
    {"trace", load::FuzzTrace, 5},           {"replica", kbf::FuzzReplica, 11},
    {"server", server::FuzzServer, 13},      {"filter", kbf::FuzzFilter, 8},
    {"image", kbf::FuzzImage, 11},           {"capture", flow::FuzzCapture, 14},
    {"snapshot", kbf::FuzzSnapshot, 11},
};

TEST_SUITE("fuzz") {
  TEST_CASE("fuzz: no file of a corpus shows a fault") {
    for (const Target& target : kTargets) {
      CAPTURE(target.name);
      size_t files = 0;
      const std::string directory = std::string("tests/fuzz/corpus/") + target.name;
      for (const auto& entry : std::filesystem::directory_iterator(directory)) {
        CAPTURE(entry.path().string());
        std::ifstream file(entry.path(), std::ios::binary);
        const std::string input{std::istreambuf_iterator<char>(file), {}};
        const char* const fault = target.check(input);
        CHECK_MESSAGE(fault == nullptr, fault);
        ++files;
      }
      CHECK(files >= target.files_min);
    }
  }

  TEST_CASE("fuzz: every corpus has a target that replays it") {
    std::set<std::string> names;
    for (const Target& target : kTargets) names.insert(target.name);
    for (const auto& entry : std::filesystem::directory_iterator("tests/fuzz/corpus")) {
      CHECK_MESSAGE(names.contains(entry.path().filename().string()), entry.path().string());
    }
  }
}

}  // namespace
}  // namespace fuzz
