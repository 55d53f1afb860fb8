#include "storage/engine.h"

#include "storage/kbf_engine.h"

namespace kbf {

EngineOutcome MakeEngine(const EngineConfig& config, const HashSecret& secret) {
  switch (config.kind) {
    case EngineKind::kKbf:
      break;
  }
  return MakeKbfEngine(config, secret);
}

}  // namespace kbf
