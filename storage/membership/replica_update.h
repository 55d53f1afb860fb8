// The bytes of an update of a Bloom filter's replica: which bits differ from a base, as gaps
// between their positions in a Rice code, or as a bitmap where that is shorter.
//
//   u8 format (1) | u8 flags | v bits | v num_hashes | v base | v version | v count | u8 rice
//   payload | u32 checksum of all bytes before, little-endian
//   v: 7 bits per byte, lowest first, high bit set in all but the last; at most 10 bytes
//   flags: 1 = the base is an empty filter, whatever the replica has; 2 = the payload is a bitmap
//   gaps:  for each differing position the distance to the one before, less one (the first: the
//          position): quotient by 2^rice in unary, ones then a zero, then rice low bits; lowest bit
//          of a byte first
//
// Promises:  Decode(Encode(x)) gives x; Decode of any other bytes gives a status and never reads
// past
//            them. The checksum finds damage, not forgery.
// Costs:     gaps of bits that differ at random take 4 % more than their entropy, at most.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "storage/membership/replica.h"

namespace kbf {

struct ReplicaUpdateHead {
  ReplicaShape shape;
  bool from_empty = false;
  uint64_t base = 0;
  uint64_t version = 0;
};

// `differing` has bit i set where position i differs. REQUIRES: no bit at or above head.shape.bits
std::vector<std::byte> EncodeReplicaUpdate(const ReplicaUpdateHead& head,
                                           std::span<const uint64_t> differing);

struct ReplicaUpdate {
  ReplicaUpdateHead head;
  std::vector<uint64_t> positions;  // ascending
};
// The checksum at the end of an update.
uint32_t ReplicaUpdateChecksum(std::span<const std::byte> body);

// kApplied where `update` has been filled. Allocates at most 128 bytes for each byte that it is
// given. `shape` is the one that is expected.
ApplyStatus DecodeReplicaUpdate(std::span<const std::byte> bytes, const ReplicaShape& shape,
                                ReplicaUpdate* update);

}  // namespace kbf
