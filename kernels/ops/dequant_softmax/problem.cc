#include "kernels/ops/dequant_softmax/problem.h"

#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

constexpr Field<DequantSoftmaxProblem> kFields[] = {
    {"m", &DequantSoftmaxProblem::m},
    {"n", &DequantSoftmaxProblem::n},
    {"k", &DequantSoftmaxProblem::k},
    {"transpose_w", &DequantSoftmaxProblem::transpose_w},
};

}  // namespace

std::span<const Field<DequantSoftmaxProblem>> DequantSoftmaxProblem::Fields() { return kFields; }

std::vector<FieldError> DequantSoftmaxProblem::Check() const {
  std::vector<FieldError> errors;
  CheckRange("m", m, 1, kMaxExtent, errors);
  CheckRange("n", n, 1, kMaxExtent, errors);
  CheckRange("k", k, 1, kMaxExtent, errors);
  if (!errors.empty()) return errors;
  CheckCount("k", "a", {m, k}, errors);
  CheckCount("k", "w", {k, n}, errors);
  CheckCount("m", "y", {m, n}, errors);
  return errors;
}

std::string DequantSoftmaxProblem::Describe() const {
  return Cat(m, "x", n, "x", k, transpose_w ? " t" : "");
}

}  // namespace assay::kernels
