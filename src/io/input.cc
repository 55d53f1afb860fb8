#include "src/io/input.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <new>
#include <utility>

namespace server {
namespace {

// Up to this size kept bytes are copied to the scratch buffer. More are continued in place, so that
// a request that arrives byte by byte is not copied as a whole for each byte.
constexpr size_t kCopyBackMax = 2048;
// While memory is short, no more than this is read of a request whose size is not known yet, so
// that requests that will have to wait hold little.
constexpr size_t kShortReadBytes = Input::kReadBytesMin;
// One read takes no more, so that others have their turn.
constexpr size_t kReadBytesMax = 128 << 10;

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

void Input::MoveToScratch() {
  memcpy(scratch_.get(), data_ + begin_, size());
  Forget(&own_);
  data_ = scratch_.get();
  capacity_ = kScratchBytes;
  end_ -= begin_;
  begin_ = 0;
}

bool Input::Grow(size_t capacity, bool waiting) {
  if (!memory_.Reserve(capacity, waiting)) return false;
  std::unique_ptr<char[]> data(new (std::nothrow) char[capacity]);
  if (data == nullptr) {
    memory_.Subtract(capacity);
    return false;
  }
  end_ -= begin_;
  memcpy(data.get(), data_ + begin_, end_);
  begin_ = 0;
  Forget(&own_);
  own_ = {std::move(data), static_cast<uint32_t>(end_), static_cast<uint32_t>(capacity)};
  data_ = own_.data.get();
  capacity_ = capacity;
  return true;
}

// Afterwards there is room for the whole request behind begin_, and for at least one more byte.
bool Input::MakeRoom(uint64_t needed, bool waiting) {
  needed = std::max<uint64_t>(needed, size() + 1);
  if (own_.data != nullptr && size() <= kCopyBackMax && needed <= kScratchBytes) MoveToScratch();
  if (needed > capacity_) {
    // A request that is known to be large gets all its memory before more of it is read: several
    // that have half of it each could wait for each other. Its pages are taken as bytes arrive.
    if (Grow(std::max<uint64_t>(needed, std::min(2 * capacity_, kScratchBytes)), waiting)) {
      return true;
    }
    // A short request can use the scratch buffer, at the cost of a copy per read.
    if (own_.data == nullptr || needed > kScratchBytes) return false;
    MoveToScratch();
  }
  if (begin_ == end_) {
    begin_ = end_ = 0;
  } else if (begin_ > 0 && (capacity_ - end_ < capacity_ / 2 || begin_ + needed > capacity_)) {
    memmove(data_, data_ + begin_, size());
    end_ -= begin_;
    begin_ = 0;
  }
  return true;
}

Input::ReadStatus Input::Read(Transport& transport, uint64_t needed, bool waiting,
                              size_t* received) {
  if (!MakeRoom(needed, waiting)) return ReadStatus::kNoMemory;
  size_t room = std::min(capacity_ - end_, kReadBytesMax);
  if (memory_.IsShort()) room = std::min(room, std::max<size_t>(needed, kShortReadBytes));
  const IoResult result = transport.Read({data_ + end_, room});
  switch (result.status) {
    case IoStatus::kOk:
      break;
    case IoStatus::kWantsRead:
      return ReadStatus::kWantsRead;
    case IoStatus::kWantsWrite:
      return ReadStatus::kWantsWrite;
    case IoStatus::kEnd:
    case IoStatus::kBroken:
      return ReadStatus::kEnd;
  }
  end_ += result.bytes;
  *received += result.bytes;
  return result.bytes == room ? ReadStatus::kMore : ReadStatus::kDrained;
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
