#include "src/input.h"

#include <errno.h>
#include <sys/socket.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <new>
#include <utility>

namespace server {
namespace {

// Less is copied back to the scratch buffer; more is continued in place, so that a sender of single
// bytes does not have its whole request copied for each.
constexpr size_t kCopyBackMax = 2048;

}  // namespace

void Input::Forget(Kept* kept) {
  if (kept->capacity != 0) memory_.Subtract(kept->capacity);
  *kept = {};
}

void Input::Begin(Kept* kept) {
  assert(own_.data == nullptr);
  begin_ = 0;
  end_ = kept->size;
  if (kept->size > kCopyBackMax) {
    own_ = std::exchange(*kept, {});
    data_ = own_.data.get();
    capacity_ = own_.capacity;
    return;
  }
  data_ = scratch_.get();
  capacity_ = kScratchBytes;
  if (kept->size == 0) return;
  memcpy(data_, kept->data.get(), kept->size);
  Forget(kept);
}

// Moves the bytes to the beginning, to the scratch buffer where they are few, and to a larger one
// where that is not enough.
bool Input::MakeRoom(uint64_t needed) {
  if (own_.data != nullptr && size() <= kCopyBackMax) {
    memcpy(scratch_.get(), data_ + begin_, size());
    Forget(&own_);
    data_ = scratch_.get();
    capacity_ = kScratchBytes;
    end_ -= begin_;
    begin_ = 0;
  } else if (begin_ == end_) {
    begin_ = end_ = 0;
  } else if (begin_ > 0 && (capacity_ - end_ < capacity_ / 2 || begin_ + needed > capacity_)) {
    memmove(data_, data_ + begin_, size());
    end_ -= begin_;
    begin_ = 0;
  }
  if (end_ < capacity_) return true;
  // Doubling, not the announced size at once: a client must send bytes to make us hold memory.
  const size_t capacity =
      std::max<uint64_t>(std::min<uint64_t>(needed, 2 * capacity_), capacity_ + capacity_ / 4);
  if (!memory_.TryAdd(capacity)) return false;
  std::unique_ptr<char[]> data(new (std::nothrow) char[capacity]);
  if (data == nullptr) {
    memory_.Subtract(capacity);
    return false;
  }
  memcpy(data.get(), data_, end_);
  Forget(&own_);
  own_ = {std::move(data), static_cast<uint32_t>(end_), static_cast<uint32_t>(capacity)};
  data_ = own_.data.get();
  capacity_ = capacity;
  return true;
}

Input::ReadStatus Input::Read(int fd, uint64_t needed, size_t* received) {
  if (!MakeRoom(needed)) return ReadStatus::kNoMemory;
  const size_t room = capacity_ - end_;
  ssize_t n;
  do n = recv(fd, data_ + end_, room, 0);
  while (n < 0 && errno == EINTR);
  if (n < 0) {
    return errno == EAGAIN || errno == EWOULDBLOCK ? ReadStatus::kBlocked : ReadStatus::kEnd;
  }
  if (n == 0) return ReadStatus::kEnd;
  end_ += n;
  *received += n;
  return static_cast<size_t>(n) == room ? ReadStatus::kMore : ReadStatus::kDrained;
}

bool Input::Keep(Kept* kept) {
  assert(kept->data == nullptr);
  bool fits = true;
  if (size() == 0) {
    Forget(&own_);
  } else if (own_.data != nullptr && begin_ == 0) {
    own_.size = static_cast<uint32_t>(end_);
    *kept = std::exchange(own_, {});
  } else {
    const size_t capacity = size();
    std::unique_ptr<char[]> data(new (std::nothrow) char[capacity]);
    fits = data != nullptr;
    if (fits) {
      memory_.Add(capacity);
      memcpy(data.get(), data_ + begin_, capacity);
      *kept = {std::move(data), static_cast<uint32_t>(capacity), static_cast<uint32_t>(capacity)};
    }
    Forget(&own_);
  }
  begin_ = end_ = 0;
  return fits;
}

}  // namespace server
