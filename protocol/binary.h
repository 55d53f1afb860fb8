// The binary protocol: 24-byte headers, fixed fields. See request.h for the contract.
//
//   byte   0      1       2..3   4       5          6..7            8..11  12..15  16..23
//          magic  opcode  key    extras  data type  vbucket/status  body   opaque  cas
//
// The body is extras, key and value, in this order, and "body" counts all three. All numbers are
// big-endian. Data type and vbucket are ignored.
//
// Promises:  every length is checked against every other before it is used; a header that
//            contradicts itself gets an error and, if the next header cannot be found any more,
//            the connection is closed (Request::close). Errors that the header alone shows are
//            reported without waiting for the body. Quiet requests have no reply on success or for
//            a miss; every error has one.
// Departs:   memcached 1.6.18 misreads what follows an unknown command with a key or extras, TOUCH,
//            GAT and STAT with bytes after the key, and bodies of 2 GiB and more. Here the body of
//            an unknown command is skipped, and the others are refused and the connection closed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "protocol/request.h"

namespace protocol {

inline constexpr uint8_t kBinaryRequestMagic = 0x80;
inline constexpr uint8_t kBinaryResponseMagic = 0x81;
inline constexpr size_t kBinaryHeaderBytes = 24;

// SET or SETQ, with a cas number or without.
constexpr bool IsBinarySet(uint8_t opcode) { return opcode == 0x01 || opcode == 0x11; }

// For Request::binary_status.
inline constexpr uint16_t kBinaryAuthError = 0x20;
inline constexpr uint16_t kBinaryAuthContinue = 0x21;  // SASL wants another message

// What the fields of a Request mean here:
//   kGet       one key, in `key`: it may hold spaces, so `keys` stays empty. GAT and its variants
//              have an exptime.
//   kCas       SET, ADD or REPLACE with a cas number: memcached treats them alike. Where the
//              value is too large they keep their own op.
//   kStats     `arguments` is the key.
//   kFlushAll  exptime where one was sent.
//   kAnswer    binary_status is the error; 0 closes the connection without a reply (a wrong magic).
// exptime is unsigned in this protocol, so it is never negative.
//
// REQUIRES: bytes is not empty.
ParseResult ParseBinary(std::span<char> bytes, const Limits& limits, Request* out);

// The request, whatever it is, becomes one that is answered with an error. REQUIRES: bytes has a
// whole header.
void RefuseBinary(std::span<const char> bytes, uint16_t status, Request* out);

// Writes the whole reply without its value to `out`, which has room for kHeadBytesMax. Zero bytes:
// no reply (quiet requests). The reply to a read or a touch shows flags and cas, to a write or to
// arithmetic the new cas. To kStats it is a packet of key and value; without both, the end.
Head FormatBinary(const Request& request, const Response& response, char* out);

}  // namespace protocol
