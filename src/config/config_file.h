// Reads the configuration format of Debian's memcached packages: an option per line, as on the
// command line, '#' comments.
//
// Promises:  each line of options as words, with its number. Lines that start with -d or -h are
//            left out, as Debian's scripts do: -d is decided by the script that starts the
//            server. So are lines that start with a word, such as "logfile /var/log/x".
//            Quotes and '\' work as in a shell: they keep spaces and '#'. Whatever the bytes are,
//            the answer is lines or a StartupError that names file and line.
// Costs:     the file is read at once; larger files and lines than these limits are refused.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace server {

inline constexpr size_t kConfigFileBytesMax = 64 << 10;
inline constexpr size_t kConfigLineBytesMax = 4 << 10;

struct ConfigLine {
  size_t number = 0;               // from 1
  std::vector<std::string> words;  // never empty
};

// `name` is for messages. Ignored words other than "logfile" get a line in `warnings`.
std::vector<ConfigLine> ParseConfig(std::string_view text, const std::string& name,
                                    std::vector<std::string>* warnings);

// The bytes of a regular file.
std::string ReadConfigFile(const std::string& path);

}  // namespace server
