#include "storage/compression/zstd_codec.h"

#include <zstd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <new>

#include "storage/compression/zstd_dictionary.h"

namespace kbf {

namespace {

constexpr size_t kFrameBytes = ZSTD_COMPRESSBOUND(ZstdCodec::kPlainBytesMax) + 64;

// The beginning of a frame that holds one value: no checksum, no number of a dictionary, the length
// of the value in as few bytes as the format allows (RFC 8878, 3.1.1.1).
struct FrameHeader {
  explicit FrameHeader(size_t plain_bytes) {
    const uint32_t magic = 0xfd2fb528;
    for (size_t i = 0; i < 4; ++i) bytes[i] = static_cast<char>(magic >> 8 * i);
    constexpr unsigned kSingleSegment = 1 << 5;
    unsigned width_code = 0;
    size_t number = plain_bytes;
    if (plain_bytes > 255) {
      width_code = plain_bytes < 65536 + 256 ? 1 : 2;
      if (width_code == 1) number -= 256;
    }
    bytes[4] = static_cast<char>(width_code << 6 | kSingleSegment);
    const size_t width = size_t{1} << width_code;
    for (size_t i = 0; i < width; ++i) bytes[5 + i] = static_cast<char>(number >> 8 * i);
    size = 5 + width;
  }

  std::array<char, 9> bytes;
  size_t size;
};

}  // namespace

std::unique_ptr<ZstdCodec> ZstdCodec::Create() {
  std::unique_ptr<ZstdCodec> codec(new (std::nothrow) ZstdCodec);
  if (codec == nullptr || !codec->Prepare()) return nullptr;
  return codec;
}

ZstdCodec* ZstdCodec::OfThisThread() {
  thread_local std::unique_ptr<ZstdCodec> codec;
  if (codec == nullptr) codec = Create();
  return codec.get();
}

ZstdCodec::~ZstdCodec() {
  ZSTD_freeCCtx(compression_);
  ZSTD_freeDCtx(decompression_);
}

bool ZstdCodec::Prepare() {
  frame_.reset(new (std::nothrow) char[kFrameBytes]);
  compression_ = ZSTD_createCCtx();
  decompression_ = ZSTD_createDCtx();
  if (frame_ == nullptr || compression_ == nullptr || decompression_ == nullptr) return false;
  const auto set = [this](ZSTD_cParameter parameter, int to) {
    return !ZSTD_isError(ZSTD_CCtx_setParameter(compression_, parameter, to));
  };
  return set(ZSTD_c_compressionLevel, ZstdDictionary::kLevel) && set(ZSTD_c_dictIDFlag, 0) &&
         set(ZSTD_c_checksumFlag, 0) && set(ZSTD_c_contentSizeFlag, 1);
}

std::string_view ZstdCodec::Compress(std::string_view plain, const ZstdDictionary& dictionary,
                                     size_t bytes_max) {
  if (plain.size() > kPlainBytesMax) return {};
  if (ZSTD_isError(ZSTD_CCtx_refCDict(compression_, dictionary.compression()))) return {};
  const size_t bytes =
      ZSTD_compress2(compression_, frame_.get(), kFrameBytes, plain.data(), plain.size());
  // It would refer to a dictionary that may be gone when the next one is set.
  (void)ZSTD_CCtx_refCDict(compression_, nullptr);
  const FrameHeader header(plain.size());
  if (ZSTD_isError(bytes) || bytes < header.size || bytes - header.size > bytes_max) return {};
  if (std::memcmp(frame_.get(), header.bytes.data(), header.size) != 0) return {};
  return {frame_.get() + header.size, bytes - header.size};
}

bool ZstdCodec::Decompress(std::string_view compressed, const ZstdDictionary& dictionary,
                           std::span<char> plain) {
  const FrameHeader header(plain.size());
  if (plain.size() > kPlainBytesMax || compressed.size() > kFrameBytes - header.size) return false;
  std::memcpy(frame_.get(), header.bytes.data(), header.size);
  std::memcpy(frame_.get() + header.size, compressed.data(), compressed.size());
  const size_t bytes =
      ZSTD_decompress_usingDDict(decompression_, plain.data(), plain.size(), frame_.get(),
                                 header.size + compressed.size(), dictionary.decompression());
  return !ZSTD_isError(bytes) && bytes == plain.size();
}

}  // namespace kbf
