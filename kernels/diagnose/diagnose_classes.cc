// NaN and infinities: where finite inputs gave them.
#include <utility>

#include "absl/strings/str_format.h"
#include "kernels/diagnose/anatomy_words.h"
#include "kernels/diagnose/diagnose_rules.h"
#include "kernels/numerics/grouped.h"
#include "kernels/ops/common/diagnosing.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels::internal {
namespace {

// Unexpected ones that the kernel made.
std::int64_t Unexpected(const Symptoms& s) {
  const CompareResult& r = *s.outcome.compare;
  return r.unexpected_nan + r.unexpected_inf;
}

bool MadeByTheKernel(const Symptoms& s) { return Unexpected(s) > 0 && InputsFinite(s); }

}  // namespace

std::optional<Reading> OfOperator(const Symptoms& s) {
  return OperatorsOwn(s).NonFinite(SignsOf(s));
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
                      s.plan.largest_intermediate, std::string(Name(wide)), limit,
                      UnexpectedKinds(*s.outcome.compare)),
      "judge the kernel on smaller inputs; these tell nothing of it"};
}

std::optional<Reading> ReadsOutside(const Symptoms& s) {
  if (!MadeByTheKernel(s)) return std::nullopt;
  // A single one is more often a stray write.
  if (Unexpected(s) == 1) return std::nullopt;
  if (!OperatorsOwn(s).StaysFinite(SignsOf(s))) return std::nullopt;
  bool padded = false;
  for (const Operand& o : s.plan.inputs) padded = padded || o.extents.ld > o.extents.cols;
  std::string next =
      "look at the bounds of the loads at the operands' ends, and at buffers that are used before "
      "they are set";
  if (const std::string_view loads = OperatorsOwn(s).OutsideLoads(); !loads.empty()) next = loads;
  if (padded) next = "look at loads along a row: up to the extent, not up to the leading dimension";
  return Reading{Cat(UnexpectedKinds(*s.outcome.compare),
                     " that no arithmetic on these inputs makes (none is above ",
                     absl::StrFormat("%.3g", s.outcome.inputs.front().largest()),
                     "): memory outside the operands was read, or never written",
                     padded ? "; padding between rows reads as NaN" : "; guard bands read as NaN"),
                 std::move(next)};
}

std::optional<Reading> NanIsLost(const Symptoms& s) {
  const CompareResult& r = *s.outcome.compare;
  // Only where all else is right.
  if (r.reference_nan_count == 0 || r.nan_count > 0 || r.unexpected_inf > 0 ||
      r.beyond_probable > 0 || r.class_mismatches != r.reference_nan_count) {
    return std::nullopt;
  }
  return Reading{Cat(Grouped(r.reference_nan_count), " NaN of the right result come out as numbers",
                     r.reference_nan_count < r.count
                         ? ", and all else is right: something replaces NaN"
                         : ", which are all of it: something replaces NaN, or nothing is computed"),
                 "look for a max, min, clip or comparison of the inputs or the result (each is "
                 "false for NaN), for a function that replaces NaN, and for fast-math"};
}

std::optional<Reading> NonFinite(const Symptoms& s) {
  if (!MadeByTheKernel(s)) return std::nullopt;
  return Reading{Cat(UnexpectedKinds(*s.outcome.compare), " made by the kernel of finite inputs",
                     s.anatomy != nullptr ? Cat(", ", s.anatomy->words) : ""),
                 "look at the first of them: a division by 0, the root of a negative number, or "
                 "memory that was never written"};
}

}  // namespace assay::kernels::internal
