// What must hold for any bytes that claim to be an update of a replica: they are refused, or the
// positions are ascending and inside the filter and can be encoded and decoded again. The checksum
// is made right first, because otherwise hardly any input would come further.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "storage/membership/replica_update.h"
#include "tests/fuzz/fuzz.h"

namespace kbf {

inline const char* FuzzReplicaDecoded(const ReplicaUpdate& update, const ReplicaShape& shape) {
  std::vector<uint64_t> differing((shape.bits + 63) / 64, 0);
  uint64_t next = 0;
  for (const uint64_t at : update.positions) {
    if (at >= shape.bits) return "a position outside the filter";
    if (at < next) return "positions out of order";
    next = at + 1;
    differing[at / 64] |= uint64_t{1} << at % 64;
  }
  ReplicaUpdate again;
  if (DecodeReplicaUpdate(EncodeReplicaUpdate(update.head, differing), shape, &again) !=
      ApplyStatus::kApplied) {
    return "an update that cannot be read again";
  }
  return again.positions == update.positions ? nullptr : "other positions the second time";
}

// The fault that was found, or null.
inline const char* FuzzReplica(std::string_view input) {
  const auto* const first = reinterpret_cast<const std::byte*>(input.data());
  std::vector<std::byte> bytes(first, first + input.size());
  const uint32_t sum = ReplicaUpdateChecksum(bytes);
  for (unsigned shift = 0; shift < 32; shift += 8) bytes.push_back(std::byte(sum >> shift & 255));
  for (const ReplicaShape shape : {ReplicaShape{128, 6}, {1200, 6}, {uint64_t{1} << 20, 3}}) {
    ReplicaUpdate update;
    if (DecodeReplicaUpdate(bytes, shape, &update) != ApplyStatus::kApplied) continue;
    if (update.positions.size() > 8 * bytes.size()) return "more positions than there are bits";
    if (const char* fault = FuzzReplicaDecoded(update, shape)) return fault;
  }
  return nullptr;
}

}  // namespace kbf
