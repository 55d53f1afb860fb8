#include "storage/image/image.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <random>
#include <string>

#include "tests/storage/image/image_bytes.h"

namespace kbf {
namespace {

struct Section {
  uint16_t type = 0;
  uint16_t version = 0;
  std::string bytes;
  friend bool operator==(const Section&, const Section&) = default;
};
using Sections = std::vector<Section>;

ImageHead SomeHead() {
  ImageHead head;
  head.digest.fill(std::byte{7});
  head.secret = HashSecret::FromSeed(1).bytes();
  return head;
}

Sections SomeSections() {
  std::string large(3 * kImageBlockBytesMax + 17, 'x');
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 31 % 251);
  return {{1, 1, "first"},
          {2, 3, large},
          {2, 3, ""},
          {9, 1, std::string(kImageBlockBytesMax, 'e')},
          {65535, 65535, "last"}};
}

MemorySink Written(const Sections& sections) {
  MemorySink sink;
  ImageWriter writer(sink, SomeHead());
  for (const Section& section : sections) {
    writer.Begin(section.type, section.version);
    // In two parts, so that one straddles blocks.
    const std::string_view bytes = section.bytes;
    writer.Put(bytes.substr(0, bytes.size() / 3));
    writer.Put(bytes.substr(bytes.size() / 3));
    writer.End();
  }
  REQUIRE(writer.Finish());
  CHECK(writer.bytes_written() == sink.bytes.size());
  return sink;
}

struct ReadBack {
  ImageStatus status = ImageStatus::kOk;
  Sections sections;
  ImageHead head;
};

ReadBack Read(std::span<const std::byte> bytes) {
  MemorySource source(bytes);
  ImageReader reader(source);
  ReadBack result;
  if (reader.ReadHead(&result.head)) {
    while (reader.Next()) {
      Section section{reader.type(), reader.version(), {}};
      char c = 0;
      while (reader.HasMore() && reader.Get(&c)) section.bytes += c;
      result.sections.push_back(std::move(section));
    }
  }
  result.status = reader.status();
  CHECK(reader.bytes_read() <= bytes.size());
  return result;
}

}  // namespace

TEST_SUITE("image") {
  TEST_CASE("image: what was written is read, in sections of any size") {
    const MemorySink sink = Written(SomeSections());
    const ReadBack back = Read(sink.bytes);
    CHECK(back.status == ImageStatus::kOk);
    CHECK(back.sections == SomeSections());
    CHECK(back.head.digest == SomeHead().digest);
    CHECK(back.head.secret == SomeHead().secret);
    CHECK(back.head.mark == ImageMark::kCurrent);
  }

  TEST_CASE("image: cut off anywhere it is refused") {
    const MemorySink sink = Written(SomeSections());
    std::vector<size_t> lengths = sink.edges;
    for (const size_t edge : sink.edges) lengths.insert(lengths.end(), {edge - 1, edge + 1});
    for (size_t length = 0; length < 600; ++length) lengths.push_back(length);
    for (const size_t length : lengths) {
      if (length >= sink.bytes.size()) continue;
      CAPTURE(length);
      const ImageStatus status = Read(std::span(sink.bytes).first(length)).status;
      CHECK((status == ImageStatus::kCutOff || (length < 8 && status == ImageStatus::kForeign)));
    }
  }

  TEST_CASE("image: every flipped bit is noticed") {
    const MemorySink sink = Written(SomeSections());
    std::mt19937_64 random(11);
    const int flips = std::getenv("KBF_SOAK") != nullptr ? 10000 : 200;
    for (int i = 0; i < flips; ++i) {
      // Half of them in the head and the first blocks, where there is structure.
      const size_t range = i % 2 == 0 ? sink.bytes.size() : 400;
      const size_t bit = random() % (8 * range);
      CAPTURE(bit);
      std::vector<std::byte> bytes = sink.bytes;
      bytes[bit / 8] ^= std::byte{1} << (bit % 8);
      CHECK(Read(bytes).status != ImageStatus::kOk);
    }
  }

  TEST_CASE("image: another format, or another program's file, is said to be that") {
    std::vector<std::byte> bytes = Written(SomeSections()).bytes;
    SUBCASE("a later format") {
      bytes[8] = std::byte{kImageFormat + 1};
      CHECK(Read(bytes).status == ImageStatus::kOtherFormat);
      FixImageSums(&bytes);
      CHECK(Read(bytes).status == ImageStatus::kOtherFormat);
    }
    SUBCASE("text") {
      const std::string_view text = "this file has nothing to do with it, but is long enough";
      CHECK(Read(std::as_bytes(std::span(text))).status == ImageStatus::kForeign);
    }
    SUBCASE("nothing") { CHECK(Read({}).status == ImageStatus::kForeign); }
  }

  TEST_CASE("image: blocks that were removed, repeated or exchanged are noticed") {
    const MemorySink sink = Written({{1, 1, "aaaa"}, {1, 1, "bbbb"}, {1, 1, "cccc"}});
    REQUIRE(sink.edges.size() == 5);
    const auto block = [&](size_t i) {
      return std::vector<std::byte>(sink.bytes.begin() + static_cast<long>(sink.edges[i]),
                                    sink.bytes.begin() + static_cast<long>(sink.edges[i + 1]));
    };
    const auto from = [&](std::initializer_list<size_t> blocks) {
      std::vector<std::byte> bytes(sink.bytes.begin(), sink.bytes.begin() + kImageHeadBytes);
      for (const size_t i : blocks) {
        const auto one = block(i);
        bytes.insert(bytes.end(), one.begin(), one.end());
      }
      return bytes;
    };
    CHECK(Read(from({0, 1, 2, 3})).status == ImageStatus::kOk);
    CHECK(Read(from({0, 2, 3})).status == ImageStatus::kDamaged);
    CHECK(Read(from({0, 0, 1, 2, 3})).status == ImageStatus::kDamaged);
    CHECK(Read(from({1, 0, 2, 3})).status == ImageStatus::kDamaged);
    CHECK(Read(from({0, 1, 3})).status == ImageStatus::kDamaged);
  }

  TEST_CASE("image: a block of another image does not fit, although its own sum is right") {
    const MemorySink one = Written({{1, 1, "aaaa"}, {1, 1, "bbbb"}});
    const MemorySink other = Written({{1, 1, "AAAA"}, {1, 1, "bbbb"}});
    std::vector<std::byte> mixed = one.bytes;
    std::copy(other.bytes.begin() + static_cast<long>(other.edges[0]),
              other.bytes.begin() + static_cast<long>(other.edges[1]),
              mixed.begin() + static_cast<long>(one.edges[0]));
    CHECK(Read(mixed).status == ImageStatus::kDamaged);
  }

  TEST_CASE("image: a section that is not read to its end is a contradiction") {
    const MemorySink sink = Written(SomeSections());
    MemorySource source(sink.bytes);
    ImageReader reader(source);
    ImageHead head;
    REQUIRE(reader.ReadHead(&head));
    REQUIRE(reader.Next());
    SUBCASE("too little") { CHECK(!reader.Next()); }
    SUBCASE("too much") {
      uint64_t number = 0;
      CHECK(!reader.Get(&number));
    }
    CHECK(reader.status() == ImageStatus::kImpossible);
    CHECK(!reader.Next());
  }

  TEST_CASE("image: the mark can be changed in place, to one of two numbers") {
    std::vector<std::byte> bytes = Written(SomeSections()).bytes;
    const auto mark = static_cast<uint32_t>(ImageMark::kOutdated);
    std::memcpy(bytes.data() + kImageMarkOffset, &mark, sizeof mark);
    const ReadBack back = Read(bytes);
    CHECK(back.status == ImageStatus::kOk);
    CHECK(back.head.mark == ImageMark::kOutdated);
    bytes[kImageMarkOffset] ^= std::byte{1};
    CHECK(Read(bytes).status == ImageStatus::kDamaged);
  }

  TEST_CASE("image: a sink that refuses bytes is noticed, and gets no more") {
    MemorySink sink;
    sink.bytes_max = 1000;
    ImageWriter writer(sink, SomeHead());
    CHECK(writer.ok());
    writer.Begin(1, 1);
    writer.Put(std::string(3 * kImageBlockBytesMax, 'x'));
    writer.End();
    CHECK(!writer.ok());
    const size_t written = sink.bytes.size();
    CHECK(!writer.Finish());
    CHECK(sink.bytes.size() == written);
  }
}

}  // namespace kbf
