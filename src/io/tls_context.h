// TlsContext is the server's side of TLS: certificates, key, and what is asked of clients. All
// connections are made from it, and its files can be read again while they go on.
//
// Promises:  files that cannot be used change nothing; connections keep what they were made with.
//            TLS 1.2 and 1.3; no renegotiation, no compression. A key with a passphrase is
//            refused: there is nobody to ask.
// Requires:  any thread.
// Costs:     Reload reads and checks all files, some milliseconds; where none of them has changed,
//            it only looks at their times.
#pragma once

#include <openssl/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "src/config/tls_options.h"
#include "src/process/clock.h"

namespace server {

// What has happened to connections.
struct TlsEvents {
  std::atomic<uint64_t> handshake_errors{0};
  std::atomic<uint64_t> new_sessions{0};  // handshakes that resumed none
};

class TlsContext {
 public:
  // Throws StartupError. Relative paths are resolved here, once.
  explicit TlsContext(const TlsOptions& options);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  // Nothing, or why the files cannot be used: a line without its end. `now`: of the server's clock.
  std::optional<std::string> Reload(uint32_t now);
  // The same, and the result is logged.
  void ReloadAndLog(uint32_t now);
  // When the files were read last.
  uint32_t loaded_at() const;

  // For one connection. Null: there is no memory.
  SSL* NewConnection() const;
  // Any thread counts.
  TlsEvents& events() { return events_; }
  const TlsEvents& events() const { return events_; }

 private:
  struct FreeContext {
    void operator()(SSL_CTX* context) const;
  };
  using Context = std::shared_ptr<SSL_CTX>;

  // Null: *error is why.
  Context Make(std::string* error) const;
  // Changes when a file does; empty where that cannot be told.
  std::string Fingerprint() const;

  TlsEvents events_;
  const TlsOptions options_;  // with absolute paths
  // Held while files are read.
  std::mutex reload_mutex_;
  std::string fingerprint_;  // guarded by reload_mutex_
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  Context context_;
  uint32_t loaded_at_ = Clock::kStart;
};

// -o ssl_verify_mode as OpenSSL's flags, which memcached shows.
int VerifyFlags(uint32_t mode);

// The error that OpenSSL reports first, as memcached shows it; forgets it and all others.
std::string TakeOpenSslError();

}  // namespace server
