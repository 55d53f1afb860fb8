#include "src/io/output.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <new>

namespace server {
namespace {

constexpr size_t kVectorsMax = 64;
// A reference may hold half as many bytes again as the value has, and a page.
constexpr size_t kHeldSlack = 4096;

// A block of shared bytes with a text in it.
struct SharedText {
  kbf::SharedHeader header;
  char bytes[];
};

}  // namespace

uint64_t Output::Parked::held_bytes() const {
  uint64_t bytes = sizeof(*this) + size_ + num_inserts_ * sizeof(Insert);
  for (size_t i = 0; i < num_inserts_; ++i) {
    if (inserts_[i].text) bytes += inserts_[i].bytes.size();
  }
  return bytes;
}

uint64_t Output::Parked::detached_bytes() const {
  uint64_t bytes = 0;
  for (size_t i = 0; i < num_inserts_; ++i) {
    if (!inserts_[i].text && kbf::IsDetached(*inserts_[i].ref.get())) {
      bytes += inserts_[i].bytes.size();
    }
  }
  return bytes;
}

Output::Output(const OutputLimits& limits)
    : limits_(limits),
      capacity_(limits.full_bytes + (kBatch + 1) * (limits.copy_max + kReplyBytesMax)),
      buffer_(new char[capacity_]) {
  inserts_.reserve(kInsertsMax);
}

// Part of a reply is useless, so everything is dropped.
void Output::Fail() {
  Clear();
  failed_ = true;
}

void Output::FailForRoom() {
  ++overruns_;
  Fail();
}

char* Output::Room(size_t n) {
  if (n > capacity_ - end_) FailForRoom();
  return buffer_.get() + end_;
}

void Output::Append(std::string_view bytes) {
  if (bytes.empty()) return;  // its address may be null, which memcpy forbids
  if (bytes.size() > capacity_ - end_) return FailForRoom();
  memcpy(buffer_.get() + end_, bytes.data(), bytes.size());
  end_ += bytes.size();
}

void Output::AddInsert(std::string_view bytes, kbf::SharedRef ref, bool text) {
  if (inserts_.size() == kInsertsMax) return FailForRoom();
  inserts_.push_back({end_, bytes, std::move(ref), text});
  insert_bytes_ += bytes.size();
}

void Output::AppendShared(std::string_view bytes, kbf::SharedRef ref) {
  if (bytes.size() < limits_.copy_max) return Append(bytes);
  const kbf::SharedHeader* block = ref.get();
  if (block != nullptr && kbf::HeldBytes(*block) > bytes.size() + bytes.size() / 2 + kHeldSlack) {
    if (!AppendText(bytes)) Fail();
    return;
  }
  AddInsert(bytes, std::move(ref), false);
}

bool Output::AppendText(std::string_view text) {
  if (text.size() < limits_.copy_max) {
    Append(text);
    return true;
  }
  auto* block = static_cast<SharedText*>(kbf::AllocateShared(sizeof(SharedText) + text.size()));
  if (block == nullptr) return false;
  new (&block->header) kbf::SharedHeader;
  memcpy(block->bytes, text.data(), text.size());
  AddInsert({block->bytes, text.size()}, kbf::SharedRef(&block->header), true);
  kbf::Release(&block->header);
  return true;
}

// The next pieces to send: buffer, insert, buffer, insert, ...
size_t Output::Gather(iovec* vectors, size_t limit) const {
  size_t count = 0;
  size_t at = begin_;
  size_t insert = next_insert_;
  for (size_t room = kFlushBytesMax; count < limit && room > 0;) {
    const size_t stop = insert < inserts_.size() ? inserts_[insert].at : end_;
    std::string_view piece;
    if (at < stop) {
      piece = {buffer_.get() + at, stop - at};
      at = stop;
    } else if (insert < inserts_.size()) {
      piece = inserts_[insert++].bytes;
    } else {
      break;
    }
    piece = piece.substr(0, room);
    room -= piece.size();
    vectors[count++] = {const_cast<char*>(piece.data()), piece.size()};
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

Output::FlushStatus Output::Flush(Transport& transport, size_t* sent) {
  if (failed_) return FlushStatus::kBroken;
  while (!empty()) {
    if (*sent >= kFlushBytesMax) return FlushStatus::kPaused;
    iovec pieces[kVectorsMax];
    const IoResult result = transport.Write({pieces, Gather(pieces, kVectorsMax)});
    if (result.status == IoStatus::kWantsRead) return FlushStatus::kWantsRead;
    if (result.status == IoStatus::kWantsWrite) return FlushStatus::kWantsWrite;
    if (result.status != IoStatus::kOk) return FlushStatus::kBroken;
    Advance(result.bytes);
    *sent += result.bytes;
  }
  Clear();
  return FlushStatus::kSent;
}

bool Output::Defer(Transport& transport) {
  if (failed_ || empty()) return false;
  iovec pieces[kVectorsMax];
  const size_t count = Gather(pieces, kVectorsMax);
  if (count == kVectorsMax || end_ - begin_ + insert_bytes_ > kFlushBytesMax) return false;
  if (!transport.Defer({pieces, count})) return false;
  Clear();
  return true;
}

void Output::Load(std::unique_ptr<Parked> parked) {
  Clear();
  if (parked == nullptr) return;
  Append({parked->bytes_.get(), parked->size_});
  for (size_t i = 0; i < parked->num_inserts_; ++i) {
    Insert& insert = parked->inserts_[i];
    insert_bytes_ += insert.bytes.size();
    inserts_.push_back(std::move(insert));
  }
}

std::unique_ptr<Output::Parked> Output::Park() {
  if (empty() || failed_) return nullptr;
  std::unique_ptr<Parked> parked(new (std::nothrow) Parked);
  if (parked == nullptr) {
    Fail();
    return nullptr;
  }
  parked->size_ = end_ - begin_;
  parked->num_inserts_ = inserts_.size() - next_insert_;
  parked->bytes_.reset(new (std::nothrow) char[parked->size_]);
  parked->inserts_.reset(new (std::nothrow) Insert[parked->num_inserts_]);
  if (parked->bytes_ == nullptr || parked->inserts_ == nullptr) {
    Fail();
    return nullptr;
  }
  memcpy(parked->bytes_.get(), buffer_.get() + begin_, parked->size_);
  for (size_t i = 0; i < parked->num_inserts_; ++i) {
    Insert& insert = parked->inserts_[i];
    insert = std::move(inserts_[next_insert_ + i]);
    insert.at -= begin_;
  }
  Clear();
  return parked;
}

void Output::Clear() {
  begin_ = end_ = insert_bytes_ = next_insert_ = 0;
  inserts_.clear();
  failed_ = false;
}

}  // namespace server
