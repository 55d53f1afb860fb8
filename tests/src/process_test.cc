// What the server does about its process: src/daemon.h, src/notify.h, src/log.h. What changes a
// process for good is tried in a child.
#include <doctest/doctest.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>

#include "src/daemon.h"
#include "src/log.h"
#include "src/notify.h"
#include "src/startup_error.h"
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
  TEST_CASE("the service manager hears of states on path and abstract sockets") {
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

  TEST_CASE("without a service manager, or with a strange name of its socket, nothing happens") {
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

  TEST_CASE("a daemon has a session and directory of its own and writes to nowhere") {
    const std::string told = InChild([] {
      Daemonize(false, false);
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
            Daemonize(true, true);
            char directory[4096] = "";
            return std::string(getcwd(directory, sizeof directory) != nullptr ? directory : "?");
          }) == here);
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

  TEST_CASE("root becomes the user for good, and needs to be told one") {
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
    CHECK(text == "1: a???[2Jb?\nwanted\n" + std::string(kLogBytesMax - 1, 'x') + "\n");
    CHECK(LogVerbosity() == 0);
  }
}

}  // namespace server
