#include "server/plan/spec_check.h"

#include <algorithm>
#include <map>
#include <utility>

#include "google/protobuf/util/time_util.h"
#include "kernels/cheats/cheats.h"
#include "kernels/ops/op.h"
#include "kernels/suites/suite.h"
#include "kernels/text/cat.h"
#include "kernels/text/visible.h"
#include "proto/near_name.h"
#include "server/base/case_spec.h"
#include "server/base/wire.h"
#include "server/baselines/baselines.h"
#include "server/baselines/profiling.h"
#include "server/plan/selftest.h"

namespace assay::server {
namespace {

using google::protobuf::util::TimeUtil;

constexpr int kMaxLabels = 64;
constexpr int kMaxFilterEntries = 64;  // of one kind
constexpr std::size_t kMaxLabelBytes = 128;
constexpr std::size_t kMaxNameBytes = 256;  // of a case or a suite

std::vector<std::string> OpNames() {
  std::vector<std::string> names;
  for (const Op* op : AllOps()) names.emplace_back(op->name());
  return names;
}

}  // namespace

bool Contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string Suggestion(std::string_view word, const std::vector<std::string>& known) {
  const std::vector<std::string_view> views(known.begin(), known.end());
  const std::string_view near = NearestName(word, views);
  if (!near.empty()) return Cat("; did you mean \"", near, "\"?");
  // Defects are dozens, and nobody's choice but who names one.
  std::vector<std::string_view> listed;
  for (const std::string_view name : views) {
    if (!name.starts_with("planted/")) listed.push_back(name);
  }
  return listed.empty() ? "" : Cat("; known: ", Join(listed, ", "));
}

namespace {

// Names and labels are shown on terminals and stand in logs.
void CheckVisible(std::string field, std::string_view text, std::vector<FieldError>& errors) {
  const std::size_t at = FindControl(text);
  if (at == std::string_view::npos) return;
  errors.push_back(
      {std::move(field), Cat("must hold no control characters and none that change the "
                             "direction of text, got one at byte ",
                             at)});
}

}  // namespace

void CheckName(std::string_view field, std::string_view name, std::vector<FieldError>& errors) {
  if (name.size() > kMaxNameBytes) {
    errors.push_back({std::string(field),
                      Cat("must have at most ", kMaxNameBytes, " bytes, got ", name.size())});
  }
  CheckVisible(std::string(field), name, errors);
}

void CheckPositive(std::string_view field, bool present, const google::protobuf::Duration& duration,
                   std::vector<FieldError>& errors) {
  if (!present) return;
  const bool signs_differ = (duration.seconds() < 0 && duration.nanos() > 0) ||
                            (duration.seconds() > 0 && duration.nanos() < 0);
  if (duration.seconds() < TimeUtil::kDurationMinSeconds ||
      duration.seconds() > TimeUtil::kDurationMaxSeconds || duration.nanos() < -999'999'999 ||
      duration.nanos() > 999'999'999 || signs_differ) {
    errors.push_back({std::string(field), Cat("is no valid duration: ", duration.seconds(), " s ",
                                              duration.nanos(), " ns")});
  } else if (duration.seconds() < 0 || duration.nanos() < 0 ||
             (duration.seconds() == 0 && duration.nanos() == 0)) {
    errors.push_back({std::string(field),
                      Cat("must be more than 0 seconds, got ", TimeUtil::ToString(duration))});
  }
}

namespace {

// Whether the entries are to be looked at. Each may be an error of its own.
bool CheckCount(std::string_view field, int entries, std::vector<FieldError>& errors) {
  if (entries <= kMaxFilterEntries) return true;
  errors.push_back(
      {std::string(field), Cat("may hold at most ", kMaxFilterEntries, " entries, got ", entries)});
  return false;
}

void CheckFilter(const v1::CaseFilter& filter, const std::vector<std::string>& providers,
                 std::vector<FieldError>& errors) {
  const bool few_ops = CheckCount("spec.filter.ops", filter.ops_size(), errors);
  const bool few_providers = CheckCount("spec.filter.providers", filter.providers_size(), errors);
  const bool few_dtypes = CheckCount("spec.filter.dtypes", filter.dtypes_size(), errors);
  if (!few_ops || !few_providers || !few_dtypes) return;
  const std::vector<std::string> ops = OpNames();
  for (int n = 0; n < filter.ops_size(); ++n) {
    const std::string& op = filter.ops(n);
    if (!Contains(ops, op)) {
      errors.push_back({Cat("spec.filter.ops[", n, "]"),
                        Cat("unknown operator \"", op, "\"", Suggestion(op, ops))});
    }
  }
  for (int n = 0; n < filter.providers_size(); ++n) {
    const std::string& provider = filter.providers(n);
    if (provider.starts_with(kCheatPrefix)) {
      if (FindCheat(provider)) continue;
      errors.push_back({Cat("spec.filter.providers[", n, "]"),
                        Cat("unknown cheat \"", provider.substr(kCheatPrefix.size()),
                            "\"; `assay selftest --adversarial` lists them")});
    } else if (!Contains(providers, provider) && !IsUserKernel(provider)) {
      errors.push_back(
          {Cat("spec.filter.providers[", n, "]"),
           Cat("unknown provider \"", provider, "\"", Suggestion(provider, providers))});
    }
  }
  for (int n = 0; n < filter.dtypes_size(); ++n) {
    const int dtype = filter.dtypes(n);
    if (!v1::DType_IsValid(dtype) || dtype == v1::DTYPE_UNSPECIFIED) {
      errors.push_back({Cat("spec.filter.dtypes[", n, "]"), Cat("unknown value ", dtype)});
    }
  }
}

}  // namespace

void CheckJob(const v1::JobSpec& spec, const std::vector<std::string>& providers,
              const PlanOptions& options, std::vector<FieldError>& errors) {
  if (spec.source_case() == v1::JobSpec::SOURCE_NOT_SET) {
    errors.push_back({"spec.source", "is required: a suite, a suite's text, or cases"});
  }
  if (spec.has_cases()) {
    if (spec.cases().cases().empty()) {
      errors.push_back({"spec.cases", "must hold at least 1 case, got 0"});
    } else if (spec.cases().cases_size() > options.max_cases) {
      errors.push_back({"spec.cases", Cat("may hold at most ", options.max_cases, " cases, got ",
                                          spec.cases().cases_size())});
    }
  }
  CheckName("spec.suite", spec.suite(), errors);
  CheckName("spec.suite_file", spec.suite_file(), errors);
  CheckFilter(spec.filter(), providers, errors);
  if (!v1::Mode_IsValid(spec.mode())) {
    errors.push_back({"spec.mode", Cat("unknown value ", static_cast<int>(spec.mode()))});
  }
  CheckRange("spec.repeats", spec.repeats(), 0, 1'000, errors);
  CheckRange("spec.trials", spec.trials(), 0, kMaxSelftestTrials, errors);
  if (spec.trials() > 0 && spec.suite() != kSelftestSuite) {
    errors.push_back({"spec.trials", "belongs to the suite selftest"});
  }
  CheckRange("spec.priority", spec.priority(), -100, 100, errors);
  Baselines::CheckSpec(spec, options.max_cases, errors);
  CheckProfiler(spec, errors);
  CheckPositive("spec.budget", spec.has_budget(), spec.budget(), errors);
  if (spec.budget().seconds() > kMaxBudgetSeconds) {
    errors.push_back({"spec.budget", Cat("must be at most ", kMaxBudgetSeconds, " seconds, got ",
                                         TimeUtil::ToString(spec.budget()))});
  }
  CheckPositive("spec.deadline", spec.has_deadline(), spec.deadline(), errors);
  CheckPositive("spec.wait_for_others", spec.has_wait_for_others(), spec.wait_for_others(), errors);
  CheckPositive("spec.case_deadline", spec.has_case_deadline(), spec.case_deadline(), errors);
  if (spec.labels_size() > kMaxLabels) {
    errors.push_back(
        {"spec.labels", Cat("may hold at most ", kMaxLabels, " labels, got ", spec.labels_size())});
    return;
  }
  const std::map<std::string, std::string> labels(spec.labels().begin(), spec.labels().end());
  for (const auto& [key, value] : labels) {
    if (key.empty() || key.size() > kMaxLabelBytes) {
      errors.push_back({"spec.labels",
                        Cat("a key must have 1 to ", kMaxLabelBytes, " bytes, got ", key.size())});
    }
    CheckVisible("spec.labels", key, errors);
    CheckVisible(Cat("spec.labels[\"", Visible(key), "\"]"), value, errors);
    if (value.size() > kMaxLabelBytes) {
      errors.push_back({Cat("spec.labels[\"", Visible(key), "\"]"),
                        Cat("must have at most ", kMaxLabelBytes, " bytes, got ", value.size())});
    }
  }
}

}  // namespace assay::server
