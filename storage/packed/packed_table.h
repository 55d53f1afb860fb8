// PackedTable maps keys to value numbers without keeping the keys: short check bits, the tag of a
// window and a number side by side in slots, 4 to 14 of them in a line of 64 bytes. It holds no
// values and knows no time; packed_chain.h gives windows their meaning.
//
// A key belongs to one of the table's segments, and there to two lines. Segments grow and shrink
// one at a time, to any number of pages, because a slot and its place give the whole fingerprint
// back (packed_lines.h). An entry belongs to a window, which says how it can end: a window is
// closed at once (expiry, flush), or offered: its entries stay until their slots are used
// (eviction). Closed windows' slots are reused when an insert meets them, and by Sweep; a window's
// tag is free again when no slot has it.
//
// Promises:  an entry is found until it is removed, its window is closed, or its window is offered
//            and its slot used. Another key's entry is found in its place with chance
//            FalsePositive(): number of entries of a segment x 2^-fingerprint bits
//            (packed_layout.h). No key is inserted whose fingerprint has an entry already: that is
//            a twin, or the key itself.
// Requires:  one thread at a time. Numbers below 2^number_bits, windows from OpenWindow.
// Costs:     64 bytes per line in whole pages, a spare place while a segment is rebuilt, 1.5 KB. A
//            look-up reads two lines, 30 ns in cache. A full table takes more entries until 98 % of
//            its slots are used (12 a line; 96 % with 8). Resize and Sweep go through one segment:
//            45 and 3 ns per entry.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "storage/hash.h"
#include "storage/packed/line_arena.h"
#include "storage/packed/packed_layout.h"
#include "storage/packed/packed_lines.h"

namespace kbf {

struct PackedTableConfig {
  PackedLayout layout;
  uint64_t lines_max = kSegmentLinesMax;
  uint32_t segments = 0;  // 0: so many that each has kSegmentLinesMax lines at most
};

class PackedTable {
 public:
  struct Found {
    uint32_t window = 0;
    uint32_t number = 0;
  };
  enum class Insertion : uint8_t {
    kDone,
    kExists,  // an entry has the same fingerprint: the key's own, or a twin's
    kFull,    // Resize the key's segment, or close or offer a window
  };

  // Nothing if there is no memory or address space. REQUIRES: IsValid(layout)
  static std::optional<PackedTable> Create(const PackedTableConfig& config);

  void Prefetch(const KeyHash& key) const;
  std::optional<Found> Find(const KeyHash& key) const;
  // All of them prefetched together. REQUIRES: answers has room for all keys
  void FindMany(std::span<const KeyHash> keys, std::optional<Found>* answers) const;
  [[nodiscard]] Insertion Insert(const KeyHash& key, uint32_t window, uint32_t number);
  // Changes the entry that Find would answer with. False: there is none.
  bool Update(const KeyHash& key, uint32_t window, uint32_t number);
  // Removes the entry that Find would answer with. False: there is none.
  bool Remove(const KeyHash& key);
  void Clear();

  // ---- windows ----

  // The tag of a new one; nothing: all are taken.
  std::optional<uint32_t> OpenWindow();
  // Its entries are found no longer.
  void CloseWindow(uint32_t window);
  // The slots of its entries may be used from now on. REQUIRES: the window is held
  void OfferWindow(uint32_t window);
  // Entries of `from` belong to `to` from now on; Sweep changes their tags. REQUIRES: both are
  // held; after it, `from` is used for nothing but ResolveWindow
  void MergeWindow(uint32_t from, uint32_t to);
  // The window that a tag stands for: itself, or what it was merged into.
  uint32_t ResolveWindow(uint32_t tag) const { return merged_into_[tag]; }
  WindowUse UseOf(uint32_t window) const { return use_[window]; }
  // Entries, those of windows merged into it included; of a closed window, slots that it still has.
  uint64_t SizeOf(uint32_t window) const;
  uint32_t free_windows() const;

  // ---- memory ----

  uint32_t num_segments() const { return static_cast<uint32_t>(segments_.size()); }
  uint32_t SegmentOf(const KeyHash& key) const;
  uint32_t LinesOf(uint32_t segment) const { return segments_[segment].lines; }
  uint32_t lines_max() const { return lines_max_; }  // of a segment
  // Rebuilds a segment with another number of lines, 0 or a multiple of kPageLines up to
  // lines_max(), dropping entries of windows that are closed, and of offered ones where there is no
  // room. False: the entries do not fit, nothing has changed.
  [[nodiscard]] bool Resize(uint32_t segment, uint32_t lines);
  // The fewest lines with so many slots; lines_max() where there are none.
  uint32_t LinesFor(uint64_t slots) const;
  // The next size of a full segment: a quarter more slots, from half of lines_max() on a twelfth.
  uint32_t LargerThan(uint32_t lines) const;
  struct Swept {
    uint64_t slots = 0;
    uint64_t found = 0;  // entries
    uint64_t held = 0;   // those that are not offered
  };
  // Frees the slots of closed windows in a segment, gives entries of merged windows their new tag,
  // and shows every number that is left.
  Swept Sweep(uint32_t segment, const std::function<void(uint32_t)>& visit_number);
  // Adds all entries of another table. False: some did not fit, for want of room or of a number of
  // lines; those with a fingerprint that is here already are left out and counted. REQUIRES: same
  // layout, number of segments and hash secret; window_map gives each window of `other` one here
  [[nodiscard]] bool Join(const PackedTable& other, const uint32_t* window_map, uint64_t* twins);

  // ---- figures ----

  uint64_t size() const { return held_ + offered_; }  // entries that can be found
  uint64_t held() const { return held_; }             // those that are not offered
  uint64_t offered() const { return offered_; }
  uint64_t closed() const { return closed_; }  // slots of closed windows
  uint64_t slots() const { return slots_; }
  uint64_t memory_bytes() const;
  uint64_t lines_bytes() const { return lines_ * kLineBytes; }
  // The chance that Find answers for an absent key.
  double FalsePositive() const;
  const PackedLayout& layout() const { return layout_; }

  // ---- flat form: layout, windows, lines; little endian, no checksum ----

  void AppendTo(std::string* bytes) const;
  // Nothing: not such a form, or there is no memory. Its numbers are those of the table that wrote
  // it: Translate gives them others. `lines_max` as in the config.
  static std::optional<PackedTable> ReadFrom(std::span<const std::byte> bytes, uint64_t lines_max);
  // The numbers of all entries, some of them several times.
  void VisitNumbers(const std::function<void(uint32_t)>& visit) const;
  // Replaces each number; nothing: the entry is removed.
  void Translate(const std::function<std::optional<uint32_t>(uint32_t)>& number_for);

 private:
  static constexpr unsigned kSegmentStream = 21;
  static constexpr unsigned kTailStream = 22;

  struct Segment {
    uint32_t place = 0;  // of the arena
    uint32_t lines = 0;
    LineShape shape;
  };
  // A key's segment and fingerprint.
  struct Address {
    uint32_t segment;
    PackedFingerprint fingerprint;
  };

  PackedTable(const PackedLayout& layout, uint32_t segments, uint32_t lines_max, LineArena arena);
  Address AddressOf(const KeyHash& key) const;
  PackedLines LinesAt(const Segment& segment) const {
    return PackedLines(arena_.Place(segment.place), segment.shape, layout_, kernel_);
  }
  std::optional<Found> FindAt(const PackedLines& lines, const PackedLines::Home& home) const;
  Insertion InsertAt(Segment& segment, const PackedFingerprint& fingerprint, uint32_t window,
                     uint32_t number);
  uint64_t& SizeWith(WindowUse use);
  void CountEntry(uint32_t window);
  void UncountEntry(uint32_t window);
  void SetUse(uint32_t window, WindowUse use);

  PackedLayout layout_;
  LineKernel kernel_;
  uint32_t lines_max_;
  LineArena arena_;
  uint32_t spare_;  // place that no segment uses
  std::vector<Segment> segments_;

  // By tag. Tag 0 is that of unused slots.
  std::array<WindowUse, kWindowsMax> use_{};
  std::array<bool, kWindowsMax> taken_{};
  std::array<uint32_t, kWindowsMax> rank_{};  // order in which windows were offered
  std::array<uint64_t, kWindowsMax> count_{};
  std::array<uint16_t, kWindowsMax> merged_into_{};
  uint32_t next_rank_ = 0;

  uint64_t held_ = 0;
  uint64_t offered_ = 0;
  uint64_t closed_ = 0;
  uint64_t slots_ = 0;
  uint64_t lines_ = 0;
};

}  // namespace kbf
