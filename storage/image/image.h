// An image is a store, or a part of one, as a stream of bytes, for a file or another machine. This
// is the envelope: a head, sections of typed bytes, and checksums. What is in the sections is up to
// those who write and read them.
//
//   head    |"KBFIMAGE" 8|format 4|mark 4|digest 16|secret 192|sum of the others, without mark 16|
//   block   |type 2|version 2|payload bytes 4|number 4|more 4|payload …|sum of all before 16|
//   …
//   last    a block of type 0; its payload is the sum of the whole
//
// A section is one or more blocks of one type and version: `more` is 1 where the next block goes on
// with it, else 0. Blocks are numbered from 0. A sum is XXH3-128; that of the whole is the sum of
// the head, and for each block the sum of the whole so far and of the block's sum. All numbers are
// little-endian.
//
// Promises:  a reader gives no byte of a block whose sum is wrong, and allocates nothing by lengths
//            that it has read. An image that is cut off, damaged, of another format, or put
//            together from others gives a status, at the latest at its end: keep nothing of it
//            then. The sums find damage, not forgery.
// Requires:  a little-endian machine. The secret of the keys' hashes is in the head: whoever reads
//            it can make keys that collide. Writer: (Begin Put* End)* Finish. Reader: ReadHead
//            (Next Get*)*, until Next says no.
// Costs:     48 bytes per 64 KiB; writer and reader hold one block.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "storage/hash.h"
#include "storage/image/byte_stream.h"

namespace kbf {

inline constexpr uint32_t kImageFormat = 1;
inline constexpr uint32_t kImageBlockBytesMax = uint32_t{1} << 16;  // of a payload

using ImageSum = std::array<std::byte, 16>;

ImageSum ImageSumOf(std::span<const std::byte> bytes);

// Whether the store has changed since. It stands outside all sums, so that it can be set in place;
// any other number is damage.
enum class ImageMark : uint32_t { kCurrent = 0x4352434d, kOutdated = 0xbcadbcb2 };

struct ImageHead {
  ImageMark mark = ImageMark::kCurrent;
  ImageSum digest{};  // of the configuration: only a store with the same one can use the image
  std::array<std::byte, HashSecret::kBytes> secret{};
};
inline constexpr size_t kImageHeadBytes = 240;
inline constexpr size_t kImageMarkOffset = 12;
inline constexpr size_t kImageBlockHeadBytes = 16;

enum class ImageStatus : uint8_t {
  kOk,
  kForeign,      // it does not begin as an image
  kOtherFormat,  // of another version of this program
  kCutOff,       // it ends too early
  kDamaged,      // a sum is wrong
  kImpossible,   // the sums are right, but no store looks like this
  kNoMemory,
};
// Such as "it is cut off".
std::string_view ReasonOf(ImageStatus status);

class ImageWriter {
 public:
  // Throws std::bad_alloc.
  ImageWriter(ByteSink& sink, const ImageHead& head);
  ImageWriter(const ImageWriter&) = delete;
  ImageWriter& operator=(const ImageWriter&) = delete;

  // REQUIRES: type > 0, and the section before was ended
  void Begin(uint16_t type, uint16_t version);
  void Put(std::span<const std::byte> bytes);
  template <std::integral Number>
  void Put(Number number) {
    Put(std::as_bytes(std::span(&number, 1)));
  }
  void Put(std::string_view bytes) { Put(std::as_bytes(std::span(bytes))); }
  void End() { Send(0); }
  // False: the sink has refused some bytes.
  [[nodiscard]] bool Finish();

  bool ok() const { return ok_; }  // once false, nothing more is written
  uint64_t bytes_written() const { return bytes_written_; }

 private:
  void Send(uint32_t more);

  ByteSink& sink_;
  bool ok_ = true;
  uint64_t bytes_written_ = 0;
  uint16_t type_ = 0;
  uint16_t version_ = 0;
  uint32_t number_ = 0;
  ImageSum whole_{};
  std::vector<std::byte> block_;  // head, payload so far
};

class ImageReader {
 public:
  // Throws std::bad_alloc.
  explicit ImageReader(ByteSource& source);
  ImageReader(const ImageReader&) = delete;
  ImageReader& operator=(const ImageReader&) = delete;

  [[nodiscard]] bool ReadHead(ImageHead* head);
  // Goes to the next section. False: that was the end, if status() is kOk. An unread rest of the
  // section before is kImpossible.
  [[nodiscard]] bool Next();
  uint16_t type() const { return type_; }
  uint16_t version() const { return version_; }

  // False: the section has fewer bytes, or status() says what else is wrong.
  [[nodiscard]] bool Get(std::span<std::byte> into);
  template <std::integral Number>
  [[nodiscard]] bool Get(Number* number) {
    return Get(std::as_writable_bytes(std::span(number, 1)));
  }
  // Whether the section has more bytes. Where they cannot be had, it has none.
  bool HasMore();

  ImageStatus status() const { return status_; }
  // For those who read the sections; the first fault counts. Returns false.
  bool Refuse(ImageStatus status) {
    if (status_ == ImageStatus::kOk) status_ = status;
    return false;
  }
  uint64_t bytes_read() const { return bytes_read_; }

 private:
  bool ReadBytes(std::span<std::byte> into);
  bool ReadBlock();

  ByteSource& source_;
  ImageStatus status_ = ImageStatus::kOk;
  uint64_t bytes_read_ = 0;
  uint16_t type_ = 0;
  uint16_t version_ = 0;
  uint32_t number_ = 0;  // of the next block
  bool more_ = false;    // the section goes on in the next block
  bool ended_ = false;
  ImageSum whole_{};
  std::vector<std::byte> block_;     // room for head, payload and sum
  std::span<const std::byte> left_;  // of the payload
};

}  // namespace kbf
