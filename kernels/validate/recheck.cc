#include "kernels/validate/recheck.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_format.h"
#include "kernels/numerics/bound.h"
#include "kernels/numerics/cat.h"
#include "kernels/numerics/convert.h"
#include "kernels/validate/verdict.h"

namespace assay {
namespace {

// The device's allowance may be this much above the host's: a fast reference may
// take an upper bound of |A||B|, and the order of its sums is its own. More would
// be a device that forgives itself.
constexpr double kAllowanceSlack = 1.01;

// Sampled elements of a tensor of doubles or of the output, in index order;
// neighbours come over in one piece.
absl::Status Gather(Device& device, const TensorView& view, const std::vector<std::int64_t>& at,
                    std::size_t element_bytes, unsigned char* out) {
  for (std::size_t i = 0; i < at.size();) {
    std::size_t run = 1;
    while (i + run < at.size() && at[i + run] == at[i] + static_cast<std::int64_t>(run)) ++run;
    absl::Status status =
        device.ToHost(view, at[i], static_cast<std::int64_t>(run), out + i * element_bytes);
    if (!status.ok()) return status;
    i += run;
  }
  return absl::OkStatus();
}

TensorView Doubles(double* data, std::int64_t count) {
  return TensorView{data, DType::kF64, Extents::Dense(1, 1, count)};
}

bool SameClass(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return true;
}

}  // namespace

absl::StatusOr<Recheck> RecheckOnHost(const Case& c, const Op& op, const Plan& plan, Device& device,
                                      const TensorView& output, double* reference,
                                      double* allowance, const HostInputs& inputs,
                                      const CompareResult& compare, bool flushes,
                                      std::int64_t samples) {
  std::vector<std::int64_t> at =
      op.Samples(c, plan, c.seed.value_or(1), std::min(samples, output.count()));
  if (compare.worst.index >= 0) at.push_back(compare.worst.index);
  for (const ElementSample& s : compare.samples) at.push_back(s.index);
  std::sort(at.begin(), at.end());
  at.erase(std::unique(at.begin(), at.end()), at.end());

  const std::size_t n = at.size();
  const std::size_t output_bytes =
      static_cast<std::size_t>((Info(plan.output.dtype).storage_bits + 7) / 8);
  std::vector<double> device_value(n), device_allowance(n, 0.0), value(n), host_allowance(n, 0.0);
  std::vector<unsigned char> actual(n * output_bytes);
  const auto bytes = [](std::vector<double>& v) {
    return reinterpret_cast<unsigned char*>(v.data());
  };
  const std::int64_t count = output.count();
  absl::Status status =
      Gather(device, Doubles(reference, count), at, sizeof(double), bytes(device_value));
  if (status.ok() && allowance != nullptr) {
    status = Gather(device, Doubles(allowance, count), at, sizeof(double), bytes(device_allowance));
  }
  // Two e2m1 elements share a byte, so single ones cannot be gathered.
  const bool check_output = plan.output.dtype != DType::kE2M1;
  if (status.ok() && check_output) {
    status = Gather(device, output, at, output_bytes, actual.data());
  }
  if (!status.ok()) return status;
  op.ReferenceAt(c, plan, inputs, at, value.data(), host_allowance.data());

  Recheck result;
  result.elements = static_cast<std::int64_t>(n);
  const FormatInfo& format = Info(plan.output.dtype);
  const OutputRounding output_rounding = OutputRoundingOf(plan.output.dtype, flushes);
  const bool clean = compare.beyond_proven == 0 && compare.class_mismatches == 0;
  std::int64_t disagreements = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double bound =
        plan.exact ? 0.0
                   : TBound(output_rounding, value[i], plan.proven_factor * host_allowance[i]);
    std::string_view what;
    double got = device_value[i];
    if (!SameClass(device_value[i], value[i]) ||
        (std::isfinite(value[i]) && !(std::abs(device_value[i] - value[i]) <= bound))) {
      what = "the device's reference is";
    } else if (std::isfinite(value[i]) && allowance != nullptr &&
               !(device_allowance[i] <= kAllowanceSlack * host_allowance[i] + 1e-300)) {
      what = "the device's error allowance is";
      got = device_allowance[i];
    } else if (check_output && clean) {
      const double o = LoadDouble(plan.output.dtype, actual.data(), static_cast<std::int64_t>(i));
      const double rounded = Quantise(value[i], plan.output.dtype);
      const bool may_overflow = std::abs(value[i]) + bound >= format.max_finite;
      const bool accepted = std::isfinite(o) && std::isfinite(rounded)
                                ? std::abs(o - (plan.exact ? rounded : value[i])) <= bound
                                : SameClass(o, rounded) || (may_overflow && !std::isnan(o));
      if (!accepted) {
        what = "the device accepted an output of";
        got = o;
      }
    }
    if (what.empty()) continue;
    if (++disagreements == 1) {
      result.fault = absl::StrFormat(
          "host and device disagree at %s: %s %.17g, the host's reference %.17g ± %.3g",
          Coordinates(at[i], plan.output.dims), what, got, value[i], bound);
    }
  }
  if (disagreements > 1) {
    result.fault += Cat(" (", disagreements, " of ", n, " sampled elements)");
  }
  return result;
}

}  // namespace assay
