// Base64 as memcached's meta commands use it for keys: the standard alphabet, with padding.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace protocol {

constexpr size_t Base64Bytes(size_t bytes) { return (bytes + 2) / 3 * 4; }

// How many bytes were written, which is Base64Bytes(bytes.size()).
size_t EncodeBase64(std::string_view bytes, char* out);

// How many bytes were written, at least one and fewer than `text` has; nothing if `text` cannot be
// decoded. As lenient as memcached: characters outside the alphabet are skipped, and everything
// after a group with padding is ignored. `out` may be text.data().
std::optional<size_t> DecodeBase64(std::string_view text, char* out);

}  // namespace protocol
