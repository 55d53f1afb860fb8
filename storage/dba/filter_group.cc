#include "storage/dba/filter_group.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <limits>

namespace kbf {

namespace {

constexpr uint64_t kRowsMax = uint64_t{1} << 40;

const uint64_t* Words(const CellArray& segment) {
  return reinterpret_cast<const uint64_t*>(segment.data());
}
uint64_t* Words(CellArray* segment) { return reinterpret_cast<uint64_t*>(segment->data()); }

}  // namespace

FilterGroup::FilterGroup(const FilterGroupShape& shape, unsigned first_hash)
    : shape_(shape),
      first_hash_(first_hash),
      row_bits_(shape.cardinality <= 64 ? std::bit_ceil(shape.cardinality)
                                        : (shape.cardinality + 63) / 64 * 64),
      words_((shape.cardinality + 63) / 64) {}

std::optional<FilterGroup> FilterGroup::Create(const FilterGroupShape& shape) {
  if (shape.cardinality < 1 || shape.cardinality > kCardinalityMax || shape.rows < 1 ||
      shape.rows > kRowsMax || shape.num_hashes < 1 || shape.num_hashes > kDbaHashesMax) {
    return std::nullopt;
  }
  FilterGroup group(shape, 0);
  if (!group.Allocate()) return std::nullopt;
  return group;
}

std::optional<FilterGroup> FilterGroup::MoreSegments(unsigned more) const {
  const unsigned first_hash = first_hash_ + shape_.num_hashes;
  if (first_hash + more > kDbaHashesMax) return std::nullopt;
  FilterGroup group({shape_.cardinality, shape_.rows, more}, first_hash);
  if (!group.Allocate()) return std::nullopt;
  return group;
}

void FilterGroup::Append(FilterGroup more) {
  assert(more.first_hash_ == first_hash_ + shape_.num_hashes && more.shape_.rows == shape_.rows);
  for (CellArray& segment : more.segments_) segments_.push_back(std::move(segment));
  shape_.num_hashes += more.shape_.num_hashes;
}

bool FilterGroup::Allocate() {
  const uint64_t bytes = (shape_.rows * row_bits_ + 63) / 64 * 8;
  for (unsigned j = 0; j < shape_.num_hashes; ++j) {
    auto segment = CellArray::Allocate(bytes);
    if (!segment) return false;
    segments_.push_back(std::move(*segment));
  }
  return true;
}

uint64_t FilterGroup::memory_bytes() const {
  uint64_t bytes = 0;
  for (const CellArray& segment : segments_) bytes += segment.allocated_bytes();
  return bytes;
}

uint64_t FilterGroup::WordMask(unsigned word) const {
  const unsigned left = shape_.cardinality - word * 64;
  return left >= 64 ? ~uint64_t{0} : (uint64_t{1} << left) - 1;
}

uint64_t FilterGroup::ReadRow(const CellArray& segment, uint64_t row, unsigned word) const {
  if (row_bits_ >= 64) return Words(segment)[row * words_ + word];
  const uint64_t bit = row * row_bits_;
  return Words(segment)[bit / 64] >> bit % 64;
}

void FilterGroup::WriteBit(CellArray* segment, uint64_t row, unsigned filter, bool bit) {
  const uint64_t at = row * row_bits_ + filter;
  uint64_t& word = Words(segment)[at / 64];
  word = (word & ~(uint64_t{1} << at % 64)) | uint64_t{bit} << at % 64;
}

bool FilterGroup::ReadBit(const CellArray& segment, uint64_t row, unsigned filter) const {
  const uint64_t at = row * row_bits_ + filter;
  return (Words(segment)[at / 64] >> at % 64 & 1) != 0;
}

bool FilterGroup::Candidates(DbaHashes* hashes, uint64_t* mask) const {
  uint64_t any = 0;
  for (unsigned word = 0; word < words_; ++word) any |= mask[word] &= WordMask(word);
  for (unsigned j = 0; j < shape_.num_hashes && any != 0; ++j) {
    const uint64_t row = hashes->Row(j, shape_.rows);
    any = 0;
    for (unsigned word = 0; word < words_; ++word) {
      any |= mask[word] &= ReadRow(segments_[j], row, word);
    }
  }
  return any != 0;
}

void FilterGroup::Add(unsigned filter, const KeyHash& key) {
  assert(filter < shape_.cardinality);
  for (unsigned j = 0; j < shape_.num_hashes; ++j) {
    const uint64_t stream = Stream(key, kDbaStream + first_hash_ + j);
    WriteBit(&segments_[j], ScaleTo(stream, shape_.rows), filter, true);
  }
}

void FilterGroup::Clear(unsigned filter) {
  assert(filter < shape_.cardinality);
  for (CellArray& segment : segments_) {
    for (uint64_t row = 0; row < shape_.rows; ++row) WriteBit(&segment, row, filter, false);
  }
}

void FilterGroup::Or(unsigned from, unsigned to) {
  assert(from < shape_.cardinality && to < shape_.cardinality);
  for (CellArray& segment : segments_) {
    for (uint64_t row = 0; row < shape_.rows; ++row) {
      if (ReadBit(segment, row, from)) WriteBit(&segment, row, to, true);
    }
  }
}

void FilterGroup::CopyFrom(const FilterGroup& other, unsigned first) {
  assert(other.shape_.rows == shape_.rows && other.shape_.num_hashes == shape_.num_hashes);
  assert(first + other.shape_.cardinality <= shape_.cardinality);
  for (unsigned j = 0; j < shape_.num_hashes; ++j) {
    for (uint64_t row = 0; row < shape_.rows; ++row) {
      for (unsigned filter = 0; filter < other.shape_.cardinality; ++filter) {
        if (other.ReadBit(other.segments_[j], row, filter)) {
          WriteBit(&segments_[j], row, first + filter, true);
        }
      }
    }
  }
}

}  // namespace kbf
