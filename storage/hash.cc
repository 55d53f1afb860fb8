#include "storage/hash.h"

#include <sys/random.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace kbf {

static_assert(HashSecret::kBytes >= XXH3_SECRET_SIZE_MIN);

HashSecret HashSecret::Random() {
  std::array<std::byte, kBytes> bytes;
  size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got = getrandom(bytes.data() + filled, bytes.size() - filled, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw std::runtime_error("getrandom() gave no random bytes for the hash secret");
    filled += static_cast<size_t>(got);
  }
  return HashSecret(bytes);
}

HashSecret HashSecret::FromSeed(uint64_t seed) {
  std::array<std::byte, kBytes> bytes;
  for (size_t i = 0; i < bytes.size(); i += sizeof(uint64_t)) {
    seed += 0x9e3779b97f4a7c15u;
    const uint64_t word = Mix64(Mix64(seed));
    std::memcpy(bytes.data() + i, &word, sizeof(word));
  }
  return HashSecret(bytes);
}

uint64_t HashSecret::Id() const {
  return XXH3_64bits_withSecret("kbf secret id", 13, bytes_.data(), bytes_.size());
}

KeyHash HashKey(std::string_view key, const HashSecret& secret) {
  const XXH128_hash_t hash =
      XXH3_128bits_withSecret(key.data(), key.size(), secret.bytes().data(), secret.bytes().size());
  return {hash.low64, hash.high64};
}

}  // namespace kbf
