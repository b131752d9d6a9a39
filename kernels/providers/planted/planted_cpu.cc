// Registers the CPU's planted kernels, with one factory for each operator.
#include <array>
#include <utility>

#include "kernels/providers/planted/factories.h"
#include "kernels/providers/planted/planted.h"

namespace assay::inline kernels {
namespace {

KernelFactory FactoryOf(std::string_view op) {
  constexpr std::array<std::pair<std::string_view, KernelFactory>, 10> kFactories = {{
      {"gemm", &planted::MakeGemm},
      {"conv", &planted::MakeConv},
      {"attention", &planted::MakeAttention},
      {"softmax", &planted::MakeSoftmax},
      {"layer_norm", &planted::MakeLayerNorm},
      {"copy", &planted::MakeCopy},
      {"dequant_softmax", &planted::MakeDequantSoftmax},
      {"reduce", &planted::MakeReduce},
      {"elementwise", &planted::MakeElementwise},
      {"rope", &planted::MakeRope},
  }};
  for (const auto& [name, make] : kFactories) {
    if (name == op) return make;
  }
  return nullptr;
}

}  // namespace

std::vector<KernelEntry> PlantedKernels() {
  std::vector<KernelEntry> kernels;
  for (const PlantedDefect& d : PlantedDefects()) {
    kernels.push_back(KernelEntry{.op = d.op,
                                  .provider = PlantedProvider(d),
                                  .backend = "cpu",
                                  .dtypes = d.dtypes,
                                  .make = FactoryOf(d.op),
                                  .version = {},
                                  .unavailable_reason = {}});
  }
  return kernels;
}

}  // namespace assay::kernels
