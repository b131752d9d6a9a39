#include "server/plan/suite_cases.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "google/protobuf/util/time_util.h"
#include "kernels/ops/criterion.h"
#include "kernels/ops/field.h"
#include "kernels/ops/op.h"
#include "kernels/suites/golden.h"
#include "kernels/text/cat.h"
#include "server/base/case_spec.h"
#include "server/base/error_info.h"
#include "server/base/finding.h"
#include "server/base/wire.h"
#include "server/plan/spec_check.h"

namespace assay::server {
namespace {

using google::protobuf::util::TimeUtil;

// An output element's reference, FP64: its value, and its allowance unless it is exact.
std::int64_t ReferenceBytes(const Plan& plan) { return plan.exact ? 8 : 16; }

std::string Key(std::string_view op, std::string_view provider, std::string_view dtype) {
  return Cat(op, " ", provider, " ", dtype);
}

std::int64_t BytesNeeded(const Plan& plan) {
  std::int64_t bytes = SaturatingMul(ReferenceBytes(plan), plan.output.extents.count());
  bytes = SaturatingAdd(bytes, StorageBytes(plan.output.dtype, plan.output.extents.span()));
  for (const Operand& input : plan.inputs) {
    bytes = SaturatingAdd(bytes, StorageBytes(input.dtype, input.extents.span()));
  }
  return bytes;
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

}  // namespace

std::vector<BaseCase> ReadCases(const v1::CaseList& list, std::vector<FieldError>& errors) {
  std::vector<BaseCase> cases;
  for (int n = 0; n < list.cases_size() && !Enough(errors); ++n) {
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

bool FilterTakes(const v1::CaseFilter& filter, std::string_view op, std::string_view provider,
                 DType dtype) {
  const auto in = [](const auto& list, const auto& value) {
    return list.empty() || std::find(list.begin(), list.end(), value) != list.end();
  };
  return in(filter.ops(), op) && in(filter.providers(), provider) &&
         in(filter.dtypes(), static_cast<int>(dtype));
}

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

v1::CaseSpec SpecWithDefaults(const Case& base, const std::string& provider, bool name_provider,
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
    for (std::size_t n = 0; n < suite->cases.size() && !Enough(errors); ++n) {
      CheckName(Cat(field, ": name of case ", n), suite->cases[n].name, errors);
    }
    return suite;
  }
  if (!absl::IsInvalidArgument(suite.status())) return suite;
  for (const auto line : absl::StrSplit(suite.status().message(), '\n')) {
    if (Enough(errors)) break;
    errors.push_back({field, std::string(line)});
  }
  return Suite{};
}

std::string RequirementKey(const v1::CaseSpec& spec) {
  return Key(OpOf(spec), spec.provider(), Name(static_cast<DType>(spec.dtype())));
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
      v1::CaseSpec filled = SpecWithDefaults(c, provider, /*name_provider=*/false, spec, options);
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

}  // namespace assay::server
