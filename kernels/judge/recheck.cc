#include "kernels/judge/recheck.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/judge/overflow.h"
#include "kernels/judge/pieces.h"
#include "kernels/judge/verdict.h"
#include "kernels/numerics/bound.h"
#include "kernels/numerics/convert.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

// The device's allowance may be this much above the host's: a fast reference may
// take an upper bound of |A||B|, and the order of its sums is its own. More would
// be a device that forgives itself.
constexpr double kAllowanceSlack = 1.01;

// How far two references of an exact element may be apart: not at all if the output's format holds
// the value. If only rounding makes it exact, both have functions of their own.
double UnroundedError(const HostElement& e) {
  constexpr double kBits = 0x1p-40;
  return e.value == e.rounded || !std::isfinite(e.value) ? 0.0 : kBits * std::abs(e.value);
}

std::string_view WhatIsWrong(Disagreement what) {
  switch (what) {
    case Disagreement::kReference:
      return "the device's reference is";
    case Disagreement::kAllowance:
      return "the device's error allowance is";
    default:
      return "the device accepted an output of";
  }
}

// The inputs, and the elements of the output that a reference with several right values asks for.
class InputsAndOutput final : public HostInputs {
 public:
  // `at` ascends; `output` has an element an index.
  InputsAndOutput(const HostInputs& inputs, std::span<const std::int64_t> at,
                  std::span<const double> output)
      : inputs_(inputs), at_(at), output_(output) {}

  void Read(int operand, std::int64_t begin, std::int64_t count, double* out) const override {
    inputs_.Read(operand, begin, count, out);
  }
  std::optional<double> Output(std::int64_t index) const override {
    const auto found = std::lower_bound(at_.begin(), at_.end(), index);
    if (found == at_.end() || *found != index) return std::nullopt;
    return output_[static_cast<std::size_t>(found - at_.begin())];
  }

 private:
  const HostInputs& inputs_;
  std::span<const std::int64_t> at_;
  std::span<const double> output_;
};

// Counts the elements whose bounds say nothing. `all_zero`: so is every element of the reference,
// and not of the output, of which the finding "zeros" would tell.
void CountUnproven(const std::vector<double>& value, const std::vector<double>& allowance,
                   bool all_zero, Recheck& result) {
  double mean = 0;  // of the magnitudes
  for (const double v : value) {
    if (std::isfinite(v)) mean += std::abs(v) / static_cast<double>(value.size());
  }
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (!std::isfinite(value[i])) continue;  // judged by class
    const double magnitude = std::abs(value[i]);
    if (!std::isfinite(allowance[i])) ++result.unbounded;
    if (all_zero && mean == 0 && allowance[i] > 0) {
      result.unproven += 1.0 / static_cast<double>(value.size());
    } else if (magnitude > 0 && !(allowance[i] < std::max(magnitude, mean))) {
      result.unproven += magnitude / mean / static_cast<double>(value.size());
    }
  }
}

// Whether an overflow of FP64 explains every disagreement: each has an infinity or a NaN on one
// side, or the 0 that an infinity becomes, at an element whose magnitudes reach that far. `request`
// holds all elements, `allowance` the host's E of each. `found` is what the device said of them; it
// becomes the first one that is not explained.
absl::StatusOr<bool> OverflowExplains(const Case& c, const Plan& plan, Device& device,
                                      RecheckRequest request, const std::vector<double>& allowance,
                                      RecheckFindings& found) {
  const std::span<const HostElement> elements = request.elements;
  const bool vanishes = OpOf(c).OverflowMayVanish(c);
  const auto explained = [&](std::size_t at, const RecheckFindings& f) {
    const double host = elements[at].value;
    const bool vanished = vanishes && allowance[at] == 0;
    const bool overflowed =
        f.what == Disagreement::kReference
            ? !std::isfinite(f.got) || !std::isfinite(host) || vanished || (vanishes && f.got == 0)
            : f.what == Disagreement::kAllowance && (std::isinf(f.got) || vanished);
    return overflowed && ReferencesMayDiffer(c, plan, host, allowance[at]);
  };
  auto at = static_cast<std::size_t>(found.first);
  if (!explained(at, found)) return false;
  for (std::int64_t left = found.disagreements - 1; left > 0 && ++at < elements.size();) {
    request.elements = elements.subspan(at, 1);
    absl::StatusOr<RecheckFindings> one = device.Recheck(request);
    if (!one.ok()) return one.status();
    if (one->disagreements == 0) continue;
    --left;
    if (explained(at, *one)) continue;
    found = {found.disagreements, static_cast<std::int64_t>(at), one->what, one->got};
    return false;
  }
  return true;
}

// The host's r and E of the elements.
absl::Status ReferenceOnHost(const Case& c, const Op& op, const Plan& plan, Device& device,
                             const TensorView& output, const HostInputs& inputs,
                             std::span<const std::int64_t> at, std::vector<double>& value,
                             std::vector<double>& allowance) {
  if (!op.SeveralRight(c)) {
    op.ReferenceAt(c, plan, inputs, at, value.data(), allowance.data());
    return absl::OkStatus();
  }
  std::vector<double> judged, run;
  for (std::size_t i = 0; i < at.size(); i = judged.size()) {
    std::size_t last = i + 1;  // neighbours are read together
    while (last < at.size() && at[last] == at[last - 1] + 1) ++last;
    const auto count = static_cast<std::int64_t>(last - i);
    if (absl::Status s = ReadValues(device, output, at[i], count, run); !s.ok()) return s;
    judged.insert(judged.end(), run.begin(), run.end());
  }
  op.ReferenceAt(c, plan, InputsAndOutput(inputs, at, judged), at, value.data(), allowance.data());
  return absl::OkStatus();
}

// The elements at these indices, as the host has computed them.
std::vector<HostElement> HostElements(const Plan& plan, bool flushes,
                                      std::span<const std::int64_t> at,
                                      std::span<const double> value,
                                      std::span<const double> allowance) {
  const FormatInfo& format = Info(plan.output.dtype);
  const OutputRounding output_rounding = OutputRoundingOf(plan.output.dtype, flushes);
  std::vector<HostElement> elements(at.size());
  for (std::size_t i = 0; i < at.size(); ++i) {
    HostElement& e = elements[i];
    e.index = at[i];
    e.value = value[i];
    e.rounded = Quantise(value[i], plan.output.dtype);
    e.bound =
        plan.exact ? 0.0 : TBound(output_rounding, value[i], plan.proven_factor * allowance[i]);
    e.reference_bound = plan.exact ? UnroundedError(e) : e.bound;
    e.most_allowance = kAllowanceSlack * allowance[i] + 1e-300;
    e.may_overflow = std::abs(value[i]) + e.bound >= format.max_finite;
    e.overflows_to_nan = !format.has_inf;
  }
  return elements;
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
  std::vector<double> value(n), allowance_here(n, 0.0);
  if (absl::Status s =
          ReferenceOnHost(c, op, plan, device, output, inputs, at, value, allowance_here);
      !s.ok()) {
    return s;
  }
  const std::vector<HostElement> elements = HostElements(plan, flushes, at, value, allowance_here);
  RecheckRequest request;
  request.output = output;
  // An output that was found wrong is the kernel's fault, not the device's.
  if (compare.beyond_proven > 0 || compare.class_mismatches > 0) request.output.data = nullptr;
  request.reference = reference;
  request.allowance = allowance;
  request.exact = plan.exact;
  request.elements = elements;
  absl::StatusOr<RecheckFindings> findings = device.Recheck(request);
  if (!findings.ok()) return findings.status();

  Recheck result;
  result.elements = static_cast<std::int64_t>(n);
  const bool all_zero = compare.max_abs_expected == 0 && compare.zero_count < compare.count;
  if (!plan.exact) CountUnproven(value, allowance_here, all_zero, result);
  if (findings->disagreements == 0) return result;
  const absl::StatusOr<bool> explained =
      OverflowExplains(c, plan, device, request, allowance_here, *findings);
  if (!explained.ok()) return explained.status();
  const HostElement& first = elements[static_cast<std::size_t>(findings->first)];
  const auto [device_value, host_value] = ToldApart(findings->got, first.value);
  const double bound =
      findings->what == Disagreement::kReference ? first.reference_bound : first.bound;
  result.fault = Cat("host and device disagree at ", Coordinates(first.index, plan.output.dims),
                     ": ", WhatIsWrong(findings->what), " ", device_value,
                     ", the host's reference ", host_value, " ± ", Digits(bound, 3));
  if (findings->disagreements > 1) {
    result.fault += Cat(" (", findings->disagreements, " of ", n, " sampled elements)");
  }
  if (*explained) {
    result.excuse = Cat(result.fault, "; sums of these inputs may overflow FP64, which both use");
    result.fault.clear();
  }
  return result;
}

}  // namespace assay::kernels
