// Work described in the form of mc-crusher's files: one kind of connection a line, as pairs
// name=value with commas between them.
//
//   send=ascii_get,recv=blind_read,conns=50,key_prefix=foobar,key_count=200000,pipelines=8
//
//   send            ascii_get ascii_mget ascii_mg ascii_set ascii_incr ascii_decr ascii_delete
//                   ascii_touch bin_get bin_getq bin_set bin_setq bin_touch (or binary_…) meta_get
//                   meta_set; needed
//   recv            check: values are compared (the default); blind_read: any value is a hit
//   conns           connections of this kind (1)
//   thread          0: the connections share the threads of the command line (the default); N: N
//                   threads that only this line has, with `conns` connections each
//   pipelines       requests that are sent at once (1)
//   usleep          microseconds from one such batch to the next, of each connection (0: the next
//                   batch goes out when the last one is answered)
//   stop_after      the line ends after so many keys, on each thread of its own (0: never)
//   mget_count      keys in a request of ascii_mget and bin_getq (2)
//   cmd_postfix     flags of ascii_mg (none)
//   key_prefix      keys are this and a number (foo)
//   key_count       numbers from 0 on (200000); the connections of a thread go round them together
//   key_randomize   1: round and round in a random order
//   live_rand       1: every number is drawn, all alike
//   live_rand_zipf  1: every number is drawn, the low ones more often
//   zipf_skew       exponent of live_rand_zipf (0.25)
//   key_prealloc    taken, without effect: keys are always made in place
//   value_size      of the values that are set, and expected (10)
//   value_range     A-B: every key has a value of its own, of a random size from A to B; N: from
//                   value_size to N
//   value           the value itself, instead
//   flags           client flags that are set, and expected (0)
//   expire          seconds to live, of set and touch (0: for ever)
//   host, port      another server than the one on the command line
//
// Anything else is an error, as is a number that is none. Empty lines and lines that begin with '#'
// are passed over.
//
// From:     mc-crusher (github.com/memcached/mc-crusher), whose own files are read as they are.
// Departs:  mc-crusher looks at no answer and reads value_range without using it. Here an answer is
//           always waited for: a batch of quiet sets (bin_setq) ends with a no-op, and bin_getq
//           asks as ascii_mget does. stop_after is exact, where mc-crusher lets every connection
//           finish its batch. Popularity is Zipf's law itself, which mc-crusher approximates.
#pragma once

#include <string>
#include <vector>

#include "tools/kbfload/connection.h"

namespace load {

inline constexpr unsigned kCrushKeysMax = 1000000;  // in a request

struct CrushLine {
  std::string text;
  ClientGroup clients;  // without workload and sources: those need a place to live
  CycleOptions cycle;
  WorkloadOptions workload;
};

// Throws std::invalid_argument.
CrushLine ParseCrushLine(const std::string& line, const Address& server);
std::vector<CrushLine> ReadCrush(const std::string& path, const Address& server);

}  // namespace load
