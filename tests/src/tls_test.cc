// TLS over a pair of sockets in one thread: the transport on one end, a client of OpenSSL's own on
// the other.
#include <doctest/doctest.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "src/io/openssl_memory.h"
#include "src/io/socket_calls.h"
#include "src/io/tls_context.h"
#include "src/io/tls_transport.h"
#include "src/process/startup_error.h"
#include "tests/src/certificates.h"

namespace server {
namespace {

// The files that a context needs, and options that name them.
struct Files {
  Files() {
    CountOpenSslMemory();
    MakeCertificate(directory, "one");
  }
  TlsOptions Options() const {
    TlsOptions options;
    options.enabled = true;
    options.chain_cert = directory.path() + "/one.crt";
    options.key = directory.path() + "/one.key";
    return options;
  }
  TemporaryDirectory directory;
};

class Client {
 public:
  Client(int fd, int version) : context_(SSL_CTX_new(TLS_client_method())) {
    SSL_CTX_set_max_proto_version(context_, version);
    SSL_CTX_set_mode(context_, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    ssl_ = SSL_new(context_);
    SSL_set_fd(ssl_, fd);
    SSL_set_connect_state(ssl_);
  }
  ~Client() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
    ERR_clear_error();
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  SSL* ssl() { return ssl_; }
  bool Handshake() { return Clear(SSL_do_handshake(ssl_)) == 1; }
  // What was taken.
  size_t Write(std::string_view bytes) {
    return static_cast<size_t>(
        std::max(0, Clear(SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size())))));
  }
  // What is there, at most so many bytes.
  std::string Read(size_t bytes_max = 1 << 16) {
    std::string bytes(bytes_max, '\0');
    const int n = Clear(SSL_read(ssl_, bytes.data(), static_cast<int>(bytes.size())));
    bytes.resize(static_cast<size_t>(std::max(0, n)));
    return bytes;
  }
  bool saw_end() const { return (SSL_get_shutdown(ssl_) & SSL_RECEIVED_SHUTDOWN) != 0; }
  std::string PeerName() const {
    X509* const certificate = SSL_get1_peer_certificate(ssl_);
    if (certificate == nullptr) return "";
    char name[64] = "";
    X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name,
                              sizeof(name));
    X509_free(certificate);
    return name;
  }

 private:
  static int Clear(int code) {
    ERR_clear_error();
    return code;
  }

  SSL_CTX* const context_;
  SSL* ssl_;
};

// A transport and its client.
struct Pair {
  explicit Pair(TlsContext& context, int version = TLS1_3_VERSION, int buffer_bytes = 0) {
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds.data()) == 0);
    if (buffer_bytes != 0) {
      setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof(buffer_bytes));
    }
    server = std::make_unique<TlsTransport>(fds[0], context, memory, round);
    client = std::make_unique<Client>(fds[1], version);
  }
  ~Pair() {
    client.reset();
    server.reset();
    close(fds[1]);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  // What the server's side comes to.
  IoStatus Connect() {
    bool client_done = false;
    for (int round = 0; round < 20; ++round) {
      client_done = client->Handshake();
      const IoStatus status = server->Handshake();
      if (status == IoStatus::kBroken) return status;
      if (status == IoStatus::kOk) {
        return client_done || client->Handshake() ? IoStatus::kOk : IoStatus::kBroken;
      }
    }
    return IoStatus::kWantsRead;
  }
  std::string Receive() {
    std::array<char, 1 << 16> bytes;
    const IoResult result = server->Read(bytes);
    last = result.status;
    return {bytes.data(), result.bytes};
  }

  std::array<int, 2> fds{};
  ConnectionMemory memory{0};
  Round round{std::make_unique<PlainCalls>()};
  std::unique_ptr<TlsTransport> server;
  std::unique_ptr<Client> client;
  IoStatus last = IoStatus::kOk;  // of Receive
};

iovec PieceOf(std::string_view text) { return {const_cast<char*>(text.data()), text.size()}; }

TEST_SUITE("server") {
  TEST_CASE("tls: both versions carry bytes both ways and end with close_notify") {
    const Files files;
    TlsContext context(files.Options());
    for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
      CAPTURE(version);
      Pair pair(context, version);
      REQUIRE(pair.Connect() == IoStatus::kOk);
      CHECK(SSL_version(pair.client->ssl()) == version);
      CHECK(pair.Receive() == "");
      CHECK(pair.last == IoStatus::kWantsRead);
      CHECK(pair.client->Write("get a\r\n") == 7);
      CHECK(pair.Receive() == "get a\r\n");
      const std::array pieces = {PieceOf("VALUE "), PieceOf("a"), PieceOf("\r\n")};
      CHECK(pair.server->Write(pieces).bytes == 9);
      CHECK(pair.client->Read() == "VALUE a\r\n");  // one record
      CHECK(pair.server->Shutdown() == IoStatus::kOk);
      CHECK(pair.client->Read() == "");
      CHECK(pair.client->saw_end());
      SSL_shutdown(pair.client->ssl());
      CHECK(pair.Receive() == "");
      CHECK(pair.last == IoStatus::kEnd);
    }
  }

  TEST_CASE("tls: a connection that is deleted says close_notify as well") {
    const Files files;
    TlsContext context(files.Options());
    Pair pair(context);
    REQUIRE(pair.Connect() == IoStatus::kOk);
    pair.server.reset();
    CHECK(pair.client->Read() == "");
    CHECK(pair.client->saw_end());
  }

  TEST_CASE("tls: records that have arrived are all read, and pending only where there is more") {
    const Files files;
    TlsContext context(files.Options());
    Pair pair(context);
    REQUIRE(pair.Connect() == IoStatus::kOk);
    std::string sent;
    for (int i = 0; i < 200; ++i) {
      const std::string request = "get key" + std::to_string(i) + "\r\n";
      REQUIRE(pair.client->Write(request) == request.size());
      sent += request;
    }
    CHECK(pair.Receive() == sent);
    CHECK_FALSE(pair.server->HasPending());
    CHECK_FALSE(pair.server->HoldsPart());

    // A caller with little room: the rest is pending, and no event would tell.
    REQUIRE(pair.client->Write("0123456789") == 10);
    std::array<char, 4> few;
    CHECK(pair.server->Read(few).bytes == 4);
    CHECK(pair.server->HasPending());
    CHECK(pair.Receive() == "456789");
    CHECK_FALSE(pair.server->HasPending());
  }

  TEST_CASE("tls: half a record is held, is not pending, and is read when the rest arrives") {
    const Files files;
    TlsContext context(files.Options());
    for (const size_t first_bytes : {1u, 5u, 6u, 20u}) {
      CAPTURE(first_bytes);
      Pair pair(context);
      REQUIRE(pair.Connect() == IoStatus::kOk);
      pair.Receive();
      // The client encrypts into memory, and the test brings the bytes over in two steps.
      BIO* const encrypted = BIO_new(BIO_s_mem());
      SSL_set0_wbio(pair.client->ssl(), encrypted);
      pair.client->Write("get something\r\n");
      std::array<char, 256> record;
      const int size = BIO_read(encrypted, record.data(), static_cast<int>(record.size()));
      REQUIRE(size > 20);
      REQUIRE(send(pair.fds[1], record.data(), first_bytes, 0) > 0);
      CHECK(pair.Receive() == "");
      CHECK(pair.last == IoStatus::kWantsRead);
      CHECK(pair.server->HoldsPart());
      CHECK_FALSE(pair.server->HasPending());
      CHECK(pair.server->held_bytes() > kTlsIdleBytes);
      send(pair.fds[1], record.data() + first_bytes, static_cast<size_t>(size) - first_bytes, 0);
      CHECK(pair.Receive() == "get something\r\n");
      CHECK_FALSE(pair.server->HoldsPart());
      CHECK(pair.server->held_bytes() < kTlsIdleBytes);
    }
  }

  TEST_CASE("tls: a slow reader gets every byte in order, however the pieces move between tries") {
    const Files files;
    TlsContext context(files.Options());
    std::mt19937 random(1);
    for (int round = 0; round < 10; ++round) {
      CAPTURE(round);
      Pair pair(context, TLS1_3_VERSION, 4096);
      REQUIRE(pair.Connect() == IoStatus::kOk);
      std::string all;
      while (all.size() < 300'000) {
        all += std::string(1 + random() % 30'000, static_cast<char>('a' + random() % 26));
      }
      std::string received;
      size_t sent = 0;
      unsigned refused = 0;
      while (received.size() < all.size()) {
        // The same bytes in front each time, but elsewhere in memory.
        const std::string copy = all.substr(sent);
        std::vector<iovec> pieces;
        const size_t first = std::min<size_t>(copy.size(), 100 + round * 3000u);
        if (first > 0) pieces.push_back(PieceOf(std::string_view(copy).substr(0, first)));
        if (first < copy.size()) pieces.push_back(PieceOf(std::string_view(copy).substr(first)));
        if (!pieces.empty()) {
          const IoResult result = pair.server->Write(pieces);
          REQUIRE(result.status != IoStatus::kBroken);
          if (result.status == IoStatus::kOk) sent += result.bytes;
          if (result.status == IoStatus::kWantsWrite) ++refused;
        }
        received += pair.client->Read(1 + random() % 20'000);
      }
      CHECK(received == all);
      CHECK(refused > 0);
    }
  }

  TEST_CASE("tls: what is no handshake breaks the connection and is counted") {
    const Files files;
    TlsContext context(files.Options());
    uint64_t errors = 0;
    for (const std::string bytes : {"get a\r\n", "GET / HTTP/1.0\r\n\r\n", "\x80\x0b"}) {
      CAPTURE(bytes);
      Pair pair(context);
      CHECK(pair.server->Handshake() == IoStatus::kWantsRead);
      REQUIRE(send(pair.fds[1], bytes.data(), bytes.size(), 0) > 0);
      if (bytes.size() < 5) shutdown(pair.fds[1], SHUT_WR);
      CHECK(pair.server->Handshake() == IoStatus::kBroken);
      CHECK(context.events().handshake_errors == ++errors);
      CHECK(pair.Receive() == "");
      CHECK(pair.last == IoStatus::kBroken);
    }
  }

  TEST_CASE("tls: versions before 1.2, and before 1.3 where that is asked for, are refused") {
    const Files files;
    TlsOptions options = files.Options();
    {
      TlsContext context(options);
      Pair pair(context, TLS1_1_VERSION);
      CHECK(pair.Connect() != IoStatus::kOk);
    }
    options.min_version = 3;
    TlsContext context(options);
    Pair old(context, TLS1_2_VERSION);
    CHECK(old.Connect() == IoStatus::kBroken);
    Pair pair(context, TLS1_3_VERSION);
    CHECK(pair.Connect() == IoStatus::kOk);
  }

  TEST_CASE(
      "tls: memory is counted, an idle connection stays within its bound, and all comes back") {
    const Files files;
    TlsContext context(files.Options());
    for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
      CAPTURE(version);
      Pair pair(context, version);
      CHECK(pair.server->Handshake() == IoStatus::kWantsRead);
      CHECK(pair.memory.bytes() == 0);  // the client has said nothing yet
      REQUIRE(pair.Connect() == IoStatus::kOk);
      for (int i = 0; i < 100; ++i) {
        REQUIRE(pair.client->Write("get a\r\n") == 7);
        CHECK(pair.Receive() == "get a\r\n");
        const std::array pieces = {PieceOf("END\r\n")};
        CHECK(pair.server->Write(pieces).bytes == 5);
        CHECK(pair.client->Read() == "END\r\n");
      }
      CHECK(pair.server->held_bytes() == pair.memory.bytes());
      CHECK(pair.memory.bytes() > 4096);
      CHECK(pair.memory.bytes() <= kTlsIdleBytes);
      pair.server.reset();
      CHECK(pair.memory.bytes() == 0);
    }
  }

  // A whole conversation; what the server's side comes to. Only its allocations fail.
  IoStatus Converse(TlsContext & context, uint64_t fail_after, uint64_t * memory_left) {
    Pair pair(context);
    IoStatus status = IoStatus::kWantsRead;
    const auto failing = [&](auto call) {
      FailOpenSslAllocations(fail_after);
      status = call();
      fail_after = OpenSslAllocationsLeft();
      FailOpenSslAllocations(kNeverFail);
    };
    for (int round = 0; round < 20 && status == IoStatus::kWantsRead; ++round) {
      pair.client->Handshake();
      failing([&] { return pair.server->Handshake(); });
    }
    pair.client->Handshake();
    if (status == IoStatus::kOk) {
      pair.client->Write("get a\r\n");
      std::array<char, 64> bytes;
      failing([&] { return pair.server->Read(bytes).status; });
    }
    const std::array pieces = {PieceOf("END\r\n")};
    if (status == IoStatus::kOk) failing([&] { return pair.server->Write(pieces).status; });
    if (status == IoStatus::kOk) failing([&] { return pair.server->Shutdown(); });
    if (status == IoStatus::kOk) CHECK(pair.client->Read() == "END\r\n");
    FailOpenSslAllocations(fail_after);
    pair.server.reset();
    FailOpenSslAllocations(kNeverFail);
    *memory_left = pair.memory.bytes();
    return status;
  }

  TEST_CASE("tls: an allocation that fails breaks its connection at most, whichever it is") {
    const Files files;
    TlsContext context(files.Options());
    uint64_t memory_left = 0;
    REQUIRE(Converse(context, kNeverFail, &memory_left) == IoStatus::kOk);
    unsigned broken = 0;
    unsigned served = 0;
    // Some allocations may fail without harm, so only many in a row that do not matter are the end.
    for (uint64_t n = 1; served < 200; ++n) {
      CAPTURE(n);
      const IoStatus status = Converse(context, n, &memory_left);
      CHECK(memory_left == 0);
      if (status == IoStatus::kOk) {
        ++served;
      } else {
        served = 0;
        ++broken;
        CHECK(status == IoStatus::kBroken);
      }
      if (n % 50 == 0) REQUIRE(Converse(context, kNeverFail, &memory_left) == IoStatus::kOk);
    }
    CHECK(broken > 100);
    CHECK(Converse(context, kNeverFail, &memory_left) == IoStatus::kOk);
  }

  TEST_CASE("tls: new files are for new connections, old connections go on") {
    const Files files;
    MakeCertificate(files.directory, "two");
    TlsContext context(files.Options());
    Pair before(context);
    REQUIRE(before.Connect() == IoStatus::kOk);
    CHECK(before.client->PeerName() == "one");
    for (const char* kind : {".crt", ".key"}) {
      std::filesystem::rename(files.directory.path() + "/two" + kind,
                              files.directory.path() + "/one" + kind);
    }
    CHECK(context.loaded_at() == Clock::kStart);
    CHECK(context.Reload(1000) == std::nullopt);
    CHECK(context.loaded_at() == 1000);
    Pair after(context);
    REQUIRE(after.Connect() == IoStatus::kOk);
    CHECK(after.client->PeerName() == "two");
    CHECK(before.client->Write("x") == 1);
    CHECK(before.Receive() == "x");
    CHECK(context.Reload(2000) == std::nullopt);  // nothing has changed
    CHECK(context.loaded_at() == 2000);
  }

  TEST_CASE("tls: files that cannot be used change nothing, and say why") {
    const Files files;
    MakeCertificate(files.directory, "two");
    TlsContext context(files.Options());
    const std::string path = files.directory.path();
    const auto fails = [&](const std::string& begin) {
      const auto error = context.Reload(5);
      REQUIRE(error);
      CHECK(error->starts_with(begin));
      CHECK(error->find_first_of("\r\n") == error->npos);
      Pair pair(context);
      REQUIRE(pair.Connect() == IoStatus::kOk);
      CHECK(pair.client->PeerName() == "one");
    };
    std::filesystem::rename(path + "/one.crt", path + "/kept");
    fails("Error loading the certificate chain: " + path + "/one.crt : error:");
    files.directory.Write("one.crt", "garbage\n");
    fails("Error loading the certificate chain: ");
    std::filesystem::rename(path + "/kept", path + "/one.crt");
    std::filesystem::rename(path + "/one.key", path + "/kept");
    fails("Error loading the key: " + path + "/one.key : error:");
    std::filesystem::rename(path + "/two.key", path + "/one.key");
    fails("Error loading the key: ");  // of another certificate
    std::filesystem::rename(path + "/kept", path + "/one.key");
    CHECK(context.Reload(6) == std::nullopt);
  }

  TEST_CASE("tls: a start with files that cannot be used is one line that names the file") {
    const Files files;
    const auto error_of = [](const TlsOptions& options) -> std::string {
      try {
        TlsContext context(options);
      } catch (const StartupError& error) {
        return error.what();
      }
      return "";
    };
    const std::string path = files.directory.path();
    TlsOptions options = files.Options();
    CHECK(error_of(options) == "");
    options.key = "";
    CHECK(error_of(options).starts_with("Error loading the key: " + options.chain_cert));
    options.chain_cert = path + "/one.pem";
    CHECK(error_of(options) == "");  // certificate and key in one file
    options.ca_cert = path + "/none";
    CHECK(error_of(options).starts_with("Error loading the CA certificate: " + options.ca_cert));
    options.ca_cert = path + "/one.crt";
    CHECK(error_of(options) == "");
    options.ciphers = "nonsense";
    CHECK(error_of(options).starts_with("Error setting the provided cipher(s): nonsense : error:"));
  }
}

}  // namespace
}  // namespace server
