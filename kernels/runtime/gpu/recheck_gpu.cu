// The recheck on a GPU. One block takes the elements in turn. A thousand scattered elements take a
// few microseconds of waiting for memory, so more blocks gain nothing. Counts and the smallest
// position do not depend on the order.
#include "kernels/runtime/gpu/recheck_gpu.h"

#include "kernels/runtime/gpu/port.h"
#include "kernels/runtime/gpu/reduce.h"
#include "kernels/runtime/recheck_rule.h"

namespace assay::inline kernels::gpu {
namespace {

constexpr int kThreads = 256;

struct Pass {
  TensorView output;
  const double* reference;
  const double* allowance;
  bool exact;
  const HostElement* elements;
  std::int64_t count;
};

ASSAY_DEVICE internal::DeviceElement ElementAt(const Pass& pass, std::int64_t index) {
  internal::DeviceElement element;
  element.reference = pass.reference[index];
  element.has_allowance = pass.allowance != nullptr;
  if (element.has_allowance) element.allowance = pass.allowance[index];
  element.has_output = pass.output.data != nullptr;
  if (element.has_output) {
    element.output = LoadDouble(pass.output.dtype, pass.output.data,
                                internal::StorageIndex(pass.output.extents, index));
  }
  return element;
}

ASSAY_GLOBAL void Recheck(Pass pass, RecheckFindings* findings) {
  ASSAY_SHARED(unsigned long long, partial, kMostWaves);
  unsigned long long wrong = 0, first = ~0ULL;
  for (std::int64_t i = Thread().x; i < pass.count; i += kThreads) {
    const HostElement host = pass.elements[i];
    const Disagreement what =
        internal::DisagreementOf(host, ElementAt(pass, host.index), pass.exact);
    if (what == Disagreement::kNone) continue;
    if (wrong++ == 0) first = static_cast<unsigned long long>(i);
  }
  wrong = BlockReduce<Sum>(wrong, partial, kThreads);
  first = BlockReduce<Smallest>(first, partial, kThreads);
  if (Thread().x != 0) return;
  RecheckFindings f;
  if (wrong > 0) {
    f.disagreements = static_cast<std::int64_t>(wrong);
    f.first = static_cast<std::int64_t>(first);
    const HostElement host = pass.elements[f.first];
    const internal::DeviceElement element = ElementAt(pass, host.index);
    f.what = internal::DisagreementOf(host, element, pass.exact);
    f.got = internal::GotOf(f.what, element);
  }
  *findings = f;
}

}  // namespace

ErrorCode LaunchRecheck(const RecheckRequest& request, const HostElement* elements,
                        std::int64_t count, RecheckFindings* findings, Stream stream) {
  const Pass pass = {request.output, request.reference, request.allowance,
                     request.exact,  elements,          count};
  return Launch(Recheck, Extent{1, 1, 1}, Extent{kThreads, 1, 1}, 0, stream, pass, findings);
}

}  // namespace assay::kernels::gpu
