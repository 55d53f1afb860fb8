// TlsOptions is what -Z and the ssl_ options of -o ask for, with memcached's defaults.
//
// Departs:   ssl_min_version 0 and 1 (TLS 1.0 and 1.1) are refused; without ssl_key the key is
//            looked for in the file of the certificates; client certificates need ssl_ca_cert.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace server {

// What an idle connection takes, rounded up: 14.8 KB with TLS 1.3, 13.8 with 1.2, OpenSSL 3.0 and
// jemalloc.
inline constexpr uint64_t kTlsIdleBytes = 16 << 10;

struct TlsOptions {
  bool enabled = false;      // -Z
  std::string chain_cert;    // PEM: the server's certificate, then those that lead to its issuer
  std::string key;           // empty: in chain_cert
  std::string ca_cert;       // PEM: who may issue the certificates of clients
  std::string ciphers;       // of TLS 1.2, in OpenSSL's words
  uint32_t verify_mode = 0;  // of clients: 0 none, 1 if they send one, 2 needed, 3 needed once
  uint32_t key_format = 1;   // 1 PEM, 2 DER
  uint32_t write_buffer_kb = 16;  // no effect: a record is at most 16 KB
  bool session_cache = false;
  bool kernel_tls = false;   // no effect
  uint32_t min_version = 2;  // 2 TLS 1.2, 3 TLS 1.3

  const std::string& key_file() const { return key.empty() ? chain_cert : key; }
};

// One of -o that begins with "ssl_". True: it was one; false: there is no such option. Throws
// StartupError where the value is wrong. *inert becomes true where the option has no effect.
bool ApplyTlsOption(std::string_view name, std::string_view value, TlsOptions* options,
                    bool* inert);
// After all options: throws StartupError where they do not go together.
void CheckTlsOptions(const TlsOptions& options);

}  // namespace server
