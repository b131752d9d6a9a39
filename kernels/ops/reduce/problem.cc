#include "kernels/ops/reduce/problem.h"

#include "absl/strings/str_join.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

constexpr std::size_t kMostAxes = 4;

constexpr Field<ReduceProblem> kFields[] = {
    {"extents", &ReduceProblem::extents},
    {"axis", &ReduceProblem::axis},
    {"kind", &ReduceProblem::kind},
    {"ties", &ReduceProblem::ties},
};

}  // namespace

std::span<const Field<ReduceProblem>> ReduceProblem::Fields() { return kFields; }

std::vector<FieldError> ReduceProblem::Check() const {
  std::vector<FieldError> errors;
  const auto rank = static_cast<std::int64_t>(extents.size());
  if (extents.empty() || extents.size() > kMostAxes) {
    errors.push_back({"extents", Cat("must have 1 to ", kMostAxes, " extents, got ", rank)});
  } else if (axis < -rank || axis >= rank) {
    errors.push_back({"axis", Cat("must be from ", -rank, " to ", rank - 1, " for ", rank,
                                  " extents, got ", axis)});
  }
  std::int64_t count = 1;
  for (const std::int64_t extent : extents) {
    CheckRange("extents", extent, 1, kMaxExtent, errors);
    if (extent > 0) count = SaturatingMul(count, extent);
  }
  if (errors.empty()) CheckCount("extents", "x", {count}, errors);
  const bool argmax = kind == "argmax";
  if (kind != "sum" && kind != "max" && !argmax) {
    errors.push_back({"kind", Cat("must be sum, max or argmax, got \"", kind, "\"")});
  } else if (ties != "first" && ties != "any") {
    errors.push_back({"ties", Cat("must be first or any, got \"", ties, "\"")});
  } else if (ties == "any" && !argmax) {
    errors.push_back({"ties", Cat("must be first: a ", kind, " has no ties")});
  }
  return errors;
}

std::string ReduceProblem::Describe() const {
  std::string text = Cat(kind, " ", absl::StrJoin(extents, "x"));
  if (axis != -1) Append(&text, " axis ", axis);
  if (any_tie()) Append(&text, " any tie");
  return text;
}

ReduceKind ReduceProblem::kind_of() const {
  if (kind == "max") return ReduceKind::kMax;
  return kind == "argmax" ? ReduceKind::kArgmax : ReduceKind::kSum;
}

std::size_t ReduceProblem::Axis() const {
  return axis < 0 ? extents.size() - static_cast<std::size_t>(-axis)
                  : static_cast<std::size_t>(axis);
}

ReduceShape ReduceProblem::Split() const {
  ReduceShape split;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    (i < Axis() ? split.outer : i > Axis() ? split.inner : split.length) *= extents[i];
  }
  return split;
}

}  // namespace assay::kernels
