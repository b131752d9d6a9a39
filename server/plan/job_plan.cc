#include "server/plan/job_plan.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "google/protobuf/util/time_util.h"
#include "kernels/ops/criterion.h"
#include "kernels/ops/op.h"
#include "kernels/suites/golden.h"
#include "kernels/suites/suite.h"
#include "kernels/text/cat.h"
#include "kernels/text/near_name.h"
#include "server/base/case_spec.h"
#include "server/base/finding.h"
#include "server/base/job_events.h"
#include "server/base/request_errors.h"
#include "server/base/wire.h"
#include "server/baselines/baselines.h"
#include "server/baselines/profiling.h"
#include "server/plan/selftest.h"
#include "server/plan/spec_check.h"

namespace assay::server {
namespace {

using google::protobuf::util::TimeUtil;

// An output element's reference, FP64: its value, and its allowance unless it is exact.
std::int64_t ReferenceBytes(const Plan& plan) { return plan.exact ? 8 : 16; }

// A case before its provider and its device are chosen.
struct BaseCase {
  std::string path;  // "spec.cases[3]", or the suite's case
  Case value;
};

// A device of the job and what is known of it.
struct Target {
  CaseExecutor* executor = nullptr;
  v1::Device device;
  const std::vector<v1::Kernel>& kernels;
};

// Reads explicit cases; they are the same on every device.
std::vector<BaseCase> ReadCases(const v1::CaseList& list, std::vector<FieldError>& errors) {
  std::vector<BaseCase> cases;
  for (int n = 0; n < list.cases_size(); ++n) {
    const v1::CaseSpec& spec = list.cases(n);
    std::vector<FieldError> found;
    // The plain struct holds seconds only: a duration's own form is checked here.
    CheckPositive("deadline", spec.has_deadline(), spec.deadline(), found);
    const bool deadline_is_bad = !found.empty();
    CheckName("name", spec.name(), found);
    BaseCase base{Cat("spec.cases[", n, "]"), {}};
    std::vector<FieldError> converted;
    base.value = FromProto(spec, converted);
    for (FieldError& e : converted) {
      if (!(deadline_is_bad && e.field == "deadline")) found.push_back(std::move(e));
    }
    for (FieldError& e : found) {
      errors.push_back({Cat(base.path, ".", e.field), std::move(e.message)});
    }
    cases.push_back(std::move(base));
  }
  return cases;
}

std::string Key(std::string_view op, std::string_view provider, std::string_view dtype) {
  return Cat(op, " ", provider, " ", dtype);
}

bool FilterTakes(const v1::CaseFilter& filter, std::string_view op, std::string_view provider,
                 DType dtype) {
  const auto in = [](const auto& list, const auto& value) {
    return list.empty() || std::find(list.begin(), list.end(), value) != list.end();
  };
  return in(filter.ops(), op) && in(filter.providers(), provider) &&
         in(filter.dtypes(), static_cast<int>(dtype));
}

// A required kernel that the filter leaves in.
struct Required {
  std::string op, provider, key;
  DType dtype = DType::kUnspecified;
};

std::vector<Required> RequiredOn(const Suite& suite, std::string_view backend,
                                 const v1::CaseFilter& filter) {
  std::vector<Required> all;
  for (const Requirement& r : suite.requirements) {
    if (!r.backend.empty() && r.backend != backend) continue;
    for (const DType dtype : r.dtypes) {
      if (!FilterTakes(filter, r.op, r.provider, dtype)) continue;
      all.push_back({r.op, r.provider, Key(r.op, r.provider, Name(dtype)), dtype});
    }
  }
  return all;
}

// Whose kernels a case runs on a device: one provider, or what "all" stands for. Kernels
// that are wrong on purpose are not among them unless the filter names them.
std::vector<std::string> ProvidersOf(const Case& c, const Target& target,
                                     const std::vector<Required>& required,
                                     const v1::CaseFilter& filter) {
  if (!c.provider.empty() && c.provider != "all") return {c.provider};
  const std::string_view op = OpName(c.problem);
  std::vector<std::string> available;
  std::vector<std::string> unavailable;
  for (const v1::Kernel& kernel : target.kernels) {
    if (kernel.op() != op || kernel.backend() != target.device.backend()) continue;
    if (IsPlanted(kernel.provider()) &&
        std::find(filter.providers().begin(), filter.providers().end(), kernel.provider()) ==
            filter.providers().end()) {
      continue;
    }
    std::vector<std::string>& list = kernel.available() ? available : unavailable;
    if (!Contains(list, kernel.provider())) list.push_back(kernel.provider());
  }
  for (const Required& r : required) {
    if (r.op == op && r.dtype == c.dtype && !Contains(available, r.provider)) {
      available.push_back(r.provider);
    }
  }
  // With nothing available the case still gets a result that says so: UNSUPPORTED.
  if (available.empty()) available = unavailable;
  if (available.empty()) available = {"builtin"};
  return available;
}

// Every default said: what the executor gets needs no job beside it.
v1::CaseSpec Fill(const Case& base, const std::string& provider, bool name_provider,
                  const v1::JobSpec& job, const PlanOptions& options) {
  Case c = base;
  c.provider = provider;
  if (c.name.empty()) {
    c.name = DefaultName(c);
  } else if (name_provider) {
    c.name = Cat(c.name, " ", provider);
  }
  if (!c.seed) c.seed = job.has_seed() ? job.seed() : 1;
  if (c.out_dtype == DType::kUnspecified) c.out_dtype = OutputType(c);
  c.criterion = GatingCriterion(c);
  if (c.repeats == 0) c.repeats = std::max(1, job.repeats());
  if (c.mode == Mode::kUnspecified) {
    c.mode = job.mode() == v1::MODE_UNSPECIFIED ? Mode::kValidate : static_cast<Mode>(job.mode());
  }
  v1::CaseSpec spec = ToProto(c);
  if (!c.deadline_seconds) {
    if (job.has_case_deadline()) {
      *spec.mutable_deadline() = job.case_deadline();
    } else {
      *spec.mutable_deadline() =
          TimeUtil::NanosecondsToDuration(absl::ToInt64Nanoseconds(options.case_deadline));
    }
  }
  return spec;
}

std::int64_t SaturatingAdd(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

std::int64_t BytesNeeded(const Plan& plan) {
  std::int64_t bytes = SaturatingMul(ReferenceBytes(plan), plan.output.extents.count());
  bytes = SaturatingAdd(bytes, StorageBytes(plan.output.dtype, plan.output.extents.span()));
  for (const Operand& input : plan.inputs) {
    bytes = SaturatingAdd(bytes, StorageBytes(input.dtype, input.extents.span()));
  }
  return bytes;
}

// OK, or why the case can never run on the device.
absl::Status CheckFits(const BaseCase& base, const Target& target,
                       std::vector<FieldError>& errors) {
  const Op* op = FindOp(OpName(base.value.problem));
  if (op == nullptr) return absl::OkStatus();
  const absl::StatusOr<Plan> plan = op->MakePlan(base.value);
  if (!plan.ok()) {
    errors.push_back({Cat(base.path, ".pattern"), std::string(plan.status().message())});
    return absl::OkStatus();
  }
  const std::int64_t needed = BytesNeeded(*plan);
  const std::int64_t there = target.device.arena_bytes();
  if (there <= 0 || needed <= there) return absl::OkStatus();
  return absl::ResourceExhaustedError(Cat(base.path, " (", DefaultName(base.value), ") needs ",
                                          needed, " bytes (operands, and ", ReferenceBytes(*plan),
                                          " an output element for its reference), ",
                                          target.device.id(), " has at most ", there));
}

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

// The suite as it is on a backend. Its errors go to `errors`; NOT_FOUND is returned.
absl::StatusOr<Suite> ReadSuite(const v1::JobSpec& spec, std::string_view backend,
                                const PlanOptions& options, std::vector<FieldError>& errors) {
  std::string text = spec.suite_text();
  std::string file = spec.suite_file().empty() ? "suite" : spec.suite_file();
  if (spec.source_case() == v1::JobSpec::kSuite) {
    absl::StatusOr<std::string> read = ReadSuiteText(options.suites_folder, spec.suite());
    if (absl::IsNotFound(read.status())) {
      return WithReason(read.status(), v1::ERROR_REASON_SUITE_NOT_FOUND, "spec.suite");
    }
    if (!read.ok()) return read.status();
    text = *std::move(read);
    file = Cat(spec.suite(), ".toml");
  }
  absl::StatusOr<Suite> suite = ParseSuite(text, file, backend);
  if (suite.ok() && spec.source_case() == v1::JobSpec::kSuite) {
    const absl::StatusOr<Golden> golden = ReadGolden(options.suites_folder, spec.suite());
    if (!golden.ok()) return absl::InternalError(golden.status().message());
    ApplyGolden(*golden, *suite);
  }
  const char* field = spec.source_case() == v1::JobSpec::kSuite ? "spec.suite" : "spec.suite_text";
  if (suite.ok()) {
    CheckName(Cat(field, ": name"), suite->name, errors);
    for (std::size_t n = 0; n < suite->cases.size(); ++n) {
      CheckName(Cat(field, ": name of case ", n), suite->cases[n].name, errors);
    }
    return suite;
  }
  if (!absl::IsInvalidArgument(suite.status())) return suite;
  for (const auto line : absl::StrSplit(suite.status().message(), '\n')) {
    errors.push_back({field, std::string(line)});
  }
  return Suite{};
}

bool AnyTimed(const JobPlan& plan) {
  for (const DevicePlan& part : plan.devices) {
    for (const v1::CaseSpec& c : part.cases) {
      if (IsTimed(c)) return true;
    }
  }
  return false;
}

void AddUnmet(const std::vector<Required>& required, const DevicePlan& plan,
              std::vector<v1::Finding>& findings) {
  std::set<std::string> run;
  for (const v1::CaseSpec& c : plan.cases) run.insert(RequirementKey(c));
  for (const Required& r : required) {
    if (run.contains(r.key)) continue;
    v1::Finding& finding = findings.emplace_back(
        MakeFinding(v1::REASON_EMPTY, Cat("the suite requires ", r.key, " on ", plan.device,
                                          ", and none of its cases runs that")));
    finding.set_device(plan.device);
    finding.set_subject(r.key);
  }
}

// Whether the device's kernel takes the format: what it does not take fills nothing.
bool Takes(const Target& target, std::string_view op, std::string_view provider, DType dtype) {
  return std::any_of(target.kernels.begin(), target.kernels.end(), [&](const v1::Kernel& k) {
    return k.available() && k.op() == op && k.provider() == provider &&
           k.backend() == target.device.backend() &&
           (k.dtypes().empty() || std::find(k.dtypes().begin(), k.dtypes().end(),
                                            static_cast<int>(dtype)) != k.dtypes().end());
  });
}

// Cases that fill a budget, in rounds of all of them, each round with the next seed; more
// than will be run.
void AddFilling(const std::vector<Case>& filling, const Target& target,
                const std::vector<Required>& required, const v1::JobSpec& spec,
                const PlanOptions& options, double budget, int most,
                std::vector<FieldError>& errors, DevicePlan& part) {
  constexpr double kShortestCase = 2e-3;  // [s]
  std::vector<v1::CaseSpec> round;
  for (const Case& c : filling) {
    if (!CheckFits({"case of the suite", c}, target, errors).ok()) continue;
    for (const std::string& provider : ProvidersOf(c, target, required, spec.filter())) {
      if (!FilterTakes(spec.filter(), OpName(c.problem), provider, c.dtype)) continue;
      if (!Takes(target, OpName(c.problem), provider, c.dtype)) continue;
      v1::CaseSpec filled = Fill(c, provider, /*name_provider=*/false, spec, options);
      if (filled.name().find(spec.filter().name()) == std::string::npos) continue;
      filled.set_fill(true);
      round.push_back(std::move(filled));
    }
  }
  if (round.empty()) return;
  const double fit = std::min(static_cast<double>(most), budget / kShortestCase);
  const auto limit = part.cases.size() + static_cast<std::size_t>(fit);
  for (std::uint64_t n = 1; part.cases.size() < std::min(limit, std::size_t(most)); ++n) {
    for (v1::CaseSpec next : round) {
      next.set_seed(next.seed() + n);
      part.cases.push_back(std::move(next));
    }
  }
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
    const std::vector<std::string> providers = KnownProviders(devices_);
    CheckJob(spec_, providers, options_, errors_);
    if (!spec_.has_cases() || spec_.cases().cases_size() > options_.max_cases) return;
    listed_ = ReadCases(spec_.cases(), errors_);
    for (const BaseCase& base : listed_) {
      const std::string& provider = base.value.provider;
      if (IsUserKernel(base.value.reference)) {
        CheckUserKernel(Cat(base.path, ".reference"), base.value.reference);
      }
      if (provider.empty() || provider == "all" || providers.empty()) continue;
      if (elsewhere_ && IsExternal(provider)) continue;
      if (IsUserKernel(provider)) {
        CheckUserKernel(Cat(base.path, ".provider"), provider);
      } else if (!Contains(providers, provider)) {
        errors_.push_back({Cat(base.path, ".provider"), Cat("unknown provider \"", provider, "\"",
                                                            Suggestion(provider, providers))});
      }
    }
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
      v1::CaseSpec filled = Fill(base.value, provider, whose.size() > 1, spec_, options_);
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

std::string RequirementKey(const v1::CaseSpec& spec) {
  return Key(OpOf(spec), spec.provider(), Name(static_cast<DType>(spec.dtype())));
}

absl::StatusOr<JobPlan> PlanJob(const v1::JobSpec& spec, const DeviceSet& devices,
                                const PlanOptions& options, bool elsewhere) {
  return Planner(spec, devices, options, elsewhere).Plan();
}

}  // namespace assay::server
