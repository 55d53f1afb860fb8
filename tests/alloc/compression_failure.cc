// Fails the n-th allocation of a compressor that trains itself, compresses and decompresses, for
// n = 1, 2, 3, ... until nothing fails any more, and then all allocations from the n-th on. What
// holds in each run: nothing ends the process, a value that was compressed comes back, and when
// memory is back so does everything else. zstd's own allocations do not fail here: before 1.5.6 it
// does not survive that, see zstd_dictionary.cc.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "storage/compression/value_compressor.h"
#include "tests/alloc/failing.h"
#include "tools/kbfload/session_values.h"

namespace kbf {
namespace {

constexpr uint64_t kMemory = 400 << 10;

std::string Session(uint64_t number) {
  char bytes[load::kSessionBytesMax];
  return {bytes, load::WriteSession(number, bytes)};
}

// False: none of the allocations failed.
bool RunWithFailures(uint64_t first, uint64_t count, const std::vector<std::string>& sessions) {
  const HashSecret secret = HashSecret::FromSeed(1);
  ValueCompressor compressor(kMemory, secret);
  char stored[load::kSessionBytesMax];
  char back[load::kSessionBytesMax];
  size_t wrong = 0;
  size_t compressed = 0;
  uint64_t number = 0;
  const auto work = [&](ZstdCodec* codec, uint32_t now) {
    for (int i = 0; i < 1000 && codec != nullptr; ++i) {
      const std::string& plain = sessions[number++ % sessions.size()];
      const std::string_view bytes = compressor.Compress("session:1", plain, *codec);
      if (i % 50 == 0) (void)compressor.TrainStep(now);
      if (bytes.empty()) continue;
      const size_t size = bytes.copy(stored, sizeof(stored));  // at most four fifths
      ++compressed;
      wrong += !compressor.Decompress({stored, size}, {back, plain.size()}, *codec) ||
               plain != std::string_view(back, plain.size());
      compressor.Release({stored, size});
    }
  };
  failing::Choose(first, count);
  failing::Arm();
  {
    const auto codec = ZstdCodec::Create();
    for (int i = 0; i < 10; ++i) work(codec.get(), 1000);
  }
  failing::Disarm();
  const bool failed = failing::failures() > 0;
  failing::Stop();
  const auto codec = ZstdCodec::Create();
  for (uint32_t i = 0; i < 40 && compressor.Counters().dictionaries == 0; ++i) {
    work(codec.get(), 2000 + 400 * i);
  }
  compressed = 0;
  work(codec.get(), 100000);
  CAPTURE(first);
  CHECK(wrong == 0);
  CHECK(compressed == 1000);
  CHECK(compressor.memory_bytes() <= kMemory);
  return failed;
}

TEST_CASE("compression: the n-th allocation fails, and all from there on") {
  std::vector<std::string> sessions(5000);
  for (size_t i = 0; i < sessions.size(); ++i) sessions[i] = Session(i);
  for (const uint64_t count : {uint64_t{1}, UINT64_MAX}) {
    uint64_t n = 1;
    while (RunWithFailures(n, count, sessions)) ++n;
    MESSAGE((n - 1) << " allocations failed");
    CHECK(n > 5);
  }
}

}  // namespace
}  // namespace kbf
