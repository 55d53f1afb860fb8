#include "storage/kbf_kernel.h"

#include "config.h"
#include "storage/gf2.h"
#include "storage/kbf_query.h"

namespace kbf {

const KbfKernel& PortableKernelFor(CellKind kind) {
  switch (kind) {
    case CellKind::kPair32:
      return KernelOf<uint32_t, PairCode, TableField>::kKernel;
    case CellKind::kPair64:
      return KernelOf<uint64_t, PairCode, WideField<PortableClmul>>::kKernel;
    case CellKind::kTriple64:
      break;
  }
  return KernelOf<uint64_t, TripleCode, WideField<PortableClmul>,
                  WideField<PortableClmul, 20>>::kKernel;
}

#ifndef HAVE_CLMUL
const KbfKernel* ClmulKernelFor(CellKind) { return nullptr; }
#endif

const KbfKernel& KernelFor(CellKind kind) {
  const KbfKernel* fast = ClmulKernelFor(kind);
  return fast != nullptr ? *fast : PortableKernelFor(kind);
}

}  // namespace kbf
