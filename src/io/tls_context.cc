#include "src/io/tls_context.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/stat.h>
#include <time.h>

#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "src/io/openssl_memory.h"
#include "src/log.h"
#include "src/process/startup_error.h"

namespace server {
namespace {

// Sessions that clients may resume: about a kilobyte each, more with a client's certificate.
constexpr long kSessionsMax = 1024;
constexpr std::string_view kSessionScope = "kbfcached";

TlsOptions WithAbsolutePaths(TlsOptions options) {
  for (std::string* path : {&options.chain_cert, &options.key, &options.ca_cert}) {
    std::error_code failed;
    if (path->empty()) continue;
    std::string absolute = std::filesystem::absolute(*path, failed).string();
    if (!failed) *path = std::move(absolute);
  }
  return options;
}

// OpenSSL would ask at the terminal for the passphrase of a key.
int RefusePassphrase(char*, int, int, void*) { return -1; }

void SetBehaviour(const TlsOptions& options, SSL_CTX* context) {
  // Pieces of a reply need not stand where they stood at the last try: see Output.
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  // A client that hangs up without a word is like one that does; no request is half carried out.
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                   SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_min_proto_version(context,
                                options.min_version == 3 ? TLS1_3_VERSION : TLS1_2_VERSION);
  SSL_CTX_set_dh_auto(context, 1);
  SSL_CTX_set_default_passwd_cb(context, RefusePassphrase);
  // One system call for a record, instead of one for its head and one for its body.
  SSL_CTX_set_read_ahead(context, 1);
  SSL_CTX_set_verify(context, VerifyFlags(options.verify_mode), nullptr);
}

void SetSessions(const TlsOptions& options, SSL_CTX* context) {
  if (!options.session_cache) {
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
    SSL_CTX_set_num_tickets(context, 0);
    return;
  }
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_SERVER);
  SSL_CTX_sess_set_cache_size(context, kSessionsMax);
  SSL_CTX_set_session_id_context(context,
                                 reinterpret_cast<const unsigned char*>(kSessionScope.data()),
                                 static_cast<unsigned>(kSessionScope.size()));
}

// Empty, or what is wrong, in memcached's words.
std::string LoadFiles(const TlsOptions& options, SSL_CTX* context) {
  const std::string& key = options.key_file();
  const int format = options.key_format == 2 ? SSL_FILETYPE_ASN1 : SSL_FILETYPE_PEM;
  const auto fault = [](const std::string& what) { return what + " : " + TakeOpenSslError(); };
  if (SSL_CTX_use_certificate_chain_file(context, options.chain_cert.c_str()) != 1) {
    return fault("Error loading the certificate chain: " + options.chain_cert);
  }
  if (SSL_CTX_use_PrivateKey_file(context, key.c_str(), format) != 1) {
    return fault("Error loading the key: " + key);
  }
  if (SSL_CTX_check_private_key(context) != 1) {
    return "Error validating the certificate: " + TakeOpenSslError();
  }
  if (!options.ciphers.empty() && SSL_CTX_set_cipher_list(context, options.ciphers.c_str()) != 1) {
    return fault("Error setting the provided cipher(s): " + options.ciphers);
  }
  if (options.ca_cert.empty()) return {};
  STACK_OF(X509_NAME)* const names = SSL_load_client_CA_file(options.ca_cert.c_str());
  if (names == nullptr ||
      SSL_CTX_load_verify_locations(context, options.ca_cert.c_str(), nullptr) != 1) {
    sk_X509_NAME_pop_free(names, X509_NAME_free);
    return fault("Error loading the CA certificate: " + options.ca_cert);
  }
  SSL_CTX_set_client_CA_list(context, names);
  return {};
}

// Device, inode, size and the time of the last change of the inode, which cannot be set back.
// False: there is no such file, or it has changed so lately that it may change again unseen.
bool AppendState(const std::string& path, std::string* fingerprint) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return false;
  if (status.st_ctim.tv_sec + 1 >= time(nullptr)) return false;
  for (const auto number :
       {static_cast<int64_t>(status.st_dev), static_cast<int64_t>(status.st_ino),
        int64_t{status.st_size}, int64_t{status.st_ctim.tv_sec}, int64_t{status.st_ctim.tv_nsec}}) {
    *fingerprint += std::to_string(number) + ",";
  }
  return true;
}

}  // namespace

int VerifyFlags(uint32_t mode) {
  constexpr int kNeeded = SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
  constexpr int kFlags[] = {SSL_VERIFY_NONE, SSL_VERIFY_PEER, kNeeded,
                            kNeeded | SSL_VERIFY_CLIENT_ONCE};
  return kFlags[mode];
}

std::string TakeOpenSslError() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  if (code == 0) return "unknown error";
  char text[256];
  ERR_error_string_n(code, text, sizeof(text));
  return text;
}

void TlsContext::FreeContext::operator()(SSL_CTX* context) const { SSL_CTX_free(context); }

TlsContext::TlsContext(const TlsOptions& options) : options_(WithAbsolutePaths(options)) {
  CountOpenSslMemory();
  fingerprint_ = Fingerprint();
  std::string error;
  context_ = Make(&error);
  if (context_ == nullptr) throw StartupError(error);
}

TlsContext::~TlsContext() = default;

TlsContext::Context TlsContext::Make(std::string* error) const {
  ERR_clear_error();
  Context context(SSL_CTX_new(TLS_server_method()), FreeContext());
  if (context == nullptr) {
    *error = "cannot set up TLS: " + TakeOpenSslError();
    return nullptr;
  }
  SetBehaviour(options_, context.get());
  SetSessions(options_, context.get());
  *error = LoadFiles(options_, context.get());
  ERR_clear_error();
  return error->empty() ? context : nullptr;
}

std::string TlsContext::Fingerprint() const {
  std::string fingerprint;
  const bool seen = AppendState(options_.chain_cert, &fingerprint) &&
                    AppendState(options_.key_file(), &fingerprint) &&
                    (options_.ca_cert.empty() || AppendState(options_.ca_cert, &fingerprint));
  return seen ? fingerprint : "";
}

std::optional<std::string> TlsContext::Reload(uint32_t now) {
  const std::lock_guard reload_lock(reload_mutex_);
  // Of the files before they are read: a change in between is then seen by the next reload.
  std::string fingerprint = Fingerprint();
  if (fingerprint.empty() || fingerprint != fingerprint_) {
    std::string error;
    Context context = Make(&error);
    if (context == nullptr) return error;
    fingerprint_ = std::move(fingerprint);
    const std::lock_guard lock(mutex_);
    context_.swap(context);
  }
  const std::lock_guard lock(mutex_);
  loaded_at_ = now;
  return std::nullopt;
}

void TlsContext::ReloadAndLog(uint32_t now) {
  if (const auto error = Reload(now)) {
    return Log(kLogAlways, "%s; the certificates stay as they were", error->c_str());
  }
  Log(kLogAlways, "certificates read from %s", options_.chain_cert.c_str());
}

uint32_t TlsContext::loaded_at() const {
  const std::lock_guard lock(mutex_);
  return loaded_at_;
}

SSL* TlsContext::NewConnection() const {
  Context context;
  {
    const std::lock_guard lock(mutex_);
    context = context_;
  }
  return SSL_new(context.get());
}

}  // namespace server
