#include "storage/image/image_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>

namespace kbf {

namespace {

constexpr mode_t kMode = 0600;
constexpr uint64_t kSyncBytes = uint64_t{64} << 20;

std::string Reason(const std::string& what, const std::string& path) {
  return "cannot " + what + " " + path + ": " + std::generic_category().message(errno);
}

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return path.substr(0, std::max<size_t>(slash, 1));
}

// A change of names is on the disk when its directory is.
std::string SyncDirectoryOf(const std::string& path) {
  const std::string directory = DirectoryOf(path);
  const int fd = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return Reason("open", directory);
  // Some file systems have nothing to do there, and say so.
  std::string error;
  if (fsync(fd) != 0 && errno != EINVAL) error = Reason("sync", directory);
  close(fd);
  return error;
}

}  // namespace

// ---- writing ------------------------------------------------------------------------------------

std::unique_ptr<ImageFileSink> ImageFileSink::Create(const std::string& path, std::string* error) {
  const std::string temporary = TemporaryImagePath(path);
  // What a killed process has left there may have another owner or mode.
  (void)unlink(temporary.c_str());
  const int fd =
      open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kMode);
  if (fd < 0) {
    *error = Reason("write", temporary);
    return nullptr;
  }
  return std::unique_ptr<ImageFileSink>(new ImageFileSink(fd, path));
}

ImageFileSink::ImageFileSink(int fd, const std::string& path)
    : fd_(fd), path_(path), temporary_(TemporaryImagePath(path)) {}

ImageFileSink::~ImageFileSink() {
  close(fd_);
  if (!committed_) (void)unlink(temporary_.c_str());
}

bool ImageFileSink::Fail(const char* what) {
  if (error_.empty()) error_ = Reason(what, temporary_);
  return false;
}

bool ImageFileSink::Write(std::span<const std::byte> bytes) {
  unsynced_ += bytes.size();
  while (!bytes.empty()) {
    const ssize_t written = write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return Fail("write");
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  if (unsynced_ < kSyncBytes) return true;
  unsynced_ = 0;
  return fdatasync(fd_) == 0 || Fail("sync");
}

bool ImageFileSink::Commit() {
  if (!error_.empty()) return false;
  if (fsync(fd_) != 0) return Fail("sync");
  if (rename(temporary_.c_str(), path_.c_str()) != 0) return Fail("rename");
  committed_ = true;
  error_ = SyncDirectoryOf(path_);
  return error_.empty();
}

// ---- reading ------------------------------------------------------------------------------------

std::unique_ptr<ImageFileSource> ImageFileSource::Open(const std::string& path,
                                                       std::string* error) {
  // Not blocking, or a pipe of that name would stop the caller.
  const int fd = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) {
    if (errno != ENOENT) *error = Reason("read", path);
    return nullptr;
  }
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    *error = "cannot read " + path + ": it is no regular file";
    close(fd);
    return nullptr;
  }
  (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
  return std::unique_ptr<ImageFileSource>(
      new ImageFileSource(fd, static_cast<uint64_t>(info.st_size)));
}

ImageFileSource::~ImageFileSource() { close(fd_); }

size_t ImageFileSource::Read(std::span<std::byte> into) {
  size_t done = 0;
  while (done < into.size()) {
    const ssize_t got = read(fd_, into.data() + done, into.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

// ---- the file as a whole ------------------------------------------------------------------------

std::string MarkImageFile(const std::string& path, ImageMark mark) {
  const int fd = open(path.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return Reason("write", path);
  std::string error;
  const auto number = static_cast<uint32_t>(mark);
  if (pwrite(fd, &number, sizeof number, kImageMarkOffset) != sizeof number || fsync(fd) != 0) {
    error = Reason("write", path);
  }
  close(fd);
  return error;
}

std::string RemoveImageFile(const std::string& path) {
  if (unlink(path.c_str()) != 0) return Reason("remove", path);
  return SyncDirectoryOf(path);
}

std::string RenameImageFile(const std::string& from, const std::string& to) {
  if (rename(from.c_str(), to.c_str()) != 0) return Reason("rename", from);
  return SyncDirectoryOf(to);
}

std::string CheckImageDirectory(const std::string& path) {
  const std::string directory = DirectoryOf(path);
  if (access(directory.c_str(), W_OK | X_OK) != 0) return Reason("write to", directory);
  struct stat info {};
  if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    return path + " is no regular file";
  }
  return {};
}

}  // namespace kbf
