#include "server/plan/selftest.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "kernels/cheats/cheats.h"
#include "kernels/text/cat.h"
#include "server/base/case_spec.h"
#include "server/base/wire.h"
#include "server/plan/binomial.h"

namespace assay::server {
namespace {

constexpr double kUnlikely = 1e-3;  // chance of a row missing its rate by bad luck

bool Runs(const v1::Kernel& kernel, std::string_view backend) {
  return kernel.available() && kernel.backend() == backend;
}

// Whether it is a kernel of the backend of a device: "cuda:0".
bool IsOf(const v1::Kernel& kernel, std::string_view device) {
  return device.substr(0, device.find(':')) == kernel.backend();
}

bool Takes(const v1::Kernel& kernel, v1::DType dtype) {
  return std::find(kernel.dtypes().begin(), kernel.dtypes().end(), dtype) != kernel.dtypes().end();
}

// Planted kernels in the order of their table.
std::vector<const v1::Kernel*> Planted(std::span<const v1::Kernel> kernels,
                                       std::string_view backend) {
  std::vector<const v1::Kernel*> planted;
  for (const v1::Kernel& kernel : kernels) {
    if (Runs(kernel, backend) && kernel.has_planted()) planted.push_back(&kernel);
  }
  std::stable_sort(planted.begin(), planted.end(), [](const v1::Kernel* a, const v1::Kernel* b) {
    return a->planted().position() < b->planted().position();
  });
  return planted;
}

Case CaseOf(const v1::CaseSpec& spec, std::uint64_t seed) {
  std::vector<FieldError> errors;  // the worker made it of a case that was right
  Case c = FromProto(spec, errors);
  c.seed = seed;
  return c;
}

// The problem, formats and data of an example, as the right kernels get them.
v1::CaseSpec WithoutDefect(v1::CaseSpec spec) {
  spec.clear_provider();
  spec.clear_repeats();
  spec.clear_deadline();
  return spec;
}

bool Same(const v1::SelftestRow& row, const v1::CaseResult& result, const std::string& op) {
  return row.op() == op && row.provider() == result.spec().provider() &&
         row.dtype() == result.spec().dtype() && row.device() == result.device();
}

void AddOnce(google::protobuf::RepeatedPtrField<std::string>& words, const std::string& word) {
  if (std::find(words.begin(), words.end(), word) == words.end()) *words.Add() = word;
}

bool Refused(const v1::CaseResult& result) {
  return result.verdict() == v1::VERDICT_FAILED || result.verdict() == v1::VERDICT_ERROR;
}

void Count(const v1::CaseResult& result, v1::SelftestRow& row) {
  if (result.verdict() == v1::VERDICT_UNSUPPORTED) return;  // a row without trials is not caught
  row.set_trials(row.trials() + 1);
  if (Refused(result)) {
    bool detected = false;
    for (const v1::Finding& finding : result.findings()) {
      AddOnce(*row.mutable_caught_by(), finding.reason());
      detected = detected || finding.reason() == row.check();
    }
    if (detected) row.set_detected(row.detected() + 1);
    for (const v1::ProbeResult& probe : result.probes()) {
      if (probe.verdict() == v1::VERDICT_FAILED) AddOnce(*row.mutable_probes(), probe.name());
    }
  }
  if (result.criteria().empty()) return;
  row.set_judged(row.judged() + 1);
  for (const v1::CriterionResult& criterion : result.criteria()) {
    if (criterion.passed()) continue;
    if (criterion.criterion() == v1::CRITERION_ALLCLOSE) row.set_allclose(row.allclose() + 1);
    if (criterion.criterion() == v1::CRITERION_DERIVED) row.set_derived(row.derived() + 1);
    if (criterion.criterion() == v1::CRITERION_LEGACY) row.set_legacy(row.legacy() + 1);
  }
}

// What the result says against the cheat. Null if it does not show that the cheat was stopped.
const v1::Finding* AgainstCheat(const Cheat& cheat, const v1::CaseResult& result) {
  const bool wrong = Refused(result);
  for (const v1::Finding& finding : result.findings()) {
    const v1::Reason reason = finding.reason_code();
    if (cheat.barrier != Barrier::kNone) {
      // It did not get what it needs, so it wrote nothing.
      if (wrong && reason == v1::REASON_UNWRITTEN) return &finding;
      continue;
    }
    if (wrong && finding.blame() == v1::BLAME_KERNEL) return &finding;
    const bool doubted = reason == v1::REASON_STALE || reason == v1::REASON_IMPOSSIBLE;
    if (result.verdict() == v1::VERDICT_INCONCLUSIVE && doubted) return &finding;
  }
  return nullptr;
}

// A right result, which names the libraries that may have done the work.
bool Shows(const Cheat& cheat, const v1::CaseResult& result) {
  return cheat.shown && result.verdict() == v1::VERDICT_PASSED &&
         !result.loaded_libraries().empty();
}

v1::Verdict CheatsVerdict(const v1::SelftestReport& report) {
  bool proven = true;
  for (const v1::CheatRow& row : report.cheats()) {
    const bool alarm = row.twin() == v1::VERDICT_FAILED || row.twin() == v1::VERDICT_ERROR;
    const bool won = row.verdict() == v1::VERDICT_PASSED && !row.stopped();
    if (won || alarm) return v1::VERDICT_FAILED;
    proven = proven && row.stopped() && row.twin() == v1::VERDICT_PASSED;
  }
  return proven ? v1::VERDICT_PASSED : v1::VERDICT_INCONCLUSIVE;
}

}  // namespace

Suite SelftestSuite(std::span<const v1::Kernel> kernels, std::string_view backend,
                    std::uint64_t seed, int trials) {
  Suite suite;
  suite.name = std::string(kSelftestSuite);
  suite.title = std::string(kSelftestTitle);
  std::vector<Case> right;
  std::vector<Case> fatal;
  std::set<std::string> seen;
  // What must be repeated to be found wrong must be repeated to be found right.
  std::map<std::string, int> repeats;
  for (const v1::Kernel* kernel : Planted(kernels, backend)) {
    for (const v1::PlantedExample& example : kernel->planted().examples()) {
      if (example.ends_process()) continue;
      int& most = repeats[WithoutDefect(example.spec()).SerializeAsString()];
      most = std::max(most, example.spec().repeats());
    }
  }
  for (const v1::Kernel* kernel : Planted(kernels, backend)) {
    for (const v1::PlantedExample& example : kernel->planted().examples()) {
      if (example.ends_process()) {
        fatal.push_back(CaseOf(example.spec(), seed));
        continue;
      }
      const v1::CaseSpec plain = WithoutDefect(example.spec());
      const std::string key = plain.SerializeAsString();
      const bool first = seen.insert(key).second;
      for (int trial = 0; trial < trials; ++trial) {
        const std::uint64_t drawn = seed + static_cast<std::uint64_t>(trial);
        if (!example.check().empty()) {
          suite.cases.push_back(CaseOf(example.spec(), drawn));
          suite.cases.back().all_criteria = true;
        }
        if (!first) continue;
        for (const v1::Kernel& other : kernels) {
          const bool control = other.has_planted() && !other.planted().examples().empty() &&
                               other.planted().examples(0).check().empty();
          if (other.op() != kernel->op() || !Runs(other, backend) ||
              !Takes(other, example.spec().dtype()) || (IsPlanted(other.provider()) && !control)) {
            continue;
          }
          right.push_back(CaseOf(plain, drawn));
          right.back().provider = other.provider();
          right.back().repeats = repeats.at(key);
        }
      }
    }
  }
  for (std::vector<Case>* part : {&right, &fatal}) {
    suite.cases.insert(suite.cases.end(), std::make_move_iterator(part->begin()),
                       std::make_move_iterator(part->end()));
  }
  return suite;
}

Suite AdversarialSuite(std::string_view backend, std::uint64_t seed) {
  Suite suite;
  suite.name = std::string(kAdversarialSuite);
  suite.title = std::string(kAdversarialTitle);
  if (backend == "cpu") suite.cases = CheatCases(seed);
  return suite;
}

void SelftestScore::AddCheat(const v1::CaseResult& result) {
  const std::optional<CheatKernel> kernel = FindCheat(result.spec().provider());
  if (!kernel) return;  // of another version of the daemon
  auto& rows = *report_.mutable_cheats();
  auto row = std::find_if(rows.begin(), rows.end(), [&](const v1::CheatRow& r) {
    return r.cheat() == kernel->cheat->name && r.device() == result.device();
  });
  if (row == rows.end()) {
    v1::CheatRow& added = *rows.Add();
    added.set_cheat(std::string(kernel->cheat->name));
    added.set_way(v1::KERNEL_FORM_LIBRARY);
    added.set_op(OpOf(result.spec()));
    added.set_provider(ProviderOf({kernel->cheat, false}));
    added.set_device(result.device());
    added.set_barrier(static_cast<v1::Barrier>(kernel->cheat->barrier));
    row = rows.end() - 1;
  }
  const v1::Finding* const first = result.findings().empty() ? nullptr : &result.findings(0);
  if (kernel->twin) {
    row->set_twin(result.verdict());
    if (result.verdict() != v1::VERDICT_PASSED) {
      row->set_message(Cat("the twin: ", first == nullptr ? "" : first->message()));
    }
    return;
  }
  row->set_verdict(result.verdict());
  if (Shows(*kernel->cheat, result)) {
    row->set_stopped(true);
  } else if (const v1::Finding* against = AgainstCheat(*kernel->cheat, result)) {
    row->set_stopped(true);
    if (kernel->cheat->barrier == Barrier::kNone) row->set_reason(against->reason_code());
  } else {
    row->set_message(first == nullptr ? "" : first->message());
  }
}

bool EndedFromOutside(const v1::CaseResult& result) {
  return !result.spec().provider().starts_with(kCheatPrefix) &&
         std::any_of(result.findings().begin(), result.findings().end(), [](const v1::Finding& f) {
           return f.death().cause() == v1::DEATH_CAUSE_KILLED;
         });
}

void SelftestScore::Add(const v1::CaseResult& result) {
  if (result.verdict() == v1::VERDICT_SKIPPED || EndedFromOutside(result)) return;
  if (result.spec().provider().starts_with(kCheatPrefix)) return AddCheat(result);
  const std::string op = OpOf(result.spec());
  for (const v1::Kernel& kernel : kernels_) {
    if (kernel.op() != op || kernel.provider() != result.spec().provider() ||
        !IsOf(kernel, result.device())) {
      continue;
    }
    for (const v1::PlantedExample& example : kernel.planted().examples()) {
      if (example.check().empty() || example.spec().dtype() != result.spec().dtype()) continue;
      auto& rows = *report_.mutable_rows();
      auto row = std::find_if(rows.begin(), rows.end(),
                              [&](const v1::SelftestRow& r) { return Same(r, result, op); });
      if (row == rows.end()) {
        v1::SelftestRow& added = *rows.Add();
        added.set_defect(result.spec().provider().substr(result.spec().provider().find('/') + 1));
        added.set_op(op);
        added.set_dtype(result.spec().dtype());
        added.set_provider(result.spec().provider());
        added.set_device(result.device());
        added.set_magnitude(kernel.planted().magnitude());
        added.set_check(example.check());
        added.set_required_rate(example.required_rate());
        row = rows.end() - 1;
      }
      Count(result, *row);
      return;
    }
  }
  // A kernel without a defect, planted or not.
  if (result.verdict() == v1::VERDICT_UNSUPPORTED) return;
  auto& devices = *report_.mutable_correct();
  auto correct = std::find_if(devices.begin(), devices.end(), [&](const v1::SelftestCorrect& c) {
    return c.device() == result.device();
  });
  if (correct == devices.end()) {
    devices.Add()->set_device(result.device());
    correct = devices.end() - 1;
  }
  correct->set_runs(correct->runs() + 1);
  if (Refused(result)) correct->set_false_alarms(correct->false_alarms() + 1);
  if (result.verdict() == v1::VERDICT_INCONCLUSIVE) {
    correct->set_inconclusive(correct->inconclusive() + 1);
  }
}

v1::SelftestReport SelftestScore::Report() const {
  v1::SelftestReport report = report_;
  for (v1::SelftestRow& row : *report.mutable_rows()) {
    const auto catches = [&row](int trials) {
      return ReachesRate(trials, row.trials(), row.required_rate());
    };
    row.set_caught(catches(row.detected()));
    if (row.trials() > 0) row.set_rate_low(LowestRate(row.detected(), row.trials()));
    row.set_allclose_catches(catches(row.allclose()));
    row.set_derived_catches(catches(row.derived()));
    row.set_legacy_catches(catches(row.legacy()));
  }
  int runs = 0;
  int false_alarms = 0;
  for (const v1::SelftestCorrect& correct : report.correct()) {
    runs += correct.runs();
    false_alarms += correct.false_alarms();
  }
  if (runs > 0) report.set_false_alarm_rate_high(HighestRate(false_alarms, runs));
  const auto place = [this](const v1::SelftestRow& row) {
    for (const v1::Kernel& kernel : kernels_) {
      if (kernel.op() == row.op() && kernel.provider() == row.provider() &&
          IsOf(kernel, row.device())) {
        return kernel.planted().position();
      }
    }
    return INT32_MAX;
  };
  std::stable_sort(
      report.mutable_rows()->begin(), report.mutable_rows()->end(),
      [&](const v1::SelftestRow& a, const v1::SelftestRow& b) { return place(a) < place(b); });
  return report;
}

v1::Verdict SelftestVerdict(const v1::SelftestReport& report) {
  if (!report.cheats().empty()) return CheatsVerdict(report);
  int runs = 0;
  int inconclusive = 0;
  for (const v1::SelftestRow& row : report.rows()) {
    if (!row.caught()) return v1::VERDICT_FAILED;
  }
  for (const v1::SelftestCorrect& correct : report.correct()) {
    if (correct.false_alarms() > 0) return v1::VERDICT_FAILED;
    runs += correct.runs();
    inconclusive += correct.inconclusive();
  }
  // Checks that found nothing to find, or let right kernels pass by proving nothing of them.
  const bool proven = report.rows_size() > 0 && (runs == 0 || inconclusive < runs);
  return proven ? v1::VERDICT_PASSED : v1::VERDICT_INCONCLUSIVE;
}

bool ReachesRate(int detected, int trials, double rate) {
  if (detected <= 0) return false;
  if (rate >= 1.0) return detected == trials;
  if (rate <= 0.0) return true;
  return ChanceOfAtMost(detected, trials, rate) >= kUnlikely;
}

}  // namespace assay::server
