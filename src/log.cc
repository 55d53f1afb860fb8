#include "src/log.h"

#include <poll.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <mutex>

namespace server {
namespace {

constexpr size_t kBufferBytes = 256 << 10;
// A pipe that polls as writable takes this much without blocking (PIPE_BUF).
constexpr size_t kWriteBytesMax = 4096;
constexpr int kPollMs = 100;
// How often the last lines are tried when the process ends: half a second in all.
constexpr int kLastPolls = 5;

std::atomic<int> verbosity_now{0};
std::atomic<uint64_t> lines_dropped{0};

// Lines on their way to the thread.
struct Buffer {
  std::mutex mutex;
  std::condition_variable changed;
  // Guarded by mutex.
  bool running = false;
  bool stop = false;
  size_t begin = 0, size = 0;
  char bytes[kBufferBytes];
} buffer;

constexpr const char* kLevelNames[] = {"notice", "error", "debug", "trace"};
static_assert(std::size(kLevelNames) == kLogStates + 1);

// "2026-11-18T20:36:00.123Z notice ". REQUIRES: room for 48 bytes. Returns how many it wrote.
size_t WriteHead(LogLevel level, char* line) {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  tm utc;
  gmtime_r(&now.tv_sec, &utc);
  const size_t length = strftime(line, 32, "%Y-%m-%dT%H:%M:%S", &utc);
  const auto milliseconds = static_cast<unsigned>(now.tv_nsec / 1'000'000);
  return length + static_cast<size_t>(std::snprintf(line + length, 16, ".%03uZ %s ", milliseconds,
                                                    kLevelNames[level]));
}

bool IsWritable(int timeout_ms) {
  pollfd wanted{STDERR_FILENO, POLLOUT, 0};
  return poll(&wanted, 1, timeout_ms) > 0;
}

void Write(const char* bytes, size_t size) {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, bytes, size);
}

// REQUIRES: the buffer is locked.
bool Push(const char* line, size_t length) {
  if (kBufferBytes - buffer.size < length) return false;
  const size_t end = (buffer.begin + buffer.size) % kBufferBytes;
  const size_t first = std::min(length, kBufferBytes - end);
  memcpy(buffer.bytes + end, line, first);
  memcpy(buffer.bytes, line + first, length - first);
  buffer.size += length;
  return true;
}

// Whole lines where they fit. REQUIRES: the buffer is locked.
size_t Pop(char* out) {
  size_t taken = std::min(buffer.size, kWriteBytesMax);
  for (size_t i = 0; i < taken; ++i) out[i] = buffer.bytes[(buffer.begin + i) % kBufferBytes];
  if (taken < buffer.size) {
    const char* const end =
        std::find(std::reverse_iterator(out + taken), std::reverse_iterator(out), '\n').base();
    if (end != out) taken = static_cast<size_t>(end - out);
  }
  buffer.begin = (buffer.begin + taken) % kBufferBytes;
  buffer.size -= taken;
  return taken;
}

void WriteLines() {
  char lines[kWriteBytesMax];
  int last_polls = 0;
  for (;;) {
    {
      std::unique_lock lock(buffer.mutex);
      buffer.changed.wait(lock, [] { return buffer.size > 0 || buffer.stop; });
      if (buffer.size == 0 || last_polls == kLastPolls) return;
      last_polls += buffer.stop;
    }
    if (!IsWritable(kPollMs)) continue;
    size_t size;
    {
      const std::lock_guard lock(buffer.mutex);
      size = Pop(lines);
      last_polls -= buffer.stop && last_polls > 0;
    }
    Write(lines, size);
  }
}

}  // namespace

void SetLogVerbosity(uint32_t verbosity) {
  verbosity_now.store(static_cast<int>(std::min<uint32_t>(verbosity, kLogStates)),
                      std::memory_order_relaxed);
}
int LogVerbosity() { return verbosity_now.load(std::memory_order_relaxed); }
uint64_t LogLinesDropped() { return lines_dropped.load(std::memory_order_relaxed); }

LogThread::LogThread() {
  {
    const std::lock_guard lock(buffer.mutex);
    buffer.running = true;
    buffer.stop = false;
    buffer.begin = buffer.size = 0;
  }
  thread_ = std::thread(WriteLines);
}

LogThread::~LogThread() {
  {
    const std::lock_guard lock(buffer.mutex);
    buffer.stop = true;
  }
  buffer.changed.notify_all();
  thread_.join();
  const std::lock_guard lock(buffer.mutex);
  buffer.running = false;
}

void Log(LogLevel level, const char* format, ...) {
  if (!LogsAt(level)) return;
  char line[kLogBytesMax];
  const size_t head = WriteHead(level, line);
  va_list arguments;
  va_start(arguments, format);
  // clang-tidy 14, given several files, does not see the va_start above.
  // NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized)
  const int wanted = std::vsnprintf(line + head, sizeof line - head, format, arguments);
  va_end(arguments);
  if (wanted < 0) return;
  // The byte of the terminating NUL becomes the newline.
  const size_t length = std::min<size_t>(head + static_cast<size_t>(wanted), sizeof line - 1);
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 127; };
  std::replace_if(line, line + length, is_control, '?');
  line[length] = '\n';
  bool written = false;
  {
    const std::lock_guard lock(buffer.mutex);
    if (buffer.running) {
      written = Push(line, length + 1);
    } else if ((written = IsWritable(0))) {
      Write(line, length + 1);
    }
  }
  if (!written) lines_dropped.fetch_add(1, std::memory_order_relaxed);
  buffer.changed.notify_one();
}

}  // namespace server
