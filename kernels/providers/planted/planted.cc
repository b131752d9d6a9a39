#include "kernels/providers/planted/planted.h"

#include <map>
#include <string>

#include "absl/status/status.h"
#include "kernels/providers/planted/factories.h"
#include "kernels/providers/planted/table.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

constexpr double kBlockedSeconds = 0.5;  // deadline of a kernel that never returns

}  // namespace

std::span<const PlantedDefect> PlantedDefects(std::string_view backend) {
  using Table = const std::vector<PlantedDefect>;
  static Table* const cpu = new std::vector(planted::MakeTable());
  static Table* const gpu = new std::vector(planted::MakeGpuTable("fault"));
  // HIP's runtime ends the process if a kernel touches an address that is not mapped.
  static Table* const hip = new std::vector(planted::MakeGpuTable("crash"));
  if (backend == "cpu") return *cpu;
  return backend == "hip" ? *hip : *gpu;
}

std::string_view PlantedProvider(const PlantedDefect& defect) {
  // The names are made once, because entries of the registry hold views of them.
  static const std::map<std::string_view, std::string>* const names = [] {
    auto* all = new std::map<std::string_view, std::string>;
    for (const char* backend : {"cpu", "cuda"}) {
      for (const PlantedDefect& d : PlantedDefects(backend)) {
        all->try_emplace(d.name, Cat(kPlantedPrefix, d.name));
      }
    }
    return all;
  }();
  return names->at(defect.name);
}

const PlantedDefect* FindPlanted(std::string_view op, std::string_view provider,
                                 std::string_view backend) {
  for (const PlantedDefect& d : PlantedDefects(backend)) {
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
}  // namespace assay::kernels
