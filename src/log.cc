#include "src/log.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstdio>

namespace server {

namespace {
std::atomic<int> verbosity_now{0};
}

void SetLogVerbosity(int verbosity) { verbosity_now.store(verbosity, std::memory_order_relaxed); }
int LogVerbosity() { return verbosity_now.load(std::memory_order_relaxed); }

void Log(LogLevel level, const char* format, ...) {
  if (!LogsAt(level)) return;
  char line[kLogBytesMax];
  va_list arguments;
  va_start(arguments, format);
  // clang-tidy 14, given several files, does not see the va_start above.
  // NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized)
  const int wanted = std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  if (wanted < 0) return;
  // The byte of the terminating NUL becomes the newline.
  const size_t length = std::min<size_t>(static_cast<size_t>(wanted), sizeof line - 1);
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 127; };
  std::replace_if(line, line + length, is_control, '?');
  line[length] = '\n';
  // A log that cannot be written must not stop the server.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line, length + 1);
}

}  // namespace server
