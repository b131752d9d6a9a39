// The right output of a layer or RMS norm and its allowance, for GPUs, in FP64. One block
// a row, which is read for the mean's origin (LayerNormOrigin), its mean, its variance and
// its elements; the order of every sum is fixed by the launch.
#include <cmath>

#include "kernels/ops/common/element_gpu.h"
#include "kernels/ops/common/rows_gpu.h"
#include "kernels/ops/layer_norm/layer_norm_reference_gpu.h"
#include "kernels/runtime/gpu/reduce.h"

namespace assay::gpu {
namespace {

template <class Element>
ASSAY_GLOBAL void NormRowsReference(LayerNormReference l) {
  ASSAY_SHARED(double, partial, kMostWaves);
  for (std::int64_t row = Block().x; row < l.rows; row += GridExtent().x) {
    const auto x = [&](std::int64_t j) { return Element::At(l.x, l.input, row * l.x_ld + j); };
    const double first = x(0);
    double far = l.terms.rms || !std::isfinite(first) ? 1.0 : 0.0;
    for (std::int64_t j = Thread().x; j < l.cols; j += kRowThreads) {
      if (!NearFirst(x(j), first)) far = 1.0;
    }
    far = BlockReduce<Largest>(far, partial, kRowThreads);
    const double origin = far == 0.0 ? first : 0.0;
    double sum = 0.0, absolute = 0.0;
    for (std::int64_t j = Thread().x; j < l.cols; j += kRowThreads) {
      const double v = x(j);
      sum += v - origin;
      absolute += std::abs(v);
    }
    sum = BlockReduce<Sum>(sum, partial, kRowThreads);
    absolute = BlockReduce<Sum>(absolute, partial, kRowThreads);
    const double center = l.terms.rms ? 0.0 : sum / l.terms.n;
    double squares = 0.0;
    for (std::int64_t j = Thread().x; j < l.cols; j += kRowThreads) {
      const double v = x(j) - origin - center;
      squares = Fma(v, v, squares);
    }
    squares = BlockReduce<Sum>(squares, partial, kRowThreads);
    const LayerNormRow terms = MakeLayerNormRow(l.terms, origin, sum, absolute, squares);
    for (std::int64_t j = Thread().x; j < l.cols; j += kRowThreads) {
      const double weight = l.weight == nullptr ? 1.0 : LoadDouble(l.columns, l.weight, j);
      const double bias = l.bias == nullptr ? 0.0 : LoadDouble(l.columns, l.bias, j);
      const LayerNormElement e = MakeLayerNormElement(l.terms, terms, x(j), weight, bias);
      l.value[row * l.cols + j] = e.value;
      l.allowance[row * l.cols + j] = e.allowance;
    }
  }
}

}  // namespace

ErrorCode LaunchLayerNormReference(const LayerNormReference& l, Stream stream) {
  return ForElement(l.input, [&](auto element) {
    return Launch(NormRowsReference<decltype(element)>, RowGrid(l.rows), Extent{kRowThreads, 1, 1},
                  0, stream, l);
  });
}

}  // namespace assay::gpu
