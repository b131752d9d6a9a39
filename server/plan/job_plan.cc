#include "server/plan/job_plan.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "absl/time/time.h"
#include "kernels/text/cat.h"
#include "server/base/case_spec.h"
#include "server/base/request_errors.h"
#include "server/baselines/baselines.h"
#include "server/baselines/profiling.h"
#include "server/plan/selftest.h"
#include "server/plan/spec_check.h"
#include "server/plan/suite_cases.h"

namespace assay::server {
namespace {

absl::StatusOr<std::vector<Target>> FindTargets(const v1::JobSpec& spec, const DeviceSet& devices) {
  std::vector<Target> targets;
  for (CaseExecutor* executor : devices.Select(spec.device())) {
    targets.push_back({executor, executor->Describe(), executor->Kernels()});
  }
  if (!targets.empty()) return targets;
  if (const v1::Device* device = devices.Unusable(spec.device())) {
    return WithReason(
        absl::NotFoundError(Cat("device: \"", spec.device(),
                                "\" cannot be used here: ", device->unavailable_reason())),
        v1::ERROR_REASON_DEVICE_UNUSABLE, "spec.device");
  }
  std::vector<std::string> known;
  for (const auto& executor : devices.executors) known.push_back(executor->device_id());
  return WithReason(absl::NotFoundError(Cat("device: no device \"", spec.device(), "\"",
                                            known.empty() ? "; this daemon has none"
                                                          : Suggestion(spec.device(), known))),
                    v1::ERROR_REASON_DEVICE_NOT_FOUND, "spec.device");
}

bool AnyTimed(const JobPlan& plan) {
  for (const DevicePlan& part : plan.devices) {
    for (const v1::CaseSpec& c : part.cases) {
      if (IsTimed(c)) return true;
    }
  }
  return false;
}

bool HasProvider(const DeviceSet& devices, std::string_view provider) {
  for (const auto& executor : devices.executors) {
    for (const v1::Kernel& kernel : executor->Kernels()) {
      if (kernel.provider() == provider) return true;
    }
  }
  return false;
}

// The providers of all devices' kernels, sorted.
std::vector<std::string> KnownProviders(const DeviceSet& devices) {
  std::set<std::string_view> providers;
  for (const auto& executor : devices.executors) {
    for (const v1::Kernel& kernel : executor->Kernels()) providers.insert(kernel.provider());
  }
  return {providers.begin(), providers.end()};
}

// Plans one job in steps. What is wrong with the request gathers in `errors_`.
class Planner {
 public:
  Planner(const v1::JobSpec& spec, const DeviceSet& devices, const PlanOptions& options,
          bool elsewhere)
      : spec_(spec), devices_(devices), options_(options), elsewhere_(elsewhere) {}

  absl::StatusOr<JobPlan> Plan() {
    const absl::StatusOr<std::vector<Target>> targets = FindTargets(spec_, devices_);
    ReadRequest();
    // What is wrong with the request itself comes first, whatever this node has.
    if (!errors_.empty()) return Refusal();
    if (!targets.ok()) return targets.status();
    for (const Target& target : *targets) CheckProfilerOn(spec_, target.device, errors_);
    if (!errors_.empty()) return Refusal();
    if (spec_.has_budget()) {
      plan_.budget = static_cast<double>(spec_.budget().seconds()) + 1e-9 * spec_.budget().nanos();
    }
    for (const Target& target : *targets) {
      const int most_filling = options_.max_cases / static_cast<int>(targets->size());
      if (absl::Status s = PlanDevice(target, most_filling); !s.ok()) return s;
    }
    CheckWhole();
    if (!errors_.empty()) return Refusal();
    if (!too_large_.ok()) return too_large_;
    return std::move(plan_);
  }

 private:
  // What a device's cases are made of.
  struct Source {
    std::vector<BaseCase> cases;  // empty if the request lists the cases
    std::vector<Required> required;
    std::vector<Case> filling;
  };

  // Checks the request's own fields and reads the cases that it lists.
  void ReadRequest() {
    const bool named = !spec_.filter().providers().empty();
    CheckJob(spec_, named ? Providers() : std::vector<std::string>(), options_, errors_);
    if (!spec_.has_cases() || spec_.cases().cases_size() > options_.max_cases) return;
    listed_ = ReadCases(spec_.cases(), errors_);
    std::vector<std::string> found;
    for (const BaseCase& base : listed_) {
      if (Enough(errors_)) return;
      const std::string& provider = base.value.provider;
      if (IsUserKernel(base.value.reference)) {
        CheckUserKernel(Cat(base.path, ".reference"), base.value.reference);
      }
      if (provider.empty() || provider == "all" || Contains(found, provider)) continue;
      if (elsewhere_ && IsExternal(provider)) continue;
      if (!IsUserKernel(provider) && HasProvider(devices_, provider)) {
        found.push_back(provider);
      } else if (Providers().empty()) {
        continue;
      } else if (IsUserKernel(provider)) {
        CheckUserKernel(Cat(base.path, ".provider"), provider);
      } else {
        errors_.push_back({Cat(base.path, ".provider"), Cat("unknown provider \"", provider, "\"",
                                                            Suggestion(provider, Providers()))});
      }
    }
  }

  // All providers. To list them takes longer than the rest of a small job's plan.
  const std::vector<std::string>& Providers() {
    if (!providers_) providers_ = KnownProviders(devices_);
    return *providers_;
  }

  void CheckUserKernel(std::string field, const std::string& provider) {
    const absl::Status status =
        options_.check_kernel
            ? options_.check_kernel(provider)
            : absl::FailedPreconditionError("this daemon takes no users' kernels");
    if (status.ok()) return;
    errors_.push_back({std::move(field), Cat(status.message())});
    if (absl::IsNotFound(status)) ++unknown_kernels_;
  }

  // The request's errors. A client can help if kernels are missing, and only they.
  absl::Status Refusal() const {
    absl::Status status = BadRequestError(errors_);
    if (unknown_kernels_ < errors_.size()) return status;
    return WithReason(std::move(status), v1::ERROR_REASON_KERNEL_NOT_FOUND, errors_.front().field);
  }

  absl::Status PlanDevice(const Target& target, int most_filling) {
    if (target.kernels.empty()) {
      const std::string& reason = target.device.quarantine_reason();
      return WithRetry(
          absl::UnavailableError(Cat("the kernels of ", target.device.id(), " are not known",
                                     reason.empty() ? "" : ": ", reason)),
          absl::Seconds(1));
    }
    Source source;
    if (!spec_.has_cases()) {
      absl::StatusOr<Source> read = ReadSource(target);
      if (!read.ok()) return read.status();
      source = *std::move(read);
    }
    DevicePlan part{.device = target.device.id(), .first_index = next_index_};
    for (const Required& r : source.required) part.required.push_back(r.key);
    for (const BaseCase& base : spec_.has_cases() ? listed_ : source.cases) {
      if (absl::Status s = AddCase(base, target, source.required, part); !s.ok()) return s;
    }
    CheckTimes(target, part);
    if (spec_.filter().name().empty()) AddUnmet(source.required, part, plan_.findings);
    plan_.total += static_cast<int>(part.cases.size());
    if (plan_.budget) {
      AddFilling(source.filling, target, source.required, spec_, options_, *plan_.budget,
                 most_filling, errors_, part);
    }
    next_index_ += static_cast<std::int32_t>(part.cases.size());
    plan_.devices.push_back(std::move(part));
    return absl::OkStatus();
  }

  // A time on the emulator says nothing of any device.
  void CheckTimes(const Target& target, const DevicePlan& part) {
    if (target.device.backend() != "simt") return;
    if (std::none_of(part.cases.begin(), part.cases.end(), IsTimed)) return;
    errors_.push_back({"spec.mode", Cat("must be validate on ", target.device.id(),
                                        ", an emulator: times there say nothing of a GPU")});
  }

  // The job's suite as it is on the device. The plan takes its name, version and budget from it.
  absl::StatusOr<Source> ReadSource(const Target& target) {
    const std::uint64_t seed = spec_.has_seed() ? spec_.seed() : 1;
    absl::StatusOr<Suite> suite =
        spec_.suite() == kAdversarialSuite ? AdversarialSuite(target.device.backend(), seed)
        : IsSelftest(spec_.suite())
            ? SelftestSuite(target.kernels, target.device.backend(), seed,
                            spec_.trials() > 0 ? spec_.trials() : kSelftestTrials)
            : ReadSuite(spec_, target.device.backend(), options_, errors_);
    if (!suite.ok()) return suite.status();
    if (!IsSelftest(spec_.suite()) && IsSelftest(suite->name)) {
      errors_.push_back({"spec.suite_text",
                         Cat("the name ", suite->name, " belongs to a suite of the daemon's own")});
    }
    for (const Case& c : suite->cases) {
      if (IsUserKernel(c.provider)) CheckUserKernel("spec.suite", c.provider);
      if (IsUserKernel(c.reference)) CheckUserKernel("spec.suite", c.reference);
    }
    if (!errors_.empty()) return Refusal();
    plan_.suite = spec_.source_case() == v1::JobSpec::kSuite ? spec_.suite() : suite->name;
    plan_.suite_version = suite->version;
    if (!plan_.budget) plan_.budget = suite->budget_seconds;
    Source source{.cases = {},
                  .required = RequiredOn(*suite, target.device.backend(), spec_.filter()),
                  .filling = std::move(suite->fill)};
    for (std::size_t n = 0; n < suite->cases.size(); ++n) {
      source.cases.push_back({Cat("case ", n, " of the suite"), std::move(suite->cases[n])});
    }
    return source;
  }

  // Adds a case to a device's part, once for each provider that the filter takes.
  absl::Status AddCase(const BaseCase& base, const Target& target,
                       const std::vector<Required>& required, DevicePlan& part) {
    // A suite with a budget is a ladder of sizes: the device takes those it can.
    if (plan_.budget && !spec_.has_cases() && !CheckFits(base, target, errors_).ok()) {
      return absl::OkStatus();
    }
    bool taken = false;
    const std::vector<std::string> whose =
        ProvidersOf(base.value, target, required, spec_.filter());
    for (const std::string& provider : whose) {
      ++before_filter_;
      if (!FilterTakes(spec_.filter(), OpName(base.value.problem), provider, base.value.dtype)) {
        continue;
      }
      v1::CaseSpec filled =
          SpecWithDefaults(base.value, provider, whose.size() > 1, spec_, options_);
      if (filled.name().find(spec_.filter().name()) == std::string::npos) continue;
      taken = true;
      if (plan_.total + static_cast<int>(part.cases.size()) >= options_.max_cases) {
        return BadRequestError({{spec_.has_cases() ? "spec.cases" : "spec.suite",
                                 Cat("makes more than ", options_.max_cases,
                                     " cases on its devices and providers; choose fewer by "
                                     "filter, provider or device")}});
      }
      part.cases.push_back(std::move(filled));
    }
    if (taken) {
      if (absl::Status s = CheckFits(base, target, errors_); !s.ok() && too_large_.ok()) {
        too_large_ = std::move(s);
      }
    }
    return absl::OkStatus();
  }

  // What can only be said of all devices' cases together.
  void CheckWhole() {
    if (plan_.total == 0) {
      errors_.push_back({before_filter_ > 0 ? "spec.filter" : "spec.suite",
                         before_filter_ > 0 ? Cat("takes none of the ", before_filter_, " cases")
                                            : std::string("has no cases for this device")});
    }
    if (HasBaseline(spec_) && errors_.empty() && !AnyTimed(plan_)) {
      errors_.push_back(
          {spec_.has_inline_baseline() ? "spec.inline_baseline" : "spec.baseline",
           "holds times against it, and no case is timed: set the mode to benchmark"});
    }
    if (!spec_.profiler().empty() && errors_.empty() && !AnyTimed(plan_)) {
      errors_.push_back({"spec.profiler",
                         "counts beside times, and no case is timed: set the mode to benchmark"});
    }
  }

  const v1::JobSpec& spec_;
  const DeviceSet& devices_;
  const PlanOptions& options_;
  const bool elsewhere_;
  std::vector<FieldError> errors_;
  std::optional<std::vector<std::string>> providers_;
  std::size_t unknown_kernels_ = 0;  // of errors_: kernels of users that are not here
  std::vector<BaseCase> listed_;     // of the request
  JobPlan plan_;
  absl::Status too_large_;  // the first case that can never fit its device
  int before_filter_ = 0;   // cases
  std::int32_t next_index_ = 0;
};

}  // namespace

int CasesToRun(const DevicePlan& plan, std::size_t from) {
  return static_cast<int>(std::count_if(
      plan.cases.begin() + static_cast<std::ptrdiff_t>(std::min(from, plan.cases.size())),
      plan.cases.end(), [](const v1::CaseSpec& c) { return !c.fill(); }));
}

absl::StatusOr<JobPlan> PlanJob(const v1::JobSpec& spec, const DeviceSet& devices,
                                const PlanOptions& options, bool elsewhere) {
  return Planner(spec, devices, options, elsewhere).Plan();
}

}  // namespace assay::server
