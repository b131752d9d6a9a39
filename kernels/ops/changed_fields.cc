#include "kernels/ops/changed_fields.h"

#include <algorithm>
#include <variant>

#include "kernels/ops/field.h"

namespace assay::inline kernels {

bool SameShapes(const Plan& a, const Plan& b) {
  const auto same = [](const Operand& x, const Operand& y) { return x.dims == y.dims; };
  return same(a.output, b.output) &&
         std::equal(a.inputs.begin(), a.inputs.end(), b.inputs.begin(), b.inputs.end(), same);
}

bool OnlyShapesDiffer(const Op& op, const Case& first, const Case& second) {
  const absl::StatusOr<Plan> plan = op.MakePlan(first);
  if (!plan.ok() || first.problem.index() != second.problem.index()) return false;
  return std::visit(
      [&]<class P>(const P& before) {
        const P& after = std::get<P>(second.problem);
        // Each field that differs, alone: does it change a shape?
        const auto shows = [&](auto member) {
          if (before.*member == after.*member) return true;
          Case changed = first;
          std::get<P>(changed.problem).*member = after.*member;
          if (!std::get<P>(changed.problem).Check().empty()) return false;  // not without another
          const absl::StatusOr<Plan> other = op.MakePlan(changed);
          return other.ok() && !SameShapes(*plan, *other);
        };
        const auto fields = P::Fields();
        return std::all_of(fields.begin(), fields.end(),
                           [&](const Field<P>& field) { return std::visit(shows, field.member); });
      },
      first.problem);
}

}  // namespace assay::kernels
