// What must hold for any trace, and for any file of keys: it is refused with std::invalid_argument,
// or its keys are keys, each once, and a replay gives out every request once and in order.
#pragma once

#include <array>
#include <stdexcept>
#include <string_view>
#include <unordered_set>

#include "tests/fuzz/crush_fuzz.h"
#include "tests/fuzz/fuzz.h"
#include "tools/kbfload/trace.h"

namespace load {

inline const char* FuzzKeyList(const KeyList& keys) {
  std::unordered_set<std::string_view> seen;
  for (const std::string& key : keys) {
    if (!IsKey(key)) return "a key that no server takes";
    if (!seen.insert(key).second) return "a key that is there twice";
  }
  return keys.empty() ? "no keys" : nullptr;
}

inline const char* FuzzReplay(const Trace& trace, size_t at_once) {
  const auto source = ReplayTrace(trace.tasks)(0);
  std::array<Task, 7> tasks;
  size_t at = 0;
  while (const size_t count = source->Next(std::span(tasks).first(at_once))) {
    for (size_t i = 0; i < count; ++i, ++at) {
      if (at >= trace.tasks->size()) return "more requests than the trace has";
      const Task& expected = (*trace.tasks)[at];
      if (tasks[i].verb != expected.verb || tasks[i].key != expected.key) return "another request";
      if (count > 1 && tasks[i].verb != Verb::kGet) return "a group of others than gets";
    }
  }
  return at == trace.tasks->size() ? nullptr : "requests that were left out";
}

inline const char* FuzzTraceFile(const std::string& path) {
  constexpr uint32_t kValueBytesMax = 1000;
  const Trace trace = ReadTrace(path, kValueBytesMax);
  if (const char* fault = FuzzKeyList(*trace.keys)) return fault;
  for (const Task& task : *trace.tasks) {
    if (task.key / 2 >= trace.keys->size() || IsAbsentKey(task.key)) return "a key out of the list";
    if (task.value_bytes != Task::kDrawnBytes && task.value_bytes > kValueBytesMax) {
      return "a value that is too long";
    }
  }
  for (const size_t at_once : {1, 7}) {
    if (const char* fault = FuzzReplay(trace, at_once)) return fault;
  }
  return nullptr;
}

// The fault that was found, or null.
inline const char* FuzzTrace(std::string_view input) {
  const fuzz::MemoryFile file(input);
  const char* fault = nullptr;
  try {
    fault = FuzzTraceFile(file.path());
  } catch (const std::invalid_argument&) {
  }
  if (fault != nullptr) return fault;
  try {
    fault = FuzzKeyList(*ReadKeys(file.path()));
  } catch (const std::invalid_argument&) {
  }
  return fault;
}

}  // namespace load
