#include "server/pass/budget.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_format.h"
#include "kernels/ops/op.h"
#include "kernels/text/cat.h"
#include "server/base/case_spec.h"
#include "server/base/job_events.h"
#include "server/base/wire.h"

namespace assay::server {
namespace {

// Most of a budget that one case may take.
constexpr double kLargestShare = 0.1;
// Most of its own deadline that a case may be predicted to take: a larger one falls out of caches,
// and a host that is busy takes several times as long.
constexpr double kShareOfDeadline = 1.0 / 8;
// A case may take longer than it did the last time.
constexpr double kMargin = 1.15;
// Of a case's time, what one more launch of its kernel costs, poisoned, guarded and digested:
// references are in FP64, and far slower than most kernels.
constexpr double kRepeatedShare = 0.125;

// Of a timed case, warm-up and the least number of samples (kernels/bench/sampler.h).
constexpr double kLeastLaunches = 12;

// Cases whose time goes the same way: launches that are only repeated, timed or screened by
// checksums cost far less for their work than a reference does.
std::string WayOf(const v1::CaseSpec& spec) {
  return Cat(OpOf(spec), " ", static_cast<int>(spec.mode()), " ", static_cast<int>(spec.verify()),
             " ", spec.repeats());
}

std::string KindOf(const v1::CaseSpec& spec) {
  return Cat(WayOf(spec), " ", spec.provider(), " ", static_cast<int>(spec.dtype()));
}

std::string IdentityOf(const v1::CaseSpec& spec) {
  v1::CaseSpec bare = spec;
  bare.clear_name();
  bare.clear_seed();
  bare.clear_fill();
  bare.clear_golden();
  bare.clear_deadline();
  return bare.SerializeAsString();
}

}  // namespace

double WorkOf(const v1::CaseSpec& spec) {
  std::vector<FieldError> errors;
  const Case c = FromProto(spec, errors);
  const Op* op = FindOp(OpName(c.problem));
  if (!errors.empty() || op == nullptr) return 0;
  const absl::StatusOr<Plan> plan = op->MakePlan(c);
  if (!plan.ok()) return 0;
  // A launch that is repeated is not judged again.
  const double launches = 1 + kRepeatedShare * std::max(0, c.repeats - 1);
  return launches * (plan->flops + plan->bytes);
}

Budget::Parts Budget::Predict(const v1::CaseSpec& spec) const {
  if (const auto same = cases_.find(IdentityOf(spec)); same != cases_.end()) {
    return {.work = kMargin * same->second.work, .sampling = kMargin * same->second.sampling};
  }
  const auto kind = rates_.find(KindOf(spec)), way = rates_.find(WayOf(spec));
  if (way == rates_.end()) return {};
  // Kernels of one operator differ, but not by more.
  constexpr double kSpread = 8;
  const double rate =
      kind == rates_.end() ? way->second : std::min(kind->second, kSpread * way->second);
  const auto sampling = sampling_.find(WayOf(spec));
  return {.work = kMargin * rate * WorkOf(spec),
          .sampling = sampling == sampling_.end() ? 0 : kMargin * sampling->second};
}

std::string Budget::WhyNot(const v1::CaseSpec& spec, double elapsed) const {
  if (!seconds_) return "";
  const double left = *seconds_ - elapsed;
  if (left <= 0) return absl::StrFormat("the budget of %.4g s is spent", *seconds_);
  const Parts parts = Predict(spec);
  const double predicted = parts.work + parts.sampling;
  if (predicted > left) {
    return absl::StrFormat("it would take %.2g s, and %.2g s of the budget of %.4g s are left",
                           predicted, left, *seconds_);
  }
  if (predicted > kLargestShare * *seconds_) {
    return absl::StrFormat("it would take %.2g s, more than a tenth of the budget of %.4g s",
                           predicted, *seconds_);
  }
  if (const auto late = late_.find(WayOf(spec));
      late != late_.end() && WorkOf(spec) >= late->second) {
    return "one no larger was ended by its deadline";
  }
  if (spec.has_deadline()) {
    const double deadline = absl::ToDoubleSeconds(ToDuration(spec.deadline()));
    if (parts.work > kShareOfDeadline * deadline || predicted > deadline / 2) {
      return absl::StrFormat("it would take %.2g s, too near to its deadline of %.4g s", predicted,
                             deadline);
    }
  }
  return "";
}

void Budget::EndedLate(const v1::CaseSpec& spec) {
  const double work = WorkOf(spec);
  if (!seconds_ || !(work > 0)) return;
  const auto [at, first] = late_.emplace(WayOf(spec), work);
  if (!first) at->second = std::min(at->second, work);
}

void Budget::Took(const v1::CaseSpec& spec, double seconds, const Sampling& sampling) {
  if (!seconds_) return;
  const double timed = std::min(sampling.seconds, seconds);
  const double least = std::min(kLeastLaunches * sampling.launch, timed);
  const Parts parts = {.work = seconds - timed + least, .sampling = timed - least};
  Parts& same = cases_[IdentityOf(spec)];
  if (same.work + same.sampling < seconds) same = parts;
  double& longest = sampling_[WayOf(spec)];
  longest = std::max(longest, parts.sampling);
  const double work = WorkOf(spec);
  if (!(work > 0) || !(seconds > 0)) return;
  for (const std::string& key : {KindOf(spec), WayOf(spec)}) {
    const auto [at, first] = rates_.emplace(key, parts.work / work);
    if (!first) at->second = std::min(at->second, parts.work / work);
  }
}

}  // namespace assay::server
