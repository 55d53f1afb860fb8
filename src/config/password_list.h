// PasswordList is what a password file (-Y) says: users and their passwords, one "user:password"
// to a line, as in memcached.
//
// Promises:  lines end in LF or CRLF, the last one also without; empty lines and lines of only
//            blanks are skipped; everything else is taken as it stands, blanks and further colons
//            of a password included. A file with any other fault is refused as a whole, with one
//            line that names the place and never the password. A user may stand there more than
//            once, with old and new password.
//            Accepts takes the same time whatever the file holds at which place, whoever asks: it
//            compares all entries, all bytes of each, and never stops early.
// Requires:  Accepts: any thread.
// Costs:     516 bytes an entry, all of them read by every Accepts; about 10 us for the most
//            entries. Memory is wiped when it is given back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace server {

class PasswordList {
 public:
  static constexpr size_t kPartBytesMax = 255;  // of a user, and of a password
  static constexpr size_t kEntriesMax = 256;
  // More cannot be of use: entries and as many empty lines.
  static constexpr size_t kFileBytesMax = 256 << 10;

  // Null: *error is why. `name` is the file's, for the error.
  static std::unique_ptr<const PasswordList> Parse(std::string_view text, std::string_view name,
                                                   std::string* error);
  // Reads a regular file. *readable_by_others: its mode lets more users read it than the owner.
  static std::unique_ptr<const PasswordList> Read(const std::string& path, std::string* error,
                                                  bool* readable_by_others);

  ~PasswordList();
  PasswordList(const PasswordList&) = delete;
  PasswordList& operator=(const PasswordList&) = delete;

  bool Accepts(std::string_view user, std::string_view password) const;
  size_t size() const { return entries_.size(); }

 private:
  // Both parts in places of one size, with zeros behind them, so that all comparisons are alike.
  struct Entry {
    uint16_t user_bytes;
    uint16_t password_bytes;
    char user[kPartBytesMax + 1];
    char password[kPartBytesMax + 1];
  };

  PasswordList() = default;
  // REQUIRES: both parts fit.
  static void Fill(std::string_view user, std::string_view password, Entry* entry);

  std::vector<Entry> entries_;
};

}  // namespace server
