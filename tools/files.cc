#include "tools/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

namespace tools {

namespace {

// A descriptor that is closed at the end of its block.
class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int fd() const { return fd_; }
  // 0, or -1 and errno: what could not be written before may show here.
  int Close() { return close(std::exchange(fd_, -1)); }

 private:
  int fd_;
};

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Where a link points to, so that the link stays.
std::string Resolved(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(realpath(path.c_str(), nullptr),
                                                         &std::free);
  return real ? std::string(real.get()) : path;
}

void WriteAll(int fd, const std::string& name, std::span<const std::byte> bytes) {
  Output output(fd, name);
  output.Append(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  output.Flush();
}

// The rights that a new file gets from the umask, which mkstemp does not ask.
mode_t NewFileMode() {
  const mode_t mask = umask(0);
  umask(mask);
  return 0666 & ~mask;
}

// The temporary file, which is removed unless it has got its name.
void WriteTemporary(const std::string& temporary, int fd, const std::string& path, mode_t mode,
                    std::span<const std::byte> bytes) {
  File file(fd);
  WriteAll(file.fd(), path, bytes);
  if (fchmod(file.fd(), mode) != 0 || fsync(file.fd()) != 0 || file.Close() != 0 ||
      rename(temporary.c_str(), path.c_str()) != 0) {
    ThrowFileError("cannot write " + path);
  }
}

}  // namespace

void ThrowFileError(const std::string& what) {
  throw FileError(what + ": " + std::strerror(errno));
}

void Output::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) ThrowFileError("cannot write " + name_);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

std::vector<std::byte> ReadFile(const std::string& path, size_t bytes_max) {
  const File file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd() < 0) ThrowFileError("cannot read " + path);
  constexpr size_t kPiece = size_t{1} << 20;
  struct stat info = {};
  const bool sized = fstat(file.fd(), &info) == 0 && S_ISREG(info.st_mode);
  std::vector<std::byte> bytes;
  // One byte more than the file has, so that its end is seen at once.
  if (sized && static_cast<size_t>(info.st_size) <= bytes_max) {
    bytes.reserve(static_cast<size_t>(info.st_size) + 1);
  }
  size_t size = 0;
  for (;;) {
    if (size > bytes_max) {
      throw FileError("cannot read " + path + ": it has more than " + std::to_string(bytes_max) +
                      " bytes");
    }
    bytes.resize(std::max(bytes.capacity(), size + kPiece));
    const ssize_t got = read(file.fd(), bytes.data() + size, bytes.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) ThrowFileError("cannot read " + path);
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  bytes.resize(size);
  return bytes;
}

void ReplaceFile(const std::string& path, std::span<const std::byte> bytes) {
  struct stat info = {};
  const bool exists = stat(path.c_str(), &info) == 0;
  if (exists && !S_ISREG(info.st_mode)) {
    File file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (file.fd() < 0) ThrowFileError("cannot write " + path);
    WriteAll(file.fd(), path, bytes);
    if (file.Close() != 0) ThrowFileError("cannot write " + path);
    return;
  }
  const std::string target = exists ? Resolved(path) : path;
  std::string temporary = target + ".XXXXXX";
  const int fd = mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) ThrowFileError("cannot write " + path);
  try {
    WriteTemporary(temporary, fd, target, exists ? info.st_mode & 07777 : NewFileMode(), bytes);
  } catch (...) {
    unlink(temporary.c_str());
    throw;
  }
  // The new name is on the disk as well. Some file systems refuse this for directories.
  const File directory(open(DirectoryOf(target).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.fd() >= 0) fsync(directory.fd());
}

}  // namespace tools
