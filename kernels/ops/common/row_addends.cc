#include "kernels/ops/common/row_addends.h"

#include <variant>

namespace assay::inline kernels {

RowAddends RowAddendsOf(const Case& c) {
  const auto* norm = std::get_if<LayerNormProblem>(&c.problem);
  return {.exponentials = norm == nullptr,
          .arguments = std::holds_alternative<SoftmaxProblem>(c.problem),
          .elements = norm != nullptr && !norm->rms};
}

}  // namespace assay::kernels
