#include "kernels/runtime/cpu/compare_cpu.h"

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "kernels/runtime/cpu/compare_element.h"
#include "kernels/runtime/cpu/compare_simd.h"
#include "kernels/runtime/cpu/parallel.h"

namespace assay::inline kernels {

absl::StatusOr<CompareResult> CompareCpu(const CompareRequest& request) {
  if (absl::Status status = internal::CheckCompareRequest(request); !status.ok()) return status;
  const internal::CompareRule rule(request);
  const std::int64_t chunks =
      (request.output.count() + internal::kCompareChunk - 1) / internal::kCompareChunk;

  std::vector<internal::ChunkSums> sums(static_cast<std::size_t>(chunks));
  std::mutex mutex;
  std::map<std::int64_t, CompareResult> parts;  // by their first chunk, in whose order they merge
  ParallelFor(chunks, /*grain=*/2, [&](std::int64_t begin, std::int64_t end) {
    CompareResult part;
    internal::CompareChunks(request, rule, begin, end, sums.data(), &part);
    const std::lock_guard<std::mutex> lock(mutex);
    parts.emplace(begin, std::move(part));
  });

  CompareResult result;
  for (const auto& [begin, part] : parts) internal::MergeCompare(part, &result);
  for (const internal::ChunkSums& s : sums) {
    result.sum_abs_error += s.abs_error;
    result.sum_squared_error += s.squared_error;
    result.dot += s.dot;
    result.sum_squared_actual += s.squared_actual;
    result.sum_squared_expected += s.squared_expected;
    result.bias_sum += s.bias;
    result.bias_sum_squared += s.bias_squared;
  }
  return result;
}

}  // namespace assay::kernels
