#include "tests/fuzz/snapshot_fuzz.h"

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return fuzz::Run(kbf::FuzzSnapshot, data, size);
}
