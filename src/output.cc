#include "src/output.h"

#include <errno.h>
#include <sys/socket.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <new>

namespace server {
namespace {

constexpr int kVectorsMax = 64;

// A block of shared bytes with a text in it.
struct SharedText {
  kbf::SharedHeader header;
  char bytes[];
};

}  // namespace

Output::Output() : buffer_(new char[kCapacity]) {}

void Output::Append(std::string_view bytes) {
  if (bytes.empty()) return;  // it may have no address either
  assert(end_ + bytes.size() <= kCapacity);
  memcpy(buffer_.get() + end_, bytes.data(), bytes.size());
  end_ += bytes.size();
}

void Output::AppendShared(std::string_view bytes, kbf::SharedRef ref) {
  if (bytes.size() < kCopyMax) return Append(bytes);
  inserts_.push_back({end_, bytes, std::move(ref)});
  insert_bytes_ += bytes.size();
}

void Output::AppendText(std::string_view text) {
  if (text.size() < kCopyMax) return Append(text);
  auto* block = static_cast<SharedText*>(kbf::AllocateShared(sizeof(SharedText) + text.size()));
  if (block == nullptr) throw std::bad_alloc();
  new (&block->header) kbf::SharedHeader;
  memcpy(block->bytes, text.data(), text.size());
  AppendShared({block->bytes, text.size()}, kbf::SharedRef(&block->header));
  kbf::Release(&block->header);
}

// The next pieces to send: buffer, insert, buffer, insert, ...
int Output::Gather(iovec* vectors, int limit) const {
  int count = 0;
  size_t at = begin_;
  size_t insert = next_insert_;
  while (count < limit) {
    const size_t stop = insert < inserts_.size() ? inserts_[insert].at : end_;
    if (at < stop) {
      vectors[count++] = {buffer_.get() + at, stop - at};
      at = stop;
    } else if (insert < inserts_.size()) {
      const std::string_view bytes = inserts_[insert++].bytes;
      vectors[count++] = {const_cast<char*>(bytes.data()), bytes.size()};
    } else {
      break;
    }
  }
  return count;
}

void Output::Advance(size_t n) {
  while (n > 0) {
    const bool inserts = next_insert_ < inserts_.size();
    const size_t stop = inserts ? inserts_[next_insert_].at : end_;
    if (begin_ < stop) {
      const size_t taken = std::min(n, stop - begin_);
      begin_ += taken;
      n -= taken;
      continue;
    }
    assert(inserts);
    Insert& insert = inserts_[next_insert_];
    const size_t taken = std::min(n, insert.bytes.size());
    insert.bytes.remove_prefix(taken);
    insert_bytes_ -= taken;
    n -= taken;
    if (insert.bytes.empty()) {
      insert.ref.Reset();
      ++next_insert_;
    }
  }
}

Output::FlushStatus Output::Flush(int fd, size_t* sent) {
  while (!empty()) {
    iovec vectors[kVectorsMax];
    msghdr message{};
    message.msg_iov = vectors;
    message.msg_iovlen = Gather(vectors, kVectorsMax);
    const ssize_t n = message.msg_iovlen == 1
                          ? send(fd, vectors[0].iov_base, vectors[0].iov_len, MSG_NOSIGNAL)
                          : sendmsg(fd, &message, MSG_NOSIGNAL);
    if (n < 0) {
      if (errno == EINTR) continue;
      return errno == EAGAIN || errno == EWOULDBLOCK ? FlushStatus::kBlocked : FlushStatus::kBroken;
    }
    Advance(n);
    *sent += n;
  }
  Clear();
  return FlushStatus::kSent;
}

void Output::Load(std::unique_ptr<Parked> parked) {
  assert(empty());
  Clear();
  if (parked == nullptr) return;
  Append({parked->bytes.data(), parked->bytes.size()});
  inserts_ = std::move(parked->inserts);
  for (const Insert& insert : inserts_) insert_bytes_ += insert.bytes.size();
}

std::unique_ptr<Output::Parked> Output::Park() {
  if (empty()) {
    Clear();
    return nullptr;
  }
  auto parked = std::make_unique<Parked>();
  parked->bytes.assign(buffer_.get() + begin_, buffer_.get() + end_);
  for (size_t i = next_insert_; i < inserts_.size(); ++i) {
    inserts_[i].at -= begin_;
    parked->inserts.push_back(std::move(inserts_[i]));
  }
  Clear();
  return parked;
}

void Output::Clear() {
  begin_ = end_ = insert_bytes_ = next_insert_ = 0;
  inserts_.clear();
}

}  // namespace server
