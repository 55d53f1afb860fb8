// The vocabulary of the store: what an operation is asked for and what it answers. Plain values;
// store.h says what they do.
//
// Requires:  the views in a request are valid for the length of the call. Expiry times are absolute
//            seconds of the store's clock; 0 is never, kExpiredAlways has always passed.
// Costs:     a Reading holds one reference to the bytes of its value, which stay as they are for as
//            long as it lives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "storage/shared_bytes.h"

namespace kbf {

// The CAS number of every key that is answered from the chain. A cas with it moves the key to the
// front and answers kExists, so that the client's retry finds a number of its own.
inline constexpr uint64_t kChainCas = 0xfffffffffffffffe;

// An expiry that has always passed, for clients that ask for a negative one.
inline constexpr uint32_t kExpiredAlways = 1;

inline constexpr size_t kKeyBytesMax = 250;

// An item's size as memcached counts it, which is what item_bytes_max limits: header, CAS number,
// client flags, the key and its end, the value and CRLF.
constexpr uint64_t CountedItemBytes(size_t key_bytes, size_t value_bytes, uint32_t flags,
                                    bool keep_cas) {
  return 48 + (keep_cas ? 8 : 0) + (flags != 0 ? 4 : 0) + key_bytes + 1 + value_bytes + 2;
}

enum class [[nodiscard]] StoreStatus : uint8_t{
    kOk,         // stored, deleted, touched
    kNotStored,  // add of a key that is there; replace, append, prepend of one that is not
    kExists,     // cas: the item changed since
    kNotFound,
    kTooLarge,   // the item is larger than item_bytes_max; an older value was removed
    kNoMemory,   // no room and evictions are off
    kNotNumber,  // incr, decr of something else
    kBadKey,     // empty or longer than kKeyBytesMax
};

struct ReadOptions {
  bool touch = false;  // set the expiry to `expires`
  uint32_t expires = 0;
  bool bump = true;        // count as an access
  bool claim_win = false;  // meta: the client may be told to recache
  // On a miss, make an empty item with this expiry (meta N), and with this CAS number (meta E).
  std::optional<uint32_t> vivify_expires = {};
  std::optional<uint64_t> new_cas = {};
  // The client is told to recache if the item expires before this time (meta R).
  std::optional<uint32_t> recache_before = {};
  bool recache_first = false;  // compare with recache_before before touch changes the expiry
};

// What a read found.
struct Reading {
  bool hit = false;
  bool from_chain = false;
  bool fetched = false;   // it had been read before
  bool stale = false;     // meta X
  bool win = false;       // meta W: this client should recache
  bool win_sent = false;  // meta Z: another client was told to recache
  bool created = false;   // by vivify_expires
  // Its key was stored in base64; nothing where that is not known: the key was in the chain.
  std::optional<bool> base64_key = {};
  // The key is there but could not be touched, or it could not be made: no hit, nothing changed.
  bool no_memory = false;
  uint32_t flags = 0;
  uint32_t expires = 0;
  uint32_t expires_before = 0;  // the same before it was touched
  uint32_t last_access = 0;     // before this one
  uint64_t cas = 0;
  std::string_view value;
  SharedRef ref;
};

enum class WriteMode : uint8_t { kSet, kAdd, kReplace, kAppend, kPrepend, kCas };

struct WriteRequest {
  WriteMode mode = WriteMode::kSet;
  std::string_view key;
  std::string_view value;
  uint32_t flags = 0;
  uint32_t expires = 0;
  uint64_t cas = 0;         // kCas, and for the other modes where not 0: must be the item's
  bool invalidate = false;  // meta I: a smaller cas stores the value as stale
  bool base64_key = false;  // the client sent the key in base64
  // kAdd: an item of another server. It is stored only if no client has written, touched or
  // deleted the key since Store::BeginWarming, and no flush came since.
  bool warming = false;
  std::optional<uint64_t> new_cas = {};  // the item's CAS number (meta E); such items stay exact
  // kAppend, kPrepend: on a miss, store the value with this expiry (meta N).
  std::optional<uint32_t> vivify_expires = {};
  // Where there is no memory, or the item is too large, remove what the key has, as memcached does:
  // a miss is better than a value that the client believes it has replaced.
  bool drop_on_failure = false;
};

struct WriteResult {
  StoreStatus status = StoreStatus::kOk;
  uint64_t cas = 0;          // of what was stored
  uint64_t value_bytes = 0;  // likewise
};

struct ArithmeticRequest {
  std::string_view key;
  uint64_t delta = 1;
  bool decrement = false;
  uint64_t cas = 0;                      // must be the item's where not 0
  std::optional<uint64_t> initial = {};  // on a miss, make an item with this number
  uint32_t initial_expires = 0;
  std::optional<uint32_t> expires = {};  // set the expiry as well
  std::optional<uint64_t> new_cas = {};  // the item's CAS number (meta E)
};

struct ArithmeticResult {
  StoreStatus status = StoreStatus::kOk;
  uint64_t number = 0;
  uint64_t cas = 0;
  uint32_t flags = 0;
  uint32_t expires = 0;
  uint32_t expires_before = 0;
  bool created = false;
};

struct DeleteOptions {
  uint64_t cas = 0;         // must be the item's where not 0
  bool mark_stale = false;  // meta I: keep the item, as stale
  // meta x: keep the item with its CAS number, but with an empty value and with `flags` and
  // `expires` (0 where there is none).
  bool remove_value = false;
  uint32_t flags = 0;
  std::optional<uint32_t> expires = {};  // with mark_stale or remove_value: its new expiry
  std::optional<uint64_t> new_cas = {};  // likewise: its CAS number (meta E)
};

// ---- listing: items of the front can be listed, keys in the chain cannot

struct ListedItem {
  std::string_view key;  // for as long as Visit takes
  uint64_t value_bytes = 0;
  uint64_t cas = 0;
  uint32_t flags = 0;
  uint32_t expires = 0;
  uint32_t last_access = 0;
  bool fetched = false;
  bool base64_key = false;
};

class ItemVisitor {
 public:
  virtual ~ItemVisitor() = default;
  // Called with the slab's lock held: must be short, and not call the store.
  virtual void Visit(const ListedItem& item) = 0;
};

// How far the listing of one slab has come.
struct ListPosition {
  uint64_t bucket = 0;
  unsigned items = 0;  // of this bucket, that were listed already
};
// One step of a listing visits no more items than these.
inline constexpr unsigned kListedMax = 64;

}  // namespace kbf
