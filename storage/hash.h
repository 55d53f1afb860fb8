// KeyHash is the 128-bit fingerprint of a key, computed once per request; everything that places or
// checks a key is derived from it. It is not a cryptographic hash.
//
// Promises:  under a random secret, fingerprints of different keys collide with chance about
//            2^-128, and a client that does not know the secret cannot construct keys that share
//            cells. Derived streams are independent of each other for all uses here
//            (tests/storage/hash_test.cc measures that).
// Requires:  nothing; all functions are pure and thread-safe.
// Costs:     one XXH3-128 pass over the key; a stream is three multiplications.
// Departs:   the papers ask for k independent hash functions ([kBF] §3.4). We hash once and remix
// (lo
//            + i*hi) per stream: plain double hashing, without the remix, multiplied the false
//            positives of small filters by four.
//
// Streams:   0 … kPositionStreams-1   cell positions
//            kCheckStream             the key's choice inside a symbol block
//            kLocatorStream           lines and bits of the locator
//            kSlabStream              the slab of the store
//            19                       buckets of the front (front.h)
//            20                       the error sample (error_sampler.h)
//            21                       keys changed while warming (changed_keys.h)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kbf {

struct KeyHash {
  uint64_t lo = 0;
  uint64_t hi = 0;
  friend bool operator==(const KeyHash&, const KeyHash&) = default;
};

inline constexpr unsigned kPositionStreams = 16;
inline constexpr unsigned kCheckStream = 16;
inline constexpr unsigned kLocatorStream = 17;
inline constexpr unsigned kSlabStream = 18;

// The secret of XXH3. A seed is not enough: published key pairs collide for one seed in 1,422
// (xxHash issue 1127).
class HashSecret {
 public:
  static constexpr size_t kBytes = 192;

  // From the operating system; one per process.
  static HashSecret Random();
  // Reproducible, for tests and benches.
  static HashSecret FromSeed(uint64_t seed);
  // From bytes that were saved before.
  explicit HashSecret(const std::array<std::byte, kBytes>& bytes) : bytes_(bytes) {}

  const std::array<std::byte, kBytes>& bytes() const { return bytes_; }
  // Identifies the secret without revealing it; filters compare it before they JOIN.
  uint64_t Id() const;

 private:
  std::array<std::byte, kBytes> bytes_;
};

KeyHash HashKey(std::string_view key, const HashSecret& secret);

// A bijection of 64-bit words in which every input bit moves every output bit: two rounds of
// multiply and xor-shift.
inline uint64_t Mix64(uint64_t x) {
  x ^= x >> 32;
  x *= 0xe9846af9b1a615d5u;
  x ^= x >> 32;
  x *= 0x9e6c63d0676a9a99u;
  x ^= x >> 28;
  return x;
}

// The i-th word derived from a hash; see the list of streams above.
inline uint64_t Stream(const KeyHash& hash, unsigned i) { return Mix64(hash.lo + i * hash.hi); }

// Maps a uniform word to [0, range) by its high bits, without a division.
inline uint64_t ScaleTo(uint64_t word, uint64_t range) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(word) * range) >> 64);
}

}  // namespace kbf
