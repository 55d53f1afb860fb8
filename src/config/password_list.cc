#include "src/config/password_list.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace server {
namespace {

// Cuts the next line off, without its end.
std::string_view NextLine(std::string_view* text) {
  const size_t end = std::min(text->find('\n'), text->size());
  std::string_view line = text->substr(0, end);
  text->remove_prefix(std::min(end + 1, text->size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

// What is wrong with a line that is not blank, or null.
const char* FaultOf(std::string_view line) {
  const size_t colon = line.find(':');
  if (line.find('\0') != line.npos) return "a NUL byte";
  if (colon == line.npos) return "no colon: lines are user:password";
  if (colon == 0) return "no user before the colon";
  if (colon + 1 == line.size()) return "no password behind the colon";
  if (colon > PasswordList::kPartBytesMax) return "a user of more than 255 bytes";
  if (line.size() - colon - 1 > PasswordList::kPartBytesMax) {
    return "a password of more than 255 bytes";
  }
  return nullptr;
}

// Closes itself.
class File {
 public:
  // A FIFO without a writer must not stop the server.
  explicit File(const std::string& path)
      : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

// 0, or errno. Reads one byte more than `bytes_max` where there are more.
int ReadAll(int fd, size_t bytes_max, std::string* text) {
  text->resize(bytes_max + 1);
  size_t size = 0;
  while (size < text->size()) {
    const ssize_t n = read(fd, text->data() + size, text->size() - size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) break;
    size += static_cast<size_t>(n);
  }
  OPENSSL_cleanse(text->data() + size, text->size() - size);
  text->resize(size);
  return 0;
}

}  // namespace

PasswordList::~PasswordList() { OPENSSL_cleanse(entries_.data(), entries_.size() * sizeof(Entry)); }

void PasswordList::Fill(std::string_view user, std::string_view password, Entry* entry) {
  std::memset(entry, 0, sizeof(*entry));
  entry->user_bytes = static_cast<uint16_t>(user.size());
  entry->password_bytes = static_cast<uint16_t>(password.size());
  user.copy(entry->user, user.size());
  password.copy(entry->password, password.size());
}

std::unique_ptr<const PasswordList> PasswordList::Parse(std::string_view text,
                                                        std::string_view name, std::string* error) {
  const auto refuse = [&](const std::string& why) {
    *error = "password file " + std::string(name) + why;
    return nullptr;
  };
  std::unique_ptr<PasswordList> list(new PasswordList);
  // Entries never move, so that no copy of a password stays behind.
  list->entries_.reserve(
      std::min<size_t>(kEntriesMax, 1 + static_cast<size_t>(std::ranges::count(text, '\n'))));
  for (size_t number = 1; !text.empty(); ++number) {
    const std::string_view line = NextLine(&text);
    if (line.find_first_not_of(" \t") == line.npos) continue;
    const std::string place = ", line " + std::to_string(number) + ": ";
    if (const char* fault = FaultOf(line)) return refuse(place + fault);
    if (list->size() == kEntriesMax) {
      return refuse(place + "more than " + std::to_string(kEntriesMax) + " users");
    }
    const size_t colon = line.find(':');
    Fill(line.substr(0, colon), line.substr(colon + 1), &list->entries_.emplace_back());
  }
  if (list->size() == 0) return refuse(" has no user: lines are user:password");
  return list;
}

std::unique_ptr<const PasswordList> PasswordList::Read(const std::string& path, std::string* error,
                                                       bool* readable_by_others) {
  const auto refuse = [&](const std::string& why) {
    *error = "cannot read the password file " + path + ": " + why;
    return nullptr;
  };
  const File file(path);
  if (file.fd() < 0) return refuse(strerror(errno));
  struct stat status {};
  if (fstat(file.fd(), &status) != 0) return refuse(strerror(errno));
  if (!S_ISREG(status.st_mode)) return refuse("it is not a regular file");
  *readable_by_others = (status.st_mode & (S_IRGRP | S_IROTH)) != 0;
  std::string text;
  if (const int code = ReadAll(file.fd(), kFileBytesMax, &text); code != 0) {
    return refuse(strerror(code));
  }
  if (text.size() > kFileBytesMax) {
    return refuse("it has more than " + std::to_string(kFileBytesMax >> 10) + " KB");
  }
  auto list = Parse(text, path, error);
  OPENSSL_cleanse(text.data(), text.size());
  return list;
}

bool PasswordList::Accepts(std::string_view user, std::string_view password) const {
  // What is too long for any entry is compared all the same, and fails by its length.
  Entry asked;
  Fill(user.substr(0, kPartBytesMax), password.substr(0, kPartBytesMax), &asked);
  const bool fits = user.size() <= kPartBytesMax && password.size() <= kPartBytesMax;
  unsigned accepted = 0;
  for (const Entry& entry : entries_) {
    accepted |= CRYPTO_memcmp(&entry, &asked, sizeof(Entry)) == 0 ? 1u : 0u;
  }
  OPENSSL_cleanse(&asked, sizeof(asked));
  return (accepted & (fits ? 1u : 0u)) != 0;
}

}  // namespace server
