// Output collects the replies of one connection while it is being served, and sends them with as
// few system calls as it can. A worker has one, which its connections use in turn; what a socket
// does not take is parked with the connection.
//
// Promises:  bytes go out in the order in which they were added. Values from copy_max bytes on are
//            not copied: a reference keeps them as they were. Nothing is ever written outside the
//            buffer: what finds no room, or no memory, makes the output failed(), and the
//            connection is to be closed.
// Requires:  `Load (Room Commit | Append*)* (Flush | Park)*` by the worker's thread. While full()
//            says no there is room for the replies to one batch of requests and one more.
// Costs:     the capacity once a worker; a connection that waits for nothing has none.
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

// From full_bytes on an output is full; values of copy_max bytes and more are not copied. Tests
// give small ones.
struct OutputLimits {
  size_t full_bytes = 64 << 10;
  size_t copy_max = 4096;
};

class Output {
 public:
  // Requests that are answered together, at most: Dispatcher::kHeldMax.
  static constexpr size_t kBatch = 32;
  // Of one reply besides its value: protocol::kHeadBytesMax, and the line ends.
  static constexpr size_t kReplyBytesMax = 2048;

 private:
  // Shared bytes that go out when the buffer has been sent up to `at`.
  struct Insert {
    size_t at = 0;
    std::string_view bytes = {};
    kbf::SharedRef ref = {};
    bool text = false;  // made for this reply alone, by AppendText
  };

 public:
  // What is to be sent when the socket takes more.
  class Parked {
   public:
    // What is allocated for it, texts included; values are the store's.
    uint64_t held_bytes() const;
    // Values of it that have left the store.
    uint64_t detached_bytes() const;

   private:
    friend class Output;
    std::unique_ptr<char[]> bytes_;
    size_t size_ = 0;
    std::unique_ptr<Insert[]> inserts_;
    size_t num_inserts_ = 0;
  };
  enum class FlushStatus { kSent, kWantsRead, kWantsWrite, kBroken };

  explicit Output(const OutputLimits& limits = {});

  // Room for n bytes behind what was added; Commit says how many were written. REQUIRES: n <=
  // kReplyBytesMax
  char* Room(size_t n);
  void Commit(size_t n) { end_ += n; }
  void Append(std::string_view bytes);
  // `ref` keeps the bytes. Short ones are copied.
  void AppendShared(std::string_view bytes, kbf::SharedRef ref);
  // A long text of the caller's, copied once. False: no memory, nothing was added.
  [[nodiscard]] bool AppendText(std::string_view text);

  bool empty() const { return begin_ == end_ && next_insert_ == inserts_.size(); }
  bool full() const { return end_ - begin_ + insert_bytes_ >= limits_.full_bytes; }
  // Of values and texts that are not copied.
  size_t insert_bytes() const { return insert_bytes_; }
  bool failed() const { return failed_; }
  // How often something found no room, since the beginning: a mistake of the caller.
  uint64_t overruns() const { return overruns_; }

  // Sends until everything is sent or the transport takes no more. What it took is added to *sent.
  FlushStatus Flush(Transport& transport, size_t* sent);

  void Load(std::unique_ptr<Parked> parked);
  // Null if there is nothing, or where there is no memory: see failed().
  std::unique_ptr<Parked> Park();
  void Clear();

 private:
  static constexpr size_t kInsertsMax = 256;

  void Fail();
  void FailForRoom();
  void AddInsert(std::string_view bytes, kbf::SharedRef ref, bool text);
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
