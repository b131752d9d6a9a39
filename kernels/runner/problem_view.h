// A problem as an author of kernels sees it (kernels/sdk/assay/kernel.h), over a Description. One
// thread.
#ifndef ASSAY_KERNELS_RUNNER_PROBLEM_VIEW_H_
#define ASSAY_KERNELS_RUNNER_PROBLEM_VIEW_H_

#include <array>

#include "kernels/runner/protocol.h"
#include "kernels/sdk/assay/kernel.h"

namespace assay::inline kernels {

class ProblemView {
 public:
  // The description outlives the view.
  explicit ProblemView(const Description& description);
  ProblemView(const ProblemView&) = delete;
  ProblemView& operator=(const ProblemView&) = delete;

  const assay_problem& problem() const { return problem_; }

 private:
  std::array<assay_parameter, kMaxParameters> parameters_{};
  std::array<const assay_parameter*, kMaxParameters> parameter_list_{};
  std::array<assay_tensor, kMaxInputs> inputs_{};
  std::array<const assay_tensor*, kMaxInputs> input_list_{};
  assay_tensor output_{};
  assay_problem problem_{};
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_RUNNER_PROBLEM_VIEW_H_
