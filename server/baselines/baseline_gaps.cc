#include "server/baselines/baseline_gaps.h"

#include <algorithm>
#include <map>
#include <set>

#include "kernels/text/cat.h"
#include "server/base/case_spec.h"
#include "server/baselines/profiling.h"

namespace assay::server {
namespace {

std::string KeyOfAny(v1::CaseSpec spec) {
  spec.clear_provider();
  return KeyOf(spec);
}

bool TakesAnyProvider(const v1::JobSpec& spec, std::string_view suite,
                      const v1::Baseline& baseline) {
  if (!spec.has_cases()) return !suite.empty() && baseline.suite() == suite;
  return std::all_of(
      spec.cases().cases().begin(), spec.cases().cases().end(),
      [](const v1::CaseSpec& c) { return c.provider().empty() || c.provider() == "all"; });
}

bool FilterTakes(const v1::CaseFilter& filter, const v1::CaseResult& result) {
  const auto& providers = filter.providers();
  const std::string& provider = result.spec().provider();
  const bool listed = std::find(providers.begin(), providers.end(), provider) != providers.end();
  if (!listed && (IsPlanted(provider) || !providers.empty())) return false;
  return result.name().find(filter.name()) != std::string::npos;
}

}  // namespace

std::vector<std::string> GoneProviders(const v1::JobSpec& spec, std::string_view suite,
                                       const DevicePlan& plan, const BaselineIndex& index) {
  if (!TakesAnyProvider(spec, suite, index.baseline())) return {};
  std::map<std::string, std::set<std::string>> planned;  // providers of each timed case
  for (const v1::CaseSpec& c : plan.cases) {
    if (IsTimed(c)) planned[KeyOfAny(c)].insert(c.provider());
  }
  std::map<std::string, std::set<std::string>> gone;  // names of each provider's cases
  for (const v1::CaseResult& result : index.baseline().results()) {
    if (!TimeCounts(result) || !FilterTakes(spec.filter(), result)) continue;
    const auto others = planned.find(KeyOfAny(result.spec()));
    if (others == planned.end() || others->second.contains(result.spec().provider())) continue;
    gone[result.spec().provider()].insert(result.name());
  }
  std::vector<std::string> sentences;
  sentences.reserve(gone.size());
  for (const auto& [provider, names] : gone) {
    sentences.push_back(Cat(index.label(), " has times of ", names.size(),
                            names.size() == 1 ? " case by " : " cases by ", provider, " (",
                            *names.begin(), names.size() == 1 ? "" : ", …", "), and ", plan.device,
                            " has no such kernel now: assay kernels says why"));
  }
  return sentences;
}

}  // namespace assay::server
