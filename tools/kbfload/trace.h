// Keys and requests from plain text files.
//
//   keys file:  one key a line.
//   trace:      "get KEY", "set KEY [BYTES]", "delete KEY", "touch KEY"; words are separated by
//               spaces, empty lines and lines that begin with '#' are passed over. Without BYTES a
//               set has the size that the workload draws for the key.
//
// Both throw std::invalid_argument, with file and line, for what they cannot read.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tools/kbfload/source.h"

namespace load {

using KeyList = std::vector<std::string>;

std::shared_ptr<const KeyList> ReadKeys(const std::string& path);

struct Trace {
  std::shared_ptr<const KeyList> keys;  // each once; a task names its key by its place here
  std::shared_ptr<const std::vector<Task>> tasks;
};
Trace ReadTrace(const std::string& path, uint32_t value_bytes_max);

}  // namespace load
