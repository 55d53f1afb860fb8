#include "src/dispatch/authenticator.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "src/log.h"
#include "src/process/startup_error.h"

namespace server {
namespace {

std::string Absolute(const std::string& path) {
  std::error_code failed;
  const std::string absolute = std::filesystem::absolute(path, failed).string();
  return failed ? path : absolute;
}

}  // namespace

Authenticator::Authenticator(const std::string& path) : path_(Absolute(path)) {
  std::string error;
  list_ = Read(&error);
  if (list_ == nullptr) throw StartupError(error);
}

std::unique_ptr<const PasswordList> Authenticator::Read(std::string* error) const {
  bool readable_by_others = false;
  auto list = PasswordList::Read(path_, error, &readable_by_others);
  if (list != nullptr && readable_by_others) {
    Log(kLogAlways, "warning: other users of this machine can read the passwords in %s: chmod 600",
        path_.c_str());
  }
  return list;
}

bool Authenticator::Accepts(std::string_view user, std::string_view password) const {
  std::shared_ptr<const PasswordList> list;
  {
    const std::lock_guard lock(mutex_);
    list = list_;
  }
  return list->Accepts(user, password);
}

void Authenticator::Reload() {
  std::string error;
  std::shared_ptr<const PasswordList> list = Read(&error);
  if (list == nullptr) {
    return Log(kLogAlways, "%s; the users stay as they were", error.c_str());
  }
  Log(kLogAlways, "%zu users read from %s", list->size(), path_.c_str());
  const std::lock_guard lock(mutex_);
  list_ = std::move(list);
}

}  // namespace server
