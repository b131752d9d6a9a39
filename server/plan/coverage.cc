#include "server/plan/coverage.h"

#include "kernels/text/cat.h"
#include "server/baselines/profiling.h"
#include "server/plan/suite_cases.h"

namespace assay::server {
namespace {

std::string GroupOf(const v1::CaseSpec& spec) {
  return Cat(RequirementKey(spec), spec.pattern().empty() ? "" : Cat(" ", spec.pattern()),
             IsTimed(spec) ? " timed" : "", spec.repeats() > 1 ? " repeated" : "");
}

}  // namespace

void Coverage::Ran(const v1::CaseSpec& spec) {
  if (!spec.fill()) ran_.insert(GroupOf(spec));
}

std::vector<std::string> Coverage::Missed(const std::vector<v1::CaseSpec>& planned) const {
  std::vector<std::string> missed;
  std::set<std::string> told;
  for (const v1::CaseSpec& spec : planned) {
    if (spec.fill()) continue;
    std::string group = GroupOf(spec);
    if (!ran_.contains(group) && told.insert(group).second) missed.push_back(std::move(group));
  }
  return missed;
}

}  // namespace assay::server
