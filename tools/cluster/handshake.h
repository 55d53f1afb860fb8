// The handshake of inner connections proves to both sides that the other one knows the cluster's
// secret, without sending it: each sends 32 random bytes, and answers with a keyed hash
// (HMAC-SHA-256) of both sides' bytes and its role.
//
//   client -> server   "KBF1" and 32 random bytes
//   server -> client   32 random bytes, proof of the server
//   client -> server   proof of the client
//
// Promises:  proofs are compared in constant time. One cannot be used again, or in the other role.
// Departs:   what is sent afterwards is neither encrypted nor signed: inner connections belong on a
//            network of their own.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace cluster {

inline constexpr std::string_view kHello = "KBF1";
inline constexpr size_t kNonceBytes = 32;
inline constexpr size_t kProofBytes = 32;
inline constexpr size_t kHelloBytes = kHello.size() + kNonceBytes;
inline constexpr size_t kSecretBytesMin = 16;

// kNonceBytes from the operating system. Empty: it has none.
std::string RandomNonce();
// `role`: "client" or "server".
std::string Proof(std::string_view secret, std::string_view role, std::string_view client_nonce,
                  std::string_view server_nonce);
bool SameProof(std::string_view a, std::string_view b);
// Says whether two nodes have one secret, and nothing else about it.
std::string SecretCheck(std::string_view secret, std::string_view cluster);

}  // namespace cluster
