#include "storage/packed/packed_lines.h"

#include <bit>
#include <cstring>

#include "storage/hash.h"

namespace kbf {

namespace {

// A field is read and written as a word that holds all of it and lies in its line.
struct Field {
  unsigned byte;
  unsigned shift;
};

Field FieldAt(unsigned bit) {
  constexpr unsigned kLastWord = kLineBytes - sizeof(uint64_t);
  const unsigned byte = bit / 8 < kLastWord ? bit / 8 : kLastWord;
  return {byte, bit - 8 * byte};
}

uint64_t LowBits(unsigned bits) { return (uint64_t{1} << bits) - 1; }

}  // namespace

uint64_t PackedLines::Read(const PackedSlot& slot, unsigned start, unsigned bits) const {
  const Field field = FieldAt(start + slot.index * bits);
  uint64_t word;
  std::memcpy(&word, LineAt(slot.line) + field.byte, sizeof(word));
  return word >> field.shift & LowBits(bits);
}

void PackedLines::Write(const PackedSlot& slot, unsigned start, unsigned bits, uint64_t value) {
  const Field field = FieldAt(start + slot.index * bits);
  std::byte* const at = LineAt(slot.line) + field.byte;
  uint64_t word;
  std::memcpy(&word, at, sizeof(word));
  word = (word & ~(LowBits(bits) << field.shift)) | value << field.shift;
  std::memcpy(at, &word, sizeof(word));
}

uint16_t PackedLines::TagAt(const PackedSlot& slot) const {
  uint16_t tag;
  std::memcpy(&tag, LineAt(slot.line) + slot.index * sizeof(tag), sizeof(tag));
  return tag;
}

void PackedLines::Fill(const PackedSlot& slot, uint16_t tag, uint64_t rest, uint64_t payload) {
  std::memcpy(LineAt(slot.line) + slot.index * sizeof(tag), &tag, sizeof(tag));
  Write(slot, shape_.rest_start, shape_.rest_bits, rest);
  Write(slot, shape_.payload_start, shape_.payload_bits, payload);
}

uint32_t PackedLines::OtherLine(uint32_t line, uint64_t tail, uint32_t remainder) const {
  const auto sum =
      static_cast<uint32_t>(ScaleTo(Mix64(tail << kAddressBits | remainder), shape_.lines));
  return sum >= line ? sum - line : sum + shape_.lines - line;
}

PackedLines::Home PackedLines::HomeOf(const PackedFingerprint& fingerprint) const {
  const uint64_t product = uint64_t{fingerprint.address} * shape_.lines;
  Home home;
  home.first = static_cast<uint32_t>(product >> kAddressBits);
  // The product grows by n from one address of a line to the next, so this is the address's place.
  const auto remainder =
      static_cast<uint32_t>(ScaleTo(product & LowBits(kAddressBits), shape_.reciprocal));
  home.second = OtherLine(home.first, fingerprint.tail, remainder);
  home.tag = static_cast<uint16_t>(fingerprint.tail);
  home.rest_first = fingerprint.tail >> kTagBits << shape_.remainder_bits | remainder;
  home.rest_second = home.rest_first | SecondBit();
  return home;
}

PackedEntry PackedLines::EntryAt(const PackedSlot& slot) const {
  const uint64_t rest = Rest(slot);
  PackedEntry entry;
  entry.fingerprint.tail = TailOf(TagAt(slot), rest);
  const uint32_t remainder = RemainderOf(rest);
  const uint64_t first = (rest & SecondBit()) != 0
                             ? OtherLine(slot.line, entry.fingerprint.tail, remainder)
                             : slot.line;
  const uint64_t begin = ((first << kAddressBits) + shape_.lines - 1) / shape_.lines;
  entry.fingerprint.address = static_cast<uint32_t>(begin) + remainder;
  entry.window = WindowOf(slot);
  entry.number = NumberOf(slot);
  return entry;
}

std::optional<PackedSlot> PackedLines::Find(const Home& home, const WindowUse* use) const {
  const uint32_t slots = (uint32_t{1} << shape_.slots) - 1;
  uint32_t equal =
      kernel_(LineAt(home.first), LineAt(home.second), home.tag) & (slots | slots << 16);
  for (; equal != 0; equal &= equal - 1) {
    const auto bit = static_cast<uint32_t>(std::countr_zero(equal));
    const bool in_first = bit < 16;
    const PackedSlot slot{in_first ? home.first : home.second, bit % 16};
    if (Rest(slot) != (in_first ? home.rest_first : home.rest_second)) continue;
    if (use[WindowOf(slot)] != WindowUse::kUnused) return slot;
  }
  return std::nullopt;
}

PackedLines::Room PackedLines::RoomOf(uint32_t line, const WindowUse* use,
                                      const uint32_t* rank) const {
  Room room;
  for (uint32_t i = 0; i < shape_.slots; ++i) {
    const uint32_t window = WindowOf({line, i});
    if (use[window] == WindowUse::kHeld) continue;
    if (use[window] == WindowUse::kUnused) {
      if (room.unused++ == 0) room.unused_at = i;
    } else if (rank[window] < room.offered_rank) {
      room.offered_rank = rank[window];
      room.offered_at = i;
    }
  }
  return room;
}

// REQUIRES: room.any()
std::optional<PackedLines::Placed> PackedLines::FillRoom(uint32_t line, const Room& room,
                                                         uint16_t tag, uint64_t rest,
                                                         uint64_t payload) {
  const PackedSlot slot{line, room.unused > 0 ? room.unused_at : room.offered_at};
  const Placed placed{slot, WindowOf(slot), line};
  Fill(slot, tag, rest, payload);
  return placed;
}

// Moves an entry of the line to its other line and takes its slot.
std::optional<PackedLines::Placed> PackedLines::MoveOne(uint32_t line, uint16_t tag, uint64_t rest,
                                                        uint64_t payload, const WindowUse* use,
                                                        const uint32_t* rank) {
  for (uint32_t i = 0; i < shape_.slots; ++i) {
    const PackedSlot slot{line, i};
    const uint16_t moved_tag = TagAt(slot);
    const uint64_t moved_rest = Rest(slot);
    const uint32_t other = OtherLine(line, TailOf(moved_tag, moved_rest), RemainderOf(moved_rest));
    const Room room = RoomOf(other, use, rank);
    if (!room.any()) continue;
    const auto moved = FillRoom(other, room, moved_tag, moved_rest ^ SecondBit(), Payload(slot));
    Fill(slot, tag, rest, payload);
    return Placed{slot, moved->replaced, other};
  }
  return std::nullopt;
}

std::optional<PackedLines::Placed> PackedLines::Place(const Home& home, uint32_t window,
                                                      uint32_t number, const WindowUse* use,
                                                      const uint32_t* rank) {
  const uint64_t payload = uint64_t{number} << layout_.window_bits | window;
  const Room first = RoomOf(home.first, use, rank);
  const Room second = RoomOf(home.second, use, rank);
  if (first.any() || second.any()) {
    const bool in_first = first.unused != second.unused
                              ? first.unused > second.unused
                              : first.unused > 0 || first.offered_rank <= second.offered_rank;
    return in_first ? FillRoom(home.first, first, home.tag, home.rest_first, payload)
                    : FillRoom(home.second, second, home.tag, home.rest_second, payload);
  }
  if (auto placed = MoveOne(home.first, home.tag, home.rest_first, payload, use, rank)) {
    return placed;
  }
  return MoveOne(home.second, home.tag, home.rest_second, payload, use, rank);
}

std::optional<PackedLines::Placed> PackedLines::Append(const Home& home, uint32_t window,
                                                       uint32_t number, uint8_t* used,
                                                       const WindowUse* use, const uint32_t* rank) {
  const bool in_first = used[home.first] <= used[home.second];
  const uint32_t line = in_first ? home.first : home.second;
  if (used[line] < shape_.slots) {
    const PackedSlot slot{line, used[line]++};
    Fill(slot, home.tag, in_first ? home.rest_first : home.rest_second,
         uint64_t{number} << layout_.window_bits | window);
    return Placed{slot, 0, line};
  }
  const auto placed = Place(home, window, number, use, rank);
  if (placed && placed->replaced == 0) ++used[placed->line];
  return placed;
}

}  // namespace kbf
