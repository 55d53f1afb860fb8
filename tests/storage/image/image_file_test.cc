#include "storage/image/image_file.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace kbf {
namespace {

class Directory {
 public:
  Directory() {
    std::string name = (std::filesystem::temp_directory_path() / "kbf-image-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  size_t files() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(path_), {}));
  }

 private:
  std::filesystem::path path_;
};

bool WriteImage(const std::string& path, size_t bytes, std::string* error) {
  auto sink = ImageFileSink::Create(path, error);
  if (sink == nullptr) return false;
  ImageWriter writer(*sink, {});
  writer.Begin(1, 1);
  writer.Put(std::string(bytes, 'x'));
  writer.End();
  const bool done = writer.Finish() && sink->Commit();
  *error = sink->error();
  return done;
}

ImageStatus ReadImage(const std::string& path, ImageHead* head) {
  std::string error;
  const auto source = ImageFileSource::Open(path, &error);
  REQUIRE(source != nullptr);
  ImageReader reader(*source);
  if (reader.ReadHead(head)) {
    while (reader.Next()) {
      char c = 0;
      while (reader.HasMore() && reader.Get(&c)) {
      }
    }
  }
  if (reader.status() == ImageStatus::kOk) CHECK(reader.bytes_read() == source->size());
  return reader.status();
}

// No file may be larger than this meanwhile.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) : handler_(signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  sighandler_t handler_;
};

}  // namespace

TEST_SUITE("image") {
  TEST_CASE("image file: it appears when it is complete, for its owner alone") {
    const Directory directory;
    const std::string path = directory / "file";
    std::string error;
    {
      auto sink = ImageFileSink::Create(path, &error);
      REQUIRE(sink != nullptr);
      ImageWriter writer(*sink, {});
      CHECK(!std::filesystem::exists(path));
      REQUIRE(writer.Finish());
      CHECK(!std::filesystem::exists(path));
      REQUIRE(sink->Commit());
    }
    struct stat info {};
    REQUIRE(stat(path.c_str(), &info) == 0);
    CHECK((info.st_mode & 0777) == 0600);
    CHECK(directory.files() == 1);
    ImageHead head;
    CHECK(ReadImage(path, &head) == ImageStatus::kOk);
  }

  TEST_CASE("image file: what is not finished leaves nothing, and the older one stays") {
    const Directory directory;
    const std::string path = directory / "file";
    std::string error;
    REQUIRE(WriteImage(path, 100, &error));
    const auto size = std::filesystem::file_size(path);
    {
      auto sink = ImageFileSink::Create(path, &error);
      REQUIRE(sink != nullptr);
      ImageWriter writer(*sink, {});
      CHECK(directory.files() == 2);
    }
    CHECK(directory.files() == 1);
    CHECK(std::filesystem::file_size(path) == size);
  }

  TEST_CASE("image file: a full disk is an error that names the file, and leaves nothing") {
    const Directory directory;
    const std::string path = directory / "file";
    std::string error;
    {
      const FileLimit limit(100000);
      CHECK(!WriteImage(path, 1000000, &error));
    }
    CHECK(error.find(path + ".new") != std::string::npos);
    CHECK(directory.files() == 0);
    CHECK(WriteImage(path, 1000000, &error));
  }

  TEST_CASE("image file: links and other kinds of files are not followed") {
    const Directory directory;
    const std::string target = directory / "target";
    std::ofstream(target) << "precious";
    std::string error;
    SUBCASE("a link at the temporary name is replaced") {
      std::filesystem::create_symlink(target, directory / "file.new");
      CHECK(WriteImage(directory / "file", 10, &error));
    }
    SUBCASE("a link at the name is replaced") {
      std::filesystem::create_symlink(target, directory / "file");
      CHECK(WriteImage(directory / "file", 10, &error));
    }
    SUBCASE("a link is not read") {
      std::filesystem::create_symlink(target, directory / "file");
      CHECK(ImageFileSource::Open(directory / "file", &error) == nullptr);
      CHECK(!error.empty());
    }
    SUBCASE("a pipe is not read") {
      REQUIRE(mkfifo((directory / "file").c_str(), 0600) == 0);
      CHECK(ImageFileSource::Open(directory / "file", &error) == nullptr);
      CHECK(error.find("no regular file") != std::string::npos);
      CHECK(!CheckImageDirectory(directory / "file").empty());
    }
    CHECK(std::filesystem::file_size(target) == 8);
  }

  TEST_CASE("image file: a missing file is no error, a missing directory is one") {
    const Directory directory;
    std::string error;
    CHECK(ImageFileSource::Open(directory / "file", &error) == nullptr);
    CHECK(error.empty());
    CHECK(CheckImageDirectory(directory / "file").empty());
    CHECK(!CheckImageDirectory(directory / "no/file").empty());
    CHECK(ImageFileSink::Create(directory / "no/file", &error) == nullptr);
    CHECK(!error.empty());
  }

  TEST_CASE("image file: it can be marked as outdated, renamed and removed") {
    const Directory directory;
    std::string error;
    REQUIRE(WriteImage(directory / "file", 100, &error));
    CHECK(MarkImageFile(directory / "file", ImageMark::kOutdated).empty());
    ImageHead head;
    CHECK(ReadImage(directory / "file", &head) == ImageStatus::kOk);
    CHECK(head.mark == ImageMark::kOutdated);
    CHECK(RenameImageFile(directory / "file", directory / "other").empty());
    CHECK(RemoveImageFile(directory / "other").empty());
    CHECK(directory.files() == 0);
    CHECK(!RemoveImageFile(directory / "other").empty());
    CHECK(!MarkImageFile(directory / "other", ImageMark::kCurrent).empty());
  }
}

}  // namespace kbf
