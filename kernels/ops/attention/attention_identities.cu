// The identity of causal attention on a GPU: a block a head; counts are sums of integers,
// so that they do not depend on the order of blocks.
#include "kernels/ops/attention/attention_identities_gpu.h"

#include "kernels/numerics/convert.h"
#include "kernels/ops/common/rows_gpu.h"
#include "kernels/runtime/gpu/reduce.h"

namespace assay::inline kernels::gpu {
namespace {

ASSAY_GLOBAL void ClearFindings(FirstRowFindings* f) { *f = {0, 0}; }

ASSAY_GLOBAL void CheckHeads(FirstRowCheck c) {
  ASSAY_SHARED(double, partial, kMostWaves);
  ASSAY_SHARED(unsigned long long, counted, kMostWaves);
  const AttentionOperands& o = c.operands;
  for (std::int64_t head = Block().x; head < o.batch * o.heads; head += GridExtent().x) {
    const std::int64_t row = (head * o.queries + c.rule.query) * o.dim;
    const std::int64_t key = head / (o.heads / o.kv_heads) * o.keys * o.dim;
    double sum = 0.0, magnitudes = 0.0;
    for (std::int64_t d = Thread().x; d < o.dim; d += kRowThreads) {
      const double product = LoadDouble(o.input, o.q, row + d) * LoadDouble(o.input, o.k, key + d);
      sum += product;
      magnitudes += product < 0 ? -product : product;
    }
    sum = BlockReduce<Sum>(sum, partial, kRowThreads);
    magnitudes = BlockReduce<Sum>(magnitudes, partial, kRowThreads);
    const double deviation = FirstRowDeviation(c.rule, sum, magnitudes);
    unsigned long long count = 0, broken = 0;
    for (std::int64_t d = Thread().x; d < o.dim; d += kRowThreads) {
      const FirstRowElement found =
          JudgeFirstRow(c.rule, deviation, LoadDouble(o.input, o.v, key + d), c.reference[row + d],
                        LoadDouble(c.rule.output, c.y, row + d));
      count += found == FirstRowElement::kLeftOut ? 0 : 1;
      broken += found == FirstRowElement::kBroken ? 1 : 0;
    }
    count = BlockReduce<Sum>(count, counted, kRowThreads);
    broken = BlockReduce<Sum>(broken, counted, kRowThreads);
    if (Thread().x != 0) continue;
    AtomicAdd(&c.findings->count, count);
    AtomicAdd(&c.findings->broken, broken);
  }
}

}  // namespace

ErrorCode LaunchFirstRowCheck(const FirstRowCheck& c, Stream stream) {
  const ErrorCode cleared =
      Launch(ClearFindings, Extent{1, 1, 1}, Extent{1, 1, 1}, 0, stream, c.findings);
  if (cleared != kOk) return cleared;
  return Launch(CheckHeads, RowGrid(c.operands.batch * c.operands.heads), Extent{kRowThreads, 1, 1},
                0, stream, c);
}

}  // namespace assay::kernels::gpu
