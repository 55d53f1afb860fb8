// Output collects the replies of one connection while it is being served, and sends them with as
// few system calls as it can. A worker has one, which its connections use in turn; what a socket
// does not take is parked with the connection.
//
// Promises:  bytes are sent in the order in which they were added. Values of copy_max bytes or more
//            are not copied: a reference keeps them as they were; but those that share a block of
//            memory with others are, so that a slow reader holds nothing else. Nothing is written
//            outside the buffer: if there is no room or no memory, the output becomes failed(), and
//            the connection must be closed.
// Requires:  `Load (Room Commit | Append*)* (Flush | Park)*` by the worker's thread. While the
//            output is not full() there is room for the replies to one batch and one more request.
// Costs:     one buffer per worker; a connection without unsent replies has none.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "src/io/transport.h"
#include "storage/shared_bytes.h"

namespace server {

// An output is full from full_bytes on. Values of copy_max bytes or more are not copied. Tests use
// smaller limits.
struct OutputLimits {
  size_t full_bytes = 64 << 10;
  size_t copy_max = 4096;
};

class Output {
 public:
  // The most requests that are answered together: Batch::kMax.
  static constexpr size_t kBatch = 32;
  // The most bytes of one reply without its value: protocol::kHeadBytesMax and line ends.
  static constexpr size_t kReplyBytesMax = 2048;

 private:
  // Shared bytes that are sent when the buffer has been sent up to `at`.
  struct Insert {
    size_t at = 0;
    std::string_view bytes = {};
    kbf::SharedRef ref = {};
    bool text = false;  // made for this reply alone
  };

 public:
  // What is to be sent when the socket takes more.
  class Parked {
   public:
    // Bytes that are allocated for it. Texts count; values belong to the store.
    uint64_t held_bytes() const;
    // Bytes of values that are no longer in the store.
    uint64_t detached_bytes() const;

   private:
    friend class Output;
    std::unique_ptr<char[]> bytes_;
    size_t size_ = 0;
    std::unique_ptr<Insert[]> inserts_;
    size_t num_inserts_ = 0;
  };
  enum class FlushStatus { kSent, kPaused, kWantsRead, kWantsWrite, kBroken };
  // What Flush sends before it pauses, so that others have their turn.
  static constexpr size_t kFlushBytesMax = 256 << 10;

  explicit Output(const OutputLimits& limits = {});

  // Room for n bytes behind what was added; Commit adds those that were written. REQUIRES: n <=
  // kReplyBytesMax
  char* Room(size_t n);
  void Commit(size_t n) { end_ += n; }
  void Append(std::string_view bytes);
  // `ref` keeps the bytes alive. Values that are short, or share a block with others, are copied.
  void AppendShared(std::string_view bytes, kbf::SharedRef ref);
  // Copies the text, which may be long. False: no memory, nothing was added.
  [[nodiscard]] bool AppendText(std::string_view text);

  bool empty() const { return begin_ == end_ && next_insert_ == inserts_.size(); }
  bool full() const {
    return end_ - begin_ + insert_bytes_ >= limits_.full_bytes ||
           inserts_.size() + kBatch + 1 > kInsertsMax;
  }
  bool failed() const { return failed_; }
  // How often something found no room, since the beginning: a mistake of the caller.
  uint64_t overruns() const { return overruns_; }

  // Sends until everything is sent, the transport takes no more, or kFlushBytesMax are sent. What
  // it took is added to *sent.
  FlushStatus Flush(Transport& transport, size_t* sent);

  // True: the transport has taken everything that is left, and sends it later.
  [[nodiscard]] bool Defer(Transport& transport);

  void Load(std::unique_ptr<Parked> parked);
  // Null if there is nothing to send, or no memory: see failed().
  std::unique_ptr<Parked> Park();
  void Clear();

 private:
  static constexpr size_t kInsertsMax = 256;

  void Fail();
  void FailForRoom();
  void AddInsert(std::string_view bytes, kbf::SharedRef ref, bool text);
  // Up to `limit` pieces, of kFlushBytesMax bytes in all.
  size_t Gather(iovec* vectors, size_t limit) const;
  void Advance(size_t n);

  const OutputLimits limits_;
  const size_t capacity_;
  std::unique_ptr<char[]> buffer_;
  size_t begin_ = 0, end_ = 0;
  std::vector<Insert> inserts_;  // never more than kInsertsMax, which are reserved
  size_t next_insert_ = 0;
  size_t insert_bytes_ = 0;
  bool failed_ = false;
  uint64_t overruns_ = 0;
};

}  // namespace server
