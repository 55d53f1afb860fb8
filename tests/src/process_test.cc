// The server's process: src/process/daemon.h, notify.h and thread.h, and src/log.h. Functions that
// change a process for good run in a child.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <pwd.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <regex>
#include <sstream>
#include <string>

#include "src/log.h"
#include "src/net/listener.h"
#include "src/process/daemon.h"
#include "src/process/notify.h"
#include "src/process/startup_error.h"
#include "src/process/thread.h"
#include "tests/src/temporary.h"

namespace server {
namespace {

std::string ContentOf(const std::string& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

// What `body` returns, or its StartupError, from a child process. Reads until all copies of the
// pipe are closed, so also from what the child leaves behind.
std::string InChild(const std::function<std::string()>& body) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    close(ends[0]);
    std::string text;
    try {
      text = body();
    } catch (const StartupError& error) {
      text = std::string("error: ") + error.what();
    }
    const bool written =
        write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
    _exit(written ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  char buffer[256];
  for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<size_t>(got));
  close(ends[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  return text;
}

// A datagram socket under `name`, as systemd has one; '@' in front means abstract.
class NotifySocket {
 public:
  explicit NotifySocket(const std::string& name)
      : fd_(socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    REQUIRE(name.size() <= sizeof address.sun_path);
    std::memcpy(address.sun_path, name.data(), name.size());
    if (name[0] == '@') address.sun_path[0] = '\0';
    const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    REQUIRE(bind(fd_, reinterpret_cast<const sockaddr*>(&address), bytes) == 0);
    setenv("NOTIFY_SOCKET", name.c_str(), 1);
  }
  ~NotifySocket() {
    unsetenv("NOTIFY_SOCKET");
    close(fd_);
  }
  std::string Received() const {
    char buffer[64];
    const ssize_t got = recv(fd_, buffer, sizeof buffer, 0);
    return got < 0 ? "nothing" : std::string(buffer, static_cast<size_t>(got));
  }

 private:
  const int fd_;
};

}  // namespace

TEST_SUITE("src") {
  TEST_CASE("the service manager gets states on path and abstract sockets") {
    const TemporaryDirectory directory;
    for (const std::string& name :
         {directory.path() + "/notify", "@kbfcached-test-" + std::to_string(getpid())}) {
      CAPTURE(name);
      const NotifySocket manager(name);
      CHECK(NotifyServiceManager("READY=1"));
      CHECK(NotifyServiceManager("STOPPING=1"));
      CHECK(manager.Received() == "READY=1");
      CHECK(manager.Received() == "STOPPING=1");
      CHECK(manager.Received() == "nothing");
    }
  }

  TEST_CASE("without a service manager, or with an invalid socket name, nothing happens") {
    unsetenv("NOTIFY_SOCKET");
    CHECK(!NotifyServiceManager("READY=1"));
    for (const std::string& name :
         {std::string(), std::string("@"), std::string("relative"),
          std::string("/nonexistent/notify"), "/" + std::string(300, 'x')}) {
      CAPTURE(name);
      setenv("NOTIFY_SOCKET", name.c_str(), 1);
      CHECK(!NotifyServiceManager("READY=1"));
    }
    unsetenv("NOTIFY_SOCKET");
  }

  TEST_CASE("a pid file is written whole, replaced, and removed") {
    const TemporaryDirectory directory;
    const std::string path = directory.Write("pid", "1234567890123\n");
    WritePidFile(path);
    CHECK(ContentOf(path) == std::to_string(getpid()) + "\n");
    CHECK(access((path + ".tmp").c_str(), F_OK) != 0);
    RemovePidFile(path);
    CHECK(access(path.c_str(), F_OK) != 0);
    RemovePidFile(path);
    CHECK_THROWS_AS(WritePidFile(directory.path() + "/none/pid"), StartupError);
    // Over a directory the last step fails, and the temporary file goes again.
    CHECK_THROWS_AS(WritePidFile(directory.path()), StartupError);
    CHECK(access((directory.path() + ".tmp").c_str(), F_OK) != 0);
  }

  TEST_CASE("a daemon has its own session and directory, and its streams are /dev/null") {
    const std::string told = InChild([] {
      Daemonize(false);
      ReportReady(false);
      char directory[64] = "";
      struct stat out {};
      struct stat null {};
      const bool got = getcwd(directory, sizeof directory) != nullptr && fstat(1, &out) == 0 &&
                       stat("/dev/null", &null) == 0;
      return std::string(directory) + (got && out.st_rdev == null.st_rdev ? " silent" : " loud") +
             (getsid(0) == getpid() ? " leader" : " follower");
    });
    CHECK(told == "/ silent leader");
    char here[4096] = "";
    REQUIRE(getcwd(here, sizeof here) != nullptr);
    CHECK(InChild([] {
            Daemonize(true);
            ReportReady(true);
            char directory[4096] = "";
            return std::string(getcwd(directory, sizeof directory) != nullptr ? directory : "?");
          }) == here);
  }

  TEST_CASE("-d with a server that does not start exits with 1, not with 0") {
    // The caller's process ends inside Daemonize, so each case needs a process around it.
    const auto code_of = [](const std::function<void()>& body) {
      const pid_t caller = fork();
      REQUIRE(caller >= 0);
      if (caller == 0) {
        try {
          Daemonize(false);
          body();
        } catch (const StartupError&) {
        }
        _exit(0);  // without a report
      }
      int status = 0;
      REQUIRE(waitpid(caller, &status, 0) == caller);
      return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    };
    CHECK(code_of([] { ReportReady(true); }) == 0);
    CHECK(code_of([] {}) == 1);
    CHECK(code_of([] { throw StartupError("cannot"); }) == 1);
  }

  TEST_CASE(
      "standard streams that the caller closed are opened, so that no socket gets their numbers") {
    CHECK(InChild([] {
            // Out of the way: the pipe of this test may be any number.
            const int saved = fcntl(STDOUT_FILENO, F_DUPFD, 100);
            close(STDIN_FILENO);
            close(STDOUT_FILENO);
            OpenStandardStreams();
            const bool open_again =
                fcntl(STDIN_FILENO, F_GETFD) >= 0 && fcntl(STDOUT_FILENO, F_GETFD) >= 0;
            close(saved);
            return std::string(open_again ? "open" : "closed");
          }) == "open");
  }

  TEST_CASE("a pid file of another server is left at the end") {
    const TemporaryDirectory directory;
    const std::string path = directory.path() + "/pid";
    WritePidFile(path);
    directory.Write("pid", std::to_string(getpid() + 1) + "\n");
    RemovePidFile(path);
    CHECK(access(path.c_str(), F_OK) == 0);
    RemovePidFile(directory.path());  // no file at all
    CHECK(access(directory.path().c_str(), F_OK) == 0);
  }

  TEST_CASE("short time slices change neither nice value nor scheduling policy") {
    const auto scheduling = [] {
      std::array<uint64_t, 6> now{};  // size and policy, flags, nice and priority, runtime, ...
      if (syscall(SYS_sched_getattr, 0, now.data(), sizeof(now), 0) != 0) return std::string("?");
      return std::to_string(now[0] >> 32) + " " + std::to_string(static_cast<int32_t>(now[2])) +
             " " + std::to_string(now[3]);
    };
    // Whoever runs this may be nice already, or the contrary.
    const int nicer = std::min(19, getpriority(PRIO_PROCESS, 0) + 3);
    const auto after = [&](int policy) {
      return InChild([&] {
        const sched_param param{};
        if (setpriority(PRIO_PROCESS, 0, nicer) != 0 ||
            sched_setscheduler(0, policy, &param) != 0) {
          return std::string("refused");
        }
        RequestShortTimeSlices();
        return scheduling();
      });
    };
    utsname kernel{};
    REQUIRE(uname(&kernel) == 0);
    unsigned major = 0, minor = 0;
    REQUIRE(std::sscanf(kernel.release, "%u.%u", &major, &minor) == 2);
    const bool obeys = major > 6 || (major == 6 && minor >= 12);
    const std::string nice_value = std::to_string(nicer);
    if (obeys) CHECK(after(SCHED_OTHER) == "0 " + nice_value + " 100000");
    CHECK(after(SCHED_OTHER).starts_with("0 " + nice_value + " "));
    CHECK(after(SCHED_BATCH).starts_with("3 " + nice_value + " "));
    CHECK_FALSE(after(SCHED_BATCH).ends_with(" 100000"));
  }

  TEST_CASE("without systemd too, no capability is left and none can be regained") {
    const auto field = [](const std::string& status, const std::string& name) {
      const size_t at = status.find("\n" + name + ":\t");
      const size_t value = at + name.size() + 3;
      return at == status.npos ? "absent" : status.substr(value, status.find('\n', value) - value);
    };
    const std::string status = InChild([] {
      ForbidNewPrivileges();
      DropCapabilities();
      DropCapabilities();  // with none left, it asks the kernel for nothing
      return ContentOf("/proc/self/status");
    });
    CHECK(field(status, "NoNewPrivs") == "1");
    for (const char* name : {"CapInh", "CapPrm", "CapEff", "CapAmb"}) {
      CAPTURE(name);
      CHECK(field(status, name) == "0000000000000000");
    }
    if (geteuid() == 0) CHECK(field(status, "CapBnd") == "0000000000000000");
  }

  TEST_CASE(
      "a second server does not take the unix socket of a live one, nor remove it at its end") {
    const TemporaryDirectory directory;
    Options options;
    options.unix_path = directory.path() + "/socket";
    const auto connects = [&] {
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      std::memcpy(address.sun_path, options.unix_path.c_str(), options.unix_path.size() + 1);
      const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
      const bool connected =
          connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
      close(fd);
      return connected;
    };
    auto first = std::make_unique<ListenSockets>(options);
    // Before Listen too, while the first one still makes its store.
    CHECK_THROWS_WITH_AS(ListenSockets{options},
                         ("cannot listen on " + options.unix_path +
                          ": another server is using it; choose a path with -s")
                             .c_str(),
                         StartupError);
    CHECK(connects());
    // If the path is removed by hand, a second server can bind it; the first does not remove it
    // then.
    REQUIRE(unlink(options.unix_path.c_str()) == 0);
    auto second = std::make_unique<ListenSockets>(options);
    first.reset();
    CHECK(connects());
    second.reset();
    CHECK(access(options.unix_path.c_str(), F_OK) != 0);
    // What is not a socket is not touched.
    directory.Write("socket", "text");
    CHECK_THROWS_AS(ListenSockets{options}, StartupError);
    CHECK(ContentOf(options.unix_path) == "text");
  }

  TEST_CASE("a unix socket is removed when another address of the same start is in use") {
    const TemporaryDirectory directory;
    Options options;
    options.unix_path = directory.path() + "/socket";
    options.listen_given = true;
    options.listen = {{"256.0.0.1", 1}};
    CHECK_THROWS_AS(ListenSockets{options}, StartupError);
    CHECK(access(options.unix_path.c_str(), F_OK) != 0);
  }

  TEST_CASE("the limit of open files is raised as far as needed and never lowered") {
    const auto limit_after = [](rlim_t before, unsigned connections) {
      return InChild([=] {
        rlimit limit{};
        getrlimit(RLIMIT_NOFILE, &limit);
        limit.rlim_cur = before;
        setrlimit(RLIMIT_NOFILE, &limit);
        RaiseFileLimit(connections, 4);
        getrlimit(RLIMIT_NOFILE, &limit);
        return std::to_string(limit.rlim_cur);
      });
    };
    CHECK(std::stoul(limit_after(64, 100)) >= 100 + 4);
    CHECK(std::stoul(limit_after(64, 100)) < 200);
    CHECK(limit_after(300, 100) == "300");
    CHECK(limit_after(64, 2'000'000'000).find("error: -c 2000000000 needs") == 0);
  }

  TEST_CASE("root becomes the user for good, and must be given one") {
    if (geteuid() != 0) {
      CHECK_NOTHROW(DropPrivileges("no such user"));
      return;
    }
    CHECK_THROWS_AS(DropPrivileges(""), StartupError);
    CHECK_THROWS_AS(DropPrivileges("no such user"), StartupError);
    CHECK_NOTHROW(DropPrivileges("root"));
    CHECK(geteuid() == 0);
    const passwd* nobody = getpwnam("nobody");
    if (nobody == nullptr) return;
    const std::string wanted =
        std::to_string(nobody->pw_uid) + " " + std::to_string(nobody->pw_gid);
    CHECK(InChild([] {
            DropPrivileges("nobody");
            return std::to_string(getuid()) + " " + std::to_string(getgid());
          }) == wanted);
  }

  TEST_CASE("core files are allowed up to the hard limit, after a change of user too") {
    const std::string told = InChild([] {
      rlimit limit{};
      getrlimit(RLIMIT_CORE, &limit);
      limit.rlim_cur = 0;
      setrlimit(RLIMIT_CORE, &limit);
      prctl(PR_SET_DUMPABLE, 0);
      EnableCoreDumps();
      getrlimit(RLIMIT_CORE, &limit);
      return std::string(limit.rlim_cur == limit.rlim_max ? "all" : "some") +
             (prctl(PR_GET_DUMPABLE) == 1 ? " dumpable" : " hidden");
    });
    const bool forbidden = told.find("hard limit") != told.npos;
    CHECK((told == "all dumpable" || forbidden));
    CHECK(InChild([] {
            const rlimit none = {0, 0};
            setrlimit(RLIMIT_CORE, &none);
            EnableCoreDumps();
            return std::string("allowed");
          }).find("error: -r") == 0);
  }

  TEST_CASE("the log writes a line per call, of the levels asked for, without control bytes") {
    const std::string text = InChild([] {
      int ends[2];
      if (pipe(ends) != 0) return std::string("no pipe");
      dup2(ends[1], STDERR_FILENO);
      Log(kLogErrors, "not %s", "wanted");
      SetLogVerbosity(1);
      Log(kLogAlways, "%d: %s", 1, "a\r\n\x1b[2Jb\x7f");
      Log(kLogErrors, "wanted");
      Log(kLogTraffic, "not wanted");
      Log(kLogAlways, "%s", std::string(kLogBytesMax + 10, 'x').c_str());
      char buffer[2 * kLogBytesMax];
      const ssize_t got = read(ends[0], buffer, sizeof buffer);
      return std::string(buffer, got > 0 ? static_cast<size_t>(got) : 0);
    });
    const std::string time = R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z )";
    CHECK(std::regex_match(text, std::regex(time + R"(notice 1: a\?\?\?\[2Jb\?\n)" + time +
                                            "error wanted\n" + time + "notice x+\n")));
    CHECK(text.size() - text.rfind('\n', text.size() - 2) - 1 == kLogBytesMax);
    CHECK(LogVerbosity() == 0);
  }
}

}  // namespace server
