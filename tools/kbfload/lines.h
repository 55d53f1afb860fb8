// The lines of a text file that say something.
#pragma once

#include <functional>
#include <string>

namespace load {

// Calls `take` with each line that is neither empty nor begins with '#'. It returns a complaint, or
// nothing; a complaint is thrown as std::invalid_argument, with file and line number, as is a file
// that cannot be read.
void ReadLines(const std::string& path,
               const std::function<std::string(const std::string& line)>& take);

}  // namespace load
