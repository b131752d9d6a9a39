// The right output of a copy, for GPUs: an element a thread.
#include "kernels/ops/common/element_gpu.h"
#include "kernels/ops/common/rows_gpu.h"
#include "kernels/ops/copy/copy_reference_gpu.h"

namespace assay::inline kernels::gpu {
namespace {

template <class Element>
ASSAY_GLOBAL void CopyElements(CopyReference c) {
  const std::int64_t step = std::int64_t{GridExtent().x} * kRowThreads;
  for (std::int64_t i = std::int64_t{Block().x} * kRowThreads + Thread().x; i < c.count;
       i += step) {
    c.value[i] = Element::At(c.x, c.input, i);
  }
}

}  // namespace

ErrorCode LaunchCopyReference(const CopyReference& c, Stream stream) {
  return ForElement(c.input, [&](auto element) {
    return Launch(CopyElements<decltype(element)>,
                  RowGrid((c.count + kRowThreads - 1) / kRowThreads), Extent{kRowThreads, 1, 1}, 0,
                  stream, c);
  });
}

}  // namespace assay::kernels::gpu
