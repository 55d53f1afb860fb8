// The server's log: lines on standard error, as many as -v asks for. A line begins with the time in
// UTC and its level:
//
//   2026-11-18T20:36:00.123Z notice listening on 127.0.0.1:11211
//
// Promises:  lines of several threads do not mix. Nobody waits for standard error: while a
// LogThread
//            lives, lines go through a buffer that it empties, and what finds no room there is
//            dropped and counted; without one, a line that cannot be written at once is dropped.
//            Control bytes, which clients may have sent, become '?'; a line ends after
//            kLogBytesMax bytes.
// Requires:  nothing; thread-safe. SetLogVerbosity may be called at any time.
// Costs:     a relaxed load where the line is not wanted. LogsAt saves the making of arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <thread>

namespace server {

enum LogLevel : int {
  kLogAlways = 0,   // "notice", what an operator must see: warnings, start and stop
  kLogErrors = 1,   // "error", -v: errors while serving
  kLogTraffic = 2,  // "debug", -vv: also connections and commands
  kLogStates = 3,   // "trace", -vvv: also the states of connections
};

inline constexpr size_t kLogBytesMax = 2048;

// Levels above kLogStates mean kLogStates.
void SetLogVerbosity(uint32_t verbosity);
int LogVerbosity();
inline bool LogsAt(LogLevel level) { return LogVerbosity() >= level; }

// Lines that found no room, since the start.
uint64_t LogLinesDropped();

// Writes what is logged while it lives. At its end it waits for standard error for a moment only.
// REQUIRES: one at a time, and no fork while it lives.
class LogThread {
 public:
  LogThread();
  ~LogThread();
  LogThread(const LogThread&) = delete;
  LogThread& operator=(const LogThread&) = delete;

 private:
  std::thread thread_;
};

[[gnu::format(printf, 2, 3)]] void Log(LogLevel level, const char* format, ...);

}  // namespace server
