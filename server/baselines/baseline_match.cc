#include "server/baselines/baseline_match.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <string_view>
#include <utility>

#include "kernels/numerics/change.h"
#include "kernels/ops/op.h"
#include "kernels/text/cat.h"
#include "kernels/text/percent.h"
#include "kernels/text/shell_word.h"
#include "server/base/finding.h"
#include "server/base/wire.h"

namespace assay::server {
namespace {

RunTimes TimesOf(const v1::BenchStats& bench) {
  RunTimes times;
  times.median_seconds = bench.median_seconds();
  times.samples = bench.samples();
  if (bench.has_p10_seconds()) times.p10_seconds = bench.p10_seconds();
  if (bench.has_p90_seconds()) times.p90_seconds = bench.p90_seconds();
  if (bench.has_median_standard_error()) {
    times.median_standard_error = bench.median_standard_error();
  }
  if (bench.conditions().has_waiting_ratio()) {
    times.waiting_ratio = bench.conditions().waiting_ratio();
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

// Slower only if its baseline would have been faster but for what it waited.
bool Hidden(const v1::BaselineChange& change) { return change.ratio() <= 1 + change.threshold(); }

std::string Times(double ratio) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f times", ratio);
  return text;
}

std::string UpTo(const v1::BaselineChange& change) {
  constexpr double kAnything = 100;  // threads waited all the while
  return change.most_ratio() < kAnything * change.ratio()
             ? Cat("up to ", Times(change.most_ratio()))
             : "any more";
}

std::string SlowerMessage(const v1::BaselineChange& change) {
  return Cat(SecondsWords(change.seconds()),
             change.runs() > 1 ? Cat(" in ", change.runs(), " runs") : "", " against ",
             SecondsWords(change.baseline_seconds()), " in ", change.baseline(), ": ",
             Times(change.ratio()),
             Hidden(change)
                 ? Cat(", and ", UpTo(change), " but for what the baseline's threads waited for ",
                       "processors that others had")
                 : "",
             ", above ", 1 + change.threshold(), " (noise ", Percent(change.noise()), ")");
}

std::string NoisyMessage(const v1::BaselineChange& change, const v1::BenchConditions& seen) {
  constexpr double kWorthTelling = 0.01;
  const double waited = seen.waiting_ratio();
  return Cat(
      SlowerMessage(change),
      waited > kWorthTelling
          ? Cat("; up to ", Percent(waited), " of it threads waited for processors that others had")
          : "",
      ": too noisy to tell; ",
      Hidden(change) ? "time it without --compare where nobody else uses the device, and save "
                       "that as the baseline"
                     : "time it again where nobody else uses the device");
}

// Nothing was found but that efficiency was asked for and could not be told, or was low.
bool OnlyEfficiency(const v1::CaseResult& result) {
  return std::all_of(result.findings().begin(), result.findings().end(),
                     [](const v1::Finding& f) { return f.reason() == "efficiency"; });
}

std::string HowTimed(const v1::BenchStats& bench) {
  return Cat(SecondsWords(bench.median_seconds()),
             bench.has_launches_per_sample() ? " as part of a graph" : " by itself");
}

// A spec that never reached its kernel does not say the operator's own pattern.
std::string PatternOf(const v1::CaseSpec& spec) {
  if (!spec.pattern().empty()) return spec.pattern();
  std::vector<FieldError> errors;
  const Case c = FromProto(spec, errors);
  const Op* op = errors.empty() ? FindOp(OpName(c.problem)) : nullptr;
  if (op == nullptr) return "";
  const absl::StatusOr<Plan> plan = op->MakePlan(c);
  return plan.ok() && !plan->inputs.empty() ? ToString(plan->inputs[0].pattern) : "";
}

void PutLast(v1::Reason reason, const std::string& message, v1::CaseResult& result) {
  *result.add_findings() = MakeFinding(reason, message);
  SetPhases(v1::PHASE_BENCH, result);
}

void PutFirst(v1::Reason reason, const std::string& message, v1::CaseResult& result) {
  const auto others = result.findings();
  result.clear_findings();
  PutLast(reason, message, result);
  result.mutable_findings()->MergeFrom(others);
}

}  // namespace

std::string KeyOf(const v1::CaseSpec& spec) {
  v1::CaseSpec key;
  key.set_dtype(spec.dtype());
  key.set_out_dtype(spec.out_dtype());
  key.set_provider(spec.provider());
  key.set_pattern(PatternOf(spec));
  const auto* problem = v1::CaseSpec::descriptor()->FindOneofByName("problem");
  const auto* field = spec.GetReflection()->GetOneofFieldDescriptor(spec, problem);
  if (field != nullptr) {
    key.GetReflection()
        ->MutableMessage(&key, field)
        ->CopyFrom(spec.GetReflection()->GetMessage(spec, field));
  }
  return key.SerializeAsString();
}

BaselineIndex::Alike BaselineIndex::Alikeness(std::size_t timed, const v1::CaseResult& result,
                                              bool name, bool seed, bool way) {
  Alike alike{timed, {}, {}, {}};
  if (name) std::get<1>(alike) = result.name();
  if (seed) std::get<2>(alike) = result.spec().seed();
  if (way) std::get<3>(alike) = result.bench().has_launches_per_sample();
  return alike;
}

BaselineIndex::BaselineIndex(v1::Baseline baseline, std::string label, double threshold)
    : baseline_(std::move(baseline)), label_(std::move(label)), threshold_(threshold) {
  for (const v1::CaseResult& result : baseline_.results()) {
    if (!TimeCounts(result)) continue;
    const std::size_t timed = timed_.emplace(KeyOf(result.spec()), timed_.size()).first->second;
    for (const bool name : {true, false}) {
      for (const bool seed : {true, false}) {
        for (const bool way : {true, false}) {
          cases_.emplace(Alikeness(timed, result, name, seed, way), &result);
        }
      }
    }
  }
}

const v1::CaseResult* BaselineIndex::Find(const v1::CaseResult& result, bool same_way) const {
  const auto timed = timed_.find(KeyOf(result.spec()));
  if (timed == timed_.end()) return nullptr;
  // The time of a launch within a graph lacks the host's part.
  const bool way = same_way && result.has_bench();
  // Of several the one of the same name and seed, else of the same name, else of the same seed,
  // else the first.
  for (const bool name : {true, false}) {
    for (const bool seed : {true, false}) {
      const auto found = cases_.find(Alikeness(timed->second, result, name, seed, way));
      if (found != cases_.end()) return found->second;
    }
  }
  return nullptr;
}

const v1::CaseResult* BaselineIndex::TimedOtherwise(const v1::CaseResult& result) const {
  if (!TimeCounts(result) || Find(result) != nullptr) return nullptr;
  return Find(result, /*same_way=*/false);
}

std::string BaselineIndex::OtherwiseMessage(const v1::CaseResult& before,
                                            const v1::CaseResult& result) const {
  return Cat(HowTimed(result.bench()), " now, ", HowTimed(before.bench()), " in ", label_,
             ": a launch in a graph is without the host's part, and nothing can be told");
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
  if (reading->least_ratio < reading->ratio) change.set_least_ratio(reading->least_ratio);
  if (reading->most_ratio > reading->ratio) change.set_most_ratio(reading->most_ratio);
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

bool FoundWrong(const v1::CaseResult& result) {
  return result.verdict() == v1::VERDICT_ERROR ||
         (result.verdict() == v1::VERDICT_FAILED && !OnlyEfficiency(result));
}

bool BaselineIndex::MayBeShorter(const v1::CaseResult& result) const {
  if (result.verdict() != v1::VERDICT_PASSED && !OnlyEfficiency(result)) return false;
  const std::optional<v1::BaselineChange> change = Read(result);
  return change && change->ratio() < kBeyondAnyNoise &&
         (change->change() == v1::CHANGE_SLOWER || (MayBeSlower(*change) && !Hidden(*change)));
}

void BaselineIndex::HoldAgainst(v1::CaseResult& result, const TimedRuns& runs) const {
  if (const v1::CaseResult* before = TimedOtherwise(result)) {
    return HoldOtherwise(*before, result);
  }
  if (result.verdict() == v1::VERDICT_UNSUPPORTED) return HoldUnsupported(result);
  std::optional<v1::BaselineChange> change = Read(result);
  if (!change) return;
  if (runs.all > 1) change->set_runs(runs.all);
  if (runs.as_short + runs.within > 0) change->set_change(v1::CHANGE_AMBIGUOUS);
  *result.mutable_bench()->mutable_baseline() = *change;
  const bool sound = result.verdict() == v1::VERDICT_PASSED || OnlyEfficiency(result);
  const bool slower = change->change() == v1::CHANGE_SLOWER;
  if (!sound || !(slower || MayBeSlower(*change))) return;
  // First what was asked for here; a low efficiency follows.
  if (slower) {
    PutFirst(v1::REASON_SLOWER, SlowerMessage(*change), result);
    result.set_verdict(v1::VERDICT_FAILED);
  } else if (result.verdict() == v1::VERDICT_FAILED) {  // which stands, and for its own reason
    PutLast(v1::REASON_NOISY, NoisyMessage(*change, result.bench().conditions()), result);
  } else {
    PutFirst(v1::REASON_NOISY, NoisyMessage(*change, result.bench().conditions()), result);
    result.set_verdict(v1::VERDICT_INCONCLUSIVE);
  }
  AddToRepro(result);
}

void BaselineIndex::HoldOtherwise(const v1::CaseResult& before, v1::CaseResult& result) const {
  // Behind a low efficiency, which stands.
  PutLast(v1::REASON_REPLAY, OtherwiseMessage(before, result), result);
  if (result.verdict() == v1::VERDICT_PASSED) result.set_verdict(v1::VERDICT_INCONCLUSIVE);
  result.set_next_step(
      "time it again; if it stays so, it takes far longer or far less than it did: compare both "
      "times, and save a new baseline");
  AddToRepro(result);
}

void BaselineIndex::HoldUnsupported(v1::CaseResult& result) const {
  if (!LacksItsTime(result) || Find(result, /*same_way=*/false) == nullptr) return;
  const std::string why = result.findings().empty() ? "" : result.findings(0).message();
  result.clear_findings();
  PutFirst(v1::REASON_UNSUPPORTED, Cat(why, why.empty() ? "" : "; ", label_, " has a time of it"),
           result);
  result.set_verdict(v1::VERDICT_INCONCLUSIVE);
  result.set_next_step(Cat("bring back what ran it (assay kernels shows what there is of ",
                           result.spec().provider(), "), or save a new baseline without it"));
  AddToRepro(result);
}

void BaselineIndex::AddToRepro(v1::CaseResult& result) const {
  if (result.repro().empty() || label_ == kUnnamedBaseline) return;
  *result.mutable_repro() += Cat(" --compare ", ShellWord(label_));
  if (threshold_ != kDefaultChangeThreshold) {
    *result.mutable_repro() += Cat(" --threshold ", threshold_);
  }
}

v1::CompareBaselinesResponse BaselineIndex::Compare(const v1::Baseline& current) const {
  v1::CompareBaselinesResponse response;
  std::set<const v1::CaseResult*> seen;
  std::vector<v1::CaseResult> lost;
  for (const v1::CaseResult& result : current.results()) {
    if (std::optional<v1::BaselineChange> change = Read(result)) {
      *response.add_changes() = *std::move(change);
      seen.insert(Find(result));
    } else if (const v1::CaseResult* before = TimedOtherwise(result)) {
      v1::CaseResult& told = lost.emplace_back(Untimed(result));
      told.set_verdict(v1::VERDICT_INCONCLUSIVE);
      PutFirst(v1::REASON_REPLAY, OtherwiseMessage(*before, result), told);
    } else if (TimeCounts(result)) {
      response.add_added(result.name());
    }
  }
  lost.insert(lost.end(), current.untimed().begin(), current.untimed().end());
  for (const v1::CaseResult& result : lost) {
    const v1::CaseResult* before = Find(result, /*same_way=*/false);
    if (before == nullptr || !seen.insert(before).second) continue;
    *response.add_lost() = result;
  }
  for (const v1::CaseResult& result : baseline_.results()) {
    if (!seen.contains(&result) && TimeCounts(result)) response.add_missing(result.name());
  }
  return response;
}

}  // namespace assay::server
