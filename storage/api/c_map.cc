// The C interface: checks of pointers and sizes around Map.
#include <kbf/kbf.h>
#include <kbf/map.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "config.h"
#include "storage/api/guard.h"

struct kbf_map {
  kbf::Map map;
};

namespace {

using kbf::Status;

// Every number of the C header is that of the C++ one.
constexpr kbf_status CodeOf(Status status) { return static_cast<kbf_status>(status); }
static_assert(CodeOf(Status::kOk) == KBF_OK && CodeOf(Status::kNotFound) == KBF_NOT_FOUND);
static_assert(CodeOf(Status::kUndecodable) == KBF_UNDECODABLE &&
              CodeOf(Status::kExists) == KBF_EXISTS);
static_assert(CodeOf(Status::kFull) == KBF_FULL &&
              CodeOf(Status::kTooManyValues) == KBF_TOO_MANY_VALUES);
static_assert(CodeOf(Status::kTooLarge) == KBF_TOO_LARGE &&
              CodeOf(Status::kBadArgument) == KBF_BAD_ARGUMENT);
static_assert(CodeOf(Status::kUnlike) == KBF_UNLIKE &&
              CodeOf(Status::kCannotHalve) == KBF_CANNOT_HALVE);
static_assert(CodeOf(Status::kNoMemory) == KBF_NO_MEMORY && CodeOf(Status::kSystem) == KBF_SYSTEM);

// Nothing for a null pointer with a length, and for lengths that no object can have.
std::optional<std::string_view> BytesOf(const char* data, size_t bytes) {
  if (bytes > static_cast<size_t>(PTRDIFF_MAX)) return std::nullopt;
  if (data == nullptr) return bytes == 0 ? std::optional(std::string_view()) : std::nullopt;
  return std::string_view(data, bytes);
}

void CopyMessage(std::string_view message, char* error, size_t error_bytes) {
  if (error == nullptr || error_bytes == 0) return;
  const size_t copied = std::min(message.size(), error_bytes - 1);
  std::memcpy(error, message.data(), copied);
  error[copied] = '\0';
}

kbf::MapOptions OptionsOf(const kbf_map_options& given) {
  kbf::MapOptions options;
  options.capacity = given.capacity;
  options.seed = given.seed;
  if (given.distinct_values != 0) options.distinct_values = given.distinct_values;
  if (given.false_negative != 0) options.false_negative = given.false_negative;
  if (given.false_positive != 0) options.false_positive = given.false_positive;
  return options;
}

kbf_status Hand(kbf::Result<kbf::Map> made, kbf_map** map) {
  if (!made) return CodeOf(made.status());
  return CodeOf(kbf::WithStatus([&] {
    *map = new kbf_map{std::move(*made)};
    return Status::kOk;
  }));
}

}  // namespace

extern "C" {

const char* kbf_status_message(kbf_status status) {
  const int number = static_cast<int>(status);
  if (number < 0 || number > UINT8_MAX) return "unknown status";
  return kbf::StatusMessage(static_cast<Status>(number));
}

const char* kbf_version(void) { return PACKAGE_VERSION; }

kbf_status kbf_map_create(const kbf_map_options* options, kbf_map** map, char* error,
                          size_t error_bytes) {
  CopyMessage("", error, error_bytes);
  if (map != nullptr) *map = nullptr;
  if (options == nullptr || map == nullptr) {
    CopyMessage(kbf::StatusMessage(Status::kBadArgument), error, error_bytes);
    return KBF_BAD_ARGUMENT;
  }
  kbf::Result<kbf::Map> made = kbf::Map::Create(OptionsOf(*options));
  CopyMessage(made.message(), error, error_bytes);
  return Hand(std::move(made), map);
}

kbf_status kbf_map_create_like(const kbf_map* like, kbf_map** map) {
  if (map != nullptr) *map = nullptr;
  if (like == nullptr || map == nullptr) return KBF_BAD_ARGUMENT;
  return Hand(like->map.CreateLike(), map);
}

void kbf_map_free(kbf_map* map) { delete map; }

kbf_status kbf_map_put(kbf_map* map, const char* key, size_t key_bytes, const char* value,
                       size_t value_bytes) {
  const auto key_view = BytesOf(key, key_bytes);
  const auto value_view = BytesOf(value, value_bytes);
  if (map == nullptr || !key_view || !value_view) return KBF_BAD_ARGUMENT;
  return CodeOf(map->map.Put(*key_view, *value_view));
}

kbf_status kbf_map_get(const kbf_map* map, const char* key, size_t key_bytes, const char** value,
                       size_t* value_bytes) {
  if (value != nullptr) *value = nullptr;
  if (value_bytes != nullptr) *value_bytes = 0;
  const auto key_view = BytesOf(key, key_bytes);
  if (map == nullptr || !key_view || value == nullptr || value_bytes == nullptr) {
    return KBF_BAD_ARGUMENT;
  }
  const kbf::Map::Answer answer = map->map.Get(*key_view);
  if (answer) {
    *value = answer->data();
    *value_bytes = answer->size();
  }
  return CodeOf(answer.status());
}

kbf_status kbf_map_delete(kbf_map* map, const char* key, size_t key_bytes) {
  const auto key_view = BytesOf(key, key_bytes);
  if (map == nullptr || !key_view) return KBF_BAD_ARGUMENT;
  return CodeOf(map->map.Delete(*key_view));
}

kbf_status kbf_map_join(kbf_map* map, const kbf_map* other) {
  if (map == nullptr || other == nullptr) return KBF_BAD_ARGUMENT;
  return CodeOf(map->map.Join(other->map));
}

kbf_status kbf_map_compress(kbf_map* map) {
  return map != nullptr ? CodeOf(map->map.Compress()) : KBF_BAD_ARGUMENT;
}

kbf_status kbf_map_get_stats(const kbf_map* map, kbf_map_stats* stats) {
  if (map == nullptr || stats == nullptr) return KBF_BAD_ARGUMENT;
  const kbf::MapErrors errors = map->map.PredictedErrors();
  *stats = {map->map.size(),          map->map.capacity(),     map->map.num_values(),
            map->map.num_overrides(), map->map.memory_bytes(), errors.false_negative,
            errors.false_positive};
  return KBF_OK;
}

}  // extern "C"
