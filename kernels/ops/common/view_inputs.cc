#include "kernels/ops/common/view_inputs.h"

#include <algorithm>

#include "kernels/numerics/convert.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {

void ViewInputs::Read(int operand, std::int64_t begin, std::int64_t count, double* out) const {
  const TensorView& view = views_[static_cast<std::size_t>(operand)];
  const Extents& e = view.extents;
  while (count > 0) {
    const std::int64_t row = begin / e.cols;
    const std::int64_t col = begin % e.cols;
    const std::int64_t run = std::min(count, e.cols - col);
    const std::int64_t at = row / e.rows * e.batch_stride + row % e.rows * e.ld + col;
    for (std::int64_t i = 0; i < run; ++i) out[i] = LoadDouble(view.dtype, view.data, at + i);
    begin += run;
    count -= run;
    out += run;
  }
}

}  // namespace assay::kernels
