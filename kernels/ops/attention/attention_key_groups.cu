// The output of an exact case of an attention, for GPUs: each element is the mean of a group of
// keys.
#include "kernels/numerics/convert.h"
#include "kernels/ops/attention/attention_reference_gpu.h"
#include "kernels/ops/attention/attention_tiles_gpu.h"
#include "kernels/ops/common/rows_gpu.h"

namespace assay::inline kernels::gpu {
namespace {

using namespace attention;

// An element a thread.
ASSAY_GLOBAL void KeyGroupMeans(AttentionKeyGroupsReference a) {
  const AttentionOperands& o = a.operands;
  const std::int64_t count = o.batch * o.heads * o.queries * o.dim;
  const std::int64_t step = std::int64_t{GridExtent().x} * kThreads;
  for (std::int64_t i = std::int64_t{Block().x} * kThreads + Thread().x; i < count; i += step) {
    const std::int64_t head = i / o.dim / o.queries, query = i / o.dim % o.queries;
    const KeyGroups::Group group = a.groups.Members(a.groups.Chosen(head, query));
    const std::int64_t seen = a.groups.Seen(query);
    double sum = 0.0;
    int found = 0;
    for (std::int64_t key = group.first; key < group.first + group.size && key < seen; ++key) {
      if (!Visible(o, query, key)) continue;
      ++found;
      sum += LoadDouble(o.input, o.v, (KvHead(o, head) * o.keys + key) * o.dim + i % o.dim);
    }
    a.value[i] = found == 0 ? a.empty : sum * (a.scale / found);
  }
}

}  // namespace

ErrorCode LaunchAttentionKeyGroups(const AttentionKeyGroupsReference& a, Stream stream) {
  const AttentionOperands& o = a.operands;
  const std::int64_t count = o.batch * o.heads * o.queries * o.dim;
  return Launch(KeyGroupMeans, RowGrid((count + kThreads - 1) / kThreads), Extent{kThreads, 1, 1},
                0, stream, a);
}

}  // namespace assay::kernels::gpu
