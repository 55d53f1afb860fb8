#include "storage/engine.h"

#include "storage/kbf_engine.h"
#include "storage/packed/packed_engine.h"

namespace kbf {

EngineOutcome MakeEngine(const EngineConfig& config, const HashSecret& secret) {
  switch (config.kind) {
    case EngineKind::kPacked:
      return MakePackedEngine(config, secret);
    case EngineKind::kKbf:
      break;
  }
  return MakeKbfEngine(config, secret);
}

}  // namespace kbf
