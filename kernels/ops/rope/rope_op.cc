// rope as an operator: operands, work and bounds of a case, and its references.
#include <algorithm>
#include <utility>

#include "kernels/numerics/unit_places.h"
#include "kernels/ops/common/planning.h"
#include "kernels/ops/common/probe_data.h"
#include "kernels/ops/common/sampling.h"
#include "kernels/ops/diagnostics.h"
#include "kernels/ops/op.h"
#include "kernels/ops/rope/rope_reference.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

// fp32 holds every whole number up to here, and no longer the angle's fraction.
constexpr std::int64_t kMostFp32Positions = std::int64_t{1} << 24;
// Positions of the one-hot case.
constexpr std::int64_t kMostProbedPositions = 512;
constexpr std::int64_t kMostProbedStart = 64;

// A pair whose allowance is above this share of its size shows little.
constexpr double kVacuousError = 0.5;

// The most pairs of a head that LargestError looks at: planning a large head must not take longer.
// Between one and the next, the frequency changes by less than a fiftieth.
constexpr std::int64_t kMostPairs = 4096;

// The largest share of their size that a pair's elements may err by: one of the last position.
double LargestError(const RopeProblem& p, const RopeTerms& terms) {
  const auto last = static_cast<double>(p.start + p.seq - 1);
  const std::int64_t step = (p.dim / 2 + kMostPairs - 1) / kMostPairs;
  double most = 0;
  for (std::int64_t pair = 0; pair < p.dim / 2; pair += step) {
    most = std::max(most, RopeError(terms, pair, last * RopeFrequency(terms, pair)));
  }
  return most;
}

const RopeProblem& ProblemOf(const Case& c) { return std::get<RopeProblem>(c.problem); }

class Rope final : public Op {
 public:
  std::string_view name() const override { return RopeProblem::kOp; }
  OpTraits traits() const override { return {.intermediates = true}; }
  const Diagnostics& diagnostics() const override { return RopeDiagnostics(); }

  void CheckData(const Case& c, std::vector<FieldError>& errors) const override {
    const RopeProblem& p = ProblemOf(c);
    if (c.dtype == DType::kF64 || p.start + p.seq - 1 <= kMostFp32Positions) return;
    errors.push_back({"rope.start", Cat("makes positions up to ", p.start + p.seq - 1,
                                        "; fp32 holds whole numbers up to ", kMostFp32Positions)});
  }

  std::vector<std::string_view> OutputAxes(const Case&, const Plan&) const override {
    return {"batch", "position", "head", "column"};
  }

  absl::StatusOr<Plan> MakePlan(const Case& c) const override {
    const RopeProblem& p = ProblemOf(c);
    Plan plan = MakeRowPlan(c, p.rows(), p.dim, {p.batch, p.seq, p.heads, p.dim});
    plan.flops = 3.0 * static_cast<double>(plan.output.extents.count());
    plan.accumulations = 2;
    plan.exact = c.exact;
    if (absl::Status s = ApplyPatterns(c, 1, plan); !s.ok()) return s;
    if (c.significand >= 0) plan.inputs[0].pattern = kEveryFiniteNumber;
    plan.largest_intermediate = 2 * LargestInput(plan, 0, 1);
    plan.bytes = BytesMoved(plan);
    plan.vacuous = LargestError(p, MakeRopeTerms(p, c.dtype, plan)) > kVacuousError;
    return plan;
  }

  absl::Status ReferenceHere(const Case& c, const Plan& plan, std::span<const TensorView> inputs,
                             ReferenceBuffers& out) const override {
    const RopeProblem& p = ProblemOf(c);
    RopeReferenceCpu(p, MakeRopeTerms(p, c.dtype, plan), inputs[0], out.value, out.allowance);
    return absl::OkStatus();
  }

  std::vector<std::int64_t> Samples(const Case& c, const Plan&, std::uint64_t seed,
                                    std::int64_t at_least) const override {
    const RopeProblem& p = ProblemOf(c);
    return SpreadRows(p.rows(), p.dim, at_least, seed);
  }

  void ReferenceAt(const Case& c, const Plan& plan, const HostInputs& inputs,
                   std::span<const std::int64_t> indices, double* value,
                   double* allowance) const override {
    const RopeProblem& p = ProblemOf(c);
    RopeReferenceAt(p, MakeRopeTerms(p, c.dtype, plan), inputs, indices, value, allowance);
  }

  std::string Undecided(const Case&, std::span<const OperandStats> stats) const override {
    const bool finite =
        std::all_of(stats.begin(), stats.end(), [](const auto& s) { return s.inf_count == 0; });
    return finite ? "" : "infinities, which a cosine or sine near 0 multiplies";
  }

  // position-zero: the angle is 0, so that the output is the input to the bit. The numbers go
  // beyond what fp16 holds and what a kernel may clip at, if the formats do. In fp16 they are near
  // 0, and of an 8-bit format they are all that it has. one-hot: rows with a single number that is
  // not 0, whose column moves on from row to row. Of an output row, two elements are that number's
  // cosine and sine, and all others are exactly 0: every pair shows whether it is the right one,
  // with the right sign, at the right angle. Positions are small, so that the bound is. The number
  // is 1, or below fp16's smallest if the formats hold one. In fp16 it is large. nan: each row has
  // a NaN, so that its pair is NaN, and no other element of the output is.
  std::vector<KernelProbe> Probes(const Case& c, const Plan& plan) const override {
    RopeProblem still = ProblemOf(c);
    still.seq = 1;
    still.start = 0;
    RopeProblem few = ProblemOf(c);
    few.batch = 1;
    few.start = std::min(few.start, kMostProbedStart);
    few.seq = std::clamp<std::int64_t>((2 * few.dim + few.heads - 1) / few.heads, 2,
                                       kMostProbedPositions);
    Pattern zero = {PatternKind::kIntegers, -8, 8}, one = {PatternKind::kOneHot, 1, 0};
    const bool beyond = ReachesBeyondHalf(c.dtype) && ReachesBeyondHalf(OutputType(c));
    if (beyond && !HoldsInHalf(c, plan)) {
      zero = {PatternKind::kUniform, -LargeProduct(c.dtype), LargeProduct(c.dtype)};
      one.a = kBelowHalf;
    } else if (c.dtype == DType::kF16) {
      zero = NearZero(c.dtype);
      one.a = LargestPowerOfTwo(c.dtype);
    }
    KernelProbe first{"position-zero", ProbeCase(c, still, ToString(zero), /*exact=*/true)};
    // Some of an 8-bit format's numbers are subnormal in fp16.
    if (IsEightBitFloat(c.dtype) && !c.flushes_subnormals) first.data.significand = 0;
    std::vector<KernelProbe> probes = {std::move(first)};
    AddRopeNanProbe(c, plan, IsOurs(c) ? few : ProblemOf(c), probes);
    probes.push_back({"one-hot", ProbeCase(c, few, ToString(one), /*exact=*/false)});
    return probes;
  }

 private:
  static void AddRopeNanProbe(const Case& c, const Plan& plan, RopeProblem p,
                              std::vector<KernelProbe>& probes) {
    if (IsOurs(c)) {
      p.start = std::max<std::int64_t>(p.start, 1);  // at position 0 a pair may be copied
      p.seq = 2;
    }
    // A kernel of a user's may multiply by a matrix of rotations, whose zeros spread a NaN.
    AddNanProbe(c, plan, p, std::string(IsOurs(c) ? kNanInEachRow : kAllNan), probes);
  }
};

}  // namespace

const Op& RopeOp() {
  static const Rope op;
  return op;
}

}  // namespace assay::kernels
