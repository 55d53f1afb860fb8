// Frames are what nodes send to each other over inner connections, after the handshake: a header of
// 32 bytes in little-endian order, then the payload.
//
//   0      4     5     6      8        16       24       32
//   | size | kind| wire| slab | id     | epoch  | number | payload ...
//
//   kRequest    a client's request as it was sent, in the protocol `wire`; `id` comes back
//   kReply      the reply, as it is to be sent to the client; may be empty
//   kRetry      not carried out: the slab is being handed over, or is another node's
//   kRefused    not carried out, and will not be soon
//   kFlush      a flush_all, at Unix time `number`, 0: at once
//   kBegin      a copy of a slab begins; `number` is the source's latest CAS number
//   kItems      some items of it (see ItemFrame)
//   kClear      forget what came: the slab was flushed
//   kEnd        it is whole
//   kReady      the answer to that
//
// Promises:  a header is either read as it was written or refused.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace cluster {

static_assert(std::endian::native == std::endian::little);

enum class FrameKind : uint8_t {
  kRequest,
  kReply,
  kRetry,
  kRefused,
  kFlush,
  kBegin,
  kItems,
  kClear,
  kEnd,
  kReady,
};

struct FrameHeader {
  uint32_t payload_bytes = 0;
  FrameKind kind = FrameKind::kRequest;
  uint8_t wire = 0;
  uint16_t slab = 0;
  uint64_t id = 0;
  uint64_t epoch = 0;
  uint64_t number = 0;

  bool valid() const { return kind <= FrameKind::kReady; }
};
inline constexpr size_t kFrameHeaderBytes = 32;
static_assert(sizeof(FrameHeader) == kFrameHeaderBytes);

// One item of a kItems frame: this, then the key, then the value.
struct ItemHeader {
  uint32_t value_bytes = 0;
  uint32_t flags = 0;
  uint32_t seconds_left = 0;  // 0: never expires
  uint16_t key_bytes = 0;
  uint8_t base64_key = 0;
  uint8_t absent = 0;  // the key was removed
};
static_assert(sizeof(ItemHeader) == 16);

inline void AppendItem(const ItemHeader& header, std::string_view key, std::string_view value,
                       std::string* out) {
  out->append(reinterpret_cast<const char*>(&header), sizeof(header));
  out->append(key);
  out->append(value);
}

// Takes the next item off the front. False: what is left is none.
inline bool TakeItem(std::string_view* rest, ItemHeader* header, std::string_view* key,
                     std::string_view* value) {
  if (rest->size() < sizeof(*header)) return false;
  std::memcpy(header, rest->data(), sizeof(*header));
  rest->remove_prefix(sizeof(*header));
  if (rest->size() < header->key_bytes + uint64_t{header->value_bytes}) return false;
  *key = rest->substr(0, header->key_bytes);
  *value = rest->substr(header->key_bytes, header->value_bytes);
  rest->remove_prefix(header->key_bytes + size_t{header->value_bytes});
  return true;
}

}  // namespace cluster
