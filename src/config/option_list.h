// The comma-separated list of -o: memcached's extended options.
//
// Promises:  options with an effect here change `options`; those about memcached's slabs and LRU
//            lists are checked, kept in options->inert and named in remarks->inert; options of
//            external storage and proxy are refused by name, and so are unknown ones. Every on-off
//            option has a "no_" form.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/config/options.h"

namespace server {

// What is reported besides the options.
struct OptionRemarks {
  std::vector<std::string> inert;     // names of options without effect, in the order given
  std::vector<std::string> warnings;  // lines
};

// Throws StartupError.
void ApplyOptionList(std::string_view list, Options* options, OptionRemarks* remarks);

}  // namespace server
