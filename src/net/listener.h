// Listener opens the sockets that clients connect to, and hands each new connection to a worker, in
// turn.
//
// Promises:  listens on every TCP address given and on the unix socket. Over the connection limit
//            a client gets an error line and is closed, or waits in the backlog (no_maxconns_fast).
//            When the process is out of descriptors, accepting pauses for some milliseconds.
// Requires:  `Open Watch Close` by the main thread, whose event base is given to Watch; Open before
//            privileges are dropped.
#pragma once

#include <event2/event.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "src/config/options.h"
#include "src/state.h"

namespace server {

class Worker;

// The listening sockets. They are bound first, so that errors are reported before anything else
// happens, and accept clients after Listen(), when everything is ready. The destructor closes them.
// The path of a unix socket is reused only if no server listens there any more, and is removed at
// the end only if it is still this server's socket.
class ListenSockets {
 public:
  explicit ListenSockets(const Options& options);  // throws StartupError
  ~ListenSockets();
  ListenSockets(const ListenSockets&) = delete;
  ListenSockets& operator=(const ListenSockets&) = delete;

  void Listen();  // throws StartupError
  const std::vector<int>& fds() const { return fds_; }
  // Those of them on which TLS is spoken.
  const std::vector<int>& tls_fds() const { return tls_fds_; }
  // "127.0.0.1:11211", "/run/x.sock": for the start-up line.
  std::vector<std::string> names() const;
  void Close();

 private:
  void Open(const Options& options);
  void OpenTcp(const ListenAddress& address, bool tls, bool must);
  void OpenUnix(const std::string& path, unsigned mask);
  void UnlinkUnix();
  void WritePortFile() const;

  const int backlog_;
  std::vector<int> fds_;
  std::vector<int> tls_fds_;
  std::string unix_path_;  // absolute: the server may change its directory
  dev_t unix_device_ = 0;  // with the inode: which file was bound
  ino_t unix_inode_ = 0;
};

class Listener {
 public:
  // The workers outlive it.
  Listener(State& state, std::vector<Worker*> workers, event_base* base);
  ~Listener();

 private:
  static void OnAccept(evutil_socket_t fd, short what, void* listener) noexcept;
  static void OnRetry(evutil_socket_t fd, short what, void* listener) noexcept;
  // False: no client is waiting, or none may be accepted now.
  bool AcceptOne(int fd);
  void Pause();

  State& state_;
  const std::vector<Worker*> workers_;
  std::vector<event*> events_;
  event* retry_;
  size_t next_worker_ = 0;
};

}  // namespace server
