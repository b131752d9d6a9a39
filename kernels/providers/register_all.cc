// Registers every kernel of the CPU, one line each.
#include <utility>

#include "kernels/cheats/cheats.h"
#include "kernels/providers/builtin/builtin.h"
#include "kernels/providers/onednn/onednn.h"
#include "kernels/providers/openblas/openblas.h"
#include "kernels/providers/planted/planted.h"
#include "kernels/providers/provider.h"
#include "kernels/providers/user/runner_kernel.h"

namespace assay::inline kernels {

void RegisterAll(Registry& r) {
  r.Add(BuiltinGemmCpu());
  r.Add(BuiltinConvCpu());
  r.Add(BuiltinAttentionCpu());
  r.Add(BuiltinSoftmaxCpu());
  r.Add(BuiltinLayerNormCpu());
  r.Add(BuiltinCopyCpu());
  r.Add(BuiltinDequantSoftmaxCpu());
  r.Add(BuiltinReduceCpu());
  r.Add(BuiltinElementwiseCpu());
  r.Add(BuiltinRopeCpu());
  r.Add(OnednnGemm());
  r.Add(OnednnConv());
  r.Add(OnednnAttention());
  r.Add(OnednnSoftmax());
  r.Add(OnednnLayerNorm());
  r.Add(OnednnCopy());
  r.Add(OpenblasGemm());
  r.Add(OpenblasConv());
  r.Add(OpenblasAttention());
  r.Add(OpenblasCopy());
  for (KernelEntry& planted : PlantedKernels()) r.Add(std::move(planted));
  r.AddForPrefix(UserKernels(kUserPrefix));
  r.AddForPrefix(UserKernels(kCheatPrefix));
}

}  // namespace assay::kernels
