#include "src/warm/source.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <memory>
#include <system_error>

#include "protocol/base64.h"
#include "storage/store_types.h"

namespace server {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr int kPollMs = 100;
constexpr std::chrono::seconds kPatience{10};
constexpr size_t kReadBytes = 64 << 10;
constexpr size_t kLineBytesMax = 4096;
// memcached lists one list of keys at a time.
constexpr int kBusyTries = 20;

const char* const kStopped = "the server is stopping";

std::string Reason(int error) { return std::generic_category().message(error); }

// "key=a%20b" -> "a b". Nothing: not such a word.
std::optional<std::string> KeyIn(std::string_view line) {
  constexpr std::string_view kName = "key=";
  if (!line.starts_with(kName)) return std::nullopt;
  const std::string_view text = line.substr(kName.size(), line.find(' ') - kName.size());
  std::string key;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned code = 0;
    if (text[i] != '%') {
      key += text[i];
      continue;
    }
    const std::string_view digits = text.substr(i + 1, 2);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (error != std::errc() || digits.size() != 2 || end != digits.data() + 2) return std::nullopt;
    key += static_cast<char>(code);
    i += 2;
  }
  return key.empty() || key.size() > kbf::kKeyBytesMax ? std::nullopt : std::optional(key);
}

// A key that cannot be sent as text.
bool NeedsBase64(std::string_view key) {
  return std::any_of(key.begin(), key.end(),
                     [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == '\x7f'; });
}

std::string Shown(std::string_view bytes) {
  std::string text(bytes.substr(0, std::min(bytes.find_first_of("\r\n"), size_t{60})));
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || static_cast<unsigned char>(c) >= 127) c = '?';
  }
  return "'" + text + "'";
}

}  // namespace

// ---- one connection -----------------------------------------------------------------------------

WarmLink::~WarmLink() {
  if (fd_ >= 0) close(fd_);
}

std::string WarmLink::Wait(short events) {
  const auto deadline = SteadyClock::now() + kPatience;
  pollfd one{fd_, events, 0};
  while (!stop_) {
    if (poll(&one, 1, kPollMs) > 0) return {};
    if (SteadyClock::now() > deadline) return "no answer for 10 seconds";
  }
  return kStopped;
}

std::string WarmLink::Connect(const ListenAddress& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const std::string port = std::to_string(address.port);
  const int failed = getaddrinfo(address.host.c_str(), port.c_str(), &hints, &list);
  if (failed != 0) return gai_strerror(failed);
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
  std::string error = "no address";
  for (const addrinfo* each = list; each != nullptr; each = each->ai_next) {
    if (fd_ >= 0) close(fd_);
    fd_ = socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd_ < 0) return Reason(errno);
    int code = connect(fd_, each->ai_addr, each->ai_addrlen) == 0 ? 0 : errno;
    if (code == EINPROGRESS) {
      error = Wait(POLLOUT);
      if (!error.empty()) continue;
      socklen_t size = sizeof code;
      getsockopt(fd_, SOL_SOCKET, SO_ERROR, &code, &size);
    }
    if (code == 0) {
      const int on = 1;
      (void)setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      return {};
    }
    error = Reason(code);
  }
  return error;
}

std::string WarmLink::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN) {
      if (std::string error = Wait(POLLOUT); !error.empty()) return error;
    } else if (errno != EINTR) {
      return Reason(errno);
    }
  }
  return {};
}

std::string WarmLink::Receive() {
  for (;;) {
    if (std::string error = Wait(POLLIN); !error.empty()) return error;
    std::array<char, kReadBytes> bytes;
    const ssize_t got = recv(fd_, bytes.data(), bytes.size(), 0);
    if (got == 0) return "the connection was closed";
    if (got > 0) {
      buffer_.append(bytes.data(), static_cast<size_t>(got));
      return {};
    }
    if (errno != EAGAIN && errno != EINTR) return Reason(errno);
  }
}

void WarmLink::Drop(size_t bytes) {
  begin_ += bytes;
  if (begin_ < buffer_.size() / 2) return;
  buffer_.erase(0, begin_);
  begin_ = 0;
}

// ---- keys ---------------------------------------------------------------------------------------

std::string WarmSource::Connect() {
  for (std::optional<WarmLink>* link : {&list_, &values_}) {
    link->emplace(stop_);
    if (std::string error = (*link)->Connect(address_); !error.empty()) return error;
  }
  if (std::string error = values_->Send("version\r\n"); !error.empty()) return error;
  for (;;) {
    protocol::Reply reply;
    const auto result = protocol::ParseReply(protocol::Wire::kText, values_->received(), &reply);
    if (result.status == protocol::ReplyStatus::kOk) {
      if (reply.kind != protocol::ReplyKind::kVersion) {
        return "it answered " + Shown(values_->received()) + " to version";
      }
      values_->Drop(result.consumed);
      return {};
    }
    if (result.status == protocol::ReplyStatus::kBroken) {
      return "it does not speak memcached's protocol: " + Shown(values_->received());
    }
    if (std::string error = values_->Receive(); !error.empty()) return error;
  }
}

std::string WarmSource::BeginList() {
  for (int tries = 0; tries < kBusyTries; ++tries) {
    if (std::string error = list_->Send("lru_crawler metadump all\r\n"); !error.empty()) {
      return error;
    }
    // The first line says whether it lists at all.
    while (list_->received().find('\n') == std::string_view::npos) {
      if (std::string error = list_->Receive(); !error.empty()) return error;
    }
    if (!list_->received().starts_with("BUSY")) return {};
    list_->Drop(list_->received().find('\n') + 1);
    for (int i = 0; i < 10 && !stop_; ++i) (void)poll(nullptr, 0, kPollMs);
  }
  return "it is busy listing keys for somebody else";
}

std::string WarmSource::NextKeys(size_t count, std::vector<std::string>* keys) {
  keys->clear();
  while (keys->size() < count) {
    const std::string_view bytes = list_->received();
    const size_t end = bytes.find('\n');
    if (end == std::string_view::npos) {
      if (bytes.size() > kLineBytesMax) return "it lists keys in no form that is known";
      if (std::string error = list_->Receive(); !error.empty()) return error;
      continue;
    }
    const std::string_view line = bytes.substr(0, end);
    if (line == "END\r" || line == "END") {
      // Left there: the next call finds it again.
      return {};
    }
    std::optional<std::string> key = KeyIn(line);
    if (!key) return "it does not list its keys: " + Shown(line);
    keys->push_back(std::move(*key));
    list_->Drop(end + 1);
  }
  return {};
}

// ---- values -------------------------------------------------------------------------------------

std::string WarmSource::Fetch(const std::vector<std::string>& keys,
                              const std::function<void(const Item&)>& visit) {
  std::string request;
  for (const std::string& key : keys) {
    request += "mg ";
    if (NeedsBase64(key)) {
      std::string text(protocol::Base64Bytes(key.size()), '\0');
      text.resize(protocol::EncodeBase64(key, text.data()));
      request += text + " b f t v\r\n";
    } else {
      request += key + " f t v\r\n";
    }
  }
  if (std::string error = values_->Send(request); !error.empty()) return error;
  for (const std::string& key : keys) {
    if (std::string error = TakeReply(key, visit); !error.empty()) return error;
  }
  return {};
}

std::string WarmSource::TakeReply(const std::string& key,
                                  const std::function<void(const Item&)>& visit) {
  for (;;) {
    protocol::Reply reply;
    const auto result = protocol::ParseReply(protocol::Wire::kMeta, values_->received(), &reply);
    if (result.status == protocol::ReplyStatus::kBroken) {
      return "it answered " + Shown(values_->received()) + " to mg";
    }
    if (result.status == protocol::ReplyStatus::kNeedMore) {
      if (result.needed > value_bytes_max_ + kLineBytesMax) return DiscardReply(result.needed);
      if (std::string error = values_->Receive(); !error.empty()) return error;
      continue;
    }
    const bool value = reply.kind == protocol::ReplyKind::kValue;
    if (!value && reply.kind != protocol::ReplyKind::kNotFound) {
      return "it answered " + Shown(values_->received()) + " to mg";
    }
    if (value && !reply.stale && reply.value.size() <= value_bytes_max_) {
      const auto ttl = reply.ttl < 0 ? std::nullopt : std::optional(reply.ttl);
      visit({key, reply.value, reply.flags, ttl, NeedsBase64(key)});
    }
    values_->Drop(result.consumed);
    return {};
  }
}

std::string WarmSource::DiscardReply(size_t bytes) {
  while (bytes > 0) {
    if (values_->received().empty()) {
      if (std::string error = values_->Receive(); !error.empty()) return error;
    }
    const size_t part = std::min(bytes, values_->received().size());
    values_->Drop(part);
    bytes -= part;
  }
  return {};
}

}  // namespace server
