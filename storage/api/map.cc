#include <kbf/map.h>

#include <utility>

#include "storage/api/guard.h"
#include "storage/api/map_core.h"

namespace kbf {
inline namespace v0 {

Result<MapPlan> PlanMap(const MapOptions& options) {
  return WithResult<MapPlan>([&]() -> Result<MapPlan> {
    Result<PlannedMap> planned = PlanCells(options);
    if (!planned) return {planned.status(), planned.message()};
    return planned->promised;
  });
}

Result<Map> Map::Create(const MapOptions& options) {
  return WithResult<Map>([&]() -> Result<Map> {
    const Result<PlannedMap> planned = PlanCells(options);
    if (!planned) return {planned.status(), planned.message()};
    auto core = MapCore::Create(MapFamily::Create(*planned, options.seed));
    if (!core) return {core.status(), core.message()};
    return Map(std::move(*core));
  });
}

Result<Map> Map::CreateLike() const {
  return WithResult<Map>([&]() -> Result<Map> {
    auto core = MapCore::Create(core_->family());
    if (!core) return {core.status(), core.message()};
    return Map(std::move(*core));
  });
}

Map::Map(std::unique_ptr<MapCore> core) : core_(std::move(core)) {}
Map::Map(Map&& other) noexcept = default;
Map& Map::operator=(Map&& other) noexcept = default;
Map::~Map() = default;

Map::Answer Map::Get(std::string_view key) const { return core_->Get(key); }

Status Map::Put(std::string_view key, std::string_view value) {
  return WithStatus([&] { return core_->Put(key, value); });
}

Status Map::Delete(std::string_view key) {
  return WithStatus([&] { return core_->Delete(key); });
}

Status Map::Join(const Map& other) {
  return WithStatus([&] { return core_->Join(*other.core_); });
}

Status Map::Compress() {
  return WithStatus([&] { return core_->Compress(); });
}

uint64_t Map::size() const { return core_->size(); }
uint64_t Map::capacity() const { return core_->filter().capacity(); }
uint64_t Map::num_values() const { return core_->family()->values().size(); }
uint64_t Map::num_overrides() const { return core_->num_overrides(); }
uint64_t Map::memory_bytes() const { return core_->memory_bytes(); }
const MapPlan& Map::plan() const { return core_->family()->promised(); }
MapErrors Map::PredictedErrors() const { return core_->PredictedErrors(); }

}  // namespace v0
}  // namespace kbf
