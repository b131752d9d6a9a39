// A case's inputs, made again on the host.
#ifndef ASSAY_KERNELS_VALIDATE_HOST_INPUTS_H_
#define ASSAY_KERNELS_VALIDATE_HOST_INPUTS_H_

#include <cstdint>
#include <vector>

#include "kernels/ops/plan.h"
#include "kernels/validate/kept_draws.h"

namespace assay::inline kernels {

// Regenerates operand values from pattern, seed and index by the scalar
// specification (kernels/numerics/generate.h); shares no code with a device's
// fill. `plan` must outlive it.
//
// An element of an operand that is not large is drawn when it is first read, and mostly kept: a
// case's second opinion, its statistics and its diagnosis read the same ones. If there are kept
// draws, it takes from them what an earlier case drew, and leaves all there for later ones. They
// must outlive it. For one thread.
class RegeneratedInputs final : public HostInputs {
 public:
  // Elements of the largest operand that is kept: 8 MiB.
  static constexpr std::int64_t kMostKept = std::int64_t{1} << 20;

  RegeneratedInputs(const Plan& plan, std::uint64_t seed, KeptDraws* draws = nullptr)
      : plan_(plan), seed_(seed), draws_(draws) {}
  ~RegeneratedInputs() override;
  RegeneratedInputs(const RegeneratedInputs&) = delete;
  RegeneratedInputs& operator=(const RegeneratedInputs&) = delete;

  void Read(int operand, std::int64_t begin, std::int64_t count, double* out) const override;

 private:
  struct Kept {
    bool asked = false;  // whether the kept draws have it
    DrawKey key;
    DrawnElements drawn;
  };

  Kept& KeptOf(int operand) const;
  void Draw(int operand, std::int64_t begin, std::int64_t count, double* out) const;

  const Plan& plan_;
  std::uint64_t seed_;
  KeptDraws* draws_;                // may be null
  mutable std::vector<Kept> kept_;  // an entry an operand
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_VALIDATE_HOST_INPUTS_H_
