// The marker is an item that a fill stores beside its keys, so that a later fill knows this server
// for one that kbfload may write to. A server with items and without the marker belongs to someone
// else: a million keys would push their items out.
//
// Promises:  a server that holds items is never taken for ours unless it answers the marker's key
//            with the marker's value. One that does not say how many items it holds counts as one
//            that holds some: a proxy is often such.
// May err:   towards refusing. The marker can be evicted, and it expires after a day, so that a
// test
//            server that has become a real one is safe. Items that others add to a marked server
//            are not noticed before that.
// Requires:  calls block up to the timeout, and throw ServerError.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tools/kbfload/server.h"

namespace load {

// No generated key holds a ':'.
inline constexpr std::string_view kMarkerKey = "kbfload:marker";
inline constexpr std::string_view kMarkerValue = "kbfload filled this server";
inline constexpr uint32_t kMarkerLife_s = 24 * 60 * 60;

// Why a fill must not write to this server, in one sentence; empty: it may.
std::string ReasonNotToFill(const Address& server, protocol::Wire wire, double timeout_s);

// Stores the marker. A server that does not store it is not an error: the next fill asks again.
void StoreMarker(const Address& server, protocol::Wire wire, double timeout_s);

}  // namespace load
