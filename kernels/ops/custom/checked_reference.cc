#include "kernels/ops/custom/checked_reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>

#include "kernels/numerics/digest.h"
#include "kernels/ops/common/view_inputs.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

// NaN that arithmetic does not produce.
constexpr std::uint64_t kPoisons[2] = {0x7ff85a5a5a5a5a5a, 0xfff8a5a5a5a5a5a5};
// Elements that are widened at a time.
constexpr std::int64_t kStretch = std::int64_t{1} << 16;
// A magnitude may be rounded as the value is.
constexpr double kSlack = 1 - 1e-9;

// The words of some elements from `begin` on, in a digest that does not depend on their order.
std::uint64_t DigestOf(std::span<const double> values, std::int64_t begin) {
  std::uint64_t digest = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint64_t word = CanonicalBits(DType::kF64, std::bit_cast<std::uint64_t>(values[i]));
    digest += DigestTerm(word, static_cast<std::uint64_t>(begin) + i, 0);
  }
  return digest;
}

// Reads an input stretch by stretch and gives each stretch to `take`. Returns the input's digest.
std::uint64_t ReadInput(const HostInputs& inputs, std::size_t input, std::int64_t count,
                        const std::function<void(std::int64_t, std::span<const double>)>& take) {
  std::vector<double> stretch(static_cast<std::size_t>(std::min(kStretch, count)));
  std::uint64_t digest = 0;
  for (std::int64_t begin = 0; begin < count; begin += kStretch) {
    const std::int64_t n = std::min(kStretch, count - begin);
    inputs.Read(static_cast<int>(input), begin, n, stretch.data());
    const std::span<const double> read(stretch.data(), static_cast<std::size_t>(n));
    digest += DigestOf(read, begin);
    if (take) take(begin, read);
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

absl::Status CheckedReference::Wrong(KernelError error, std::string_view message) {
  return FailedKernel({.error = error, .reference = true}, Cat("the reference ", message));
}

absl::Status CheckedReference::OfReference(const absl::Status& status) {
  std::optional<KernelFailure> failure = FailureOf(status);
  if (!failure) return status;
  failure->reference = true;
  return FailedKernel(*failure, Cat("the reference: ", status.message()));
}

void CheckedReference::TakeInputs(const Plan& plan, std::span<const TensorView> inputs) {
  const ViewInputs views(inputs);
  digests_.assign(plan.inputs.size(), 0);
  for (std::size_t i = 0; i < plan.inputs.size(); ++i) {
    digests_[i] =
        ReadInput(views, i, plan.inputs[i].extents.count(),
                  [&](std::int64_t begin, std::span<const double> v) { TakeInput(i, begin, v); });
  }
}

absl::Status CheckedReference::RunAndCheck(std::uint64_t poison) {
  std::fill(value_.begin(), value_.end(), std::bit_cast<double>(poison));
  std::fill(magnitude_.begin(), magnitude_.end(), std::bit_cast<double>(poison));
  if (absl::Status s = Run(value_, magnitude_); !s.ok()) return s;
  const std::size_t count = value_.size();
  if (const std::size_t unwritten = CountOf(value_, poison); unwritten > 0) {
    return Wrong(KernelError::kUnwritten,
                 Cat("left ", unwritten, " of ", count, " elements of its output unwritten"));
  }
  const std::size_t without = CountOf(magnitude_, poison);
  gave_magnitudes_ = without == 0;
  if (without != 0 && without != count) {
    return Wrong(KernelError::kUnwritten,
                 Cat("left ", without, " of ", count, " magnitudes unwritten: write all or none"));
  }
  largest_ = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (!std::isfinite(value_[i])) continue;
    largest_ = std::max(largest_, std::abs(value_[i]));
    if (!gave_magnitudes_) continue;
    if (!std::isfinite(magnitude_[i])) {
      return Wrong(KernelError::kUnusable, Cat("gives element ", i, " the magnitude ",
                                               magnitude_[i], "; expected a finite number"));
    }
    if (magnitude_[i] >= kSlack * std::abs(value_[i])) continue;
    return Wrong(KernelError::kUnusable,
                 Cat("gives element ", i, " the magnitude ", magnitude_[i], ", which the value ",
                     value_[i], " is beyond: a sum is at most the sum of its terms' magnitudes"));
  }
  return absl::OkStatus();
}

// Whether an earlier run gave what this one gave.
absl::Status CheckedReference::Agrees(const std::vector<double>& value,
                                      const std::vector<double>& magnitude, bool gave) const {
  const bool same = SameBits(value, value_);
  if (same && gave == gave_magnitudes_ && (!gave || SameBits(magnitude, magnitude_))) {
    return absl::OkStatus();
  }
  if (same) {
    return Wrong(KernelError::kVaries,
                 "gives other magnitudes when it runs again on the same inputs");
  }
  std::size_t at = 0;
  while (std::bit_cast<std::uint64_t>(value[at]) == std::bit_cast<std::uint64_t>(value_[at])) ++at;
  const auto [first, second] = ToldApart(value[at], value_[at]);
  return Wrong(KernelError::kVaries,
               Cat("gives element ", at, " as ", first, ", and as ", second,
                   " when it runs again on the same inputs: sum in a fixed order"));
}

absl::StatusOr<bool> CheckedReference::Compute(const Case& c, const Plan& plan,
                                               std::span<const TensorView> inputs, double* value,
                                               double* magnitude) {
  if (absl::Status s = Prepare(c, plan, inputs); !s.ok()) return s;
  TakeInputs(plan, inputs);
  const auto count = static_cast<std::size_t>(plan.output.extents.count());
  value_.resize(count);
  magnitude_.resize(count);
  if (absl::Status s = RunAndCheck(kPoisons[0]); !s.ok()) return s;
  const std::vector<double> first_value = value_;
  const std::vector<double> first_magnitude = magnitude_;
  const bool first_gave = gave_magnitudes_;
  if (absl::Status s = RunAndCheck(kPoisons[1]); !s.ok()) return s;
  if (absl::Status s = Agrees(first_value, first_magnitude, first_gave); !s.ok()) return s;
  std::copy(value_.begin(), value_.end(), value);
  if (gave_magnitudes_) std::copy(magnitude_.begin(), magnitude_.end(), magnitude);
  return gave_magnitudes_;
}

double CheckedReference::ShareWithin(const std::function<double(double)>& allowed) const {
  std::int64_t all = 0, within = 0;
  for (std::size_t i = 0; i < value_.size(); ++i) {
    if (value_[i] == 0 || !std::isfinite(value_[i])) continue;
    const double magnitude =
        gave_magnitudes_ ? magnitude_[i] : std::numeric_limits<double>::quiet_NaN();
    ++all;
    if (std::abs(value_[i]) <= allowed(magnitude)) ++within;
  }
  return all == 0 ? 0 : static_cast<double>(within) / static_cast<double>(all);
}

void CheckedReference::At(const Plan& plan, const HostInputs& inputs,
                          std::span<const std::int64_t> indices, double* value, double* magnitude) {
  bool same = digests_.size() == plan.inputs.size() &&
              static_cast<std::int64_t>(value_.size()) == plan.output.extents.count();
  for (std::size_t i = 0; same && i < plan.inputs.size(); ++i) {
    same = ReadInput(inputs, i, plan.inputs[i].extents.count(), {}) == digests_[i];
  }
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const auto at = static_cast<std::size_t>(indices[i]);
    value[i] = same ? value_[at] : std::numeric_limits<double>::quiet_NaN();
    if (same && gave_magnitudes_) magnitude[i] = magnitude_[at];
  }
}

}  // namespace assay::kernels
