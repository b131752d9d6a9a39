// A suspect is a known fault of an operator's kernels, with a test for it.
//
// The test computes some of the wrong elements again, on the host, as a kernel with that
// fault computes them: with B read in the other order, with the mask one key off, with
// the sum kept in 16 bits. If the results are those of the kernel under test, and the
// reference's are not, the fault is proven. An operator lists its suspects
// (Diagnostics::Suspects); kernels/diagnose/suspects.h tries them.
#ifndef ASSAY_KERNELS_OPS_SUSPECT_H_
#define ASSAY_KERNELS_OPS_SUSPECT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "kernels/ops/case.h"
#include "kernels/ops/plan.h"

namespace assay::inline kernels {

class Op;

struct WrongElement {
  std::int64_t index = 0;
  double actual = 0;
  double expected = 0;
  double bound = 0;  // of the gate
};

// What speaks for a fault.
struct Proof {
  std::string evidence;  // "16 of 16 sampled elements are what that gives"
  std::string reads_as;  // replaces the suspect's, if the test found out more
  // The errors are only of the size that the fault gives. A proof that fits element by
  // element, or that names their place, comes first.
  bool circumstantial = false;
};

// A fault, and the test for it.
struct Suspect {
  std::string reads_as;
  std::string next_step;
  // Returns the proof, if the elements bear the fault out. They ascend by index.
  std::function<std::optional<Proof>(std::span<const WrongElement>)> test;
};

// What every test needs. All of it must outlive the suspects.
struct Scene {
  const Case& c;
  const Op& op;
  const Plan& plan;
  const HostInputs& inputs;
};

// Operands as another case of the same operator would read them.
//
// `plan` is that case's. Each of its operands is the original's of the same name, unless
// `read` says otherwise: `read` returns whether it wrote `out`.
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
  std::vector<int> source_;  // in the original; -1: none
};

// The suspect that the output is the reference's of another case, on inputs that are
// read by `read` (nullptr: as they are).
Suspect AlteredCase(const Scene& scene, Case altered, AlteredInputs::Reader read,
                    std::string reads_as, std::string next_step);

// The same for a case whose problem is what `change` makes of the case's own:
// AlteredProblem<GemmProblem>(scene, [](GemmProblem& g) { g.beta = 0; }, …).
template <typename Problem, typename Change>
Suspect AlteredProblem(const Scene& scene, Change change, std::string reads_as,
                       std::string next_step, AlteredInputs::Reader read = nullptr) {
  Case altered = scene.c;
  change(std::get<Problem>(altered.problem));
  return AlteredCase(scene, std::move(altered), std::move(read), std::move(reads_as),
                     std::move(next_step));
}

// The suspect that every element is what `simulate` gives, rounded to the output's format.
Suspect Simulated(const Scene& scene, std::function<double(std::int64_t index)> simulate,
                  std::string reads_as, std::string next_step);

// An element as a faulty kernel computes it, and how far the kernel under test may be from that.
struct Computed {
  double value = 0;
  double bound = 0;
};

// The proof that nearly all of the elements are what `compute` gives, and that few of them could be
// right as well; nothing if they are not. `compute` gets the number of an element. It is called for
// one after the other, until too many differ.
std::optional<Proof> Agreement(std::span<const WrongElement> elements,
                               absl::FunctionRef<Computed(std::size_t)> compute);

// Fewer elements than this could agree by chance.
inline constexpr std::size_t kLeastTested = 4;

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_SUSPECT_H_
