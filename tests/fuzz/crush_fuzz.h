// What must hold for any crush file: a line is refused with std::invalid_argument, or it gives a
// client group within its limits whose keys every protocol can carry, and a source that asks only
// for them.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/fuzz.h"
#include "tools/kbfload/crush.h"

namespace load {

inline const char* FuzzCrushKeys(const CrushLine& line) {
  try {
    const Workload workload(line.workload);
    for (const uint64_t number : {uint64_t{0}, workload.keys() - 1}) {
      for (const KeyCode code : {StoredKey(number), AbsentKey(number)}) {
        std::string key(workload.KeyBytes(code), '\0');
        workload.WriteKey(code, key.data());
        if (!IsKey(key)) return "a key that no server takes";
      }
    }
    const ValueId id = workload.ValueOf(StoredKey(0));
    std::string value(id.bytes, '\0');
    workload.WriteValue(id, value.data());
    return workload.IsValue(id, value) ? nullptr : "a value that is not its own";
  } catch (const std::invalid_argument&) {
    return nullptr;
  }
}

inline const char* FuzzCrushSource(const CrushLine& line) {
  const auto source = CycleKeys(line.cycle)(line.clients.connections - 1);
  std::vector<Task> tasks(std::min(line.clients.multiget, 100u));
  uint64_t asked = 0;
  for (int i = 0; i < 3; ++i) {
    const size_t count = source->Next(tasks);
    asked += count;
    for (size_t j = 0; j < count; ++j) {
      if (tasks[j].key >= StoredKey(line.workload.keys)) return "a key beyond the last";
    }
  }
  return asked <= line.cycle.group_ops ? nullptr : "more than stop_after";
}

// The fault that was found, or null.
inline const char* FuzzCrush(std::string_view input) {
  const Address server = ParseAddress("127.0.0.1:9");
  try {
    const fuzz::MemoryFile file(input);
    // Making a workload takes a millisecond: a few lines say as much as many.
    size_t lines = 0;
    for (const CrushLine& line : ReadCrush(file.path(), server)) {
      if (line.clients.connections == 0 || line.clients.pipeline == 0 ||
          line.clients.multiget == 0) {
        return "a number of 0";
      }
      if (line.workload.keys == 0) return "no keys";
      if (line.clients.own_threads > line.clients.connections)
        return "a thread without connections";
      if (line.clients.meta_flags && line.clients.meta_flags->find('\n') != std::string::npos) {
        return "a flag that ends the line";
      }
      if (line.clients.server.is_unix()) return "a host that has become a path";
      if (++lines > 3) break;
      if (const char* fault = FuzzCrushKeys(line)) return fault;
      if (const char* fault = FuzzCrushSource(line)) return fault;
    }
  } catch (const std::invalid_argument&) {
  }
  return nullptr;
}

}  // namespace load
