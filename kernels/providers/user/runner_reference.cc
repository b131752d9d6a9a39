#include "kernels/providers/user/runner_reference.h"

#include <algorithm>
#include <utility>

#include "kernels/providers/user/describe_problem.h"
#include "kernels/runtime/kernel_failure.h"
#include "kernels/sdk/assay/kernel.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {

double* RunnerReference::ValuesInRunner() const {
  return reinterpret_cast<double*>(runner_.process->At(description_->output.offset));
}
double* RunnerReference::MagnitudesInRunner() const {
  return reinterpret_cast<double*>(runner_.process->At(description_->magnitude.offset));
}

absl::Status RunnerReference::Start(const Case& c, const Plan& plan) {
  Case widened = c;
  widened.kernel_file = library_;
  Plan wide = plan;
  for (Operand& input : wide.inputs) input.dtype = DType::kF64;
  wide.output.dtype = DType::kF64;
  absl::StatusOr<std::unique_ptr<Description>> description =
      DescribeProblem(widened, wide, /*reference=*/true);
  if (!description.ok()) return description.status();
  description_ = *std::move(description);
  absl::StatusOr<LoadedRunner> runner = LoadRunner(*description_, device_, *until_);
  if (!runner.ok()) return OfReference(runner.status());
  const absl::Status loaded = LoadError(*runner);
  if (!loaded.ok()) {
    return FailedKernel({.preparing = true, .reference = true},
                        Cat("the reference: ", loaded.message()));
  }
  runner_ = *std::move(runner);
  return absl::OkStatus();
}

absl::Status RunnerReference::Prepare(const Case& c, const Plan& plan,
                                      std::span<const TensorView>) {
  if (!until_) until_.emplace(c);
  if (runner_.process == nullptr) {
    if (absl::Status status = Start(c, plan); !status.ok()) return status;
  }
  return OfReference(runner_.process->Freeze());
}

void RunnerReference::TakeInput(std::size_t input, std::int64_t begin,
                                std::span<const double> values) {
  auto* const to =
      reinterpret_cast<double*>(runner_.process->At(description_->inputs[input].offset));
  std::copy(values.begin(), values.end(), to + begin);
}

absl::Status RunnerReference::Run(std::span<double> value, std::span<double> magnitude) {
  RunnerProcess& process = *runner_.process;
  std::copy(value.begin(), value.end(), ValuesInRunner());
  std::copy(magnitude.begin(), magnitude.end(), MagnitudesInRunner());
  const double begin = RunnerDeadline::Now();
  const double fair = slowest_ > 0 ? kFairLaunches * slowest_ : kFairSeconds;
  const absl::StatusOr<int> status = until_->Ask(process, RunnerTask::kLaunch, fair);
  if (!status.ok()) return OfReference(status.status());
  slowest_ = std::max(slowest_, RunnerDeadline::Now() - begin);
  if (absl::Status frozen = process.Freeze(); !frozen.ok()) return OfReference(frozen);
  if (*status != ASSAY_OK) {
    const std::string said = SaidBy(process);
    return Wrong(KernelError::kUnusable,
                 Cat("failed: launch returned ", *status, said.empty() ? "" : ": ", said));
  }
  std::copy_n(ValuesInRunner(), value.size(), value.begin());
  std::copy_n(MagnitudesInRunner(), magnitude.size(), magnitude.begin());
  return absl::OkStatus();
}

}  // namespace assay::kernels
