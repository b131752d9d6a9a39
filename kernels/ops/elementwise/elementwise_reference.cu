// The right output of an elementwise operator and its allowance, for GPUs, in FP64: an element a
// thread.
#include "kernels/ops/common/element_gpu.h"
#include "kernels/ops/common/rows_gpu.h"
#include "kernels/ops/elementwise/elementwise_reference_gpu.h"

namespace assay::inline kernels::gpu {
namespace {

template <class Format>
ASSAY_GLOBAL void ElementsReference(ElementwiseReference e) {
  const std::int64_t step = std::int64_t{GridExtent().x} * kRowThreads;
  for (std::int64_t i = std::int64_t{Block().x} * kRowThreads + Thread().x; i < e.rows * e.cols;
       i += step) {
    const std::int64_t row = i / e.cols, col = i % e.cols;
    const double a = Format::At(e.a, e.input, row * e.a_ld + col);
    const double b = e.b == nullptr ? 0.0 : Format::At(e.b, e.input, row * e.b_ld + col);
    const ElementwiseElement element = MakeElementwiseElement(e.terms, a, b);
    e.value[i] = element.value;
    if (e.allowance != nullptr) e.allowance[i] = element.allowance;
  }
}

}  // namespace

ErrorCode LaunchElementwiseReference(const ElementwiseReference& e, Stream stream) {
  return ForElement(e.input, [&](auto element) {
    return Launch(ElementsReference<decltype(element)>,
                  RowGrid((e.rows * e.cols + kRowThreads - 1) / kRowThreads),
                  Extent{kRowThreads, 1, 1}, 0, stream, e);
  });
}

}  // namespace assay::kernels::gpu
