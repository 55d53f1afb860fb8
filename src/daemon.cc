#include "src/daemon.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "src/startup_error.h"

namespace server {

namespace {

// Files besides the clients': standard streams, listeners, and per worker its event base and what
// wakes it up.
constexpr rlim_t kFilesOfServer = 32;
constexpr rlim_t kFilesPerThread = 4;

[[noreturn]] void Fail(const std::string& what) {
  throw StartupError(what + ": " + std::strerror(errno));
}

rlimit LimitOf(__rlimit_resource resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0) Fail("cannot read a resource limit");
  return limit;
}

}  // namespace

void Daemonize(bool keep_directory, bool keep_streams) {
  const pid_t child = fork();
  if (child < 0) Fail("-d: cannot start a process");
  if (child > 0) _exit(0);
  if (setsid() < 0) Fail("-d: cannot leave the terminal");
  if (!keep_directory && chdir("/") != 0) Fail("-d: cannot change to /");
  if (keep_streams) return;
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) Fail("-d: cannot open /dev/null");
  // dup2 clears O_CLOEXEC on the copies only; where the streams were closed, null may be one
  // itself.
  for (int stream = 0; stream <= 2; ++stream) {
    if (stream != null && dup2(null, stream) < 0) Fail("-d: cannot redirect to /dev/null");
  }
  if (null > 2) close(null);
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
  // Groups first: afterwards nobody may change them.
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

void RemovePidFile(const std::string& path) noexcept { unlink(path.c_str()); }

}  // namespace server
