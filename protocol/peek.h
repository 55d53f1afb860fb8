// PeekKey guesses the first key of a request without parsing it, so that what the store keeps for
// it can be fetched into the CPU's cache early. The guess may be wrong: nothing but time follows
// from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace protocol {

struct PeekedKey {
  std::string_view key = {};  // empty: there is none
  bool reads = false;         // what the request does with it
};

// Any bytes will do. The key points into them.
PeekedKey PeekKey(std::span<const char> bytes);

}  // namespace protocol
