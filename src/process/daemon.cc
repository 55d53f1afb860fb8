#include "src/process/daemon.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "src/process/startup_error.h"

namespace server {

namespace {

// Files besides the clients': standard streams, listeners, and per worker its event base, what wakes
// it up, its clock and its ring.
constexpr rlim_t kFilesOfServer = 32;
constexpr rlim_t kFilesPerThread = 6;

[[noreturn]] void Fail(const std::string& what) {
  throw StartupError(what + ": " + std::strerror(errno));
}

rlimit LimitOf(__rlimit_resource resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0) Fail("cannot read a resource limit");
  return limit;
}

// In a daemon that has not called ReportReady yet: the pipe to the waiting process.
int ready_pipe = -1;

// What the calling process of -d does after the fork.
[[noreturn]] void WaitUntilReady(pid_t child, int pipe) {
  char byte = 0;
  ssize_t got = 0;
  do got = read(pipe, &byte, 1);
  while (got < 0 && errno == EINTR);
  if (got == 1) _exit(0);
  // The child has ended. It has printed the reason, unless a signal ended it.
  int status = 0;
  if (waitpid(child, &status, 0) == child && WIFSIGNALED(status)) {
    std::fprintf(stderr, "kbfcached: -d: signal %d ended the server before it was ready\n",
                 WTERMSIG(status));
  }
  _exit(1);
}

}  // namespace

void OpenStandardStreams() {
  int fd = 0;
  // The lowest free number is the one that open gives.
  do fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd < 0) Fail("cannot open /dev/null");
  close(fd);
}

void Daemonize(bool keep_directory) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) Fail("-d: cannot make a pipe");
  const pid_t child = fork();
  if (child < 0) Fail("-d: cannot start a process");
  if (child > 0) {
    close(ends[1]);
    WaitUntilReady(child, ends[0]);
  }
  close(ends[0]);
  ready_pipe = ends[1];
  if (setsid() < 0) Fail("-d: cannot leave the terminal");
  if (!keep_directory && chdir("/") != 0) Fail("-d: cannot change to /");
}

void ReportReady(bool keep_streams) {
  if (ready_pipe < 0) return;
  if (!keep_streams) {
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0) Fail("-d: cannot open /dev/null");
    // dup2 clears O_CLOEXEC on the copies only.
    for (int stream = 0; stream <= STDERR_FILENO; ++stream) {
      if (dup2(null, stream) < 0) Fail("-d: cannot redirect to /dev/null");
    }
    close(null);
  }
  // The waiting process may have ended; that is no error.
  [[maybe_unused]] const ssize_t written = write(ready_pipe, "", 1);
  close(ready_pipe);
  ready_pipe = -1;
}

void RaiseFileLimit(unsigned connections, unsigned threads) {
  const rlim_t needed = connections + kFilesPerThread * threads + kFilesOfServer;
  rlimit limit = LimitOf(RLIMIT_NOFILE);
  if (limit.rlim_cur >= needed) return;
  const rlim_t hard = limit.rlim_max;
  limit.rlim_cur = needed;
  if (limit.rlim_max < needed) limit.rlim_max = needed;  // only root may
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
    throw StartupError("-c " + std::to_string(connections) + " needs " + std::to_string(needed) +
                       " open files and the limit is " + std::to_string(hard) +
                       ": lower -c or raise the limit (ulimit -n, LimitNOFILE=)");
  }
}

void LockMemory() {
  // Locks count whole mappings, stacks and reserves included, and a limit that is met while
  // serving makes allocations fail. So nothing less than "unlimited" is safe.
  const rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
  if (LimitOf(RLIMIT_MEMLOCK).rlim_cur != RLIM_INFINITY && setrlimit(RLIMIT_MEMLOCK, &limit) != 0) {
    throw StartupError(
        "-k needs an unlimited memory-lock limit: ulimit -l unlimited, LimitMEMLOCK=infinity, or "
        "leave -k out");
  }
  // On fault: memory is locked when it is first used, not when it is only reserved.
  if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) != 0) Fail("-k: cannot lock memory");
}

void ForbidNewPrivileges() {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) Fail("cannot forbid new privileges");
  // EINVAL: there are no more capabilities. EPERM: the process lacks CAP_SETPCAP.
  for (unsigned long capability = 0; prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0;) {
    ++capability;
  }
}

void DropCapabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {};
  // A process without capabilities may not be allowed to call capset at all, as in the systemd
  // unit.
  if (syscall(SYS_capget, &header, sets) == 0) {
    bool any = false;
    for (const auto& set : sets) any |= (set.effective | set.permitted | set.inheritable) != 0;
    if (!any) return;
  }
  for (auto& set : sets) set = {};
  // The kernel removes the same capabilities from the ambient set.
  if (syscall(SYS_capset, &header, sets) != 0) Fail("cannot give up capabilities");
}

void DropPrivileges(const std::string& user) {
  if (geteuid() != 0) return;
  if (user.empty()) {
    throw StartupError("root needs -u <user> to say as whom to run (-u root, if that is meant)");
  }
  errno = 0;
  const passwd* entry = getpwnam(user.c_str());
  if (entry == nullptr) {
    if (errno != 0) Fail("-u: cannot look up '" + user + "'");
    throw StartupError("-u: there is no user '" + user + "'");
  }
  if (entry->pw_uid == 0) return;
  // Groups first: after setuid they can no longer be changed.
  if (initgroups(entry->pw_name, entry->pw_gid) != 0 || setgid(entry->pw_gid) != 0 ||
      setuid(entry->pw_uid) != 0) {
    Fail("-u: cannot become '" + user + "'");
  }
  if (setuid(0) == 0) throw StartupError("-u: root came back after becoming '" + user + "'");
}

void EnableCoreDumps() {
  rlimit limit = LimitOf(RLIMIT_CORE);
  if (limit.rlim_max == 0) {
    throw StartupError("-r: core files are forbidden here: raise the hard limit (ulimit -H -c)");
  }
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_CORE, &limit) != 0) Fail("-r: cannot raise the core file limit");
  if (prctl(PR_SET_DUMPABLE, 1) != 0) Fail("-r: cannot allow core files");
}

void WritePidFile(const std::string& path) {
  const std::string fresh = path + ".tmp";
  const int fd = open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0) Fail("-P: cannot write " + fresh);
  const std::string text = std::to_string(getpid()) + "\n";
  const ssize_t written = write(fd, text.data(), text.size());
  const bool closed = close(fd) == 0;
  if (written != static_cast<ssize_t>(text.size()) || !closed ||
      std::rename(fresh.c_str(), path.c_str()) != 0) {
    const int error = errno;
    unlink(fresh.c_str());
    errno = error;
    Fail("-P: cannot write " + path);
  }
}

void RemovePidFile(const std::string& path) noexcept {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return;
  char text[32] = "";
  const ssize_t got = read(fd, text, sizeof text - 1);
  close(fd);
  // Another server may have started with the same file meanwhile.
  if (got > 0 && std::strtol(text, nullptr, 10) == getpid()) unlink(path.c_str());
}

}  // namespace server
