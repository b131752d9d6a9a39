#include "kernels/providers/planted/planted.h"

#include <array>
#include <string>

#include "absl/status/status.h"
#include "kernels/numerics/cat.h"
#include "kernels/providers/planted/factories.h"
#include "kernels/providers/planted/table.h"

namespace assay {
namespace {

constexpr double kBlockedSeconds = 1.0;  // deadline of a kernel that never returns

KernelFactory FactoryOf(std::string_view op) {
  constexpr std::array<std::pair<std::string_view, KernelFactory>, 7> kFactories = {{
      {"gemm", &planted::MakeGemm},
      {"conv", &planted::MakeConv},
      {"attention", &planted::MakeAttention},
      {"softmax", &planted::MakeSoftmax},
      {"layer_norm", &planted::MakeLayerNorm},
      {"copy", &planted::MakeCopy},
      {"dequant_softmax", &planted::MakeDequantSoftmax},
  }};
  for (const auto& [name, make] : kFactories) {
    if (name == op) return make;
  }
  return nullptr;
}

}  // namespace

std::span<const PlantedDefect> PlantedDefects() {
  static const std::vector<PlantedDefect>* const table = new std::vector(planted::MakeTable());
  return *table;
}

std::string_view PlantedProvider(const PlantedDefect& defect) {
  // Made once: entries of the registry hold views of them.
  static const std::vector<std::string>* const names = [] {
    auto* all = new std::vector<std::string>;
    for (const PlantedDefect& d : PlantedDefects()) all->push_back(Cat(kPlantedPrefix, d.name));
    return all;
  }();
  return (*names)[static_cast<std::size_t>(&defect - PlantedDefects().data())];
}

const PlantedDefect* FindPlanted(std::string_view op, std::string_view provider) {
  for (const PlantedDefect& d : PlantedDefects()) {
    if (d.op == op && PlantedProvider(d) == provider) return &d;
  }
  return nullptr;
}

std::string_view ExpectedReason(const PlantedDefect& defect, DType dtype) {
  const bool of_values =
      defect.check == "bound" || defect.check == "class" || defect.check == "bias";
  return of_values && Info(OutputType(PlantedCase(defect, dtype))).is_integer ? "exact"
                                                                              : defect.check;
}

double RequiredRate(const PlantedDefect& defect, DType dtype) {
  for (const auto& [format, rate] : defect.rates) {
    if (format == dtype) return rate;
  }
  return defect.required_rate;
}

Case PlantedCase(const PlantedDefect& defect, DType dtype, std::uint64_t seed) {
  Case c;
  c.problem = defect.problem;
  c.name = Cat("planted ", defect.op, " ", defect.name, " ", Name(dtype));
  c.dtype = dtype;
  c.out_dtype = defect.out_dtype;
  c.provider = std::string(PlantedProvider(defect));
  c.pattern = std::string(defect.pattern);
  c.seed = seed;
  c.repeats = defect.repeats;
  if (defect.check == "timeout") c.deadline_seconds = kBlockedSeconds;
  return c;
}

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

namespace planted {

std::string_view DefectOf(const Case& c) {
  const std::string_view provider = c.provider;
  return provider.starts_with(kPlantedPrefix) ? provider.substr(kPlantedPrefix.size())
                                              : std::string_view{};
}

absl::Status NoSuchDefect(const Case& c) {
  return absl::UnimplementedError(
      Cat(OpName(c.problem), " has no planted kernel \"", c.provider, "\""));
}

}  // namespace planted
}  // namespace assay
