// Chain is the approximate part of a slab, as the slab sees it: it maps keys, which it does not
// keep, to values, which it keeps once. An engine stands behind it (engine.h); slab and store do
// not know which. Engines divide a chain into parts: keys that are dropped and that expire
// together, such as a filter of kbf_chain.h.
//
// A value has a number while the chain can answer with it. An engine numbers values in its own way,
// and may give one value several numbers in turn.
//
// Promises:  - Find answers for a key that was inserted, until Remove or Forget of that key, the
//              drop of its part, or the moment that Find names as its expiry. Exceptions are false
//              negatives and wrong values, at the rates of PredictedErrors. An absent key is found
//              at its rate of false positives.
//            - After Remove or Forget the key is not found again until it is inserted again,
//              whatever happens to other keys: what the engine cannot erase it hides.
//            - Nothing is found at or after the expiry that it was inserted with. It may be gone
//              before that by a quarter of the time that was left at Insert, at most; and a key
//              that is inserted again with the expiry that Find named loses no further time.
//            - Nothing throws, but for the constructor. Where memory is lacking a key is not
//              inserted, or keys are lost, and memory_bytes() is true after every call.
// Requires:  one thread at a time (the slab's lock); `now` never goes back. In this order:
//
//              Number, then (Holds | Remove)* of the key, then Insert of the key with the number
//
//            A number that Number gave may be used until the next call of Number, Grow, DropOldest,
//            Clear or MaintainStep; Remove, Forget, Find, Holds and Insert leave it valid. A number
//            that Find gave is valid while version() stays the same. A key is inserted only while
//            the chain holds nothing of it: at first, or after Remove.
// Costs:     every call does a bounded amount of work; engines say how much. No call takes another
//            lock, but for those of values that several chains share.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "storage/hash.h"
#include "storage/image/chain_saver.h"
#include "storage/maths.h"
#include "storage/shared_bytes.h"
#include "storage/store_counters.h"

namespace kbf {

class ImageReader;

struct ChainConfig {
  uint64_t memory_bytes = 16 << 20;    // of the slab, front and chain together
  uint32_t value_bytes_max = 1 << 20;  // longer values get no number
  // The values of all chains of the store together take no more than this and one value per chain.
  uint64_t shared_bytes_max = UINT64_MAX;
};

struct ChainAnswer {
  bool found = false;
  bool old = false;     // its part is among the next to be dropped: worth moving to the front
  bool strong = false;  // an absent key has such an answer with chance 6e-8 at most
  uint32_t number = 0;  // of the value
  // An add that it refuses forgets the key once in so many times: what frees an absent key that is
  // found may cost a key that is there.
  uint32_t refusals = 32;
  uint32_t expires = 0;  // not found from then on; 0: never
  uint64_t version = 0;  // of the chain when it answered; see Chain::version
};

// A value of the chain. Valid as long as its number is; a reference to `holder` keeps the bytes
// longer. They never change.
struct ChainValue {
  std::string_view bytes;
  uint32_t flags = 0;  // the client's
  SharedHeader* holder = nullptr;
};

// A value that a key brings.
struct ChainOffer {
  std::string_view value;
  uint32_t flags = 0;
  uint64_t item_bytes = 100;  // that the key and its value take while they are exact
  bool again = false;         // by a key that brought it before, and got no number
};

struct ChainErrors {
  ErrorRates rates;             // of a look-up in this chain
  double false_candidates = 0;  // parts that a look-up asks in vain
};

class Chain {
 public:
  virtual ~Chain() = default;

  // ---- values

  // The number of this value, which counts as one use of it. Nothing: the value does not occur
  // often enough to be worth one, it is too long, or there is no room for it. Uses are counted
  // meanwhile, so that it may get one when the next key brings it.
  [[nodiscard]] virtual std::optional<uint32_t> Number(const ChainOffer& offer) = 0;
  // REQUIRES: the number is valid
  virtual ChainValue ValueOf(uint32_t number) const = 0;

  // ---- keys

  // Two steps of prefetching ahead of Find, Holds or Remove: what tells where the key may be, and
  // after that has arrived, what is there. Both change nothing, and may be left out.
  virtual void PrefetchPlaces(const KeyHash& key) const = 0;
  virtual void PrefetchEntries(const KeyHash& key) const = 0;

  virtual ChainAnswer Find(const KeyHash& key, uint32_t now) = 0;
  // Whether Remove and Insert of this key would change nothing: it is found, beyond doubt and not
  // among the oldest, with this value and an expiry that fits. REQUIRES: the number is valid
  virtual bool Holds(const KeyHash& key, uint32_t number, uint32_t expires, uint32_t now) = 0;
  // Erases what the chain holds of the key, or hides it.
  virtual void Remove(const KeyHash& key, uint32_t now) = 0;
  // Remove, for a key that is inserted next. False: what the chain holds may well belong to another
  // key that it cannot tell from this one, nothing was erased, and this key stays exact for now.
  [[nodiscard]] virtual bool RemoveForInsert(const KeyHash& key, uint32_t now) {
    Remove(key, now);
    return true;
  }
  // Makes Find miss for a key that nobody stored perhaps, so that what it found may belong to
  // another key: hides it and erases nothing.
  virtual void Forget(const KeyHash& key, uint32_t now) = 0;

  enum class Insertion : uint8_t {
    kDone,
    kNoRoom,   // for keys with this expiry: CountWaiting, and Grow when BytesToGrow names a number
    kRefused,  // this key cannot be told from another one for now: it stays exact
  };
  struct Inserted {
    Insertion outcome = Insertion::kNoRoom;
    uint64_t part = 0;  // where done: the part that the key is in, see HasPart
  };
  // REQUIRES: the number is valid; expires == 0 or expires > now; the chain holds nothing of the
  // key
  [[nodiscard]] virtual Inserted Insert(const KeyHash& key, uint32_t number, uint32_t expires,
                                        uint32_t now) = 0;
  // Whether a part that Insert named still exists and was not joined with another one. A key in it
  // that is not found was lost by an error.
  virtual bool HasPart(uint64_t part, uint32_t now) const = 0;

  // ---- room

  // One more key, not counted before, waits in the front for room for keys with this expiry.
  virtual void CountWaiting(uint32_t expires, uint32_t now) = 0;
  // The memory that Grow would take for keys with this expiry. Nothing: too few wait for it.
  virtual std::optional<uint64_t> BytesToGrow(uint32_t expires, uint32_t now) const = 0;
  // Makes room for keys with this expiry, by more memory or by what a dropped part has left. False:
  // there is no memory, or no more room can be made now; nothing was changed.
  [[nodiscard]] virtual bool Grow(uint32_t expires, uint32_t now) = 0;
  // Drops the keys of the oldest part. False: there is none.
  virtual bool DropOldest() = 0;
  // Gives memory back, for which the oldest keys are dropped if need be. False: there is none.
  virtual bool Shrink() { return DropOldest(); }
  // Drops everything: a flush.
  virtual void Clear() = 0;
  // One bounded step of background work, such as expiry. False: nothing to do.
  virtual bool MaintainStep(uint32_t now) = 0;

  // ---- figures

  // Changes whenever an answer of Find may change, but for the time.
  virtual uint64_t version() const = 0;
  virtual uint64_t num_parts() const = 0;     // 0: the chain holds no key
  virtual uint64_t part_bytes() const = 0;    // of a new part of full size
  virtual uint64_t oldest_bytes() const = 0;  // of the parts whose answers are `old`
  // Everything but the shared values, which the engine counts.
  virtual uint64_t memory_bytes() const = 0;
  virtual const ChainCounters& counters() const = 0;
  virtual const DictionaryCounters& value_counters() const = 0;
  // Adds its keys, bytes, values and parts to the slab's; other_bytes and the front are not its
  // own.
  virtual void AddTo(SlabUsage* usage) const = 0;
  // From what it holds now.
  virtual ChainErrors PredictedErrors() const = 0;

  // ---- images (image/chain_saver.h)

  // Null: this engine has no images. Throws std::bad_alloc.
  [[nodiscard]] virtual std::unique_ptr<ChainSaver> NewSaver() { return nullptr; }
  // Reads the section that the reader is in, into a chain that is as after construction, of an
  // engine with the same ImageKind and the same secret. False: see the reader's status; the chain
  // must not be used again.
  [[nodiscard]] virtual bool Load(ImageReader* /*reader*/) { return false; }
};

}  // namespace kbf
