#include "tools/cluster/handshake.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <cstdio>

namespace cluster {
namespace {

std::string KeyedHash(std::string_view secret, std::string_view text) {
  std::string hash(kProofBytes, '\0');
  unsigned size = 0;
  const unsigned char* const done =
      HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(),
           reinterpret_cast<unsigned char*>(hash.data()), &size);
  if (done == nullptr || size != kProofBytes) hash.clear();
  return hash;
}

}  // namespace

std::string RandomNonce() {
  std::string nonce(kNonceBytes, '\0');
  if (getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size())) nonce.clear();
  return nonce;
}

std::string Proof(std::string_view secret, std::string_view role, std::string_view client_nonce,
                  std::string_view server_nonce) {
  std::string text = "kbfcached inner connection ";
  text.append(role).append(1, '\0').append(client_nonce).append(server_nonce);
  return KeyedHash(secret, text);
}

bool SameProof(std::string_view a, std::string_view b) {
  return a.size() == kProofBytes && b.size() == kProofBytes &&
         CRYPTO_memcmp(a.data(), b.data(), kProofBytes) == 0;
}

std::string SecretCheck(std::string_view secret, std::string_view cluster) {
  const std::string hash = KeyedHash(secret, "kbfcached cluster " + std::string(cluster));
  std::string text;
  for (const char byte : hash.substr(0, 16)) {
    char digits[4];
    std::snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned char>(byte));
    text += digits;
  }
  return text;
}

}  // namespace cluster
