#include "kernels/providers/planted/planted_gpu.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "kernels/providers/builtin/builtin_gpu.h"
#include "kernels/providers/planted/factories.h"
#include "kernels/providers/planted/planted.h"
#include "kernels/providers/planted/site.h"
#include "kernels/providers/planted/tampered_kernel.h"
#include "kernels/runtime/gpu/host.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace planted {
namespace {

// The errors of these defects are of a size that fp32 shows.
bool IsOfFp32(Defect defect) {
  constexpr Defect kDefects[] = {
      "fp16-output",     "lost-bits",   "gain-1e-4",      "gain-1e-5",       "wrong-lanes",
      "every-4th",       "every-128th", "stuck-bit",      "bit-flips",       "tf32-inputs",
      "two-bf16-inputs", "bit-pattern", "exp-scale-1e-6", "sample-variance", "wrong-eps",
      "scale-off-1e-5",  "rare-launch"};
  return std::find(std::begin(kDefects), std::end(kDefects), defect) != std::end(kDefects);
}

// What this case lacks for the defect to show; empty if it lacks nothing.
std::string_view MissingFor(Defect defect, const Case& c, const Plan& plan) {
  const Extents& e = plan.output.extents;
  const DType out = plan.output.dtype;
  const FormatInfo& format = Info(out);
  const Tiling tiles(e);
  const auto* const gemm = std::get_if<GemmProblem>(&c.problem);
  const auto* const norm = std::get_if<LayerNormProblem>(&c.problem);
  const auto* const attention = std::get_if<AttentionProblem>(&c.problem);
  const bool half = out == DType::kF16 || out == DType::kBF16;
  if (defect == "dropped-k" && (gemm == nullptr || gemm->k < 2)) {
    return "sums of two terms or more";
  }
  if (defect == "dropped-bias" && (gemm == nullptr || !gemm->bias)) return "a bias";
  if (defect == "dropped-mask" && (attention == nullptr || !attention->causal)) {
    return "a causal mask";
  }
  if (defect == "missing-eps" && norm == nullptr) return "an eps";
  if (defect == "sample-variance" && (norm == nullptr || norm->affine || norm->cols < 2)) {
    return "rows of two columns or more without weight and bias";
  }
  if (defect == "wrong-tile" && tiles.down * tiles.across < 2) {
    return "two whole tiles in its output";
  }
  if (defect == "transposed-tile" && (tiles.rows != tiles.cols || tiles.rows < 2)) {
    return "a square tile in its output";
  }
  if (defect == "swapped-rows" && e.rows < 2) return "two rows in its output";
  if (IsOfFp32(defect) && (c.dtype != DType::kF32 || out != DType::kF32)) {
    return "fp32 inputs and an fp32 output";
  }
  if (defect == "truncating-output" && !half) return "an fp16 or bf16 output";
  if ((defect == "nan" || defect == "nan-in-tail") && !format.has_nan) {
    return "an output format that has NaN";
  }
  if (defect == "inf" && !format.has_inf) return "an output format that has Inf";
  if (defect == "nan-in-tail" && e.cols % Tiling::kSide == 0) return "a partial tile of columns";
  if (defect == "writes-padding" && (e.ld <= e.cols || e.rows < 2)) {
    return "a leading dimension beyond the rows of its output";
  }
  return "";
}

// The different problem that the correct kernel solves instead.
Problem Misread(Defect defect, Problem problem) {
  constexpr double kOtherEps = 1e-3;       // in place of the usual 1e-5
  constexpr double kScaleError = 1.00001;  // the factor of the scale
  if (defect == "dropped-k") --std::get<GemmProblem>(problem).k;
  if (defect == "dropped-bias") std::get<GemmProblem>(problem).bias = false;
  if (defect == "dropped-mask") std::get<AttentionProblem>(problem).causal = false;
  if (defect == "missing-eps") std::get<LayerNormProblem>(problem).eps = 0;
  if (defect == "wrong-eps") std::get<LayerNormProblem>(problem).eps = kOtherEps;
  if (defect == "scale-off-1e-5") {
    auto& attention = std::get<AttentionProblem>(problem);
    attention.scale = attention.Scale(DType::kF64) * kScaleError;
  }
  return problem;
}

KernelFactory RightFactory(std::string_view op) {
  static const auto* const kernels = new std::vector(BuiltinGpuKernels(gpu::BackendName()));
  for (const KernelEntry& entry : *kernels) {
    if (entry.op == op) return entry.make;
  }
  return nullptr;
}

Made Make(const Case& c, const Plan& plan, Device& device) {
  const std::optional<Defect> defect = Defect::Find(DefectOf(c), kGpuAliases);
  const KernelFactory right_factory = RightFactory(OpName(c.problem));
  if (!defect || right_factory == nullptr) return NoSuchDefect(c);
  const DType out = plan.output.dtype;
  if (StorageBits(out) < 8 || StorageBits(c.dtype) < 8) {
    return absl::UnimplementedError(Cat(c.provider, " takes formats of a byte and more"));
  }
  if (const std::string_view missing = MissingFor(*defect, c, plan); !missing.empty()) {
    return absl::UnimplementedError(Cat(c.provider, " ", OpName(c.problem), " is wrong only with ",
                                        missing, ", and this problem has none"));
  }
  Case right_case = c;
  Plan right_plan = plan;
  right_case.problem = Misread(*defect, c.problem);
  if (*defect == "truncating-output") {
    right_case.out_dtype = right_plan.output.dtype = DType::kF32;
  }
  Made right = right_factory(right_case, right_plan, device);
  if (!right.ok()) return right.status();
  auto kernel = std::make_unique<TamperedKernel>(device, *std::move(right), *defect, Site(c),
                                                 plan.output.extents);
  if (absl::Status s = kernel->Prepare(plan); !s.ok()) return s;
  return kernel;
}

}  // namespace
}  // namespace planted

std::vector<KernelEntry> PlantedGpuKernels(std::string_view backend) {
  std::vector<KernelEntry> kernels;
  for (const PlantedDefect& d : PlantedDefects(backend)) {
    KernelEntry entry{.op = d.op,
                      .provider = PlantedProvider(d),
                      .backend = backend,
                      .dtypes = d.dtypes,
                      .make = &planted::Make,
                      .version = {},
                      .unavailable_reason = {}};
    if (d.ends_process && backend == "simt") {
      entry.unavailable_reason =
          "it ends or blocks its process, and the emulator is in that of the tests";
    }
    kernels.push_back(std::move(entry));
  }
  return kernels;
}

}  // namespace assay::kernels
