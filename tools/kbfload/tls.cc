#include "tools/kbfload/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>

#include <algorithm>
#include <climits>
#include <new>

namespace load {
namespace {

// One for all connections of the process.
SSL_CTX* Context() {
  static SSL_CTX* const context = [] {
    SSL_CTX* const made = SSL_CTX_new(TLS_client_method());
    if (made == nullptr) throw std::bad_alloc();
    SSL_CTX_set_mode(made, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                               SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_options(made, SSL_OP_IGNORE_UNEXPECTED_EOF);
    return made;
  }();
  return context;
}

SSL* Make(int fd) {
  SSL* const ssl = SSL_new(Context());
  if (ssl == nullptr || SSL_set_fd(ssl, fd) != 1) throw std::bad_alloc();
  SSL_set_connect_state(ssl);
  return ssl;
}

int Clamped(size_t size) { return static_cast<int>(std::min<size_t>(size, INT_MAX)); }

}  // namespace

TlsClient::TlsClient(int fd) : fd_(fd), ssl_(Make(fd)) {}

TlsClient::~TlsClient() {
  SSL_free(ssl_);
  ERR_clear_error();
}

std::string TlsClient::Handshake(double timeout_s) {
  for (;;) {
    const int code = SSL_do_handshake(ssl_);
    if (code == 1) return "";
    const int error = SSL_get_error(ssl_, code);
    if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) {
      const char* const reason = ERR_reason_error_string(ERR_peek_error());
      ERR_clear_error();
      return reason == nullptr ? "the server hangs up" : reason;
    }
    pollfd wait{fd_, static_cast<short>(error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT), 0};
    if (poll(&wait, 1, static_cast<int>(timeout_s * 1000)) <= 0) return "the server is silent";
  }
}

// -1 with errno, or 0 at the end.
ssize_t TlsClient::Fault(int code) {
  const int error = SSL_get_error(ssl_, code);
  ERR_clear_error();
  if (error == SSL_ERROR_ZERO_RETURN) return 0;
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
    errno = EAGAIN;
  } else if (error != SSL_ERROR_SYSCALL || errno == 0) {
    errno = EPROTO;
  }
  return -1;
}

ssize_t TlsClient::Send(const char* bytes, size_t size) {
  errno = 0;
  const int n = SSL_write(ssl_, bytes, Clamped(size));
  return n > 0 ? n : Fault(n);
}

ssize_t TlsClient::Receive(char* bytes, size_t room) {
  errno = 0;
  const int n = SSL_read(ssl_, bytes, Clamped(room));
  return n > 0 ? n : Fault(n);
}

bool TlsClient::HasPending() const { return SSL_pending(ssl_) > 0; }

}  // namespace load
