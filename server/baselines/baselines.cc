#include "server/baselines/baselines.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_join.h"
#include "google/protobuf/util/time_util.h"
#include "kernels/numerics/change.h"
#include "kernels/text/cat.h"
#include "server/base/finding.h"
#include "server/base/job_name.h"
#include "server/base/log.h"
#include "server/base/request_errors.h"
#include "server/baselines/baseline_gaps.h"
#include "server/store/each_result.h"

namespace assay::server {
namespace {

constexpr std::string_view kPrefix = "baselines/";
constexpr std::size_t kMaxIdBytes = 64;
constexpr double kMaxThreshold = 10;
constexpr std::size_t kMostNameBytes = 4096;  // of a baseline that a caller has
constexpr int kMostResults = 10'000;          // of a baseline that a caller has

bool IsAlphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool IsId(std::string_view id) {
  return !id.empty() && id.size() <= kMaxIdBytes && IsAlphanumeric(id.front()) &&
         std::all_of(id.begin(), id.end(),
                     [](char c) { return IsAlphanumeric(c) || c == '-' || c == '_' || c == '.'; });
}

std::string IdRule(std::string_view got) {
  return Cat(
      "1 to ", kMaxIdBytes,
      " letters, digits, '-', '_' and '.', of which the first is a letter or a digit, got \"",
      got.substr(0, kMaxIdBytes + 16), "\"");
}

absl::Status Refuse(std::string_view field, std::string message) {
  return BadRequestError({{std::string(field), std::move(message)}});
}

// Of times that a caller has; `field` is where the request has them.
absl::Status CheckSize(std::string_view field, const v1::Baseline& given) {
  if (given.results_size() <= kMostResults) return absl::OkStatus();
  return Refuse(Cat(field, ".results"),
                Cat("may hold at most ", kMostResults, " cases, got ", given.results_size()));
}

std::string StateWord(v1::JobState state) {
  switch (state) {
    case v1::JOB_STATE_QUEUED:
      return "is queued";
    case v1::JOB_STATE_RUNNING:
      return "is running";
    case v1::JOB_STATE_CANCELLED:
      return "was cancelled";
    case v1::JOB_STATE_INTERRUPTED:
      return "was interrupted";
    default:
      return "has not finished";
  }
}

constexpr std::string_view kNoTimeCounts =
    " has no time that counts: no timed case's output held, or other work was in its time";

absl::Status OtherKind(std::string_view baseline, std::string_view current,
                       const std::vector<std::string>& differences) {
  return absl::FailedPreconditionError(
      Cat(current, " cannot be held against ", baseline, ": ", absl::StrJoin(differences, "; ")));
}

// A threshold of its field, absent for the default.
void CheckThreshold(std::string_view field, double threshold, std::vector<FieldError>& errors) {
  if (std::isfinite(threshold) && threshold > 0 && threshold <= kMaxThreshold) return;
  errors.push_back({std::string(field), Cat("must be above 0 and at most ", kMaxThreshold,
                                            " (0.05 is 5 %), got ", threshold)});
}

// What a caller gives may hold results whose time does not count.
v1::Baseline Sorted(const v1::Baseline& given) {
  v1::Baseline baseline = given;
  baseline.clear_results();
  for (const v1::CaseResult& result : given.results()) AddTiming(result, baseline);
  return baseline;
}

std::string LabelOf(const v1::Baseline& baseline) {
  return baseline.name().empty() ? std::string(kUnnamedBaseline) : baseline.name();
}

}  // namespace

absl::Status CheckBaselineName(std::string_view field, std::string_view name) {
  if (name.empty()) return Refuse(field, "is required: baselines/ID");
  if (!name.starts_with(kPrefix)) {
    return Refuse(field, Cat("must be baselines/ID, got \"", name.substr(0, 64), "\""));
  }
  const std::string_view id = name.substr(kPrefix.size());
  if (!IsId(id)) return Refuse(field, Cat("must be baselines/ID with an id of ", IdRule(id)));
  return absl::OkStatus();
}

absl::StatusOr<v1::Baseline> Baselines::OfJob(std::string_view name) {
  absl::StatusOr<v1::Job> job = store_.GetJob(name);
  if (!job.ok()) return job.status();
  if (job->state() != v1::JOB_STATE_FINISHED) {
    return absl::FailedPreconditionError(
        Cat(name, " ", StateWord(job->state()), ": only a finished job has times to keep"));
  }
  if (job->devices_size() > 1) {
    return absl::FailedPreconditionError(Cat(name, " ran on ", job->devices_size(), " devices (",
                                             absl::StrJoin(job->devices(), ", "),
                                             "), and a baseline is of one: run it on one"));
  }
  v1::Baseline baseline = Describe(*job);
  bool timed = false;
  const absl::Status read = ForEachResult(store_, name, [&](const v1::CaseResult& result) {
    timed = timed || WasTimed(result);
    AddTiming(result, baseline);
  });
  if (!read.ok()) return read;
  if (baseline.results().empty() && baseline.untimed().empty()) {
    return absl::FailedPreconditionError(Cat(
        name, timed ? std::string(kNoTimeCounts) : " timed nothing: run it with mode benchmark"));
  }
  baseline.set_case_count(baseline.results_size());
  return baseline;
}

// Times that a caller has, as they are kept.
absl::StatusOr<v1::Baseline> Baselines::OfCaller(const v1::Baseline& given) {
  if (absl::Status s = CheckSize("baseline", given); !s.ok()) return s;
  v1::Baseline baseline = Sorted(given);
  if (baseline.results().empty()) {
    return absl::FailedPreconditionError(Cat("what is given", kNoTimeCounts));
  }
  baseline.set_case_count(baseline.results_size());
  return baseline;
}

absl::StatusOr<v1::Baseline> Baselines::Create(const v1::CreateBaselineRequest& request) {
  const bool given = !request.baseline().results().empty();
  const std::string& job = request.baseline().job();
  std::vector<FieldError> errors;
  if (given) {
    if (request.baseline_id().empty()) {
      errors.push_back({"baseline_id", "is required for times of your own"});
    }
  } else if (std::string fault = FaultOfJobName(job); !fault.empty()) {
    errors.push_back({"baseline.job", std::move(fault)});
  }
  std::string id = request.baseline_id();
  if (!id.empty() && !IsId(id)) errors.push_back({"baseline_id", Cat("must be ", IdRule(id))});
  if (!errors.empty()) return BadRequestError(errors);
  if (id.empty()) id = job.substr(kJobPrefix.size());
  absl::StatusOr<v1::Baseline> baseline = given ? OfCaller(request.baseline()) : OfJob(job);
  if (!baseline.ok()) return baseline.status();
  if (baseline->results().empty()) return absl::FailedPreconditionError(Cat(job, kNoTimeCounts));
  baseline->set_name(Cat(kPrefix, id));
  *baseline->mutable_create_time() = google::protobuf::util::TimeUtil::GetCurrentTime();
  if (absl::Status s = store_.CreateBaseline(*baseline); !s.ok()) return s;
  Log(LogLevel::kInfo, "baseline.created",
      {{"baseline", baseline->name()}, {"job", job}, {"cases", baseline->case_count()}});
  return baseline;
}

absl::StatusOr<v1::Baseline> Baselines::Get(std::string_view name) {
  if (absl::Status s = CheckBaselineName("name", name); !s.ok()) return s;
  return store_.GetBaseline(name);
}

absl::StatusOr<BaselinePage> Baselines::List(std::int64_t before, int limit) {
  return store_.ListBaselines(before, limit);
}

absl::Status Baselines::Delete(std::string_view name) {
  if (absl::Status s = CheckBaselineName("name", name); !s.ok()) return s;
  if (absl::Status s = store_.DeleteBaseline(name); !s.ok()) return s;
  Log(LogLevel::kInfo, "baseline.deleted", {{"baseline", name}});
  return absl::OkStatus();
}

absl::StatusOr<v1::Baseline> Baselines::Resolve(std::string_view field,
                                                const v1::BaselineSource& source) {
  switch (source.source_case()) {
    case v1::BaselineSource::kInline:
      if (absl::Status s = CheckSize(Cat(field, ".inline"), source.inline_()); !s.ok()) return s;
      return Sorted(source.inline_());
    case v1::BaselineSource::kName:
      if (source.name().starts_with(kJobPrefix)) {
        if (std::string fault = FaultOfJobName(source.name()); !fault.empty()) {
          return Refuse(Cat(field, ".name"), std::move(fault));
        }
        absl::StatusOr<v1::Baseline> baseline = OfJob(source.name());
        if (baseline.ok()) baseline->set_name(source.name());
        return baseline;
      }
      if (absl::Status s = CheckBaselineName(Cat(field, ".name"), source.name()); !s.ok()) return s;
      return store_.GetBaseline(source.name());
    case v1::BaselineSource::SOURCE_NOT_SET:
      break;
  }
  return Refuse(field, "is required: a name (baselines/ID, jobs/ID), or times of your own");
}

absl::StatusOr<v1::CompareBaselinesResponse> Baselines::Compare(
    const v1::CompareBaselinesRequest& request) {
  std::vector<FieldError> errors;
  if (request.has_threshold()) CheckThreshold("threshold", request.threshold(), errors);
  if (!errors.empty()) return BadRequestError(errors);
  absl::StatusOr<v1::Baseline> baseline = Resolve("baseline", request.baseline());
  if (!baseline.ok()) return baseline.status();
  const absl::StatusOr<v1::Baseline> current = Resolve("current", request.current());
  if (!current.ok()) return current.status();
  const std::string label = LabelOf(*baseline);
  if (baseline->results().empty()) return absl::FailedPreconditionError(Cat(label, kNoTimeCounts));
  const std::vector<std::string> differences = Differences(*baseline, *current);
  if (!differences.empty()) {
    return OtherKind(label, current->name().empty() ? "the current times" : current->name(),
                     differences);
  }
  const double threshold =
      request.has_threshold() ? request.threshold() : DefaultThreshold(*baseline, *current);
  return BaselineIndex(*std::move(baseline), label, threshold).Compare(*current);
}

void Baselines::CheckSpec(const v1::JobSpec& spec, int max_cases, std::vector<FieldError>& errors) {
  if (!spec.baseline().empty() && spec.has_inline_baseline()) {
    errors.push_back({"spec.inline_baseline", "may not be given beside spec.baseline"});
  }
  if (!spec.baseline().empty()) {
    const std::string_view name = spec.baseline();
    if (!name.starts_with(kPrefix) || !IsId(name.substr(kPrefix.size()))) {
      errors.push_back(
          {"spec.baseline", Cat("must be baselines/ID, got \"", name.substr(0, 80), "\"")});
    }
  }
  if (spec.inline_baseline().name().size() > kMostNameBytes) {
    errors.push_back(
        {"spec.inline_baseline.name", Cat("must be at most ", kMostNameBytes, " bytes, got ",
                                          spec.inline_baseline().name().size())});
  }
  if (spec.inline_baseline().results_size() > max_cases) {
    errors.push_back(
        {"spec.inline_baseline.results", Cat("may hold at most ", max_cases, " cases, got ",
                                             spec.inline_baseline().results_size())});
  }
  if (!spec.has_baseline_threshold()) return;
  CheckThreshold("spec.baseline_threshold", spec.baseline_threshold(), errors);
  if (!HasBaseline(spec)) {
    errors.push_back({"spec.baseline_threshold", "belongs to a baseline, and none is given"});
  }
}

absl::Status Baselines::Admit(const std::vector<DevicePlan>& parts, v1::Job& job) {
  for (const DevicePlan& part : parts) {
    const absl::StatusOr<std::unique_ptr<BaselineIndex>> baseline = Of(job, part.device);
    if (!baseline.ok()) return baseline.status();
    if (*baseline == nullptr) return absl::OkStatus();
    for (const std::string& gone : GoneProviders(job.spec(), job.suite(), part, **baseline)) {
      *job.add_findings() = MakeFinding(v1::REASON_BASELINE, gone);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<BaselineIndex>> Baselines::Of(const v1::Job& job,
                                                             std::string_view device) {
  const v1::JobSpec& spec = job.spec();
  if (!HasBaseline(spec)) return nullptr;
  absl::StatusOr<v1::Baseline> baseline =
      spec.has_inline_baseline() ? spec.inline_baseline() : store_.GetBaseline(spec.baseline());
  if (!baseline.ok()) return baseline.status();
  const std::string label = LabelOf(*baseline);
  v1::Baseline here = Describe(job);
  here.set_device(std::string(device));
  const std::vector<std::string> differences = Differences(*baseline, here);
  if (!differences.empty()) return OtherKind(label, "this job", differences);
  const double threshold =
      spec.has_baseline_threshold() ? spec.baseline_threshold() : DefaultThreshold(*baseline, here);
  return std::make_unique<BaselineIndex>(*std::move(baseline), label, threshold);
}

}  // namespace assay::server
