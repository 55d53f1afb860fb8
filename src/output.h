// Output collects the replies of one connection while it is being served, and sends them with as
// few system calls as it can. A worker has one, which its connections use in turn; what a socket
// does not take is parked with the connection.
//
// Promises:  bytes go out in the order in which they were added. Values from kCopyMax bytes on are
//            not copied: a reference keeps them as they were.
// Requires:  `Load Room* (Flush | Park)*` by the worker's thread; Flush whenever full() says so:
// then
//            Room never lacks space.
// Costs:     kCapacity bytes a worker; a connection that waits for nothing has none.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "storage/shared_bytes.h"

namespace server {

class Output {
 public:
  static constexpr size_t kCopyMax = 4096;
  static constexpr size_t kFullBytes = 64 << 10;
  // Behind the mark of full() there is room for the replies to one batch of gets.
  static constexpr size_t kCapacity = kFullBytes + 32 * (kCopyMax + 2048);

 private:
  // Shared bytes that go out when the buffer has been sent up to `at`.
  struct Insert {
    size_t at;
    std::string_view bytes;
    kbf::SharedRef ref;
  };

 public:
  struct Parked {
    std::vector<char> bytes;
    std::vector<Insert> inserts;
    size_t total = 0;
  };
  enum class FlushStatus { kSent, kBlocked, kBroken };

  Output();

  // Room for n bytes behind what was added; Commit says how many were written.
  char* Room([[maybe_unused]] size_t n) { return buffer_.get() + end_; }
  void Commit(size_t n) { end_ += n; }
  void Append(std::string_view bytes);
  // `ref` keeps the bytes. Short ones are copied.
  void AppendShared(std::string_view bytes, kbf::SharedRef ref);
  // A long text of the caller's, copied once.
  void AppendText(std::string_view text);

  bool empty() const { return begin_ == end_ && next_insert_ == inserts_.size(); }
  bool full() const { return end_ - begin_ + insert_bytes_ >= kFullBytes; }

  // What the kernel took is added to *sent.
  FlushStatus Flush(int fd, size_t* sent);

  void Load(std::unique_ptr<Parked> parked);
  // Null if there is nothing.
  std::unique_ptr<Parked> Park();
  void Clear();

 private:
  int Gather(iovec* vectors, int limit) const;
  void Advance(size_t n);

  std::unique_ptr<char[]> buffer_;
  size_t begin_ = 0, end_ = 0;
  std::vector<Insert> inserts_;
  size_t next_insert_ = 0;
  size_t insert_bytes_ = 0;
};

}  // namespace server
