// Session values: JSON objects as web applications keep them for each of their users, alike and
// never equal, for measuring what compression makes of values that do not repeat.
//
//   {"id":48213377,"user":{"name":"Maria
//   Keller","email":"maria.keller@example.org","locale":"de-DE"},
//    "created":"2026-03-14T09:26:53Z","last_seen":1773480413,"roles":["customer"],"cart":[{"sku":
//    "K-48213","quantity":2,"price":19.95}],"theme":"dark","newsletter":true,
//    "token":"9f8e7d6c5b4a39281706f5e4"}
//
// Promises:  a pure function of one word. 241 to 373 bytes, 305 on average. Different words give
//            different objects but for chance 2^-96: the token alone is 96 random bits. What is
//            random in an object is 27 bytes on average; no compressor gets below that, and zstd
//            with a dictionary needs about three times as much.
// Costs:     0.5 microseconds an object; allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace load {

inline constexpr size_t kSessionBytesMax = 512;

// REQUIRES: room for kSessionBytesMax. Returns how many bytes were written.
size_t WriteSession(uint64_t word, char* out);

}  // namespace load
