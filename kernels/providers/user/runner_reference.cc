#include "kernels/providers/user/runner_reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "kernels/numerics/digest.h"
#include "kernels/ops/common/view_inputs.h"
#include "kernels/providers/user/describe_problem.h"
#include "kernels/runtime/kernel_failure.h"
#include "kernels/sdk/assay/kernel.h"
#include "kernels/text/cat.h"

namespace assay {
namespace {

// NaN that arithmetic does not produce.
constexpr std::uint64_t kPoisons[2] = {0x7ff85a5a5a5a5a5a, 0xfff8a5a5a5a5a5a5};
// Elements that are widened at a time.
constexpr std::int64_t kStretch = std::int64_t{1} << 16;
// A magnitude may be rounded as the value is.
constexpr double kSlack = 1 - 1e-9;

absl::Status Wrong(KernelError error, std::string_view message) {
  return FailedKernel({.error = error, .reference = true}, Cat("the reference ", message));
}

// An error of the process, as one of the reference. What the platform or the memory lacks stays.
absl::Status OfReference(const absl::Status& status) {
  std::optional<KernelFailure> failure = FailureOf(status);
  if (!failure) return status;
  failure->reference = true;
  return FailedKernel(*failure, Cat("the reference: ", status.message()));
}

// The words of `count` elements from `begin` on, in a digest that does not depend on their order.
std::uint64_t DigestOf(const double* values, std::int64_t begin, std::int64_t count) {
  std::uint64_t digest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t word = CanonicalBits(DType::kF64, std::bit_cast<std::uint64_t>(values[i]));
    digest += DigestTerm(word, static_cast<std::uint64_t>(begin + i), 0);
  }
  return digest;
}

std::size_t CountOf(const std::vector<double>& values, std::uint64_t bits) {
  return static_cast<std::size_t>(std::count_if(values.begin(), values.end(), [bits](double v) {
    return std::bit_cast<std::uint64_t>(v) == bits;
  }));
}

bool SameBits(const std::vector<double>& a, const std::vector<double>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

}  // namespace

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
  count_ = static_cast<std::size_t>(plan.output.extents.count());
  return absl::OkStatus();
}

absl::Status RunnerReference::TakeInputs(const Plan& plan, std::span<const TensorView> inputs) {
  const ViewInputs views(inputs);
  digests_.assign(plan.inputs.size(), 0);
  for (std::size_t i = 0; i < plan.inputs.size(); ++i) {
    auto* const to = reinterpret_cast<double*>(runner_.process->At(description_->inputs[i].offset));
    const std::int64_t count = plan.inputs[i].extents.count();
    for (std::int64_t begin = 0; begin < count; begin += kStretch) {
      const std::int64_t n = std::min(kStretch, count - begin);
      views.Read(static_cast<int>(i), begin, n, to + begin);
      digests_[i] += DigestOf(to + begin, begin, n);
    }
  }
  return absl::OkStatus();
}

absl::Status RunnerReference::Run(std::uint64_t poison, std::vector<double>* value,
                                  std::vector<double>* magnitude) {
  RunnerProcess& process = *runner_.process;
  std::fill_n(ValuesInRunner(), count_, std::bit_cast<double>(poison));
  std::fill_n(MagnitudesInRunner(), count_, std::bit_cast<double>(poison));
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
  value->assign(ValuesInRunner(), ValuesInRunner() + count_);
  magnitude->assign(MagnitudesInRunner(), MagnitudesInRunner() + count_);
  return absl::OkStatus();
}

// The results of the last run, which began with this poison.
absl::Status RunnerReference::Check(std::uint64_t poison) {
  if (const std::size_t unwritten = CountOf(value_, poison); unwritten > 0) {
    return Wrong(KernelError::kUnwritten,
                 Cat("left ", unwritten, " of ", count_, " elements of its output unwritten"));
  }
  const std::size_t without = CountOf(magnitude_, poison);
  gave_magnitudes_ = without == 0;
  if (without != 0 && without != count_) {
    return Wrong(KernelError::kUnwritten,
                 Cat("left ", without, " of ", count_, " magnitudes unwritten: write all or none"));
  }
  largest_ = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    if (!std::isfinite(value_[i])) continue;
    largest_ = std::max(largest_, std::abs(value_[i]));
    if (!gave_magnitudes_ || magnitude_[i] >= kSlack * std::abs(value_[i])) continue;
    return Wrong(KernelError::kUnusable,
                 Cat("gives element ", i, " the magnitude ", magnitude_[i], ", which the value ",
                     value_[i], " is beyond: a sum is at most the sum of its terms' magnitudes"));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> RunnerReference::Compute(const Case& c, const Plan& plan,
                                              std::span<const TensorView> inputs, double* value,
                                              double* magnitude) {
  if (!until_) until_.emplace(c);
  if (runner_.process == nullptr) {
    if (absl::Status status = Start(c, plan); !status.ok()) return status;
  }
  absl::Status status = OfReference(runner_.process->Freeze());
  if (status.ok()) status = TakeInputs(plan, inputs);
  std::vector<double> first_value, first_magnitude;
  if (status.ok()) status = Run(kPoisons[0], &value_, &magnitude_);
  if (status.ok()) status = Check(kPoisons[0]);
  const bool first_gave = gave_magnitudes_;
  std::swap(first_value, value_);
  std::swap(first_magnitude, magnitude_);
  if (status.ok()) status = Run(kPoisons[1], &value_, &magnitude_);
  if (status.ok()) status = Check(kPoisons[1]);
  if (!status.ok()) return status;
  if (first_gave != gave_magnitudes_ || !SameBits(first_value, value_) ||
      (gave_magnitudes_ && !SameBits(first_magnitude, magnitude_))) {
    std::size_t at = 0;
    while (at < count_ && std::bit_cast<std::uint64_t>(first_value[at]) ==
                              std::bit_cast<std::uint64_t>(value_[at])) {
      ++at;
    }
    return Wrong(KernelError::kVaries,
                 at == count_
                     ? std::string("gives other magnitudes when it runs again on the same inputs")
                     : Cat("gives element ", at, " as ", first_value[at], ", and as ", value_[at],
                           " when it runs again on the same inputs: sum in a fixed order"));
  }
  std::copy(value_.begin(), value_.end(), value);
  if (gave_magnitudes_) std::copy(magnitude_.begin(), magnitude_.end(), magnitude);
  return gave_magnitudes_;
}

void RunnerReference::At(const Plan& plan, const HostInputs& inputs,
                         std::span<const std::int64_t> indices, double* value, double* magnitude) {
  bool same = digests_.size() == plan.inputs.size() && value_.size() == count_;
  std::vector<double> stretch(static_cast<std::size_t>(kStretch));
  for (std::size_t i = 0; same && i < plan.inputs.size(); ++i) {
    const std::int64_t count = plan.inputs[i].extents.count();
    std::uint64_t digest = 0;
    for (std::int64_t begin = 0; begin < count; begin += kStretch) {
      const std::int64_t n = std::min(kStretch, count - begin);
      inputs.Read(static_cast<int>(i), begin, n, stretch.data());
      digest += DigestOf(stretch.data(), begin, n);
    }
    same = digest == digests_[i];
  }
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const auto at = static_cast<std::size_t>(indices[i]);
    value[i] = same ? value_[at] : std::numeric_limits<double>::quiet_NaN();
    if (same && gave_magnitudes_) magnitude[i] = magnitude_[at];
  }
}

}  // namespace assay
