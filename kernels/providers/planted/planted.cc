#include "kernels/providers/planted/planted.h"

#include <array>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "kernels/numerics/cat.h"
#include "kernels/providers/planted/factories.h"

namespace assay {
namespace {

const std::vector<DType> kAll = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kI8};
const std::vector<DType> kFloats = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16};
const std::vector<DType> kNarrow = {DType::kF32, DType::kF16, DType::kBF16};
const std::vector<DType> k16Bit = {DType::kF16, DType::kBF16};
const std::vector<DType> kAttention = {DType::kF64,  DType::kF32,     DType::kF16,
                                       DType::kBF16, DType::kE4M3FN,  DType::kE4M3FNUZ,
                                       DType::kE5M2, DType::kE5M2FNUZ};
const std::vector<DType> kWide = {DType::kF64, DType::kF32};
const std::vector<DType> kF32Only = {DType::kF32};

std::vector<PlantedDefect> MakeTable() {
  // op, name, dtypes, reason, pattern, repeats, description
  return {
      {"gemm", "correct", kAll, "", "", 1, "nothing is wrong: the control"},
      {"gemm", "slow", kAll, "", "", 1, "right, and twenty times slower than need be"},
      {"gemm", "wrong-tile", kAll, "bound", "", 1, "one 16x16 tile holds its neighbour's values"},
      {"gemm", "dropped-k", kAll, "bound", "", 1, "the last term of every sum is left out"},
      {"gemm", "transposed-b", kAll, "bound", "", 1, "B is read in the other order"},
      {"gemm", "zero-output", kAll, "bound", "", 1, "every element is 0"},
      {"gemm", "fp16-accumulate", kNarrow, "bound", "", 1, "sums are kept in fp16"},
      {"gemm", "truncating-output", k16Bit, "bias", "", 1, "results are cut, not rounded"},
      {"gemm", "nan", kFloats, "class", "", 1, "one element is NaN"},
      {"gemm", "unwritten-tail", kAll, "unwritten", "", 1, "the last 8 of a row are not written"},
      {"gemm", "past-the-end", kAll, "guard", "", 1, "64 bytes behind the output are written"},
      {"gemm", "before-the-start", kAll, "guard", "", 1, "64 bytes before the output are written"},
      {"gemm", "writes-padding", kAll, "guard", "", 1, "a row is written beyond its last column"},
      {"gemm", "reads-padding", kAll, "class", "", 1, "sums run over the leading dimension"},
      {"gemm", "changes-input", kAll, "guard", "", 1, "an element of A is overwritten"},
      {"gemm", "nondeterministic", kWide, "nondeterministic", "", 3,
       "every other launch sums in the other order"},
      {"gemm", "hang", kAll, "timeout", "", 1, "never returns"},
      {"gemm", "crash", kAll, "crash", "", 1, "writes through a null pointer: SIGSEGV"},
      {"gemm", "abort", kAll, "crash", "", 1, "calls abort: SIGABRT"},
      {"gemm", "exit", kAll, "crash", "", 1, "ends the process with status 3"},
      {"gemm", "alloc", kAll, "memory", "", 1, "takes and touches memory without end"},
      {"conv", "dropped-tap", kAll, "bound", "", 1, "the last tap of the filter is left out"},
      {"attention", "mask-off-by-one", kFloats, "bound", "", 1,
       "a causal query sees one key too many"},
      {"attention", "no-max", kNarrow, "class", "normal:12", 1,
       "exp of the scores themselves, which overflows"},
      {"attention", "missing-rescale", kFloats, "bound", "", 1,
       "what was summed is not rescaled when the running maximum grows"},
      {"attention", "wrong-axis", kAttention, "bound", "", 1,
       "the rescale factor of each query is applied to the column of its number"},
      {"softmax", "no-max", kNarrow, "class", "normal:100", 1,
       "exp of the inputs themselves, which overflows"},
      {"softmax", "sum-in-16-bits", kNarrow, "bound", "", 1, "the sum of a row is kept in fp16"},
      {"softmax", "sum-in-bf16", kNarrow, "bound", "", 1, "the sum of a row is kept in bf16"},
      {"softmax", "underflow-tail", kNarrow, "bound", "normal:4", 1,
       "exponentials are held in fp16, where small ones become 0"},
      {"layer_norm", "negative-variance", kNarrow, "class", "near-constant:9.98:0.1", 1,
       "variance as a difference of 16-bit numbers, which is negative in some rows"},
      {"layer_norm", "one-pass-variance", kF32Only, "bound", "near-constant:1000:1", 1,
       "variance as the difference of two large means"},
      {"copy", "stale", kAll, "unwritten", "", 1, "one cache line is not copied"},
  };
}

KernelFactory FactoryOf(std::string_view op) {
  constexpr std::array<std::pair<std::string_view, KernelFactory>, 6> kFactories = {{
      {"gemm", &planted::MakeGemm},
      {"conv", &planted::MakeConv},
      {"attention", &planted::MakeAttention},
      {"softmax", &planted::MakeSoftmax},
      {"layer_norm", &planted::MakeLayerNorm},
      {"copy", &planted::MakeCopy},
  }};
  for (const auto& [name, make] : kFactories) {
    if (name == op) return make;
  }
  return nullptr;
}

Problem ProblemOf(const PlantedDefect& d) {
  if (d.op == "conv") {
    ConvProblem p;
    p.channels = 4;
    p.filters = 8;
    p.input = {12, 12};
    p.kernel = {3, 3};
    p.padding = {1};
    return p;
  }
  if (d.op == "attention") {
    AttentionProblem p;
    p.heads = 2;
    p.seq = 64;
    p.dim = 32;
    p.causal = d.name == "mask-off-by-one";
    return p;
  }
  if (d.op == "softmax") return SoftmaxProblem{.rows = 16, .cols = 4096};
  if (d.op == "layer_norm") return LayerNormProblem{.rows = 64, .cols = 64};
  if (d.op == "copy") return CopyProblem{.count = 4096};
  GemmProblem p;
  p.m = p.n = 64;
  // Sums long enough for a 16-bit accumulator to show behind a 16-bit output.
  p.k = d.name == "fp16-accumulate" ? 1024 : 256;
  if (d.name == "writes-padding") p.ldc = p.n + 8;
  if (d.name == "reads-padding") {
    p.trans_b = true;  // so that both operands have their k along the row
    p.lda = p.ldb = p.k + 8;
  }
  return p;
}

}  // namespace

std::span<const PlantedDefect> PlantedDefects() {
  static const std::vector<PlantedDefect>* const table = new std::vector(MakeTable());
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

std::string_view ExpectedReason(const PlantedDefect& defect, DType dtype) {
  const bool of_values = defect.reason == "bound" || defect.reason == "class";
  return of_values && Info(dtype).is_integer ? "exact" : defect.reason;
}

Case PlantedCase(const PlantedDefect& defect, DType dtype) {
  Case c;
  c.problem = ProblemOf(defect);
  c.name = Cat("planted ", defect.op, " ", defect.name, " ", Name(dtype));
  c.dtype = dtype;
  c.provider = std::string(PlantedProvider(defect));
  c.pattern = std::string(defect.pattern);
  c.seed = 1;
  c.repeats = defect.repeats;
  if (defect.name == "underflow-tail") c.out_dtype = DType::kF32;
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
