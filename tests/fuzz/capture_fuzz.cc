#include "tests/fuzz/capture_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return fuzz::Run(flow::FuzzCapture, data, size);
}
