#include "src/io/tls_transport.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <string_view>
#include <utility>

#include "src/io/openssl_memory.h"
#include "src/log.h"

namespace server {
namespace {

constexpr size_t kRecordBytesMax = 16 << 10;

// The bytes of one record: those of the first piece where it fills a record or is alone, else a
// copy of as many pieces as fit.
std::string_view FirstRecord(std::span<const iovec> pieces) {
  // One for all connections of a thread, which write one after the other.
  static thread_local std::array<char, kRecordBytesMax> copy;
  const auto* first = static_cast<const char*>(pieces[0].iov_base);
  if (pieces.size() == 1 || pieces[0].iov_len >= kRecordBytesMax) {
    return {first, std::min(pieces[0].iov_len, kRecordBytesMax)};
  }
  size_t size = 0;
  for (const iovec& piece : pieces) {
    const size_t n = std::min(piece.iov_len, kRecordBytesMax - size);
    std::memcpy(copy.data() + size, piece.iov_base, n);
    size += n;
    if (size == kRecordBytesMax) break;
  }
  return {copy.data(), size};
}

void Count(std::atomic<uint64_t>* number) { number->fetch_add(1, std::memory_order_relaxed); }

}  // namespace

// Counts what OpenSSL takes and gives back while it lives.
class TlsTransport::Meter {
 public:
  explicit Meter(TlsTransport* transport) : transport_(transport), before_(OpenSslBalance()) {}
  ~Meter() {
    if (const int64_t delta = OpenSslBalance() - before_; delta != 0) {
      transport_->CountMemory(delta);
    }
  }
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;

 private:
  TlsTransport* const transport_;
  const int64_t before_;
};

TlsTransport::TlsTransport(int fd, TlsContext& context, ConnectionMemory& memory, Round& round)
    : Transport(fd), context_(context), memory_(memory), round_(round) {}

TlsTransport::~TlsTransport() {
  {
    const Meter meter(this);
    // So that the peer can tell the end from a cut. What it costs to wait for an answer is not
    // worth it.
    if (established_ && !broken_ && !close_sent_) SSL_shutdown(ssl_);
    SSL_free(ssl_);
    ERR_clear_error();
  }
  CountMemory(-memory_bytes_);
  close(fd());
}

void TlsTransport::CountMemory(int64_t delta) {
  // What one connection allocates for all, such as a session that can be resumed, another one may
  // release.
  const int64_t after = std::max<int64_t>(0, memory_bytes_ + delta);
  if (after > memory_bytes_) memory_.Add(static_cast<uint64_t>(after - memory_bytes_));
  if (after < memory_bytes_) memory_.Subtract(static_cast<uint64_t>(memory_bytes_ - after));
  memory_bytes_ = after;
  set_held_bytes(static_cast<uint32_t>(std::min<int64_t>(after, UINT32_MAX)));
}

IoStatus TlsTransport::StatusOf(int code, const char* what) {
  const int system_error = errno;
  const int error = SSL_get_error(ssl_, code);
  if (error == SSL_ERROR_WANT_READ) return IoStatus::kWantsRead;
  if (error == SSL_ERROR_WANT_WRITE) return IoStatus::kWantsWrite;
  if (error == SSL_ERROR_ZERO_RETURN) {
    ERR_clear_error();
    return IoStatus::kEnd;
  }
  broken_ = true;
  if (LogsAt(kLogErrors)) {
    const bool known = error != SSL_ERROR_SYSCALL || ERR_peek_error() != 0;
    Log(kLogErrors, "<%d %s: %s", fd(), what,
        known               ? TakeOpenSslError().c_str()
        : system_error == 0 ? "the client hung up"
                            : strerror(system_error));
  }
  ERR_clear_error();
  return IoStatus::kBroken;
}

bool TlsTransport::Begin() {
  ssl_ = context_.NewConnection();
  if (ssl_ != nullptr && SSL_set_fd(ssl_, fd()) == 1) return true;
  ERR_clear_error();
  broken_ = true;
  return false;
}

IoStatus TlsTransport::Handshake() {
  // Who connects and says nothing takes no memory.
  if (!std::exchange(announced_, true)) return IoStatus::kWantsRead;
  // Replies of others should not wait for what is calculated here.
  round_.NoteLongTurn();
  const Meter meter(this);
  if (broken_ || (ssl_ == nullptr && !Begin())) {
    Count(&context_.events().handshake_errors);
    return IoStatus::kBroken;
  }
  errno = 0;
  const int code = SSL_accept(ssl_);
  if (code == 1) {
    established_ = true;
    drained_ = false;  // the client may have sent requests together with the end of its handshake
    if (SSL_session_reused(ssl_) == 0) Count(&context_.events().new_sessions);
    return IoStatus::kOk;
  }
  const IoStatus status = StatusOf(code, "TLS handshake failed");
  if (status == IoStatus::kWantsRead || status == IoStatus::kWantsWrite) return status;
  broken_ = true;  // also where the client only hung up
  // Who connects and leaves without a word, as checks for a living server do, has made no error.
  if (BIO_number_read(SSL_get_rbio(ssl_)) > 0) Count(&context_.events().handshake_errors);
  return IoStatus::kBroken;
}

IoResult TlsTransport::ReadRecord(std::span<char> into) {
  const int size = static_cast<int>(std::min<size_t>(into.size(), INT32_MAX));
  errno = 0;
  const int n = SSL_read(ssl_, into.data(), size);
  if (n > 0) return {IoStatus::kOk, static_cast<size_t>(n)};
  return {StatusOf(n, "TLS failed")};
}

IoResult TlsTransport::Read(std::span<char> into) {
  if (broken_) return {IoStatus::kBroken};
  const Meter meter(this);
  size_t received = 0;
  // All records that are there already: no event announces them.
  do {
    const IoResult result = ReadRecord(into.subspan(received));
    drained_ = result.status != IoStatus::kOk;
    received += result.bytes;
    if (drained_ && received == 0) return result;
  } while (!drained_ && received < into.size() && SSL_has_pending(ssl_) == 1);
  return {IoStatus::kOk, received};
}

IoResult TlsTransport::Write(std::span<const iovec> pieces) {
  if (broken_) return {IoStatus::kBroken};
  round_.NoteLongTurn();
  const Meter meter(this);
  std::string_view record = FirstRecord(pieces);
  if (retry_bytes_ != 0) {
    // OpenSSL has encrypted so many bytes already, and sends no others.
    if (record.size() < retry_bytes_) {
      broken_ = true;
      return {IoStatus::kBroken};
    }
    record = record.substr(0, retry_bytes_);
  }
  errno = 0;
  const int n = SSL_write(ssl_, record.data(), static_cast<int>(record.size()));
  retry_bytes_ = n > 0 ? 0 : static_cast<uint32_t>(record.size());
  if (n > 0) return {IoStatus::kOk, static_cast<size_t>(n)};
  const IoStatus status = StatusOf(n, "TLS failed");
  return {status == IoStatus::kEnd ? IoStatus::kBroken : status};
}

bool TlsTransport::HasPending() const {
  return established_ && !broken_ && !drained_ && SSL_has_pending(ssl_) == 1;
}

bool TlsTransport::HoldsPart() const {
  if (!established_ || broken_) return false;
  // Behind the head of a record OpenSSL is in the state "RB": it reads the body.
  return SSL_has_pending(ssl_) == 1 || SSL_rstate_string(ssl_)[1] == 'B';
}

IoStatus TlsTransport::Shutdown() {
  if (broken_) return IoStatus::kBroken;
  const Meter meter(this);
  errno = 0;
  const int code = SSL_shutdown(ssl_);
  if (code < 0) {
    const IoStatus status = StatusOf(code, "TLS failed");
    return status == IoStatus::kEnd ? IoStatus::kBroken : status;
  }
  close_sent_ = true;
  shutdown(fd(), SHUT_WR);
  return IoStatus::kOk;
}

}  // namespace server
