// Authenticator says who may use the server: the users of a password file (-Y), which can be read
// again while the server runs.
//
// Promises:  a file that cannot be used changes nothing: the users stay who they were. Clients that
//            have authenticated before stay so.
// Requires:  any thread.
// Costs:     a lock for the moment of taking a reference; see password_list.h.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "src/config/password_list.h"

namespace server {

class Authenticator {
 public:
  // Throws StartupError. The path may be relative: it is resolved here, once.
  explicit Authenticator(const std::string& path);

  bool Accepts(std::string_view user, std::string_view password) const;
  // The result is logged.
  void Reload();

 private:
  // Null: *error is why. Warns about a mode that is too open.
  std::unique_ptr<const PasswordList> Read(std::string* error) const;

  const std::string path_;  // absolute: a daemon changes its directory
  mutable std::mutex mutex_;
  std::shared_ptr<const PasswordList> list_;  // guarded by mutex_; never null
};

}  // namespace server
