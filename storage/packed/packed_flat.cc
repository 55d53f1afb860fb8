// The flat form of a packed table.
#include <bit>
#include <cstring>
#include <new>

#include "storage/packed/packed_table.h"

namespace kbf {

namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint32_t kMagic = 0x3154504b;  // "KPT1"
// A segment of more lines, or more segments, than these is not ours.
constexpr uint32_t kLinesMax = uint32_t{1} << (kAddressBits - 1);
constexpr uint32_t kSegmentsMax = uint32_t{1} << 20;

//   |magic 4|tail bits 4|window bits 4|number bits 4|segments 4|lines of the largest segment 4|
//   |use 1, merged into 1| × windows |lines 4| × segments |lines that are not empty … |
struct Head {
  uint32_t magic;
  uint32_t tail_bits;
  uint32_t window_bits;
  uint32_t number_bits;
  uint32_t segments;
  uint32_t lines_most;
};
static_assert(sizeof(Head) == 24);

template <class Value>
void Append(const Value& value, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Takes values from the front of some bytes.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <class Value>
  bool Take(Value* value) {
    return Take(reinterpret_cast<std::byte*>(value), sizeof(Value));
  }
  bool Take(std::byte* to, size_t count) {
    if (bytes_.size() < count) return false;
    std::memcpy(to, bytes_.data(), count);
    bytes_ = bytes_.subspan(count);
    return true;
  }
  bool at_end() const { return bytes_.empty(); }

 private:
  std::span<const std::byte> bytes_;
};

bool IsHead(const Head& head) {
  return head.magic == kMagic && head.segments >= 1 && head.segments <= kSegmentsMax &&
         head.lines_most <= kLinesMax &&
         IsValid({head.tail_bits, head.window_bits, head.number_bits});
}

}  // namespace

void PackedTable::AppendTo(std::string* bytes) const {
  uint32_t most = 0;
  for (const Segment& segment : segments_) most = std::max(most, segment.lines);
  Append(Head{kMagic, layout_.tail_bits, layout_.window_bits, layout_.number_bits, num_segments(),
              most},
         bytes);
  for (uint32_t tag = 0; tag < layout_.NumWindows(); ++tag) {
    Append(static_cast<uint8_t>(taken_[tag] ? static_cast<unsigned>(use_[tag]) + 1 : 0), bytes);
    Append(static_cast<uint8_t>(merged_into_[tag]), bytes);
  }
  for (const Segment& segment : segments_) Append(segment.lines, bytes);
  for (const Segment& segment : segments_) {
    bytes->append(reinterpret_cast<const char*>(arena_.Place(segment.place)),
                  uint64_t{segment.lines} * kLineBytes);
  }
}

std::optional<PackedTable> PackedTable::ReadFrom(std::span<const std::byte> bytes,
                                                 uint64_t lines_max) {
  Reader reader(bytes);
  Head head;
  if (!reader.Take(&head) || !IsHead(head)) return std::nullopt;
  const PackedLayout layout{head.tail_bits, head.window_bits, head.number_bits};
  auto table = Create(
      {layout, std::max(lines_max, uint64_t{head.lines_most} * head.segments), head.segments});
  if (!table) return std::nullopt;
  for (uint32_t tag = 0; tag < layout.NumWindows(); ++tag) {
    uint8_t use;
    uint8_t into;
    if (!reader.Take(&use) || !reader.Take(&into)) return std::nullopt;
    const bool known = use <= static_cast<unsigned>(WindowUse::kHeld) + 1;
    if (!known || into >= layout.NumWindows() || (tag == 0 && use != 0)) return std::nullopt;
    if (use == 0 && into != tag) return std::nullopt;
    table->taken_[tag] = use != 0;
    table->use_[tag] = use == 0 ? WindowUse::kUnused : static_cast<WindowUse>(use - 1);
    table->merged_into_[tag] = into;
  }
  for (uint32_t tag = 0; tag < layout.NumWindows(); ++tag) {
    const uint32_t into = table->merged_into_[tag];
    if (table->merged_into_[into] != into || table->use_[into] != table->use_[tag]) {
      return std::nullopt;
    }
  }
  for (Segment& segment : table->segments_) {
    if (!reader.Take(&segment.lines) || segment.lines % kPageLines != 0 ||
        segment.lines > head.lines_most) {
      return std::nullopt;
    }
    if (segment.lines > 0) segment.shape = ShapeOf(layout, segment.lines);
    table->lines_ += segment.lines;
    table->slots_ += segment.shape.Slots();
  }
  for (const Segment& segment : table->segments_) {
    if (!reader.Take(table->arena_.Place(segment.place), uint64_t{segment.lines} * kLineBytes)) {
      return std::nullopt;
    }
    if (segment.lines == 0) continue;
    bool known = true;
    table->LinesAt(segment).ForEach([&](const PackedSlot&, uint32_t window) {
      known = known && table->taken_[window];
      table->CountEntry(window);
    });
    if (!known) return std::nullopt;
  }
  if (!reader.at_end()) return std::nullopt;
  return table;
}

void PackedTable::VisitNumbers(const std::function<void(uint32_t)>& visit) const {
  for (const Segment& segment : segments_) {
    if (segment.lines == 0) continue;
    const PackedLines lines = LinesAt(segment);
    lines.ForEach([&](const PackedSlot& slot, uint32_t window) {
      if (use_[window] != WindowUse::kUnused) visit(lines.NumberOf(slot));
    });
  }
}

void PackedTable::Translate(const std::function<std::optional<uint32_t>(uint32_t)>& number_for) {
  for (const Segment& segment : segments_) {
    if (segment.lines == 0) continue;
    PackedLines lines = LinesAt(segment);
    lines.ForEach([&](const PackedSlot& slot, uint32_t window) {
      const bool closed = use_[window] == WindowUse::kUnused;
      const auto number = closed ? std::nullopt : number_for(lines.NumberOf(slot));
      if (number) {
        lines.SetPayload(slot, window, *number);
      } else {
        UncountEntry(window);
        lines.SetPayload(slot, 0, 0);
      }
    });
  }
}

}  // namespace kbf
