#include "kernels/ops/copy/problem.h"

#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

constexpr Field<CopyProblem> kFields[] = {{"count", &CopyProblem::count}};

}  // namespace

std::span<const Field<CopyProblem>> CopyProblem::Fields() { return kFields; }

std::vector<FieldError> CopyProblem::Check() const {
  std::vector<FieldError> errors;
  CheckRange("count", count, 1, kMaxElements, errors);
  return errors;
}

std::string CopyProblem::Describe() const { return Cat(count); }

}  // namespace assay::kernels
