#include "kernels/judge/overflow.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include "kernels/judge/pieces.h"
#include "kernels/ops/op.h"
#include "kernels/runtime/compare_rule.h"

namespace assay::inline kernels {

bool MayOverflowInside(const Case& c, const Plan& plan) {
  const DType accumulator = c.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  return plan.largest_intermediate > Info(accumulator).max_finite;
}

bool OverflowMayEndFinite(const Case& c, const Plan& plan) {
  if (!MayOverflowInside(c, plan)) return false;
  return OpOf(c).OverflowMayVanish(c) || !Info(plan.output.dtype).has_inf;
}

bool ReferencesMayDiffer(const Case& c, const Plan& plan, double reference, double allowance) {
  if (c.dtype != DType::kF64) return false;
  if (OpOf(c).SquaresMayVanish(c) && std::isinf(allowance)) return true;
  if (!MayOverflowInside(c, plan)) return false;
  if (!std::isfinite(reference)) return true;
  if (reference == 0 && allowance == 0 && !plan.exact && OpOf(c).OverflowMayVanish(c)) return true;
  return plan.overflow_allowance > 0 ? allowance >= plan.overflow_allowance
                                     : !std::isfinite(allowance);
}

absl::StatusOr<std::optional<Unexplained>> CountUnexplained(const Case& c, const Plan& plan,
                                                            Device& device,
                                                            const CompareRequest& request,
                                                            const CompareResult& result) {
  std::optional<Unexplained> faults;
  const bool overflows = MayOverflowInside(c, plan);
  const bool tells = overflows ? plan.overflow_allowance > 0 : OpOf(c).SquaresMayVanish(c);
  if ((result.class_mismatches == 0 && result.beyond_proven == 0) || request.allowance == nullptr ||
      !tells) {
    return faults;
  }
  const auto explained = [&](double value, double bound) {
    if (!overflows) return std::isinf(bound);
    return bound >= plan.overflow_allowance || ReferencesMayDiffer(c, plan, value, bound);
  };
  const internal::CompareRule rule(request);
  faults.emplace();
  const absl::Status read =
      ForEachCompared(device, request, [&](std::uint64_t bits, double value, double bound) {
        if (rule.payload && bits == rule.poison) return;  // counted apart
        if (explained(value, bound)) return;
        const internal::Judgement judged = JudgeElement(rule, bits, value, bound);
        if (!judged.class_ok) {
          ++faults->of_wrong_class;
        } else if (judged.pair && !(judged.error <= judged.bound_proven)) {
          ++faults->beyond_proven;
        }
      });
  if (!read.ok()) return read;
  return faults;
}

absl::StatusOr<std::int64_t> CountUnbounded(const Case& c, Device& device,
                                            const CompareRequest& request) {
  const bool by_bound = request.gate == Gate::kBound || request.gate == Gate::kBoundProbable;
  const bool underflows = OpOf(c).SquaresMayVanish(c);
  const bool counts = underflows || (c.dtype == DType::kF64 && by_bound);
  if (request.exact || request.allowance == nullptr || !counts) return 0;
  const std::int64_t count = request.output.count();
  const TensorView reference = DoublesView(const_cast<double*>(request.reference), count);
  const TensorView allowance = DoublesView(const_cast<double*>(request.allowance), count);
  // The pass that compares counts infinities and NaNs.
  CompareRequest itself;
  itself.output = allowance;
  itself.reference = request.allowance;
  itself.digests = itself.poisoned = false;
  const absl::StatusOr<CompareResult> found = device.Compare(itself);
  if (!found.ok()) return found.status();
  std::int64_t unbounded = 0;
  if (found->nan_count + found->inf_count == 0) return unbounded;
  std::vector<double> r, e;
  for (std::int64_t begin = 0; begin < count; begin += kPiece) {
    const std::int64_t n = std::min(kPiece, count - begin);
    absl::Status s = ReadValues(device, reference, begin, n, r);
    if (s.ok()) s = ReadValues(device, allowance, begin, n, e);
    if (!s.ok()) return s;
    unbounded += std::inner_product(
        r.begin(), r.end(), e.begin(), std::int64_t{0}, std::plus<>(),
        [underflows](double value, double bound) {
          return underflows ? std::isinf(bound) : std::isfinite(value) && !std::isfinite(bound);
        });
  }
  return unbounded;
}

}  // namespace assay::kernels
