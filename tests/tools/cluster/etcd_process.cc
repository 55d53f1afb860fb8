#include "tests/tools/cluster/etcd_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace {

constexpr const char* kProgram = "/usr/bin/etcd";

// A port that was free a moment ago.
uint16_t FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  const bool bound = bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  close(fd);
  return bound ? ntohs(address.sin_port) : 0;
}

}  // namespace

bool EtcdProcess::IsInstalled() {
  if (access(kProgram, X_OK) == 0) return true;
  static const bool said = [] {
    std::puts("skipped: etcd is not installed (apt-get install etcd-server)");
    return true;
  }();
  return !said;
}

EtcdProcess::EtcdProcess() {
  char name[] = "/tmp/kbf-etcd-XXXXXX";
  directory_ = mkdtemp(name);
  port_ = FreePort();
  const std::string client = "http://127.0.0.1:" + std::to_string(port_);
  const std::string peer = "http://127.0.0.1:" + std::to_string(FreePort());
  const std::vector<std::string> arguments = {kProgram,
                                              "--data-dir",
                                              directory_ + "/data",
                                              "--listen-client-urls",
                                              client,
                                              "--advertise-client-urls",
                                              client,
                                              "--listen-peer-urls",
                                              peer,
                                              "--initial-advertise-peer-urls",
                                              peer,
                                              "--initial-cluster",
                                              "default=" + peer};
  std::vector<char*> pointers;
  for (const std::string& argument : arguments) {
    pointers.push_back(const_cast<char*>(argument.c_str()));
  }
  pointers.push_back(nullptr);
  const std::string log = directory_ + "/log";
  pid_ = fork();
  if (pid_ != 0) return;
  const int fd = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  dup2(fd, STDOUT_FILENO);
  dup2(fd, STDERR_FILENO);
  execv(kProgram, pointers.data());
  _exit(127);
}

void EtcdProcess::Kill() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

EtcdProcess::~EtcdProcess() {
  Kill();
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}
