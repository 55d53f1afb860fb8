// Item is one key with its value, as the front keeps it in a block of an item log: head, key and
// value side by side.
//
// Promises:  the fields are independent of each other; the bytes of the key never change.
// Requires:  the owner's lock around every access; only the bytes of a value may be read without
//            it, by the holder of a reference to the block (ItemLog::RefOf). Items are at even
//            addresses.
// Costs:     16 bytes, 4 or 8 where CAS numbers are kept, 0, 1, 2 or 4 for client flags, 0, 1 or 3
//            for values of 256 bytes and more.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace kbf {

// A place in an item log: see ItemLog. 0: none.
using ItemRef = uint32_t;

struct NewItem {
  std::string_view key;
  uint32_t flags = 0;
  uint32_t expires = 0;
  uint32_t value_bytes = 0;
  uint64_t cas = 0;
  uint32_t now = 0;
};

//   0         4         8                  12       14          15            16
//   +---------+---------+------------------+--------+-----------+-------------+
//   | next    | expires | access:23 bits:9 | bits   | key_bytes | value_bytes |
//   +---------+---------+------------------+--------+-----------+-------------+
//   | cas, 0, 4 or 8 | client flags, 0, 1, 2 or 4 | value_bytes, 0, 1 or 3 more | key | value |
//   +----------------+----------------------------+-----------------------------+-----+-------+
class [[gnu::packed, gnu::aligned(2)]] Item {
 public:
  static constexpr size_t kHeadBytes = 16;
  static constexpr size_t kKeyBytesMax = 255;
  static constexpr uint32_t kValueBytesMax = (1u << 30) - 1;
  static constexpr unsigned kAgeMax = 3;
  static constexpr unsigned kUsesMax = 3;
  // Numbers below take four bytes. An item is made before its number is taken, so there are some
  // between those and the ones that do not fit.
  static constexpr uint64_t kShortCas = uint64_t{3} << 30;

  static size_t BytesFor(size_t key_bytes, size_t value_bytes, uint32_t flags, size_t cas_bytes) {
    return kHeadBytes + cas_bytes + Width(FlagCode(flags)) + LengthWidth(value_bytes) + key_bytes +
           value_bytes;
  }
  static size_t CasBytes(bool keep_cas, uint64_t cas) {
    return !keep_cas ? 0 : cas < kShortCas ? 4 : 8;
  }

  // Writes the head and the key; the value is the caller's.
  void Init(const NewItem& from, size_t cas_bytes) {
    next_ = kUnlinked;
    expires_ = from.expires;
    access_ = 0;
    set_last_access(from.now);
    const unsigned length_code = LengthCode(from.value_bytes);
    bits_ = static_cast<uint16_t>((cas_bytes / 4) << kCasWidth |
                                  FlagCode(from.flags) << kFlagWidth | length_code << kLengthWidth);
    key_bytes_ = static_cast<uint8_t>(from.key.size());
    value_bytes_ = static_cast<uint8_t>(from.value_bytes);
    set_cas(from.cas);
    char* to = data() + FlagsOffset();
    std::memcpy(to, &from.flags, Width(FlagCode(from.flags)));
    to += Width(FlagCode(from.flags));
    const uint32_t rest = from.value_bytes >> 8;
    std::memcpy(to, &rest, kLengthBytes[length_code]);
    to += kLengthBytes[length_code];
    if (!from.key.empty()) std::memcpy(to, from.key.data(), from.key.size());
  }

  std::string_view key() const { return {bytes() + KeyOffset(), key_bytes()}; }
  std::string_view value() const { return {bytes() + ValueOffset(), value_bytes()}; }
  // To be written before Link(), and afterwards only while there is no reference: see
  // ItemLog::IsShared.
  char* value_data() { return data() + ValueOffset(); }

  size_t key_bytes() const { return key_bytes_; }
  uint32_t value_bytes() const {
    uint32_t rest = 0;
    std::memcpy(&rest, bytes() + LengthOffset(), kLengthBytes[Bits(kLengthWidth, 2)]);
    return rest << 8 | value_bytes_;
  }
  size_t total_bytes() const { return ValueOffset() + value_bytes(); }
  uint32_t flags() const {
    // The narrow widths are the low bytes of the word.
    uint32_t flags = 0;
    std::memcpy(&flags, bytes() + FlagsOffset(), Width(Bits(kFlagWidth, 2)));
    return flags;
  }

  // 0 where none is kept; setting one is ignored there.
  uint64_t cas() const {
    uint64_t cas = 0;
    std::memcpy(&cas, bytes() + kHeadBytes, 4 * Bits(kCasWidth, 2));
    return cas;
  }
  bool CanHoldCas(uint64_t cas) const { return Bits(kCasWidth, 2) != 1 || cas >> 32 == 0; }
  // REQUIRES: CanHoldCas(cas)
  void set_cas(uint64_t cas) {
    assert(CanHoldCas(cas));
    std::memcpy(data() + kHeadBytes, &cas, 4 * Bits(kCasWidth, 2));
  }
  // Absolute seconds; 0: never.
  uint32_t expires() const { return expires_; }
  // Front::SetExpires sets it.

  // The time is kept modulo 2^23 seconds, which is 97 days, and completed from the present.
  uint32_t last_access(uint32_t now) const { return now - ((now - access_) & kAccessMask); }
  void set_last_access(uint32_t seconds) {
    access_ = (access_ & ~kAccessMask) | (seconds & kAccessMask);
  }

  // For the hand (Front::NextCold). 0: cold. REQUIRES: age <= kAgeMax
  unsigned age() const { return Bits(kAge, 2); }
  void set_age(unsigned age) { SetBits(kAge, 2, age); }
  // Hits that eviction has not counted off yet. REQUIRES: uses <= kUsesMax
  unsigned uses() const { return Bits(kUses, 2); }
  void set_uses(unsigned uses) { SetBits(kUses, 2, uses); }
  void AddUse() {
    if (uses() < kUsesMax) set_uses(uses() + 1);
  }

  // A client chose the CAS number.
  bool explicit_cas() const { return Has(kExplicitCas); }
  void set_explicit_cas(bool on) { Set(kExplicitCas, on); }
  // The key was sent in base64; not known of a key that comes from the chain.
  bool base64_key() const { return Has(kBase64Key); }
  void set_base64_key(bool on) { Set(kBase64Key, on); }
  bool knows_key_form() const { return !Has(kKeyFormUnknown); }
  void ForgetKeyForm() { Set(kKeyFormUnknown, true); }
  bool fetched() const { return Has(kFetched); }
  void set_fetched(bool on) { Set(kFetched, on); }
  bool stale() const { return Has(kStale); }
  void set_stale(bool on) { Set(kStale, on); }
  // A client was already told to recache.
  bool win() const { return Has(kWin); }
  void set_win(bool on) { Set(kWin, on); }
  // The chain holds nothing of this key, or nothing older than this item.
  bool clean() const { return Has(kClean); }
  void set_clean(bool on) { Set(kClean, on); }
  // The value was looked at and has no code: it is not looked at again this round.
  bool unique() const { return Has(kUnique); }
  void set_unique(bool on) { Set(kUnique, on); }
  // It was counted among those that wait for a filter.
  bool waiting() const { return Has(kWaiting); }
  void set_waiting(bool on) { Set(kWaiting, on); }

  // Everything that the bits above say, as it is of the other item. REQUIRES: it is unlinked
  void CopyMarks(const Item& other) {
    access_ = (access_ & kAccessMask) | (other.access_ & ~kAccessMask);
  }

 private:
  friend class Front;
  friend class ItemLog;

  static constexpr ItemRef kUnlinked = 0xffffffff;
  bool linked() const { return next_ != kUnlinked; }

  // Parts of access_.
  static constexpr uint32_t kAccessMask = (uint32_t{1} << 23) - 1;
  static constexpr uint32_t kExplicitCas = uint32_t{1} << 23;
  static constexpr uint32_t kBase64Key = uint32_t{1} << 24;
  static constexpr uint32_t kKeyFormUnknown = uint32_t{1} << 25;
  static constexpr uint32_t kFetched = uint32_t{1} << 26;
  static constexpr uint32_t kStale = uint32_t{1} << 27;
  static constexpr uint32_t kWin = uint32_t{1} << 28;
  static constexpr uint32_t kClean = uint32_t{1} << 29;
  static constexpr uint32_t kUnique = uint32_t{1} << 30;
  static constexpr uint32_t kWaiting = uint32_t{1} << 31;
  bool Has(uint32_t bit) const { return (access_ & bit) != 0; }
  void Set(uint32_t bit, bool on) { access_ = on ? access_ | bit : access_ & ~bit; }

  // Parts of bits_.
  static constexpr unsigned kMark = 0;          // 4 bits: its bit in Front::Bucket
  static constexpr unsigned kAge = 4;           // 2 bits
  static constexpr unsigned kUses = 6;          // 2 bits
  static constexpr unsigned kCasWidth = 8;      // 2 bits: 0, 4 or 8 bytes
  static constexpr unsigned kFlagWidth = 10;    // 2 bits: 0, 1, 2 or 4 bytes of client flags
  static constexpr unsigned kLengthWidth = 12;  // 2 bits: 0, 1 or 3 more bytes of length
  static constexpr unsigned kRound = 14;        // round of the hand that examined it last, modulo 2
  unsigned Bits(unsigned at, unsigned width) const { return bits_ >> at & ((1u << width) - 1); }
  void SetBits(unsigned at, unsigned width, unsigned to) {
    const unsigned mask = ((1u << width) - 1) << at;
    bits_ = static_cast<uint16_t>((bits_ & ~mask) | (to << at & mask));
  }

  static constexpr uint8_t kLengthBytes[4] = {0, 1, 3, 0};
  static unsigned LengthCode(size_t bytes) { return bytes < 0x100 ? 0 : bytes < 0x10000 ? 1 : 2; }
  static size_t LengthWidth(size_t bytes) { return kLengthBytes[LengthCode(bytes)]; }
  static size_t Width(unsigned code) { return (1u << code) >> 1; }
  static unsigned FlagCode(uint32_t flags) {
    return flags == 0 ? 0 : flags < 0x100 ? 1 : flags < 0x10000 ? 2 : 3;
  }
  size_t FlagsOffset() const { return kHeadBytes + 4 * Bits(kCasWidth, 2); }
  size_t LengthOffset() const { return FlagsOffset() + Width(Bits(kFlagWidth, 2)); }
  size_t KeyOffset() const { return LengthOffset() + kLengthBytes[Bits(kLengthWidth, 2)]; }
  size_t ValueOffset() const { return KeyOffset() + key_bytes_; }

  const char* bytes() const { return reinterpret_cast<const char*>(this); }
  char* data() { return reinterpret_cast<char*>(this); }

  // The next item of its bucket; kUnlinked while it is in no table.
  ItemRef next_;
  uint32_t expires_;
  uint32_t access_;
  uint16_t bits_;
  uint8_t key_bytes_;
  uint8_t value_bytes_;  // the low byte of the length
};
static_assert(sizeof(Item) == Item::kHeadBytes && alignof(Item) == 2);

}  // namespace kbf
