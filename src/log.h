// The server's log: lines on standard error, as many as -v asks for.
//
// Promises:  each call is one line and one write(2), so lines of several threads do not mix.
//            Control bytes, which clients may have sent, become '?'; a line ends after
//            kLogBytesMax bytes.
// Requires:  nothing; thread-safe. SetLogVerbosity may be called at any time.
// Costs:     a relaxed load where the line is not wanted. LogsAt saves the making of arguments.
#pragma once

#include <cstddef>

namespace server {

enum LogLevel : int {
  kLogAlways = 0,   // what an operator must see: refusals, warnings, the start-up line
  kLogErrors = 1,   // -v: errors and warnings while serving
  kLogTraffic = 2,  // -vv: also commands and replies
  kLogStates = 3,   // -vvv: also what connections go through
};

inline constexpr size_t kLogBytesMax = 2048;

void SetLogVerbosity(int verbosity);
int LogVerbosity();
inline bool LogsAt(LogLevel level) { return LogVerbosity() >= level; }

[[gnu::format(printf, 2, 3)]] void Log(LogLevel level, const char* format, ...);

}  // namespace server
