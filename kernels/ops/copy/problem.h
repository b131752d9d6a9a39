// copy: y[i] = x[i]. Bytes: 2·count·size. Judged bit by bit.
#ifndef ASSAY_KERNELS_OPS_COPY_PROBLEM_H_
#define ASSAY_KERNELS_OPS_COPY_PROBLEM_H_

#include "kernels/ops/field.h"

namespace assay::inline kernels {

struct CopyProblem {
  std::int64_t count = 0;

  static constexpr std::string_view kOp = "copy";
  static std::span<const Field<CopyProblem>> Fields();
  std::vector<FieldError> Check() const;
  std::string Describe() const;  // "1048576"
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_COPY_PROBLEM_H_
