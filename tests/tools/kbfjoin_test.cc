#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "storage/membership/maths.h"
#include "tests/fuzz/fuzz.h"
#include "tests/storage/membership/membership_world.h"
#include "tools/files.h"
#include "tools/kbfjoin/filter_file.h"
#include "tools/kbfjoin/mapper.h"

namespace join {
namespace {

// A descriptor to read `text` from, and one that takes what is written.
class Memory {
 public:
  explicit Memory(std::string_view text = {}) : fd_(memfd_create("test", MFD_CLOEXEC)) {
    REQUIRE(write(fd_, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    lseek(fd_, 0, SEEK_SET);
  }
  ~Memory() { close(fd_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  int fd() const { return fd_; }
  std::string Text() const {
    std::string text(static_cast<size_t>(lseek(fd_, 0, SEEK_END)), 0);
    REQUIRE(pread(fd_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
    return text;
  }

 private:
  int fd_;
};

std::vector<std::string> AllLines(LineReader* reader, size_t at_once) {
  std::vector<std::string> lines;
  std::vector<std::string_view> some;
  while (reader->Next(at_once, &some)) {
    CHECK(reader->first_number() == lines.size() + 1);
    lines.insert(lines.end(), some.begin(), some.end());
  }
  return lines;
}

std::vector<std::string> LinesOf(std::string_view text, size_t at_once, size_t line_max = 1000) {
  const Memory input(text);
  LineReader reader(input.fd(), "input", line_max);
  return AllLines(&reader, at_once);
}

// What went wrong, or "".
std::string ErrorOf(auto&& work) {
  try {
    work();
  } catch (const tools::FileError& error) {
    return error.what();
  }
  return {};
}

struct Mapped {
  MapCounts counts;
  std::string output;
  std::string error;
};
Mapped MapText(std::string_view text, const MapSettings& settings,
               const kbf::MpcbfImage* filter = nullptr) {
  const Memory input(text);
  const Memory output;
  LineReader reader(input.fd(), "input", 1000);
  Mapped mapped;
  mapped.error = ErrorOf([&] {
    tools::Output out(output.fd(), "output");
    mapped.counts = Map(&reader, filter, settings, &out);
  });
  mapped.output = output.Text();
  return mapped;
}

kbf::MpcbfImage FilterOf(uint64_t keys, const FilterSize& size, uint64_t seed) {
  const auto secret = kbf::HashSecret::FromSeed(seed);
  std::vector<kbf::KeyHash> hashes;
  for (uint64_t i = 0; i < keys; ++i) hashes.push_back(HashKey(std::to_string(i), secret));
  return {BuildFilter(&hashes, size), secret};
}

}  // namespace

TEST_SUITE_BEGIN("tools/kbfjoin");

TEST_CASE("lines come whole and in order, however many are asked for") {
  const std::string binary("\0\xff\r\t", 4);
  const std::vector<std::string> expected = {"one", "", "three\r", binary, "last"};
  std::string text;
  for (const auto& line : expected) text += line + "\n";
  for (const size_t at_once : {1, 2, 100}) {
    CHECK(LinesOf(text, at_once) == expected);
    CHECK(LinesOf(std::string_view(text).substr(0, text.size() - 1), at_once) == expected);
  }
  CHECK(LinesOf("", 5).empty());
  CHECK(LinesOf("\n", 5) == std::vector<std::string>{""});
}

TEST_CASE("lines come whole from a pipe that is written byte by byte") {
  const std::string text = "a\tb\n\nlonger line\nend";
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  std::thread writer([&] {
    for (const char byte : text) {
      if (write(ends[1], &byte, 1) != 1) break;
    }
    close(ends[1]);
  });
  LineReader reader(ends[0], "pipe", 1000);
  CHECK(AllLines(&reader, 10) == std::vector<std::string>{"a\tb", "", "longer line", "end"});
  writer.join();
  close(ends[0]);
}

TEST_CASE("lines longer than the buffer are read, and lines longer than the limit are refused") {
  const std::string longest(3 * LineReader::kBufferBytes, 'x');
  const std::string text = "short\n" + longest + "\nshort\n" + longest;
  CHECK(LinesOf(text, 10, longest.size()) ==
        std::vector<std::string>{"short", longest, "short", longest});
  for (const size_t limit : {longest.size() - 1, size_t{10}}) {
    CHECK(ErrorOf([&] { LinesOf(text, 10, limit); }).starts_with("input, line 2: longer than "));
  }
}

TEST_CASE("a record is a key and what stands before and behind it") {
  struct Case {
    const char* line;
    RecordForm form;
    RecordStatus status;
    const char* tagged;  // "-": nothing
    const char* plain;
  };
  const RecordForm bare{.bare_keys = true};
  const RecordForm second{.key_field = 2};
  const RecordForm csv{.separator = ',', .key_field = 2};
  for (const Case& c : {
           Case{"k\tv", {}, RecordStatus::kOk, "k\tT\tv\n", "k\tv\n"},
           {"k\t", {}, RecordStatus::kOk, "k\tT\t\n", "k\t\n"},
           {"k\ta\tb", {}, RecordStatus::kOk, "k\tT\ta\tb\n", "k\ta\tb\n"},
           {"k", bare, RecordStatus::kOk, "k\tT\n", "k\n"},
           {"k", {}, RecordStatus::kNoSeparator, "-", "-"},
           {"", bare, RecordStatus::kEmpty, "-", "-"},
           {"\tv", {}, RecordStatus::kEmptyKey, "-", "-"},
           {"a\tk\tb\tc", second, RecordStatus::kOk, "k\tT\ta\tb\tc\n", "k\ta\tb\tc\n"},
           {"a\tk", second, RecordStatus::kOk, "k\tT\ta\n", "k\ta\n"},
           {"k", second, RecordStatus::kNoSeparator, "-", "-"},
           {"a\tb", {.key_field = 3}, RecordStatus::kTooFewFields, "-", "-"},
           {"a,k,b", csv, RecordStatus::kOk, "k\tT\ta,b\n", "k\ta,b\n"},
           {"a,k", csv, RecordStatus::kOk, "k\tT\ta\n", "k\ta\n"},
           {"a,k\tx", csv, RecordStatus::kTabInKey, "-", "-"},
       }) {
    CAPTURE(c.line);
    const Record record = ReadRecord(c.line, c.form);
    CHECK(record.status == c.status);
    const std::string_view line = c.line;
    CHECK(fuzz::Inside(record.key, line));
    MapSettings settings{.form = c.form, .tag = "T"};
    const std::string text = std::string(line) + "\n";
    const bool good = c.status == RecordStatus::kOk;
    CHECK(MapText(text, settings).output == (good ? c.tagged : ""));
    settings.tag.clear();
    CHECK(MapText(text, settings).output == (good ? c.plain : ""));
    CHECK(MapText(text, settings).error.empty() == good);
  }
}

TEST_CASE("a bad record ends the mapper behind the good ones, or is counted and left out") {
  const std::string text = "a\t1\nb\t2\n\nc\t3\nnothing\n";
  MapSettings settings;
  Mapped mapped = MapText(text, settings);
  CHECK(mapped.error == "input, line 3 is empty; --skip-bad leaves such lines out");
  CHECK(mapped.output == "a\t1\nb\t2\n");
  settings.skip_bad = true;
  mapped = MapText(text, settings);
  CHECK(mapped.error.empty());
  CHECK(mapped.output == "a\t1\nb\t2\nc\t3\n");
  CHECK(mapped.counts.read == 5);
  CHECK(mapped.counts.passed == 3);
  CHECK(mapped.counts.skipped == 2);
}

TEST_CASE("the mapper passes all records of the filter, and of others as many as eq. 8 says") {
  constexpr uint64_t kKeys = 20000;
  constexpr uint64_t kOthers = 200000;
  for (const auto& size : {FilterSize{}, FilterSize{.false_positive = 0.2, .num_accesses = 1},
                           FilterSize{.num_accesses = 2, .bits_per_key = 10, .num_hashes = 3}}) {
    const kbf::MpcbfImage filter = FilterOf(kKeys, size, 7);
    std::string text;
    for (uint64_t i = 0; i < kKeys + kOthers; ++i) text += std::to_string(i) + "\tx\n";
    const Mapped mapped = MapText(text, {}, &filter);
    REQUIRE(mapped.error.empty());
    CHECK(mapped.counts.read == kKeys + kOthers);
    CHECK(mapped.counts.passed + mapped.counts.dropped == kKeys + kOthers);
    REQUIRE(mapped.counts.passed >= kKeys);
    const kbf::WordShape& shape = filter.filter.shape();
    const double rate = static_cast<double>(mapped.counts.passed - kKeys) / kOthers;
    const double expected = kbf::WordFalsePositive(kKeys, shape);
    CAPTURE(rate);
    CAPTURE(expected);
    CHECK(std::fabs(rate - expected) < 5 * kbf::RateDeviation(kKeys, shape, kOthers, 1));
    // The first lines out are those of the keys, unchanged.
    CHECK(mapped.output.starts_with(text.substr(0, text.find("20000\t"))));
  }
}

TEST_CASE("keys that come twice are in the filter once, and none at all make a filter too") {
  const auto secret = kbf::HashSecret::FromSeed(1);
  std::vector<kbf::KeyHash> hashes(5000, HashKey("again", secret));
  CHECK(BuildFilter(&hashes, {}).size() == 1);
  hashes.clear();
  const kbf::Mpcbf empty = BuildFilter(&hashes, {});
  CHECK(empty.size() == 0);
  CHECK_FALSE(empty.MayContain(HashKey("any", secret)));
}

TEST_CASE("sizes that make no filter are refused with a sentence") {
  std::vector<kbf::KeyHash> hashes(1);
  const auto error = [&](const FilterSize& size) {
    return ErrorOf([&] { static_cast<void>(BuildFilter(&hashes, size)); });
  };
  CHECK(error({.false_positive = 1e-9, .num_accesses = 1}).starts_with("no filter has that"));
  CHECK(error({.num_accesses = 3, .bits_per_key = 10, .num_hashes = 2})
            .starts_with("these sizes make no filter"));
  CHECK(error({.bits_per_key = 1, .num_hashes = 16}).starts_with("these sizes make no filter"));
}

TEST_CASE("a filter's file is read as it was written, and refused where it is not whole") {
  char directory[] = "/tmp/kbfjoin_test_XXXXXX";
  REQUIRE(mkdtemp(directory) != nullptr);
  const std::string path = std::string(directory) + "/filter";
  const kbf::MpcbfImage image = FilterOf(3000, {}, 3);
  WriteFilter(path, image.filter, image.secret);
  CHECK(kbf::EncodeMpcbf(ReadFilter(path).filter, image.secret) ==
        kbf::EncodeMpcbf(image.filter, image.secret));
  const auto bytes = tools::ReadFile(path, 1 << 20);
  const auto error_with = [&](std::span<const std::byte> changed) {
    tools::ReplaceFile(path, changed);
    return ErrorOf([&] { ReadFilter(path); });
  };
  CHECK(error_with(std::span(bytes).first(500)).starts_with(path + " is cut off: it has 500 "));
  auto damaged = bytes;
  damaged[1000] ^= std::byte{1};
  CHECK(error_with(damaged) == path + " is damaged: its checksum is wrong");
  damaged[8] = std::byte{2};
  CHECK(error_with(damaged).starts_with(path + " has format 2, and this kbfjoin reads format 1"));
  CHECK(error_with({}) == path + " is no filter of kbfjoin");
  CHECK(ErrorOf([&] { tools::ReadFile(path + "x", 9); }).ends_with(": No such file or directory"));
  CHECK(ErrorOf([&] { tools::ReadFile("/dev/zero", 9); }).ends_with("it has more than 9 bytes"));
  unlink(path.c_str());
  rmdir(directory);
}

TEST_SUITE_END();

}  // namespace join
