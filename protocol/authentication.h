// What clients say to authenticate, and all that a server listens to before they have: a fake `set`
// in text (memcached's -Y), SASL with the mechanism PLAIN on the binary wire. See request.h for
// the contract.
//
//   text     set <any key> <flags> <exptime> <bytes>\r\n<user> <password>\r\n
//   binary   SASL_AUTH, key "PLAIN", value [authorization id] NUL user NUL password
//
// Promises:  the Locked parsers give no other requests than kAuthenticate, kSaslStep, kSaslList and
//            kAnswer. Credentials are at most kCredentialBytesMax long; longer ones are not waited
//            for. Passwords are not looked at here.
// Departs:   the password in text is everything behind the first space, as in memcached 1.6.45;
//            1.6.18 takes the next word and ignores the rest. Every line is answered; memcached
//            1.6.18 answers several that arrive together once. VERSION is refused on the binary
//            wire like everything else. Binary bytes on a text connection are hung up on.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "protocol/request.h"

namespace protocol {

inline constexpr size_t kCredentialBytesMax = 1024;

// REQUIRES: bytes is not empty.
ParseResult ParseLockedText(std::span<char> bytes, const Limits& limits, Request* out);
// What is not SASL gets the status "authentication error", and the connection ends.
ParseResult ParseLockedBinary(std::span<char> bytes, const Limits& limits, Request* out);

struct Credentials {
  std::string_view user;
  std::string_view password;
};

// Of the value of a text request: none without a space.
std::optional<Credentials> SplitTextCredentials(std::string_view value);
// Of a message of PLAIN: none where it is not one, or where the client wants to act for another
// user than the one whose password it has.
std::optional<Credentials> SplitPlainCredentials(std::string_view message);

}  // namespace protocol
