#include <cstdio>
#include <cstdlib>
#include <utility>

#include "kernels/providers/builtin/builtin.h"
#include "kernels/providers/onednn/onednn.h"
#include "kernels/providers/openblas/openblas.h"
#include "kernels/providers/planted/planted.h"
#include "kernels/providers/provider.h"

namespace assay {

void Registry::Add(KernelEntry entry) {
  if (Find(entry.op, entry.provider, entry.backend) != nullptr) {
    std::fprintf(stderr, "kernel registered twice: op %.*s, provider %.*s, backend %.*s\n",
                 static_cast<int>(entry.op.size()), entry.op.data(),
                 static_cast<int>(entry.provider.size()), entry.provider.data(),
                 static_cast<int>(entry.backend.size()), entry.backend.data());
    std::abort();
  }
  entries_.push_back(std::move(entry));
}

const KernelEntry* Registry::Find(std::string_view op, std::string_view provider,
                                  std::string_view backend) const {
  for (const KernelEntry& e : entries_) {
    if (e.op == op && e.provider == provider && e.backend == backend) return &e;
  }
  return nullptr;
}

void RegisterAll(Registry& r) {
  r.Add(BuiltinGemmCpu());
  r.Add(BuiltinConvCpu());
  r.Add(BuiltinAttentionCpu());
  r.Add(BuiltinSoftmaxCpu());
  r.Add(BuiltinLayerNormCpu());
  r.Add(BuiltinCopyCpu());
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
}

}  // namespace assay
