// A case's inputs, made again on the host one element at a time.
#ifndef ASSAY_KERNELS_VALIDATE_HOST_INPUTS_H_
#define ASSAY_KERNELS_VALIDATE_HOST_INPUTS_H_

#include <cstdint>

#include "kernels/ops/plan.h"

namespace assay {

// Regenerates operand values from pattern, seed and index by the scalar
// specification (kernels/numerics/generate.h); shares no code with a device's
// fill. `plan` must outlive it.
class RegeneratedInputs final : public HostInputs {
 public:
  RegeneratedInputs(const Plan& plan, std::uint64_t seed) : plan_(plan), seed_(seed) {}

  void Read(int operand, std::int64_t begin, std::int64_t count, double* out) const override;

 private:
  const Plan& plan_;
  std::uint64_t seed_;
};

}  // namespace assay

#endif  // ASSAY_KERNELS_VALIDATE_HOST_INPUTS_H_
