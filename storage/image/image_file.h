// An image in a file: written under a temporary name and renamed when it is complete, so that the
// file appears whole or not at all, and what was there before stays until then.
//
// Promises:  the file is for its owner alone (mode 0600). After Commit it is on the disk, under its
//            name. Without Commit nothing is left behind, unless the process is killed: then a file
//            PATH.new, which the next writer replaces. Symbolic links at these names are not
//            followed.
// Requires:  one writer per path.
// Costs:     one system call per block; every 64 MB the bytes are forced to the disk, so that the
//            end does not take long.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "storage/image/byte_stream.h"
#include "storage/image/image.h"

namespace kbf {

class ImageFileSink final : public ByteSink {
 public:
  // Null, and a reason such as "cannot write x.new: No space left on device".
  static std::unique_ptr<ImageFileSink> Create(const std::string& path, std::string* error);
  ~ImageFileSink() override;
  ImageFileSink(const ImageFileSink&) = delete;
  ImageFileSink& operator=(const ImageFileSink&) = delete;

  bool Write(std::span<const std::byte> bytes) override;
  [[nodiscard]] bool Commit();
  // Why Write or Commit has failed.
  const std::string& error() const { return error_; }

 private:
  ImageFileSink(int fd, const std::string& path);
  bool Fail(const char* what);

  int fd_;
  const std::string path_;
  const std::string temporary_;
  uint64_t unsynced_ = 0;
  bool committed_ = false;
  std::string error_;
};

class ImageFileSource final : public ByteSource {
 public:
  // Null and an empty error: there is no such file. Else a reason.
  static std::unique_ptr<ImageFileSource> Open(const std::string& path, std::string* error);
  ~ImageFileSource() override;
  ImageFileSource(const ImageFileSource&) = delete;
  ImageFileSource& operator=(const ImageFileSource&) = delete;

  size_t Read(std::span<std::byte> into) override;
  uint64_t size() const { return size_; }

 private:
  ImageFileSource(int fd, uint64_t size) : fd_(fd), size_(size) {}

  const int fd_;
  const uint64_t size_;
};

// These return an error, or nothing; the change is on the disk then.
// Sets the mark of an image in its file.
std::string MarkImageFile(const std::string& path, ImageMark mark);
std::string RemoveImageFile(const std::string& path);
std::string RenameImageFile(const std::string& from, const std::string& to);
// The name under which an image is written until it is complete.
inline std::string TemporaryImagePath(const std::string& path) { return path + ".new"; }
// Whether files can be made where `path` would be.
std::string CheckImageDirectory(const std::string& path);

}  // namespace kbf
