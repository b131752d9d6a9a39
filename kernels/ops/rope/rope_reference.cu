// The right output of a rotary embedding and its allowance, for GPUs, in FP64: a pair a thread.
#include "kernels/ops/common/element_gpu.h"
#include "kernels/ops/common/rows_gpu.h"
#include "kernels/ops/rope/rope_reference_gpu.h"

namespace assay::inline kernels::gpu {
namespace {

template <class Format>
ASSAY_GLOBAL void PairsReference(RopeReference r) {
  const std::int64_t pairs = r.dim / 2;
  const std::int64_t step = std::int64_t{GridExtent().x} * kRowThreads;
  for (std::int64_t i = std::int64_t{Block().x} * kRowThreads + Thread().x; i < r.rows * pairs;
       i += step) {
    const std::int64_t row = i / pairs, pair = i % pairs;
    const RopePlace at = PlaceOfPair(pair, r.dim, r.interleaved);
    const std::int64_t from = row * r.x_ld + at.first;
    const std::int64_t to = row * r.dim + at.first;
    const auto position = static_cast<double>(r.start + row / r.heads % r.seq);
    const double angle = position * RopeFrequency(r.terms, pair);
    const RopePair turned =
        MakeRopePair(r.terms, RopeError(r.terms, pair, angle), std::cos(angle), std::sin(angle),
                     Format::At(r.x, r.input, from), Format::At(r.x, r.input, from + at.distance));
    r.value[to] = turned.first;
    r.value[to + at.distance] = turned.second;
    if (r.allowance == nullptr) continue;
    r.allowance[to] = r.allowance[to + at.distance] = turned.allowance;
  }
}

}  // namespace

ErrorCode LaunchRopeReference(const RopeReference& r, Stream stream) {
  return ForElement(r.input, [&](auto element) {
    return Launch(PairsReference<decltype(element)>,
                  RowGrid((r.rows * (r.dim / 2) + kRowThreads - 1) / kRowThreads),
                  Extent{kRowThreads, 1, 1}, 0, stream, r);
  });
}

}  // namespace assay::kernels::gpu
