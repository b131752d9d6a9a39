// Likely faults put to the test.
//
// Some of the wrong elements are computed again on the host as a kernel with a known
// fault would compute them: B read in the other order, the mask one key off, a sum
// kept in 16 bits. Where that gives what the kernel under test gave, and the reference
// does not, the fault is found and not guessed.
#ifndef ASSAY_KERNELS_VALIDATE_SUSPECTS_H_
#define ASSAY_KERNELS_VALIDATE_SUSPECTS_H_

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/ops/case.h"
#include "kernels/ops/op.h"
#include "kernels/validate/anatomy.h"

namespace assay {

// What speaks for a fault.
struct Proof {
  std::string evidence;  // "16 of 16 sampled elements are what that gives"
  std::string reads_as;  // in place of the suspect's, where the test found out more
  // The errors are of the size the fault gives, no more: what fits element by element,
  // or names their place, comes first.
  bool circumstantial = false;
};

// A fault, and the test for it.
struct Suspect {
  std::string reads_as;
  std::string next_step;
  // The proof, where the elements bear it out; they ascend by index.
  std::function<std::optional<Proof>(std::span<const WrongElement>)> test;
};

// A fault that the elements bear out.
struct Conviction {
  std::string reads_as;
  std::string evidence;
  std::string next_step;
  bool circumstantial = false;
};

// What every test needs; all must outlive the suspects.
struct Scene {
  const Case& c;
  const Op& op;
  const Plan& plan;
  const HostInputs& inputs;
};

// Operands as another case of the same operator would read them.
//
// `plan` is that case's; each of its operands is the original's of the same name,
// unless `read` says otherwise: it returns whether it wrote `out`.
class AlteredInputs final : public HostInputs {
 public:
  using Reader = std::function<bool(std::string_view name, std::int64_t begin, std::int64_t count,
                                    double* out)>;

  AlteredInputs(const Scene& scene, const Plan& plan, Reader read);
  void Read(int operand, std::int64_t begin, std::int64_t count, double* out) const override;

 private:
  const HostInputs& inputs_;
  const Plan& plan_;
  Reader read_;
  std::vector<int> source_;  // in the original, -1 none
};

// The suspect that the output is the reference's of another case, on inputs that are
// read as `read` says (nullptr: as they are).
Suspect AlteredCase(const Scene& scene, Case altered, AlteredInputs::Reader read,
                    std::string reads_as, std::string next_step);

// Whether nearly all of the elements are `value` within `bound` of each and could not
// as well be right: then how many. Both have an entry an element.
std::optional<Proof> Agreement(std::span<const WrongElement> elements,
                               std::span<const double> value, std::span<const double> bound);

// An operator's suspects, the most specific first.
std::vector<Suspect> GemmSuspects(const Scene& scene);
std::vector<Suspect> ConvSuspects(const Scene& scene);
std::vector<Suspect> AttentionSuspects(const Scene& scene);
// Faults of attention's online softmax, part of AttentionSuspects.
std::vector<Suspect> OnlineSoftmaxSuspects(const Scene& scene);
std::vector<Suspect> SoftmaxSuspects(const Scene& scene);
std::vector<Suspect> LayerNormSuspects(const Scene& scene);
std::vector<Suspect> DequantSoftmaxSuspects(const Scene& scene);

// The first suspect of the case's operator that the anatomy's samples bear out; one with
// circumstantial evidence only where there is no other.
std::optional<Conviction> FindSuspect(const Scene& scene, const Anatomy& anatomy);

}  // namespace assay

#endif  // ASSAY_KERNELS_VALIDATE_SUSPECTS_H_
