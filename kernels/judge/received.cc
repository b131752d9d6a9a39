#include "kernels/judge/received.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/judge/input_stats.h"
#include "kernels/judge/pieces.h"
#include "kernels/numerics/bound.h"
#include "kernels/numerics/convert.h"
#include "kernels/runtime/compare_rule.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

// Operands as a kernel sees them that takes subnormal numbers for 0.
class FlushedInputs final : public HostInputs {
 public:
  FlushedInputs(const Plan& plan, const HostInputs& kept) : plan_(plan), kept_(kept) {}

  void Read(int operand, std::int64_t begin, std::int64_t count, double* out) const override {
    kept_.Read(operand, begin, count, out);
    const double least = Info(plan_.inputs[static_cast<std::size_t>(operand)].dtype).min_normal;
    std::replace_if(
        out, out + count, [&](double v) { return std::abs(v) < least; }, 0.0);
  }

 private:
  const Plan& plan_;
  const HostInputs& kept_;
};

// Elements all over the output that are looked at beside those that are known to be wrong.
constexpr std::int64_t kSpread = 1024;

// Whether an output is within `bound` of the right value. Where one of them is not finite, it is as
// the right one rounded: the bound of an infinity is infinite.
bool Agrees(double actual, double right, double bound, DType output) {
  if (std::isfinite(actual) && std::isfinite(right)) return std::abs(actual - right) <= bound;
  const double rounded = Quantise(right, output);
  return std::isnan(actual) ? std::isnan(rounded) : actual == rounded;
}

// Whether every known mismatch is what a kernel gives that flushes, and every one of the
// elements spread over the output is that or within its own bound: a fault elsewhere that is
// larger than a thousandth of the output is not excused with the flushing.
absl::StatusOr<bool> FlushingExplains(const Case& c, const Op& op, const Plan& plan, Device& device,
                                      const TensorView& output, const HostInputs& host,
                                      const CompareResult& compare) {
  std::vector<std::int64_t> wrong;
  for (const ElementSample& s : compare.samples) wrong.push_back(s.index);
  if (compare.worst.index >= 0) wrong.push_back(compare.worst.index);
  if (plan.exact || wrong.empty()) return false;
  std::vector<std::int64_t> at = op.Samples(c, plan, c.seed.value_or(1), kSpread);
  at.insert(at.end(), wrong.begin(), wrong.end());
  std::sort(at.begin(), at.end());
  at.erase(std::unique(at.begin(), at.end()), at.end());
  std::vector<double> value(at.size()), allowance(at.size()), kept(at.size()), kept_by(at.size());
  op.ReferenceAt(c, plan, FlushedInputs(plan, host), at, value.data(), allowance.data());
  op.ReferenceAt(c, plan, host, at, kept.data(), kept_by.data());
  const OutputRounding flushed = OutputRoundingOf(plan.output.dtype, /*flushes_subnormals=*/true);
  const OutputRounding whole = OutputRoundingOf(plan.output.dtype, /*flushes_subnormals=*/false);
  std::vector<double> one;
  for (std::size_t i = 0; i < at.size(); ++i) {
    if (absl::Status s = ReadValues(device, output, at[i], 1, one); !s.ok()) return s;
    const double actual = one.front();
    const double bound = TBound(flushed, value[i], plan.proven_factor * allowance[i]);
    if (Agrees(actual, value[i], bound, plan.output.dtype)) continue;
    const bool known = std::find(wrong.begin(), wrong.end(), at[i]) != wrong.end();
    const double own = TBound(whole, kept[i], plan.proven_factor * kept_by[i]);
    if (known || !Agrees(actual, kept[i], own, plan.output.dtype)) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<ReceivedOperands> WeighOperands(const Case& c, const Op& op, const Plan& plan,
                                               Device& device, std::span<const TensorView> inputs,
                                               const TensorView& output, const HostInputs& host,
                                               const CompareResult& compare) {
  const absl::StatusOr<std::vector<OperandStats>> stats = MeasureInputs(device, plan, inputs);
  if (!stats.ok()) return stats.status();
  Case received = c;
  bool subnormal = false, finite = true;
  for (const OperandStats& s : *stats) {
    received.magnitudes.push_back(s.largest());
    subnormal = subnormal || s.subnormal_count > 0;
    finite = finite && s.nan_count == 0 && s.inf_count == 0;
  }
  const absl::StatusOr<Plan> weighed = op.MakePlan(received);
  if (!weighed.ok()) return weighed.status();
  ReceivedOperands weight{weighed->largest_intermediate, weighed->overflow_allowance, finite, false,
                          op.Undecided(c, *stats)};
  if (subnormal) {
    const absl::StatusOr<bool> explains =
        FlushingExplains(c, op, plan, device, output, host, compare);
    if (!explains.ok()) return explains.status();
    weight.flushing_explains = *explains;
  }
  return weight;
}

namespace {

// Doubts the first finding. A limit that the caller set, and outputs that differ, decide all the
// same, and come first then.
void Doubt(Judgement& judgement, std::string_view why) {
  std::vector<Finding>& findings = judgement.findings;
  Finding& first = findings.front();
  first.reason = Reason::kSuspect;
  first.blame = UsualBlame(Reason::kSuspect);
  Append(&first.message, why);
  if (!judgement.beyond_limit) {
    judgement.verdict = Verdict::kInconclusive;
    return;
  }
  const auto decides = std::find_if(findings.begin() + 1, findings.end(),
                                    [](const Finding& f) { return IsLimit(f.reason); });
  if (decides != findings.end()) std::rotate(findings.begin(), decides, decides + 1);
}

}  // namespace

void DoubtForNarrowSums(DType input, Judgement& judgement) {
  Doubt(judgement, Cat("; sums of 14 bits explain it, which some matrix units have for ",
                       Name(input), ": whether this kernel's may be so is not known"));
}

void DoubtForCutOffSums(DType input, Judgement& judgement) {
  Doubt(judgement, Cat("; sums that are cut off, not rounded, explain it, which matrix units have "
                       "for ",
                       Name(input), ": whether this kernel's are so is not known"));
}

absl::StatusOr<bool> TransformExplains(Device& device, const CompareRequest& request,
                                       bool in_double) {
  // An element may err by the largest allowance of all, if its own is so much smaller.
  constexpr double kSmaller = 0.125;
  if (request.allowance == nullptr || request.exact) return false;
  const internal::CompareRule rule(request);
  bool of_right_class = true;
  double largest = 0;  // of all allowances
  double largest_result = 0;
  double excess = 0, allowed = 0;  // the largest of the elements beyond their bound
  const absl::Status read =
      ForEachCompared(device, request, [&](std::uint64_t bits, double reference, double allowance) {
        const internal::Judgement judged = JudgeElement(rule, bits, reference, allowance);
        of_right_class = of_right_class && judged.class_ok;
        if (std::isfinite(allowance)) largest = std::max(largest, allowance);
        if (std::isfinite(reference)) {
          largest_result = std::max(largest_result, std::abs(reference));
        }
        if (!judged.pair || judged.error <= judged.bound_proven) return;
        excess = std::max(excess, judged.error - judged.bound_proven);
        allowed = std::max(allowed, allowance);
      });
  if (!read.ok()) return read;
  const double room = in_double ? kOfDouble * largest_result : request.proven_factor * largest;
  return of_right_class && excess <= room && allowed <= kSmaller * largest;
}

void DoubtForTransform(Judgement& judgement) {
  Doubt(judgement,
        "; a transform of the operands explains it, whose errors are relative to the neighbours of "
        "an element, which are far larger here and there: whether this kernel has one is not "
        "known");
}

void DoubtForFlushing(Judgement& judgement) {
  Doubt(judgement,
        "; 0 in place of subnormal products, sums or results explains it: whether this kernel may "
        "give that is not known");
}

}  // namespace assay::kernels
