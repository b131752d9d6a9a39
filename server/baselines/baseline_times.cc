#include "server/baselines/baseline_times.h"

#include <algorithm>
#include <array>

#include "kernels/numerics/change.h"
#include "kernels/text/cat.h"
#include "server/baselines/environment.h"

namespace assay::server {
namespace {

// Reasons that say nothing against output and time.
constexpr std::array<std::string_view, 3> kReasonsOfTime = {"efficiency", "slower", kReplayWord};
// Devices of one model, all of them healthy, differ by 5 % and more.
constexpr double kSiblingThreshold = 0.10;

// "cuda" of "cuda:3".
std::string_view BackendOf(std::string_view device) { return device.substr(0, device.find(':')); }

void AddDifference(std::string_view what, const std::string& was, const std::string& is,
                   std::vector<std::string>& differences) {
  if (was == is) return;
  const auto said = [](const std::string& text) {
    return text.empty() ? std::string("not known") : Cat("\"", text, "\"");
  };
  differences.push_back(Cat(what, " ", said(was), " there, ", said(is), " here"));
}

// INCONCLUSIVE, and the first reason one of those that make it so only for a baseline.
bool Was(const v1::CaseResult& result, std::string_view reason) {
  return result.verdict() == v1::VERDICT_INCONCLUSIVE && !result.findings().empty() &&
         result.findings(0).reason() == reason;
}

}  // namespace

bool TimeCounts(const v1::CaseResult& result) {
  if (!WasTimed(result)) return false;
  if (result.verdict() == v1::VERDICT_PASSED) return true;
  if (result.verdict() != v1::VERDICT_FAILED && result.verdict() != v1::VERDICT_INCONCLUSIVE) {
    return false;
  }
  return result.findings_size() > 0 &&
         std::all_of(result.findings().begin(), result.findings().end(), [](const v1::Finding& f) {
           return std::find(kReasonsOfTime.begin(), kReasonsOfTime.end(), f.reason()) !=
                  kReasonsOfTime.end();
         });
}

bool LacksItsTime(const v1::CaseResult& result) {
  const v1::Mode mode = result.spec().mode();
  const bool asked = mode == v1::MODE_BENCHMARK || mode == v1::MODE_BOTH || WasTimed(result);
  return asked && !TimeCounts(result);
}

bool IsUnsupported(const v1::CaseResult& result) {
  return result.verdict() == v1::VERDICT_UNSUPPORTED || Was(result, "unsupported");
}

bool WasHeld(const v1::CaseResult& result) {
  return result.bench().has_baseline() || Was(result, "unsupported") || Was(result, "budget") ||
         std::any_of(result.findings().begin(), result.findings().end(),
                     [](const v1::Finding& f) { return f.reason() == kReplayWord; });
}

void AddTiming(const v1::CaseResult& result, v1::Baseline& baseline) {
  if (TimeCounts(result)) {
    *baseline.add_results() = Timing(result);
  } else if (LacksItsTime(result)) {
    *baseline.add_untimed() = Untimed(result);
  }
}

v1::CaseResult Untimed(const v1::CaseResult& result) {
  v1::CaseResult kept = Timing(result);
  kept.clear_bench();
  return kept;
}

v1::CaseResult Timing(const v1::CaseResult& result) {
  v1::CaseResult kept;
  kept.set_index(result.index());
  kept.set_name(result.name());
  kept.set_device(result.device());
  kept.set_verdict(result.verdict());
  *kept.mutable_findings() = result.findings();
  kept.set_implementation(result.implementation());
  *kept.mutable_spec() = result.spec();
  kept.mutable_spec()->clear_golden();
  kept.mutable_spec()->clear_slices();
  kept.mutable_spec()->clear_published();
  *kept.mutable_bench() = result.bench();
  kept.mutable_bench()->clear_baseline();
  kept.mutable_bench()->clear_profile();
  kept.mutable_bench()->clear_profile_note();
  return kept;
}

v1::Baseline Describe(const v1::Job& job) {
  v1::Baseline baseline;
  baseline.set_job(job.name());
  if (job.devices_size() > 0) baseline.set_device(job.devices(0));
  baseline.set_suite(job.suite());
  baseline.set_suite_version(job.suite_version());
  for (const auto& [key, value] : job.environment()) {
    if (key == "model") {
      baseline.set_model(value);
    } else if (key == "driver_version") {
      baseline.set_driver_version(value);
    } else if (key == "host") {
      baseline.set_host(value);
    } else if (key != kCallersTerms) {
      (*baseline.mutable_versions())[key] = value;
    }
  }
  return baseline;
}

std::vector<std::string> Differences(const v1::Baseline& baseline, const v1::Baseline& current) {
  std::vector<std::string> differences;
  AddDifference("device model", baseline.model(), current.model(), differences);
  if (!baseline.device().empty() && !current.device().empty()) {
    AddDifference("kind of device", std::string(BackendOf(baseline.device())),
                  std::string(BackendOf(current.device())), differences);
  }
  AddDifference("driver", baseline.driver_version(), current.driver_version(), differences);
  if (!baseline.suite().empty() && baseline.suite() == current.suite()) {
    AddDifference(Cat("version of suite ", baseline.suite()), baseline.suite_version(),
                  current.suite_version(), differences);
  }
  return differences;
}

double DefaultThreshold(const v1::Baseline& baseline, const v1::Baseline& current) {
  const auto other = [](const std::string& was, const std::string& is) {
    return !was.empty() && !is.empty() && was != is;
  };
  const bool sibling =
      other(baseline.device(), current.device()) || other(baseline.host(), current.host());
  return sibling ? kSiblingThreshold : kDefaultChangeThreshold;
}

}  // namespace assay::server
