// Input holds the bytes that a connection has received and not yet used, while it is being served.
// A worker has one, which its connections use in turn; the bytes of an unfinished request are kept
// with the connection until the rest arrives.
//
// Requires:  `Begin (Read | bytes | Consume)* Keep` by the worker's thread. Views into bytes() live
//            until the next Read or Keep.
// Costs:     kScratchBytes per worker. A connection between two requests has no buffer. One with an
//            unfinished request keeps what has arrived, or, if the request is larger than
//            kScratchBytes, a buffer for all of it, whose pages are touched as bytes arrive. These
//            bytes are counted in ConnectionMemory; large buffers are reserved there before they
//            are allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "src/io/connection_memory.h"
#include "src/io/transport.h"

namespace server {

class Input {
 public:
  static constexpr size_t kScratchBytes = 64 << 10;
  // Where nothing is left over from before, Read has room for so much at least.
  static constexpr size_t kReadBytesMin = 4096;

  // Of one connection, between two turns.
  struct Kept {
    std::unique_ptr<char[]> data;
    uint32_t size = 0;
    uint32_t capacity = 0;
  };
  enum class ReadStatus {
    kMore,        // there may be more to read
    kDrained,     // everything that had arrived was read
    kWantsRead,   // nothing there: wait for this event
    kWantsWrite,  // likewise
    kEnd,         // no more will come
    kNoMemory,    // the request is too large for what other connections have left; nothing was read
  };

  explicit Input(ConnectionMemory& memory) : memory_(memory), scratch_(new char[kScratchBytes]) {}

  void Begin(Kept* kept);
  std::span<char> bytes() { return {data_ + begin_, end_ - begin_}; }
  size_t size() const { return end_ - begin_; }
  void Consume(size_t n) { begin_ += n; }
  // Receives what there is, and adds its size to *received. `needed` is how many bytes the current
  // request has in all, as far as is known. `waiting`: as for ConnectionMemory::Reserve.
  ReadStatus Read(Transport& transport, uint64_t needed, bool waiting, size_t* received);
  // Keeps the bytes that were not consumed. False: no memory; nothing is kept. Bytes from the
  // scratch buffer are kept even over the limit, because this connection may be waiting for others
  // to give memory back.
  [[nodiscard]] bool Keep(Kept* kept);
  // Frees what is kept.
  void Forget(Kept* kept);

 private:
  [[nodiscard]] bool MakeRoom(uint64_t needed, bool waiting);
  // A buffer of `capacity` bytes, with the bytes at its beginning.
  [[nodiscard]] bool Grow(size_t capacity, bool waiting);
  void MoveToScratch();

  ConnectionMemory& memory_;
  const std::unique_ptr<char[]> scratch_;
  Kept own_;  // a buffer of the current connection, in place of the scratch buffer
  char* data_ = nullptr;
  size_t capacity_ = 0, begin_ = 0, end_ = 0;
};

}  // namespace server
