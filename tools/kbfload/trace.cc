#include "tools/kbfload/trace.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <stdexcept>
#include <unordered_map>
#include <unordered_set>

#include "protocol/request.h"
#include "tools/kbfload/lines.h"

namespace load {
namespace {

std::string CheckKey(std::string_view key) {
  return IsKey(key) ? "" : "a key has 1 to 250 bytes, and no spaces or control characters";
}

std::string ReadTask(const std::string& line, uint32_t value_bytes_max, Task* task,
                     std::string* key) {
  std::istringstream words(line);
  std::string verb, bytes, rest;
  words >> verb >> *key >> bytes >> rest;
  const auto found = std::find(kVerbNames.begin(), kVerbNames.end(), verb);
  const auto at = static_cast<size_t>(found - kVerbNames.begin());
  if (at >= static_cast<size_t>(Verb::kIncr)) {
    return "expected get, set, delete or touch, not '" + verb + "'";
  }
  task->verb = static_cast<Verb>(at);
  if (!rest.empty() || (!bytes.empty() && task->verb != Verb::kSet)) return "too many words";
  if (!bytes.empty()) {
    const char* const end = bytes.data() + bytes.size();
    const auto [stop, code] = std::from_chars(bytes.data(), end, task->value_bytes);
    if (code != std::errc() || stop != end || task->value_bytes > value_bytes_max) {
      return "a value has 0 to " + std::to_string(value_bytes_max) + " bytes, not '" + bytes + "'";
    }
  }
  return CheckKey(*key);
}

}  // namespace

std::shared_ptr<const KeyList> ReadKeys(const std::string& path) {
  auto keys = std::make_shared<KeyList>();
  std::unordered_set<std::string> seen;
  ReadLines(path, [&](const std::string& line) {
    if (!seen.insert(line).second) return "the key '" + line + "' was there before";
    keys->push_back(line);
    return CheckKey(line);
  });
  if (keys->empty()) throw std::invalid_argument(path + " holds no keys");
  return keys;
}

Trace ReadTrace(const std::string& path, uint32_t value_bytes_max) {
  auto keys = std::make_shared<KeyList>();
  auto tasks = std::make_shared<std::vector<Task>>();
  std::unordered_map<std::string, uint64_t> places;
  ReadLines(path, [&](const std::string& line) {
    Task task;
    std::string key;
    std::string complaint = ReadTask(line, value_bytes_max, &task, &key);
    if (!complaint.empty()) return complaint;
    const auto [place, is_new] = places.try_emplace(key, keys->size());
    if (is_new) keys->push_back(key);
    task.key = StoredKey(place->second);
    tasks->push_back(task);
    return std::string();
  });
  if (tasks->empty()) throw std::invalid_argument(path + " holds no requests");
  return {std::move(keys), std::move(tasks)};
}

}  // namespace load
