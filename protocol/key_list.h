// Commands that list keys: `stats cachedump`, `lru_crawler metadump` and `lru_crawler mgdump`. This
// is their parser and the form of their rows; the caller walks over the items.
//
// Promises:  arguments are checked as memcached checks them. Keys that would break a row are left
//            out (cachedump), URI-encoded (metadump) or base64 (mgdump).
// Departs:   memcached 1.6.18 has no mgdump and no flags in the rows of metadump: both are as in
//            memcached 1.6.45.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "protocol/request.h"
#include "protocol/tuning.h"

namespace protocol {

// A bit per class of items.
using ClassSet = uint64_t;
inline constexpr unsigned kClassesEnd = 64;  // ids are smaller

struct ListedKey {
  std::string_view key;
  bool base64 = false;  // it was stored in base64
  uint64_t value_bytes = 0;
  uint64_t item_bytes = 0;
  uint64_t cas = 0;
  uint32_t flags = 0;
  int64_t expires = 0;  // Unix time, 0: never
  int64_t last_access = 0;
  bool fetched = false;
  unsigned item_class = 0;
};

// The longest row: a key of which each byte takes three, and eight names and numbers.
inline constexpr size_t kKeyRowBytesMax = 1024;

// True: it is one of these commands. Then *out has its op and `arguments`, and as `reply` the error
// to send unless an option forbids the command in the first place.
bool ParseKeyList(const AllTokens& tokens, Request* out);

// What a good request asks for.
ClassSet ClassesOf(const Request& request);
uint32_t RowLimitOf(const Request& request);  // 0: none

// Returns the bytes of the row, 0 where the key is left out.
size_t FormatKeyRow(Op op, const ListedKey& listed, char* out);
// What is sent before the rows, and after them.
std::string_view KeyListBegin(Op op);
std::string_view KeyListEnd(Op op);
// The reply where dumps are switched off.
std::string_view KeyListRefusal(Op op);

}  // namespace protocol
