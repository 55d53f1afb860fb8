// Translations between a client's words and the store's: requests into what the store is asked,
// results into responses.
#pragma once

#include <cstdint>
#include <string_view>

#include "protocol/request.h"
#include "src/process/clock.h"
#include "storage/store.h"

namespace server {

protocol::Status StatusOf(kbf::StoreStatus status);

// A write that fails for its size or for memory also removes the old value, as in memcached: the
// client would take it for the new one.
bool DropsOldValue(const protocol::Request& request);

// How a get or a touch reads. `now` is the clock's.
kbf::ReadOptions ReadOptionsOf(const protocol::Request& request, const Clock& clock, uint32_t now);
// REQUIRES: protocol::IsWrite(request.op)
void FillWrite(const protocol::Request& request, const Clock& clock, uint32_t now,
               kbf::WriteRequest* write);
kbf::ArithmeticRequest ArithmeticRequestOf(const protocol::Request& request, const Clock& clock,
                                           uint32_t now);
kbf::DeleteOptions DeleteOptionsOf(const protocol::Request& request, const Clock& clock,
                                   uint32_t now);

// A reading that missed has a status other than kOk, and only its key.
protocol::Response ResponseOf(std::string_view key, const kbf::Reading& reading, uint32_t now);
protocol::Response ResponseOf(std::string_view key, const kbf::ArithmeticResult& result,
                              uint32_t now);

}  // namespace server
