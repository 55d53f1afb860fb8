#include "src/io/plain_transport.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

namespace server {
namespace {

bool WouldBlock() { return errno == EAGAIN || errno == EWOULDBLOCK; }

ssize_t Send(int fd, std::span<const iovec> pieces) {
  // sendmsg costs more, and most replies are one piece.
  if (pieces.size() == 1) return send(fd, pieces[0].iov_base, pieces[0].iov_len, MSG_NOSIGNAL);
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces.data());
  message.msg_iovlen = pieces.size();
  return sendmsg(fd, &message, MSG_NOSIGNAL);
}

}  // namespace

PlainTransport::~PlainTransport() { close(fd()); }

IoResult PlainTransport::Read(std::span<char> into) {
  ssize_t n;
  do n = recv(fd(), into.data(), into.size(), 0);
  while (n < 0 && errno == EINTR);
  if (n > 0) return {IoStatus::kOk, static_cast<size_t>(n)};
  if (n == 0) return {IoStatus::kEnd};
  return {WouldBlock() ? IoStatus::kWantsRead : IoStatus::kBroken};
}

IoResult PlainTransport::Write(std::span<const iovec> pieces) {
  ssize_t n;
  do n = Send(fd(), pieces);
  while (n < 0 && errno == EINTR);
  if (n >= 0) return {IoStatus::kOk, static_cast<size_t>(n)};
  return {WouldBlock() ? IoStatus::kWantsWrite : IoStatus::kBroken};
}

IoStatus PlainTransport::Shutdown() {
  // A peer that is gone already needs no notice.
  shutdown(fd(), SHUT_WR);
  return IoStatus::kOk;
}

}  // namespace server
