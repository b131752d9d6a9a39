// NaN and infinities: where finite inputs gave them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_format.h"
#include "kernels/numerics/cat.h"
#include "kernels/validate/anatomy_words.h"
#include "kernels/validate/diagnose_rules.h"
#include "kernels/validate/verdict.h"

namespace assay::internal {
namespace {

// exp(x) is 0 in fp32 below this.
constexpr double kExpVanishes = -103.97;
// A mean so much larger than the spread leaves fp32 fewer than half of its digits for
// E[x²] − E[x]².
constexpr double kCancelling = 0x1p12;

// Unexpected ones that the kernel made.
std::int64_t Unexpected(const Symptoms& s) {
  const CompareResult& r = *s.outcome.compare;
  return r.unexpected_nan + r.unexpected_inf;
}

bool MadeByTheKernel(const Symptoms& s) { return Unexpected(s) > 0 && InputsFinite(s); }

double LargestMagnitudeOf(const OperandStats& o) {
  return std::max(std::abs(o.min.value_or(0)), std::abs(o.max.value_or(0)));
}

const OperandStats* InputNamed(const Symptoms& s, std::string_view name) {
  for (const OperandStats& o : s.outcome.inputs) {
    if (o.name == name) return &o;
  }
  return nullptr;
}

std::string Got(const Symptoms& s) {
  const CompareResult& r = *s.outcome.compare;
  if (r.unexpected_nan > 0 && r.unexpected_inf > 0) return "NaN and Inf";
  return r.unexpected_nan > 0 ? "NaN" : "Inf";
}

// The largest finite sum of products there can be.
double LargestSum(const Symptoms& s) {
  const OperandStats* a = InputNamed(s, "a");
  const OperandStats* b = InputNamed(s, "b");
  if (a == nullptr) a = InputNamed(s, "x");
  if (b == nullptr) b = InputNamed(s, "w");
  if (a == nullptr || b == nullptr) return std::numeric_limits<double>::infinity();
  return static_cast<double>(s.plan.accumulations) * LargestMagnitudeOf(*a) *
         LargestMagnitudeOf(*b);
}

// The largest logit of a dequant_softmax, about: four deviations of sums of products whose
// signs are independent.
double LargestLogit(const Symptoms& s) {
  double logit = 4 * std::sqrt(static_cast<double>(s.plan.accumulations));
  for (const OperandStats& o : s.outcome.inputs) logit *= o.rms.value_or(0);
  return logit;
}

}  // namespace

std::optional<Reading> MaskedRows(const Symptoms& s) {
  if (!IsOp(s, "attention") || s.outcome.compare->unexpected_nan == 0) return std::nullopt;
  const auto& p = std::get<AttentionProblem>(s.c.problem);
  const bool may_be_empty = p.masked() || (p.causal && p.KvSeq() < p.seq);
  const auto& samples = s.outcome.compare->samples;
  const bool zeros =
      !samples.empty() && std::all_of(samples.begin(), samples.end(), [](const ElementSample& e) {
        return e.expected == 0.0 && std::isnan(e.actual);
      });
  if (!may_be_empty || !zeros || p.masked_rows != "zero") return std::nullopt;
  return Reading{"rows in which every key is masked come out as NaN (0/0), and 0 is asked for",
                 "give such rows 0, or say --masked-rows nan where NaN is the policy"};
}

std::optional<Reading> MayOverflow(const Symptoms& s) {
  const DType wide = s.c.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  const double limit = Info(wide).max_finite;
  // Where it may, the verdict on it is no failure.
  if (s.outcome.verdict != Verdict::kInconclusive || !MadeByTheKernel(s) ||
      !(s.plan.largest_intermediate > limit)) {
    return std::nullopt;
  }
  return Reading{
      absl::StrFormat("overflow: with inputs this large a sum or product inside may reach %.2g, "
                      "and %s ends at %.2g: a right kernel may give %s, too",
                      s.plan.largest_intermediate, std::string(Name(wide)), limit, Got(s)),
      "judge the kernel on smaller inputs; these tell nothing of it"};
}

std::optional<Reading> ExpOverflows(const Symptoms& s) {
  const bool softmax = IsOp(s, "softmax"), dequantised = IsOp(s, "dequant_softmax");
  if (!(softmax || dequantised || IsOp(s, "attention")) || !MadeByTheKernel(s)) {
    return std::nullopt;
  }
  double largest = 0;
  if (softmax) {
    largest = s.outcome.inputs.front().max.value_or(0);
    if (largest < kExpVanishes) {
      return Reading{
          absl::StrFormat("exp underflows: the largest input is %.4g, exp is 0 below %.0f in fp32, "
                          "and the row's sum is 0: the row's maximum is not subtracted",
                          largest, kExpVanishes),
          "subtract the row's maximum before exp, and sum in FP32"};
    }
  } else {
    largest = dequantised ? LargestLogit(s) : s.outcome.max_abs_score.value_or(0);
  }
  // Of the format that exp is taken in: fp32, unless it overflowed already in fp16.
  const DType wide = s.c.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  for (const DType format : {wide, DType::kF16}) {
    const double limit = std::log(Info(format).max_finite);
    if (largest <= limit || (wide == DType::kF64 && format != wide)) continue;
    return Reading{
        absl::StrFormat("exp overflows: the largest %s %.4g, and exp is Inf beyond %.1f in %s: "
                        "the row's maximum is not subtracted",
                        softmax       ? "input is"
                        : dequantised ? "logit is about"
                                      : "score is",
                        largest, limit, std::string(Name(format))),
        format == DType::kF16
            ? "subtract the row's maximum before exp, and take exp and the sum in FP32"
            : "subtract the row's maximum before exp; keep the sum in FP32"};
  }
  return std::nullopt;
}

std::optional<Reading> VarianceCancels(const Symptoms& s) {
  if (!IsOp(s, "layer_norm") || !MadeByTheKernel(s)) return std::nullopt;
  const OperandStats& x = s.outcome.inputs.front();
  if (!x.mean || !x.rms) return std::nullopt;
  const double squared_mean = *x.mean * *x.mean;
  const double variance = std::max(0.0, *x.rms * *x.rms - squared_mean);
  const std::string rows =
      s.anatomy != nullptr && !s.anatomy->axes.back().selective() ? " in whole rows" : "";
  if (squared_mean > kCancelling * variance) {
    const std::string times =
        variance > 0 ? absl::StrFormat("%.2g times the variance", squared_mean / variance)
                     : "everything, for the rows are constant";
    return Reading{Cat(Got(s), rows, " from finite inputs whose squared mean is ", times,
                       ": the variance came out as 0 or less"),
                   "sum (x - mean)² in a second pass or by Welford's update, in FP32, and add eps "
                   "before the reciprocal square root"};
  }
  if (s.anatomy != nullptr && !s.anatomy->axes.back().selective()) {
    return Reading{Cat(Got(s),
                       " in whole rows from finite inputs: the reciprocal square root of a "
                       "variance of 0 or less"),
                   "add eps in FP32 before the reciprocal square root, and never subtract two "
                   "sums of squares"};
  }
  return std::nullopt;
}

std::optional<Reading> SumOverflows(const Symptoms& s) {
  const CompareResult& r = *s.outcome.compare;
  if (!(IsOp(s, "gemm") || IsOp(s, "conv")) || !MadeByTheKernel(s) || r.unexpected_inf == 0) {
    return std::nullopt;
  }
  const double fp16 = Info(DType::kF16).max_finite;
  const double sum = LargestSum(s);
  if (s.c.dtype == DType::kF64 || !(sum > fp16 && sum < Info(DType::kF32).max_finite)) {
    return std::nullopt;
  }
  // The reference is finite there; only a narrower accumulator goes beyond.
  return Reading{absl::StrFormat("%s Inf though every result is finite: a sum passes %.0f, the "
                                 "largest fp16, on its way: the accumulator is not FP32",
                                 Grouped(r.unexpected_inf), fp16),
                 "accumulate in FP32; scale before the sum, not behind it"};
}

std::optional<Reading> ReadsOutside(const Symptoms& s) {
  if (!MadeByTheKernel(s)) return std::nullopt;
  // A single one is more often a stray write.
  if (Unexpected(s) == 1) return std::nullopt;
  // That nothing on the way can overflow, or become 0 and be divided by.
  const double largest = LargestMagnitudeOf(s.outcome.inputs.front());
  const double exp_limit = std::log(Info(DType::kF16).max_finite);
  if (IsOp(s, "gemm") || IsOp(s, "conv")) {
    if (!(LargestSum(s) < Info(DType::kF16).max_finite)) return std::nullopt;
  } else if (IsOp(s, "attention")) {
    if (!(s.outcome.max_abs_score.value_or(exp_limit) < exp_limit)) return std::nullopt;
  } else if (IsOp(s, "softmax")) {
    if (!(largest < exp_limit)) return std::nullopt;
  } else if (!IsOp(s, "copy")) {
    return std::nullopt;
  }
  bool padded = false;
  for (const Operand& o : s.plan.inputs) padded = padded || o.extents.ld > o.extents.cols;
  std::string next =
      "look at the bounds of the loads at the operands' ends, and at buffers that are used before "
      "they are set";
  if (IsOp(s, "attention")) {
    next =
        "look at the last tile of keys: what lies behind kv_seq must not be loaded, for a weight "
        "of 0 times NaN is NaN";
  }
  if (padded) next = "look at loads along a row: up to the extent, not up to the leading dimension";
  return Reading{Cat(Got(s), " that no arithmetic on these inputs makes (none is above ",
                     absl::StrFormat("%.3g", largest),
                     "): memory outside the operands was read, or never written",
                     padded ? "; padding between rows reads as NaN" : "; guard bands read as NaN"),
                 std::move(next)};
}

std::optional<Reading> NonFinite(const Symptoms& s) {
  if (!MadeByTheKernel(s)) return std::nullopt;
  return Reading{Cat(Got(s), " made by the kernel of finite inputs",
                     s.anatomy != nullptr ? Cat(", ", s.anatomy->words) : ""),
                 "look at the first of them: a division by 0, the root of a negative number, or "
                 "memory that was never written"};
}

}  // namespace assay::internal
