// Compares with plain loops. This specifies the result of CompareCpu.
#include "absl/status/status.h"
#include "kernels/numerics/convert.h"
#include "kernels/numerics/digest.h"
#include "kernels/runtime/cpu/compare_cpu.h"
#include "kernels/runtime/cpu/compare_element.h"

namespace assay::inline kernels {

absl::StatusOr<CompareResult> ComparePlain(const CompareRequest& request) {
  if (absl::Status status = internal::CheckCompareRequest(request); !status.ok()) return status;
  const internal::CompareRule rule(request);
  const TensorView& output = request.output;
  const std::int64_t count = output.count();
  const int width = Info(output.dtype).storage_bits;
  const std::int64_t per_word = 64 / width;

  CompareResult result;
  std::uint64_t word = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t bits =
        LoadBits(output.dtype, output.data, internal::StorageIndex(output.extents, i));
    const double e = request.allowance == nullptr ? 0.0 : request.allowance[i];
    internal::AddElement(rule, i, bits, request.reference[i], e, &result);

    if (!request.digests) continue;
    word |= bits << (width * (i % per_word));
    if (i % per_word != per_word - 1 && i != count - 1) continue;
    // Both kinds of digest take zeros behind the last element.
    const std::uint64_t index = static_cast<std::uint64_t>(i / per_word);
    const std::uint64_t canonical = CanonicalWord(output.dtype, word);
    for (int k = 0; k < 2; ++k) {
      result.digest_raw[k] += DigestTerm(word, index, kDigestSeeds[k]);
      result.digest_canonical[k] += DigestTerm(canonical, index, kDigestSeeds[k]);
    }
    word = 0;
  }
  return result;
}

}  // namespace assay::kernels
