#include "kernels/providers/planted/planted_gpu.h"

#include <algorithm>
#include <array>
#include <memory>
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

namespace assay {
namespace planted {
namespace {

constexpr std::array<std::pair<std::string_view, Defect>, 31> kDefects = {{
    {"correct", Defect::kCorrect},
    {"dropped-k", Defect::kDroppedK},
    {"dropped-bias", Defect::kDroppedBias},
    {"dropped-mask", Defect::kDroppedMask},
    {"missing-eps", Defect::kMissingEps},
    {"wrong-tile", Defect::kWrongTile},
    {"transposed-tile", Defect::kTransposedTile},
    {"swapped-rows", Defect::kSwappedRows},
    {"stale-buffer", Defect::kStaleBuffer},
    {"zero-output", Defect::kZeroOutput},
    {"constant-output", Defect::kConstantOutput},
    {"scale-off", Defect::kScaleOff},
    {"fp16-output", Defect::kFp16Output},
    {"truncating-output", Defect::kTruncatingOutput},
    {"bit-flip", Defect::kBitFlip},
    {"low-bit-flip", Defect::kLowBitFlip},
    {"lost-bits", Defect::kLostBits},
    {"nan", Defect::kNan},
    {"inf", Defect::kInf},
    {"nan-in-tail", Defect::kNanInTail},
    {"unwritten-tail", Defect::kUnwrittenTail},
    {"unwritten-tile", Defect::kUnwrittenTile},
    {"past-the-end", Defect::kPastTheEnd},
    {"before-the-start", Defect::kBeforeTheStart},
    {"writes-padding", Defect::kWritesPadding},
    {"changes-input", Defect::kChangesInput},
    {"nondeterministic", Defect::kNondeterministic},
    {"race", Defect::kRace},
    {"crash", Defect::kNullWrite},
    {"far-past-the-end", Defect::kFarPastTheEnd},
    {"hang", Defect::kHang},
}};

// What this case lacks for the defect to show; empty if it lacks nothing.
std::string_view MissingFor(Defect defect, const Case& c, const Plan& plan) {
  const Extents& e = plan.output.extents;
  const DType out = plan.output.dtype;
  const FormatInfo& format = Info(out);
  const Tiling tiles(e);
  const auto* const gemm = std::get_if<GemmProblem>(&c.problem);
  const auto* const attention = std::get_if<AttentionProblem>(&c.problem);
  const bool half = out == DType::kF16 || out == DType::kBF16;
  switch (defect) {
    case Defect::kDroppedK:
      return gemm != nullptr && gemm->k > 1 ? "" : "sums of two terms or more";
    case Defect::kDroppedBias:
      return gemm != nullptr && gemm->bias ? "" : "a bias";
    case Defect::kDroppedMask:
      return attention != nullptr && attention->causal ? "" : "a causal mask";
    case Defect::kMissingEps:
      return std::holds_alternative<LayerNormProblem>(c.problem) ? "" : "an eps";
    case Defect::kWrongTile:
      return tiles.down * tiles.across > 1 ? "" : "two whole tiles in its output";
    case Defect::kTransposedTile:
      return tiles.rows == tiles.cols && tiles.rows > 1 ? "" : "a square tile in its output";
    case Defect::kSwappedRows:
      return e.rows > 1 ? "" : "two rows in its output";
    case Defect::kFp16Output:
    case Defect::kLostBits:
      return out == DType::kF32 ? "" : "an fp32 output";
    case Defect::kTruncatingOutput:
      return half ? "" : "an fp16 or bf16 output";
    case Defect::kNan:
      return format.has_nan ? "" : "an output format that has NaN";
    case Defect::kInf:
      return format.has_inf ? "" : "an output format that has Inf";
    case Defect::kNanInTail:
      return !format.has_nan              ? "an output format that has NaN"
             : e.cols % Tiling::kSide > 0 ? ""
                                          : "a partial tile of columns";
    case Defect::kWritesPadding:
      return e.ld > e.cols && e.rows > 1 ? "" : "a leading dimension beyond the rows of its output";
    default:
      return "";
  }
}

// The different problem that the correct kernel solves instead.
Problem Misread(Defect defect, Problem problem) {
  if (defect == Defect::kDroppedK) --std::get<GemmProblem>(problem).k;
  if (defect == Defect::kDroppedBias) std::get<GemmProblem>(problem).bias = false;
  if (defect == Defect::kDroppedMask) std::get<AttentionProblem>(problem).causal = false;
  if (defect == Defect::kMissingEps) std::get<LayerNormProblem>(problem).eps = 0;
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
  const std::string_view wanted = DefectOf(c);
  const auto* const found = std::find_if(kDefects.begin(), kDefects.end(),
                                         [&](const auto& d) { return d.first == wanted; });
  const KernelFactory right_factory = RightFactory(OpName(c.problem));
  if (found == kDefects.end() || right_factory == nullptr) return NoSuchDefect(c);
  const Defect defect = found->second;
  const DType out = plan.output.dtype;
  if (StorageBits(out) < 8 || StorageBits(c.dtype) < 8) {
    return absl::UnimplementedError(Cat(c.provider, " takes formats of a byte and more"));
  }
  if (const std::string_view missing = MissingFor(defect, c, plan); !missing.empty()) {
    return absl::UnimplementedError(Cat(c.provider, " ", OpName(c.problem), " is wrong only with ",
                                        missing, ", and this problem has none"));
  }
  Case right_case = c;
  Plan right_plan = plan;
  right_case.problem = Misread(defect, c.problem);
  if (defect == Defect::kTruncatingOutput) {
    right_case.out_dtype = right_plan.output.dtype = DType::kF32;
  }
  Made right = right_factory(right_case, right_plan, device);
  if (!right.ok()) return right.status();
  auto kernel = std::make_unique<TamperedKernel>(device, *std::move(right), defect, Site(c),
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

}  // namespace assay
