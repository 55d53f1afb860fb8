#include "src/snapshot/moment.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace server {
namespace {

// Longer than any cache is of use, and far from where the store's clock ends.
constexpr int64_t kElapsedMsMax = int64_t{1000} * 60 * 60 * 24 * 365 * 20;

int64_t Milliseconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return int64_t{time.tv_sec} * 1000 + time.tv_nsec / 1000000;
}

// What names this boot; zeros where /proc is not to be seen.
std::array<std::byte, 16> BootId() {
  std::array<std::byte, 16> id{};
  std::array<char, 36> text{};
  const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return id;
  const ssize_t got = read(fd, text.data(), text.size());
  close(fd);
  if (got != static_cast<ssize_t>(text.size())) return id;
  // Two of its characters for each byte: it only has to differ.
  for (size_t i = 0; i < text.size(); ++i) {
    id[i % id.size()] ^= static_cast<std::byte>(text[i] * (i / id.size() + 1));
  }
  return id;
}

bool IsKnown(const std::array<std::byte, 16>& boot) { return boot != std::array<std::byte, 16>{}; }

std::optional<int64_t> ElapsedMs(const kbf::ImageMoment& now, const kbf::ImageMoment& saved) {
  const bool known = IsKnown(now.boot) && IsKnown(saved.boot);
  int64_t since_boot = 0;
  int64_t wall = 0;
  if (__builtin_sub_overflow(now.boot_ms, saved.boot_ms, &since_boot) ||
      __builtin_sub_overflow(now.unix_ms, saved.unix_ms, &wall)) {
    return std::nullopt;
  }
  if (known && now.boot == saved.boot) {
    return since_boot >= 0 ? std::optional(since_boot) : std::nullopt;
  }
  // After a restart of the machine `since_boot` is less than what has passed, without one it is
  // right: it never hurts.
  if (wall < 0) return std::nullopt;
  return std::max(wall, known ? 0 : since_boot);
}

}  // namespace

kbf::ImageMoment MomentNow(uint32_t store_s) {
  return {store_s, Milliseconds(CLOCK_REALTIME), Milliseconds(CLOCK_BOOTTIME), BootId()};
}

std::optional<uint32_t> StoreTimeAt(const kbf::ImageMoment& now, const kbf::ImageMoment& saved) {
  const std::optional<int64_t> elapsed = ElapsedMs(now, saved);
  if (!elapsed || *elapsed > kElapsedMsMax) return std::nullopt;
  // One more for the fraction of a second that the store's clock had not shown.
  return saved.store_s + static_cast<uint32_t>((*elapsed + 999) / 1000) + 1;
}

}  // namespace server
