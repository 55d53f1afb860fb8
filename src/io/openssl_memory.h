// What OpenSSL allocates, counted by thread: so the memory of one TLS connection is known, because
// all calls for a connection are made by one thread.
//
// Requires:  CountOpenSslMemory before any other use of OpenSSL in the process, which is what
//            TlsContext does. Without it, the balance stays 0 and nothing fails on demand.
// Costs:     a question for the size of the block for each allocation and release.
#pragma once

#include <cstdint>

namespace server {

// May be called more than once.
void CountOpenSslMemory();

// Bytes that OpenSSL has allocated in this thread, less those that it has released here.
int64_t OpenSslBalance();

// For tests: in this thread, the n-th allocation from now on fails, and all behind it, until
// kNeverFail is given.
inline constexpr uint64_t kNeverFail = UINT64_MAX;
void FailOpenSslAllocations(uint64_t n);
// The n that is left.
uint64_t OpenSslAllocationsLeft();

}  // namespace server
