#include "storage/image/image.h"

#include <algorithm>
#include <bit>
#include <cassert>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace kbf {

static_assert(std::endian::native == std::endian::little,
              "numbers are saved as they are in memory");

namespace {

constexpr std::string_view kMagic = "KBFIMAGE";
constexpr uint16_t kEndType = 0;

struct HeadBytes {
  char magic[8];
  uint32_t format;
  uint32_t mark;
  ImageSum digest;
  std::array<std::byte, HashSecret::kBytes> secret;
  ImageSum sum;
};
static_assert(sizeof(HeadBytes) == kImageHeadBytes &&
              offsetof(HeadBytes, mark) == kImageMarkOffset);

struct BlockHead {
  uint16_t type;
  uint16_t version;
  uint32_t payload_bytes;
  uint32_t number;
  uint32_t more;
};
static_assert(sizeof(BlockHead) == kImageBlockHeadBytes);

std::span<const std::byte> BytesOf(const auto& value) {
  return std::as_bytes(std::span(&value, 1));
}

ImageSum SumOfHead(HeadBytes head) {
  head.mark = 0;
  return ImageSumOf(BytesOf(head).first(offsetof(HeadBytes, sum)));
}

ImageSum Chained(const ImageSum& whole, const ImageSum& block) {
  return ImageSumOf(BytesOf(std::array{whole, block}));
}

}  // namespace

ImageSum ImageSumOf(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  ImageSum sum;
  std::memcpy(sum.data(), &hash.low64, 8);
  std::memcpy(sum.data() + 8, &hash.high64, 8);
  return sum;
}

std::string_view ReasonOf(ImageStatus status) {
  switch (status) {
    case ImageStatus::kOk:
      return "it is whole";
    case ImageStatus::kForeign:
      return "it is no image of a store";
    case ImageStatus::kOtherFormat:
      return "another version has written it";
    case ImageStatus::kCutOff:
      return "it is cut off";
    case ImageStatus::kDamaged:
      return "it is damaged";
    case ImageStatus::kImpossible:
      return "it contradicts itself";
    case ImageStatus::kNoMemory:
      return "there is no memory to read it";
  }
  return "";
}

// ---- writing ------------------------------------------------------------------------------------

ImageWriter::ImageWriter(ByteSink& sink, const ImageHead& head) : sink_(sink) {
  block_.reserve(sizeof(BlockHead) + kImageBlockBytesMax + sizeof(ImageSum));
  HeadBytes bytes{};
  kMagic.copy(bytes.magic, sizeof bytes.magic);
  bytes.format = kImageFormat;
  bytes.mark = static_cast<uint32_t>(head.mark);
  bytes.digest = head.digest;
  bytes.secret = head.secret;
  bytes.sum = whole_ = SumOfHead(bytes);
  ok_ = sink_.Write(BytesOf(bytes));
  bytes_written_ = sizeof bytes;
}

void ImageWriter::Begin(uint16_t type, uint16_t version) {
  assert(block_.empty());
  type_ = type;
  version_ = version;
  block_.resize(sizeof(BlockHead));
}

void ImageWriter::Put(std::span<const std::byte> bytes) {
  assert(block_.size() >= sizeof(BlockHead));
  while (ok_ && !bytes.empty()) {
    const size_t room = sizeof(BlockHead) + kImageBlockBytesMax - block_.size();
    if (room == 0) {
      Send(1);
      block_.resize(sizeof(BlockHead));
      continue;
    }
    const auto part = bytes.first(std::min(room, bytes.size()));
    block_.insert(block_.end(), part.begin(), part.end());
    bytes = bytes.subspan(part.size());
  }
}

void ImageWriter::Send(uint32_t more) {
  const auto payload_bytes = static_cast<uint32_t>(block_.size() - sizeof(BlockHead));
  const BlockHead head{type_, version_, payload_bytes, number_++, more};
  std::memcpy(block_.data(), &head, sizeof head);
  const ImageSum sum = ImageSumOf(block_);
  whole_ = Chained(whole_, sum);
  block_.insert(block_.end(), sum.begin(), sum.end());
  ok_ = ok_ && sink_.Write(block_);
  bytes_written_ += block_.size();
  block_.clear();
}

bool ImageWriter::Finish() {
  const ImageSum whole = whole_;
  Begin(kEndType, 0);
  Put(whole);
  End();
  return ok_;
}

// ---- reading ------------------------------------------------------------------------------------

ImageReader::ImageReader(ByteSource& source)
    : source_(source), block_(sizeof(BlockHead) + kImageBlockBytesMax + sizeof(ImageSum)) {}

bool ImageReader::ReadBytes(std::span<std::byte> into) {
  const size_t got = source_.Read(into);
  bytes_read_ += got;
  return got == into.size() || Refuse(ImageStatus::kCutOff);
}

bool ImageReader::ReadHead(ImageHead* head) {
  HeadBytes bytes{};
  const bool complete = ReadBytes(std::as_writable_bytes(std::span(&bytes, 1)));
  if (std::string_view(bytes.magic, sizeof bytes.magic) != kMagic) {
    status_ = ImageStatus::kForeign;
    return false;
  }
  if (!complete) return false;
  if (bytes.format != kImageFormat) return Refuse(ImageStatus::kOtherFormat);
  whole_ = SumOfHead(bytes);
  const auto mark = static_cast<ImageMark>(bytes.mark);
  if (bytes.sum != whole_ || (mark != ImageMark::kCurrent && mark != ImageMark::kOutdated)) {
    return Refuse(ImageStatus::kDamaged);
  }
  *head = {mark, bytes.digest, bytes.secret};
  return true;
}

// The next block into block_, its payload into left_.
bool ImageReader::ReadBlock() {
  left_ = {};
  BlockHead head;
  const std::span<std::byte> bytes(block_);
  if (!ReadBytes(bytes.first(sizeof head))) return false;
  std::memcpy(&head, block_.data(), sizeof head);
  if (head.payload_bytes > kImageBlockBytesMax || head.number != number_ || head.more > 1) {
    return Refuse(ImageStatus::kDamaged);
  }
  const size_t summed = sizeof head + head.payload_bytes;
  if (!ReadBytes(bytes.subspan(sizeof head, head.payload_bytes + sizeof(ImageSum)))) return false;
  const ImageSum sum = ImageSumOf(bytes.first(summed));
  if (std::memcmp(sum.data(), block_.data() + summed, sizeof sum) != 0) {
    return Refuse(ImageStatus::kDamaged);
  }
  if (more_ && (head.type != type_ || head.version != version_)) {
    return Refuse(ImageStatus::kImpossible);
  }
  ++number_;
  type_ = head.type;
  version_ = head.version;
  more_ = head.more != 0;
  left_ = bytes.subspan(sizeof head, head.payload_bytes);
  if (type_ != kEndType) {
    whole_ = Chained(whole_, sum);
    return true;
  }
  ended_ = true;
  if (more_ || left_.size() != whole_.size() ||
      std::memcmp(left_.data(), whole_.data(), whole_.size()) != 0) {
    return Refuse(ImageStatus::kDamaged);
  }
  left_ = {};
  return false;
}

bool ImageReader::Next() {
  if (status_ != ImageStatus::kOk || ended_) return false;
  if (more_ || !left_.empty()) return Refuse(ImageStatus::kImpossible);
  return ReadBlock();
}

bool ImageReader::HasMore() {
  while (status_ == ImageStatus::kOk && left_.empty() && more_) (void)ReadBlock();
  return status_ == ImageStatus::kOk && !left_.empty();
}

bool ImageReader::Get(std::span<std::byte> into) {
  while (!into.empty()) {
    if (!HasMore()) return Refuse(ImageStatus::kImpossible);
    const size_t part = std::min(into.size(), left_.size());
    std::memcpy(into.data(), left_.data(), part);
    into = into.subspan(part);
    left_ = left_.subspan(part);
  }
  return status_ == ImageStatus::kOk;
}

}  // namespace kbf
