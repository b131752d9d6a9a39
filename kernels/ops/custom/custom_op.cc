// custom as an operator: a reference of the caller's own says what is right.
//
// The bound of an element is that of a sum of K terms (kernels/numerics/bound.h):
//   E = min(8·√K·u, γ_(K+8))·S, proven: γ_(K+8)·S
// K is what the caller says (`accumulations`), and u the roundoff of fp32, or of fp64 for fp64
// inputs. S is the sum of the terms' magnitudes. The reference may give it for each element. If it
// does not, nothing is proven: S is then taken to be √K times the largest |reference|. That holds
// for terms of one sign, and for terms of random sign, whose sum is about S/√K. It does not hold if
// the terms of all elements cancel.
#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_format.h"

#include "kernels/numerics/convert.h"
#include "kernels/ops/common/planning.h"
#include "kernels/ops/criterion.h"
#include "kernels/ops/op.h"
#include "kernels/ops/own_reference.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/kernel_failure.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

const CustomProblem& ProblemOf(const Case& c) { return std::get<CustomProblem>(c.problem); }

Pattern DefaultPattern(DType dtype) {
  return Info(dtype).is_integer ? Pattern{PatternKind::kIntegers, -127, 127}
                                : Pattern{PatternKind::kNormal, 1, 0};
}

Extents ExtentsOf(const std::vector<std::int64_t>& dims) {
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < dims.size(); ++i) rows *= dims[i];
  return Extents::Dense(1, rows, dims.back());
}

Operand OperandOf(const CustomTensor& tensor, DType dtype) {
  return {tensor.name, dtype, ExtentsOf(tensor.extents), tensor.extents, DefaultPattern(dtype)};
}

DType FormatOf(const CustomTensor& tensor, const Case& c) {
  return tensor.dtype == DType::kUnspecified ? c.dtype : tensor.dtype;
}

// The format whose arithmetic a kernel is held to: integers that make floats are summed in fp32.
DType ArithmeticFormat(const Case& c) { return c.dtype == DType::kF64 ? DType::kF64 : DType::kF32; }

std::int64_t Terms(const Case& c) { return std::max<std::int64_t>(1, c.accumulations); }

class Custom final : public Op {
 public:
  std::string_view name() const override { return CustomProblem::kOp; }
  // Nothing is known of how its outputs are distributed.
  OpTraits traits() const override { return {.sparse_output = true, .own_reference = true}; }

  std::span<const DType> InputFormats() const override {
    static constexpr DType kFormats[] = {
        DType::kF64,      DType::kF32,  DType::kTF32,     DType::kF16, DType::kBF16, DType::kE4M3FN,
        DType::kE4M3FNUZ, DType::kE5M2, DType::kE5M2FNUZ, DType::kI8,  DType::kI32};
    return kFormats;
  }

  std::vector<DType> OutputFormats(const Case& c) const override {
    std::vector<DType> formats = {DType::kF32,      DType::kF16,      DType::kBF16,
                                  DType::kE4M3FN,   DType::kE4M3FNUZ, DType::kE5M2,
                                  DType::kE5M2FNUZ, DType::kI8,       DType::kI32};
    if (c.dtype == DType::kF64) formats.insert(formats.begin(), DType::kF64);
    return formats;
  }

  int DataOperands(const Problem& problem) const override {
    return static_cast<int>(std::get<CustomProblem>(problem).input.size());
  }

  void CheckData(const Case& c, std::vector<FieldError>& errors) const override {
    const std::span<const DType> formats = InputFormats();
    for (const CustomTensor& tensor : ProblemOf(c).Inputs()) {
      const DType format = FormatOf(tensor, c);
      if (format == DType::kUnspecified || tensor.dtype == DType::kUnspecified) continue;
      if (std::find(formats.begin(), formats.end(), format) == formats.end()) {
        errors.push_back(
            {"custom.input", Cat("\"", tensor.name, "\" cannot have the format ", Name(format))});
      } else if (format == DType::kF64 && c.dtype != DType::kF64) {
        errors.push_back({"custom.input", Cat("\"", tensor.name,
                                              "\" is fp64, and so must be dtype: kernels are "
                                              "held to the arithmetic of dtype")});
      }
    }
    const Criterion criterion = GatingCriterion(c);
    if (c.accumulations != 0 ||
        (criterion != Criterion::kBound && criterion != Criterion::kDerived)) {
      return;
    }
    if (c.dtype != DType::kUnspecified && Info(OutputType(c)).is_integer) return;
    errors.push_back({"accumulations",
                      "is required, at least 1: how many terms are summed for an element of "
                      "the output. The error bound follows from it. Or give a bound of your "
                      "own: atol and rtol"});
  }

  void CheckPatterns(const Case& c, std::vector<FieldError>& errors) const override {
    if (c.pattern.empty() || !ProblemOf(c).Check().empty()) return;
    std::string error;
    const auto patterns = ParsePatterns(c.pattern, &error);
    if (!patterns) return;  // said elsewhere
    const std::vector<CustomTensor> inputs = ProblemOf(c).Inputs();
    if (patterns->size() != 1 && patterns->size() != inputs.size()) return;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].dtype == DType::kUnspecified) continue;
      const Pattern& pattern = patterns->size() == 1 ? patterns->front() : (*patterns)[i];
      if (std::string fault = FormatFault(pattern, inputs[i].dtype); !fault.empty()) {
        errors.push_back({"pattern", Cat(inputs[i].name, ": ", fault)});
      }
    }
  }

  std::vector<std::string_view> OutputAxes(const Case&, const Plan& plan) const override {
    static constexpr std::string_view kNames[] = {"axis 0", "axis 1", "axis 2", "axis 3",
                                                  "axis 4", "axis 5", "axis 6", "axis 7"};
    if (plan.output.dims.size() == 1) return {"element"};
    return {std::begin(kNames), std::begin(kNames) + plan.output.dims.size()};
  }

  absl::StatusOr<Plan> MakePlan(const Case& c) const override {
    const CustomProblem& problem = ProblemOf(c);
    Plan plan;
    for (const CustomTensor& tensor : problem.Inputs()) {
      plan.inputs.push_back(OperandOf(tensor, FormatOf(tensor, c)));
    }
    plan.output = OperandOf(problem.Output(), OutputType(c));
    plan.work_known = false;
    plan.exact = Info(plan.output.dtype).is_integer;
    plan.elementwise = plan.exact;
    if (absl::Status s = ApplyPatterns(c, 0, plan); !s.ok()) return s;
    // The bound for likely errors is that of sums whose terms have random signs. What the terms of
    // this operator are, nobody knows.
    plan.zero_mean_random = false;
    if (!plan.exact) {
      const DType format = ArithmeticFormat(c);
      plan.accumulations = Terms(c);
      plan.accumulator_roundoff = AccumulatorRoundoff(format);
      plan.accumulator = AccumulatorOf(format);
      plan.proven_factor = ProvenOverProbable(plan.accumulations, plan.accumulator);
      plan.vacuous = ProbableFactor(plan.accumulations, plan.accumulator) > kVacuousFactor;
    }
    // A sum of terms of the second degree in each input, which is as large as most operators have.
    double largest = static_cast<double>(Terms(c));
    for (std::size_t i = 0; i < plan.inputs.size(); ++i) {
      const double of_input = LargestInput(plan, static_cast<int>(i), 1);
      if (!(of_input > 0)) largest = 0;
      largest *= std::max(1.0, of_input) * std::max(1.0, of_input);
    }
    plan.largest_intermediate = largest;
    plan.bytes = BytesMoved(plan);
    return plan;
  }

  absl::Status ReferenceHere(const Case& c, const Plan& plan, std::span<const TensorView> inputs,
                             ReferenceBuffers& out) const override {
    if (c.own_reference == nullptr) {
      return absl::UnimplementedError(
          "an operator of your own is judged on a CPU, by a daemon that takes users' kernels");
    }
    const auto count = static_cast<std::size_t>(plan.output.extents.count());
    std::vector<double> unused;
    if (out.allowance == nullptr) unused.resize(count);
    double* const magnitude = out.allowance == nullptr ? unused.data() : out.allowance;
    const absl::StatusOr<bool> gave =
        c.own_reference->Compute(c, plan, inputs, out.value, magnitude);
    if (!gave.ok()) return gave.status();
    if (out.allowance == nullptr) return absl::OkStatus();
    if (absl::Status s = CheckWidth(c, plan); !s.ok()) return s;
    for (std::size_t i = 0; i < count; ++i) {
      out.allowance[i] = Allowance(c, plan, out.value[i], magnitude[i]);
    }
    return absl::OkStatus();
  }

  void ReferenceAt(const Case& c, const Plan& plan, const HostInputs& inputs,
                   std::span<const std::int64_t> indices, double* value,
                   double* allowance) const override {
    std::vector<double> magnitude(indices.size());
    if (c.own_reference == nullptr) {
      std::fill_n(value, indices.size(), std::numeric_limits<double>::quiet_NaN());
      return;
    }
    c.own_reference->At(plan, inputs, indices, value, magnitude.data());
    if (plan.exact || allowance == nullptr) return;
    for (std::size_t i = 0; i < indices.size(); ++i) {
      allowance[i] = Allowance(c, plan, value[i], magnitude[i]);
    }
  }

  absl::Status CheckReference(const Case&, const Plan& plan, Device& device,
                              const TensorView& output,
                              const ReferenceBuffers& reference) const override {
    // If the inputs hold infinities, NaN may be right.
    for (std::size_t i = 0; i < plan.inputs.size(); ++i) {
      if (!(LargestInput(plan, static_cast<int>(i), 1) > 0)) return absl::OkStatus();
    }
    constexpr std::int64_t kPiece = std::int64_t{1} << 16;
    const std::int64_t count = output.count();
    std::vector<unsigned char> raw;
    for (std::int64_t begin = 0; begin < count; begin += kPiece) {
      const std::int64_t n = std::min(kPiece, count - begin);
      raw.resize(static_cast<std::size_t>(StorageBytes(output.dtype, n)) + sizeof(std::uint64_t));
      if (absl::Status s = device.ToHost(output, begin, n, raw.data()); !s.ok()) return s;
      for (std::int64_t i = 0; i < n; ++i) {
        const double got = LoadDouble(output.dtype, raw.data(), i);
        if (!std::isnan(reference.value[begin + i]) || std::isnan(got)) continue;
        return FailedKernel({.error = KernelError::kNotNumber, .reference = true},
                            Cat("the reference is NaN at element ", begin + i,
                                " of the output, where the kernel gives ", got,
                                ", and no input is infinite or NaN: one of the "
                                "two is wrong"));
      }
    }
    return absl::OkStatus();
  }

  std::string BoundRestsOn(const Case& c) const override {
    if (c.own_reference == nullptr || c.own_reference->gave_magnitudes()) return "";
    return "; it holds if the terms of each sum together are at most √K times the largest "
           "reference: if they cancel, let the reference give their magnitudes";
  }

  std::string ProvesLittle(const Case& c, const Plan& plan) const override {
    constexpr double kMost = 0.5;
    const OwnReference* const reference = c.own_reference;
    if (reference == nullptr || plan.exact) return "";
    const double share =
        reference->ShareWithin([&](double magnitude) { return Allowance(c, plan, 0, magnitude); });
    if (share <= kMost) return "";
    return absl::StrFormat(
        "the bound allows %.0f %% of the results to be 0: %s", 100 * share,
        reference->gave_magnitudes()
            ? "the terms that the reference tells of are far larger than their sums"
            : "let the reference give the magnitudes of its terms, or judge by atol and rtol");
  }

  std::vector<std::pair<std::string, double>> Scalars(const Case& c) const override {
    return ProblemOf(c).Scalars();
  }

  // What the result cannot rest on, so that it says so.
  absl::StatusOr<std::vector<Identity>> CheckIdentitiesHere(
      const Case& c, const Plan& plan, std::span<const TensorView>, const TensorView&,
      const ReferenceBuffers&) const override {
    std::vector<Identity> notes;
    notes.push_back({.name = "exact-cases",
                     .message = "an operator of your own has no exact cases: the result rests on "
                                "its error bound and its reference"});
    if (c.own_reference != nullptr && !c.own_reference->gave_magnitudes() && !plan.exact) {
      const double unseen = WithoutMagnitudes(c, plan);
      notes.push_back(
          {.name = "magnitudes",
           .message = Cat("the reference gives no magnitudes: errors of single elements up to ",
                          static_cast<float>(unseen), " are not seen, in results up to ",
                          static_cast<float>(c.own_reference->largest()))});
    }
    return notes;
  }

 private:
  // Without magnitudes a long sum has no bound that says anything.
  static absl::Status CheckWidth(const Case& c, const Plan& plan) {
    if (c.own_reference->gave_magnitudes() || GatingCriterion(c) != Criterion::kBound) {
      return absl::OkStatus();
    }
    const double share = ProbableFactor(plan.accumulations, plan.accumulator) *
                         std::sqrt(static_cast<double>(plan.accumulations));
    if (share <= kVacuousFactor) return absl::OkStatus();
    return FailedKernel(
        {.error = KernelError::kUnusable, .reference = true},
        Cat("the reference gives no magnitudes, and nothing follows from ", plan.accumulations,
            " accumulations alone: let it write the sum of |terms| of each "
            "element to assay_launch.magnitude, or judge by atol and rtol"));
  }

  // What the bound allows an element if the reference says nothing of its terms.
  static double WithoutMagnitudes(const Case& c, const Plan& plan) {
    return Allowance(c, plan, 0, std::numeric_limits<double>::quiet_NaN());
  }

  static double Allowance(const Case& c, const Plan& plan, double value, double magnitude) {
    const ProductBound bound = MakeProductBound(ArithmeticFormat(c), plan.accumulations,
                                                plan.flushes_subnormals, plan.accumulator);
    if (!std::isfinite(value)) return 0;
    if (!c.own_reference->gave_magnitudes()) {
      magnitude = std::sqrt(static_cast<double>(plan.accumulations)) * c.own_reference->largest();
    }
    return std::isfinite(magnitude) ? bound.Allowance(magnitude) : 0;
  }
};

}  // namespace

const Op& CustomOp() {
  static const Custom op;
  return op;
}

}  // namespace assay::kernels
