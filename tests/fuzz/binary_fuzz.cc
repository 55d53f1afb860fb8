// clang++ -std=c++20 -g -O1 -I. -fsanitize=fuzzer,address,undefined protocol/binary.cc
//   tests/fuzz/binary_fuzz.cc -o binary_fuzz && ./binary_fuzz tests/fuzz/corpus/binary
#include "tests/fuzz/binary_fuzz.h"

#include <cstdio>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  if (const char* fault = protocol::FuzzBinary(input)) {
    std::fprintf(stderr, "binary protocol: %s\n", fault);
    std::abort();
  }
  return 0;
}
