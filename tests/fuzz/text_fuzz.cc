// clang++ -std=c++20 -g -O1 -I. -fsanitize=fuzzer,address,undefined protocol/text.cc
//   protocol/meta.cc protocol/base64.cc protocol/tuning.cc protocol/binary.cc
//   tests/fuzz/text_fuzz.cc -o text_fuzz && ./text_fuzz tests/fuzz/corpus/text
#include "tests/fuzz/text_fuzz.h"

#include <cstdio>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  if (const char* fault = protocol::FuzzText(input)) {
    std::fprintf(stderr, "text protocol: %s\n", fault);
    std::abort();
  }
  return 0;
}
