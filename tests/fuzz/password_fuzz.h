// What must hold for any password file: it is refused with one line that shows no password, or each
// of its lines lets its user in and nobody else. The input is the file.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "src/config/password_list.h"
#include "tests/fuzz/fuzz.h"

namespace server {

// The fault that was found, or null.
inline const char* FuzzPasswords(std::string_view input) {
  // A copy of exactly this size, so that a sanitizer sees any step outside.
  const std::unique_ptr<char[]> copy(new char[input.size()]);
  input.copy(copy.get(), input.size());
  std::string error;
  const auto list = PasswordList::Parse({copy.get(), input.size()}, "file", &error);
  if (list == nullptr) {
    return error.empty() || error.find_first_of("\r\n") != error.npos ? "an error of no line"
                                                                      : nullptr;
  }
  if (!error.empty()) return "users and an error";
  if (list->size() == 0 || list->size() > PasswordList::kEntriesMax) return "a number of users";
  size_t users = 0;
  while (!input.empty()) {
    std::string_view line = input.substr(0, input.find('\n'));
    input.remove_prefix(line.size() + (line.size() < input.size() ? 1 : 0));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(" \t") == line.npos) continue;
    const std::string user(line.substr(0, line.find(':')));
    const std::string password(line.substr(user.size() + 1));
    if (!list->Accepts(user, password)) return "a user who is not let in";
    if (list->Accepts(user, password + '\0')) return "a password with a NUL behind it";
    if (list->Accepts(user + '\0', password)) return "a user with a NUL behind it";
    if (list->Accepts(user, "")) return "no password";
    ++users;
  }
  if (users != list->size()) return "another number of users than of lines";
  if (list->Accepts("", "")) return "nobody is let in";
  return nullptr;
}

}  // namespace server
