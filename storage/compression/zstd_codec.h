// ZstdCodec compresses and decompresses single values with zstd and a trained dictionary. It is the
// working memory of one thread.
//
// Promises:  Decompress(Compress(v)) == v with the same dictionary. Bytes that Compress did not
//            write, or another dictionary, give false or wrong bytes of the right length, never a
//            crash, a read outside of the input or a write outside of the output.
// Requires:  one thread at a time; values of at most kPlainBytesMax bytes. The dictionary outlives
//            the call.
// Costs:     0.4 MB per thread, allocated by Create(). After that Decompress allocates nothing;
//            zstd makes its memory for Compress anew where values become much smaller or larger.
//            A value of 305 bytes: 1.3 us in, 0.4 us out (bench/compression_bench.cc).
// Departs:   from the zstd format: a frame's header is left out, because it follows from the length
//            of the value, which the caller keeps. That saves 6 or 7 of about 90 bytes.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace kbf {

class ZstdDictionary;

class ZstdCodec {
 public:
  // Longer ones would keep a lock for more than 0.3 ms.
  static constexpr size_t kPlainBytesMax = 64 << 10;

  // Null where there is no memory.
  [[nodiscard]] static std::unique_ptr<ZstdCodec> Create();
  // The one of the calling thread, made when it is asked for first; null where there is no memory.
  [[nodiscard]] static ZstdCodec* OfThisThread();
  ~ZstdCodec();
  ZstdCodec(const ZstdCodec&) = delete;
  ZstdCodec& operator=(const ZstdCodec&) = delete;

  // The compressed value, in this codec's memory until its next call. Empty: it has more than
  // `bytes_max` bytes, the value is longer than kPlainBytesMax, or there is no memory. The kRoom
  // bytes before it are the caller's.
  [[nodiscard]] std::string_view Compress(std::string_view plain, const ZstdDictionary& dictionary,
                                          size_t bytes_max);
  static constexpr size_t kRoom = 6;

  // False: these are not the bytes of a value of plain.size() bytes.
  [[nodiscard]] bool Decompress(std::string_view compressed, const ZstdDictionary& dictionary,
                                std::span<char> plain);

 private:
  ZstdCodec() = default;
  bool Prepare();

  ZSTD_CCtx_s* compression_ = nullptr;
  ZSTD_DCtx_s* decompression_ = nullptr;
  std::unique_ptr<char[]> frame_;
};

}  // namespace kbf
