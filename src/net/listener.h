// Listener opens the sockets that clients connect to, and hands each new connection to a worker, in
// turn.
//
// Promises:  TCP on every address asked for and the unix socket, together. Over the connection
//            limit a client is told so and closed, or waits in the backlog (no_maxconns_fast). A
//            process out of descriptors pauses for a moment instead of spinning.
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

// The sockets, bound before anything else exists, so that errors are told early; they answer from
// Listen() on, when everything is ready. Closes on destruction. The path of a unix socket is taken
// over when its server is dead, never from one that lives, and is removed at the end only while it
// is still this server's socket.
class ListenSockets {
 public:
  explicit ListenSockets(const Options& options);  // throws StartupError
  ~ListenSockets();
  ListenSockets(const ListenSockets&) = delete;
  ListenSockets& operator=(const ListenSockets&) = delete;

  void Listen();  // throws StartupError
  const std::vector<int>& fds() const { return fds_; }
  // "127.0.0.1:11211", "/run/x.sock": for the start-up line.
  std::vector<std::string> names() const;
  void Close();

 private:
  void Open(const Options& options);
  void OpenTcp(const ListenAddress& address, bool must);
  void OpenUnix(const std::string& path, unsigned mask);
  void UnlinkUnix();
  void WritePortFile() const;

  const int backlog_;
  std::vector<int> fds_;
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
  // False: nobody is waiting, or no more may come in now.
  bool AcceptOne(int fd);
  void Pause();

  State& state_;
  const std::vector<Worker*> workers_;
  std::vector<event*> events_;
  event* retry_;
  size_t next_worker_ = 0;
};

}  // namespace server
