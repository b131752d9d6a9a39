#include "kernels/runtime/cpu/compare_cpu.h"

namespace assay {

absl::StatusOr<CompareResult> CompareCpu(const CompareRequest& request) {
  return ComparePlain(request);
}

}  // namespace assay
