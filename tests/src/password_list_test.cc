#include "src/config/password_list.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <string>

#include "src/dispatch/authenticator.h"
#include "src/process/startup_error.h"
#include "tests/src/temporary.h"

namespace server {
namespace {

using namespace std::string_literals;

std::unique_ptr<const PasswordList> Users(const std::string& text) {
  std::string error;
  auto list = PasswordList::Parse(text, "file", &error);
  CHECK(error == "");
  return list;
}

std::string ErrorOf(const std::string& text) {
  std::string error;
  CHECK(PasswordList::Parse(text, "file", &error) == nullptr);
  return error;
}

TEST_SUITE("server") {
  TEST_CASE("passwords: lines with LF, CRLF and without an end, blank ones between them") {
    for (const char* text :
         {"a:b\nc:d\n", "a:b\r\nc:d\r\n", "a:b\nc:d", "\n  \t \na:b\n\r\nc:d\n"}) {
      CAPTURE(text);
      const auto list = Users(text);
      REQUIRE(list);
      CHECK(list->size() == 2);
      CHECK(list->Accepts("a", "b"));
      CHECK(list->Accepts("c", "d"));
      CHECK_FALSE(list->Accepts("a", "d"));
      CHECK_FALSE(list->Accepts("c", "b"));
    }
  }

  TEST_CASE("passwords: everything behind the first colon is the password, as it stands") {
    const auto list = Users("u:pa:ss word \n#x:y\n v:w\n");
    REQUIRE(list);
    CHECK(list->Accepts("u", "pa:ss word "));
    CHECK_FALSE(list->Accepts("u", "pa:ss word"));
    CHECK_FALSE(list->Accepts("u:pa", "ss word "));
    CHECK(list->Accepts("#x", "y"));
    CHECK(list->Accepts(" v", "w"));
    CHECK_FALSE(list->Accepts("v", "w"));
  }

  TEST_CASE("passwords: a beginning, a longer one and other bytes are refused") {
    const auto list = Users("user:password\n");
    REQUIRE(list);
    CHECK(list->Accepts("user", "password"));
    for (const auto& [user, password] : {std::pair{"user"s, "passwor"s},
                                         {"user"s, "password1"s},
                                         {"user"s, "password\0"s},
                                         {"user\0"s, "password"s},
                                         {"use"s, "password"s},
                                         {"user"s, ""s},
                                         {""s, "password"s},
                                         {""s, ""s},
                                         {"user"s, "Password"s}}) {
      CAPTURE(password);
      CHECK_FALSE(list->Accepts(user, password));
    }
  }

  TEST_CASE("passwords: a user may have an old and a new one") {
    const auto list = Users("u:old\nu:new\n");
    REQUIRE(list);
    CHECK(list->Accepts("u", "old"));
    CHECK(list->Accepts("u", "new"));
  }

  TEST_CASE("passwords: parts of 255 bytes are the longest, in the file and when asked") {
    const std::string part(255, 'x');
    const auto list = Users(part + ":" + part);
    REQUIRE(list);
    CHECK(list->Accepts(part, part));
    CHECK_FALSE(list->Accepts(part + "x", part));
    CHECK_FALSE(list->Accepts(part, part + "x"));
    CHECK_FALSE(list->Accepts(part, std::string(100'000, 'x')));
    CHECK(ErrorOf("a:b\nu:x" + part).find(", line 2: a password of more than 255") !=
          std::string::npos);
    CHECK(ErrorOf("x" + part + ":p").find(", line 1: a user of more than 255") !=
          std::string::npos);
  }

  TEST_CASE("passwords: a file with a fault is refused as a whole, without showing a password") {
    CHECK(ErrorOf("a:b\nsecret\n") ==
          "password file file, line 2: no colon: lines are user:password");
    CHECK(ErrorOf(":secret\n") == "password file file, line 1: no user before the colon");
    CHECK(ErrorOf("a:\n") == "password file file, line 1: no password behind the colon");
    CHECK(ErrorOf("a:\r\n") == "password file file, line 1: no password behind the colon");
    CHECK(ErrorOf("a:x\0y\n"s) == "password file file, line 1: a NUL byte");
    CHECK(ErrorOf("") == "password file file has no user: lines are user:password");
    CHECK(ErrorOf(" \n\r\n\t\n") == "password file file has no user: lines are user:password");
    std::string many;
    for (size_t i = 0; i < PasswordList::kEntriesMax; ++i) many += "u" + std::to_string(i) + ":p\n";
    CHECK(Users(many)->size() == PasswordList::kEntriesMax);
    CHECK(Users(many)->Accepts("u255", "p"));
    CHECK(ErrorOf(many + "one:more") == "password file file, line 257: more than 256 users");
  }

  TEST_CASE("passwords: only regular files of a reasonable size are read") {
    const TemporaryDirectory directory;
    const auto error_of = [](const std::string& path) {
      std::string error;
      bool open = false;
      CHECK(PasswordList::Read(path, &error, &open) == nullptr);
      return error;
    };
    const auto is = [](const std::string& path, const std::string& why) {
      return "cannot read the password file " + path + ": " + why;
    };
    const std::string fifo = directory.path() + "/fifo";
    REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
    CHECK(error_of(directory.path()) == is(directory.path(), "it is not a regular file"));
    CHECK(error_of(fifo) == is(fifo, "it is not a regular file"));
    CHECK(error_of(fifo + "x") == is(fifo + "x", "No such file or directory"));
    const std::string large =
        directory.Write("large", std::string(PasswordList::kFileBytesMax + 1, '\n'));
    CHECK(error_of(large) == is(large, "it has more than 256 KB"));
  }

  TEST_CASE("passwords: a mode that lets others read is noticed") {
    const TemporaryDirectory directory;
    const std::string path = directory.Write("users", "a:b\n");
    for (const auto& [mode, noticed] : {std::pair{0600, false}, {0644, true}, {0640, true}}) {
      REQUIRE(chmod(path.c_str(), static_cast<mode_t>(mode)) == 0);
      std::string error;
      bool open = false;
      CHECK(PasswordList::Read(path, &error, &open) != nullptr);
      CHECK(open == noticed);
    }
  }

  TEST_CASE(
      "authenticator: a broken file leaves the users as they were, a good one replaces them") {
    const TemporaryDirectory directory;
    const std::string path = directory.Write("users", "a:b\n");
    chmod(path.c_str(), 0600);
    Authenticator authenticator(path);
    CHECK(authenticator.Accepts("a", "b"));
    directory.Write("users", "broken\n");
    authenticator.Reload();
    CHECK(authenticator.Accepts("a", "b"));
    directory.Write("users", "c:d\n");
    authenticator.Reload();
    CHECK_FALSE(authenticator.Accepts("a", "b"));
    CHECK(authenticator.Accepts("c", "d"));
    CHECK_THROWS_AS(Authenticator(path + "x"), StartupError);
  }
}

}  // namespace
}  // namespace server
