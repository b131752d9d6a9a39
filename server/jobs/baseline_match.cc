#include "server/jobs/baseline_match.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>
#include <string_view>
#include <utility>

#include "kernels/numerics/cat.h"
#include "kernels/numerics/change.h"
#include "server/jobs/environment.h"

namespace assay {
namespace {

constexpr std::string_view kSlower = "slower";
// A benchmark takes at least so many; validation times a launch or two in passing.
constexpr int kLeastSamples = 10;
// Reasons that say nothing against output and time.
constexpr std::array<std::string_view, 2> kReasonsOfTime = {"efficiency", kSlower};
// Devices of one model, all of them healthy, differ by 5 % and more.
constexpr double kSiblingThreshold = 0.10;

// What is timed, as bytes that are equal for equal cases.
std::string KeyOf(const v1::CaseSpec& spec) {
  v1::CaseSpec key;
  key.set_dtype(spec.dtype());
  key.set_out_dtype(spec.out_dtype());
  key.set_provider(spec.provider());
  key.set_pattern(spec.pattern());
  const auto* problem = v1::CaseSpec::descriptor()->FindOneofByName("problem");
  const auto* field = spec.GetReflection()->GetOneofFieldDescriptor(spec, problem);
  if (field != nullptr) {
    key.GetReflection()
        ->MutableMessage(&key, field)
        ->CopyFrom(spec.GetReflection()->GetMessage(spec, field));
  }
  return key.SerializeAsString();
}

RunTimes TimesOf(const v1::BenchStats& bench) {
  RunTimes times;
  times.median_seconds = bench.median_seconds();
  times.samples = bench.samples();
  if (bench.has_p10_seconds()) times.p10_seconds = bench.p10_seconds();
  if (bench.has_p90_seconds()) times.p90_seconds = bench.p90_seconds();
  if (bench.has_median_standard_error()) {
    times.median_standard_error = bench.median_standard_error();
  }
  return times;
}

v1::Change ToProto(Change change) {
  switch (change) {
    case Change::kFaster:
      return v1::CHANGE_FASTER;
    case Change::kSame:
      return v1::CHANGE_SAME;
    case Change::kSlower:
      return v1::CHANGE_SLOWER;
    case Change::kAmbiguous:
      return v1::CHANGE_AMBIGUOUS;
  }
  return v1::CHANGE_UNSPECIFIED;
}

// "2.31 ms"
std::string SecondsWords(double seconds) {
  constexpr std::pair<double, const char*> kUnits[] = {
      {1, "s"}, {1e-3, "ms"}, {1e-6, "µs"}, {1e-9, "ns"}};
  for (const auto& [scale, unit] : kUnits) {
    if (seconds < scale && scale > 1e-9) continue;
    char text[48];
    std::snprintf(text, sizeof text, "%.3g %s", seconds / scale, unit);
    return text;
  }
  return Cat(seconds, " s");
}

std::string Percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2g %%", 100 * share);
  return text;
}

std::string SlowerMessage(const v1::BaselineChange& change) {
  char ratio[32];
  std::snprintf(ratio, sizeof ratio, "%.3f", change.ratio());
  return Cat(SecondsWords(change.seconds()), " against ", SecondsWords(change.baseline_seconds()),
             " in ", change.baseline(), ": ", ratio, " times, above ", 1 + change.threshold(),
             " (noise ", Percent(change.noise()), ")");
}

std::string NoisyMessage(const v1::BaselineChange& change) {
  return Cat(SlowerMessage(change),
             ": too noisy to tell; time it again where nobody else uses the device");
}

// It may have become slower, and the noise hides it.
bool MayBeSlower(const v1::BaselineChange& change) {
  return change.change() == v1::CHANGE_AMBIGUOUS && change.ratio() > 1 + change.threshold();
}

// "cuda" of "cuda:3".
std::string_view BackendOf(std::string_view device) { return device.substr(0, device.find(':')); }

// Nothing was found but that efficiency was asked for and could not be told, or was low.
bool OnlyEfficiency(const v1::CaseResult& result) {
  return std::all_of(result.findings().begin(), result.findings().end(),
                     [](const v1::Finding& f) { return f.reason() == "efficiency"; });
}

void AddDifference(std::string_view what, const std::string& was, const std::string& is,
                   std::vector<std::string>& differences) {
  if (was == is) return;
  const auto said = [](const std::string& text) {
    return text.empty() ? std::string("not known") : Cat("\"", text, "\"");
  };
  differences.push_back(Cat(what, " ", said(was), " there, ", said(is), " here"));
}

}  // namespace

bool WasTimed(const v1::CaseResult& result) {
  if (!(result.bench().median_seconds() > 0)) return false;
  switch (result.spec().mode()) {
    case v1::MODE_BENCHMARK:
    case v1::MODE_BOTH:
      return true;
    case v1::MODE_UNSPECIFIED:  // a report that does not say
      return result.bench().samples() >= kLeastSamples;
    default:
      return false;
  }
}

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
  return (mode == v1::MODE_BENCHMARK || mode == v1::MODE_BOTH) && !TimeCounts(result);
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

BaselineIndex::BaselineIndex(v1::Baseline baseline, std::string label, double threshold)
    : baseline_(std::move(baseline)), label_(std::move(label)), threshold_(threshold) {
  for (const v1::CaseResult& result : baseline_.results()) {
    if (TimeCounts(result)) cases_.emplace(KeyOf(result.spec()), &result);
  }
}

const v1::CaseResult* BaselineIndex::Find(const v1::CaseResult& result) const {
  const auto [begin, end] = cases_.equal_range(KeyOf(result.spec()));
  const v1::CaseResult* found = nullptr;
  // Of several the one of the same name and seed, else of the same name, else the first.
  int best = -1;
  for (auto it = begin; it != end; ++it) {
    // The time of a launch within a graph lacks the host's part.
    if (result.has_bench() &&
        result.bench().has_launches_per_sample() != it->second->bench().has_launches_per_sample()) {
      continue;
    }
    const bool name = it->second->name() == result.name();
    const bool seed = it->second->spec().seed() == result.spec().seed();
    const int likeness = (name ? 2 : 0) + (seed ? 1 : 0);
    if (likeness <= best) continue;
    best = likeness;
    found = it->second;
  }
  return found;
}

std::optional<v1::BaselineChange> BaselineIndex::Read(const v1::CaseResult& result) const {
  if (!TimeCounts(result)) return std::nullopt;
  const v1::CaseResult* before = Find(result);
  if (before == nullptr) return std::nullopt;
  const auto reading = ReadChange(TimesOf(before->bench()), TimesOf(result.bench()), threshold_);
  if (!reading) return std::nullopt;
  v1::BaselineChange change;
  change.set_baseline(label_);
  change.set_baseline_seconds(before->bench().median_seconds());
  change.set_seconds(result.bench().median_seconds());
  change.set_ratio(reading->ratio);
  change.set_noise(reading->noise);
  change.set_threshold(reading->threshold);
  change.set_change(ToProto(reading->change));
  change.set_name(result.name());
  return change;
}

bool BaselineIndex::Holds(const v1::CaseSpec& spec, std::string_view device) const {
  v1::CaseResult result;
  *result.mutable_spec() = spec;
  result.set_name(spec.name());
  result.set_device(std::string(device));
  return Find(result) != nullptr;
}

void BaselineIndex::HoldAgainst(v1::CaseResult& result) const {
  const std::optional<v1::BaselineChange> change = Read(result);
  if (!change) return;
  *result.mutable_bench()->mutable_baseline() = *change;
  const bool sound = result.verdict() == v1::VERDICT_PASSED || OnlyEfficiency(result);
  const bool slower = change->change() == v1::CHANGE_SLOWER;
  if (!sound || !(slower || MayBeSlower(*change))) return;
  // First what was asked for here; a low efficiency follows.
  const auto others = result.findings();
  result.clear_findings();
  v1::Finding& finding = *result.add_findings();
  finding.set_reason(slower ? std::string(kSlower) : "noisy");
  finding.set_message(slower ? SlowerMessage(*change) : NoisyMessage(*change));
  result.mutable_findings()->MergeFrom(others);
  if (slower || result.verdict() == v1::VERDICT_PASSED) {
    result.set_verdict(slower ? v1::VERDICT_FAILED : v1::VERDICT_INCONCLUSIVE);
  }
  if (result.repro().empty() || !label_.starts_with("baselines/")) return;
  *result.mutable_repro() += Cat(" --compare ", label_);
  if (threshold_ != kDefaultChangeThreshold) {
    *result.mutable_repro() += Cat(" --threshold ", threshold_);
  }
}

v1::CompareBaselinesResponse BaselineIndex::Compare(const v1::Baseline& current) const {
  v1::CompareBaselinesResponse response;
  std::set<const v1::CaseResult*> seen;
  for (const v1::CaseResult& result : current.results()) {
    if (std::optional<v1::BaselineChange> change = Read(result)) {
      *response.add_changes() = *std::move(change);
      seen.insert(Find(result));
    } else if (TimeCounts(result)) {
      response.add_added(result.name());
    }
  }
  for (const v1::CaseResult& result : current.untimed()) {
    const v1::CaseResult* before = Find(result);
    if (before == nullptr || !seen.insert(before).second) continue;
    *response.add_lost() = result;
  }
  for (const v1::CaseResult& result : baseline_.results()) {
    if (!seen.contains(&result) && TimeCounts(result)) response.add_missing(result.name());
  }
  return response;
}

}  // namespace assay
