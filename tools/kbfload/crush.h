// Work described in the form of mc-crusher's files: one kind of connection a line, as pairs
// name=value with commas between them.
//
//   send=ascii_get,recv=blind_read,conns=50,key_prefix=foobar,key_count=200000,pipelines=8
//
//   send           ascii_get ascii_mget ascii_set ascii_incr ascii_delete ascii_touch
//                  binary_get binary_getq binary_set (or bin_…) meta_get meta_set; needed
//   recv           check: values are compared (the default); blind_read: any value is a hit
//   conns          connections of this kind (1)
//   pipelines      requests that are sent at once (1)
//   mget_count     keys in a request of ascii_mget and binary_getq (2)
//   key_prefix     keys are this and a number (foo)
//   key_count      numbers from 0 on, round and round (200000)
//   key_randomize  1: in a random order
//   key_prealloc   taken, without effect: keys are always made in place
//   value_size     of the values that are set, and expected (10)
//   value          the value itself, instead
//   expire         seconds to live, of set and touch (0: for ever)
//   host, port     another server than the one on the command line
//
// Anything else is an error, as is a number that is none. Empty lines and lines that begin with '#'
// are passed over.
#pragma once

#include <string>
#include <vector>

#include "tools/kbfload/connection.h"

namespace load {

struct CrushLine {
  std::string text;
  Crew crew;  // without workload and sources: those need a place to live
  Verb verb = Verb::kGet;
  bool shuffled = false;
  WorkloadOptions workload;
};

// Throws std::invalid_argument.
CrushLine ParseCrushLine(const std::string& line, const Address& server);
std::vector<CrushLine> ReadCrush(const std::string& path, const Address& server);

}  // namespace load
