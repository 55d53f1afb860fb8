// Base64 as memcached's meta commands use it for keys: the standard alphabet, with padding.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace protocol {

constexpr size_t Base64Bytes(size_t bytes) { return (bytes + 2) / 3 * 4; }

// How many bytes were written, which is Base64Bytes(bytes.size()).
size_t EncodeBase64(std::string_view bytes, char* out);

// How many bytes were written, at least one and fewer than there are in `text`; nothing where
// `text` cannot be decoded. As lenient as memcached: characters outside the alphabet are left out,
// what comes behind a group with padding is not looked at. `out` may be where `text` is.
std::optional<size_t> DecodeBase64(std::string_view text, char* out);

}  // namespace protocol
