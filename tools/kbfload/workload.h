// Workload says which bytes every key and every value has. Nothing is remembered: all follows from
// the seed and a key's number, so any number of keys can be written and checked later, by another
// process too.
//
// Promises:  different codes give different keys, as long as 64^size of the shortest key allows it
//            (the constructor refuses when not). Keys are letters, digits, '-' and '_'; values are
//            any bytes, line ends included. Two values of the same size differ where 256^size
//            allows.
// Requires:  nothing after construction: all is constant and may be shared by threads.
// Costs:     a key or value is written in 10 to 30 ns; Zipf values take 40 ns more. The pools take
//            1.2 MB, of which short values touch 64 KB.
//
// Codes:     a key's code is 2 × its number, and one more for an absent key: a key that nobody ever
//            stores. So 0, 1, 2 … walks stored keys and absent keys in turn.
//
//   key    = [ number, mixed, six bits a character: up to 11 ][ slice of the pool of letters ]
//   value  = [ value number, mixed: up to 8 bytes ][ slice of the pool of bytes ]
//            or, with the size "json", the session of that number (session_values.h)
//
// Other keys: a list (--keys-file, --trace), where a key's number is its place in the list, or a
// prefix before a decimal number (crush). Absent keys of a list are made like any key; the others
// would have to guess 66 random bits.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tools/kbfload/distribution.h"

namespace load {

using KeyCode = uint64_t;
constexpr KeyCode StoredKey(uint64_t number) { return 2 * number; }
constexpr KeyCode AbsentKey(uint64_t number) { return 2 * number + 1; }
constexpr bool IsAbsentKey(KeyCode code) { return code % 2 == 1; }

// Whether these bytes can be a key on every wire: 1 to 250, without spaces and control characters.
bool IsKey(std::string_view bytes);

inline constexpr uint64_t kKeysMax = uint64_t{1} << 40;
inline constexpr uint32_t kValueBytesLimit = 64 << 20;

struct WorkloadOptions {
  uint64_t seed = 1;
  uint64_t keys = 1000000;
  std::string key_size = "etc";
  std::string value_size = "etc";
  uint32_t value_bytes_max = 1000000;  // what fits in memcached's items of 1 MiB
  uint64_t values = 3000;              // 0: every key has its own
  double value_zipf = 0;               // popularity of values: 0 uniform, else the exponent
  uint32_t generation = 0;             // another generation gives every key another value
  uint32_t flags = 0;
  std::string key_prefix = {};  // not empty: keys are prefix + number
  std::string value = {};       // not empty: all values are this
  std::shared_ptr<const std::vector<std::string>> names = {};  // not null: keys are these
};

// Which value a key has, and how long that is.
struct ValueId {
  uint64_t number = 0;
  uint32_t bytes = 0;
};

class Workload {
 public:
  // Throws std::invalid_argument with a sentence for options that cannot be followed.
  explicit Workload(WorkloadOptions options);

  const WorkloadOptions& options() const { return options_; }
  uint64_t keys() const { return options_.keys; }

  uint32_t KeyBytes(KeyCode code) const;
  // REQUIRES: room for KeyBytes(code).
  void WriteKey(KeyCode code, char* out) const;

  ValueId ValueOf(KeyCode code) const;
  // The same value in another size, for traces that say how long values are.
  static ValueId Resized(ValueId value, uint32_t bytes) { return {value.number, bytes}; }
  // REQUIRES: room for value.bytes, value.bytes <= options().value_bytes_max.
  void WriteValue(ValueId value, char* out) const;
  bool IsValue(ValueId value, std::string_view bytes) const;

 private:
  static constexpr uint32_t kPoolOffsets = 1 << 16;

  void CheckRoom() const;
  bool IsNamed(KeyCode code) const { return options_.names != nullptr && !IsAbsentKey(code); }
  void WriteNumber(KeyCode code, uint32_t bytes, char* out) const;
  uint64_t Draw(uint64_t purpose, uint64_t what) const;
  void WriteSessionValue(ValueId value, char* out) const;

  WorkloadOptions options_;
  uint64_t salt_;
  SizeDistribution key_sizes_;
  SizeDistribution value_sizes_;
  Zipf value_popularity_;
  bool sessions_;        // values are those of session_values.h
  std::string letters_;  // pool of key characters
  std::string bytes_;    // pool of value bytes
};

}  // namespace load
