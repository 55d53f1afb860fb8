// Compiled with -mpclmul where the compiler knows it. Only this file holds the instruction, and
// ClmulKernelFor asks the CPU before anything here runs.
#include "config.h"

#ifdef HAVE_CLMUL

#include "storage/gf2.h"
#include "storage/kbf_kernel.h"
#include "storage/kbf_query.h"

namespace kbf {

const KbfKernel* ClmulKernelFor(CellKind kind) {
  if (!__builtin_cpu_supports("pclmul")) return nullptr;
  switch (kind) {
    case CellKind::kPair32:
      return nullptr;  // small enough for tables, which are faster
    case CellKind::kPair64:
      return &KernelOf<uint64_t, PairCode, WideField<HardwareClmul>>::kKernel;
    case CellKind::kTriple64:
      break;
  }
  return &KernelOf<uint64_t, TripleCode, WideField<HardwareClmul>,
                   WideField<HardwareClmul, 20>>::kKernel;
}

}  // namespace kbf

#endif
