// explain: why results have their verdicts.
#include <algorithm>
#include <memory>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "client/cli/context.h"
#include "client/cli/find.h"
#include "client/report/explain.h"
#include "client/report/row.h"
#include "client/report/units.h"

namespace assay::client {
namespace {

// Without a case: so many of those that did not pass; --all explains every one.
constexpr std::size_t kMostExplained = 10;

bool NeedsExplaining(const v1::CaseResult& result) {
  return result.verdict() == v1::VERDICT_FAILED || result.verdict() == v1::VERDICT_ERROR ||
         result.verdict() == v1::VERDICT_INCONCLUSIVE;
}

// The results to explain, the worst first: those that did not pass, else the one that
// came nearest to it.
std::vector<const v1::CaseResult*> Chosen(const Run& run) {
  std::vector<const v1::CaseResult*> chosen;
  for (const auto& result : run.results) chosen.push_back(&result);
  std::sort(chosen.begin(), chosen.end(),
            [](const v1::CaseResult* a, const v1::CaseResult* b) { return WorseThan(*a, *b); });
  const auto others =
      std::stable_partition(chosen.begin(), chosen.end(),
                            [](const v1::CaseResult* result) { return NeedsExplaining(*result); });
  if (others != chosen.begin()) {
    chosen.erase(others, chosen.end());
  } else if (chosen.size() > 1) {
    chosen.resize(1);
  }
  return chosen;
}

ExitCode ExplainJob(const Context& context, const std::string& name, const std::string& which) {
  auto format = context.ChosenFormat("an explanation", {"table", "json", "jsonl"});
  if (!format.ok()) return context.Fail(format.status());
  Failure failure;
  auto found = FindResults(context, name, &failure);
  if (!found.ok()) return context.Fail(failure);
  const Run& run = found->run;
  std::vector<const v1::CaseResult*> chosen;
  if (which.empty()) {
    chosen = Chosen(run);
    if (chosen.empty()) {
      return context.Fail(
          Failure{{absl::StrCat(run.job.name(), " has no results yet")}, ExitCode::kNoVerdict});
    }
  } else {
    const auto result = FindCase(run, which);
    if (!result.ok()) return context.Fail(result.status());
    chosen.push_back(*result);
  }
  std::size_t shown = chosen.size();
  if (!context.globals.every_row) shown = std::min(shown, kMostExplained);
  return context.WithOutput([&](std::ostream& out) {
    if (*format == Format::kJsonl) {
      for (const auto* result : chosen) out << Compact(ExplanationJson(run, *result)) << '\n';
      return ExitCode::kPassed;
    }
    if (*format != Format::kTable) {
      Json json;
      json["schema"] = "assay.explain/v1";
      json["target"] = run.target;
      json["job"] = run.job.name();
      json["cases"] = Json::array();
      for (const auto* result : chosen) json["cases"].push_back(ExplanationJson(run, *result));
      out << Indented(json) << '\n';
      return ExitCode::kPassed;
    }
    const bool colour = &out == &context.streams.out && context.streams.colour;
    const bool runs = which.empty() && (run.job.state() == v1::JOB_STATE_QUEUED ||
                                        run.job.state() == v1::JOB_STATE_RUNNING);
    if (runs) {
      out << run.job.name() << " still runs: " << run.results.size() << " of "
          << run.job.counts().total() << " cases have a result\n";
    }
    if (which.empty() && !NeedsExplaining(*chosen.front())) {
      out << (runs ? "nothing failed so far; " : "nothing failed; ")
          << (run.results.size() > 1 ? "the nearest to it of " : "")
          << CountText(static_cast<std::int64_t>(run.results.size()))
          << (run.results.size() > 1 ? " cases:\n" : " case:\n");
    }
    for (std::size_t i = 0; i < shown; ++i) {
      if (i > 0) out << '\n';
      out << ExplanationText(*chosen[i], colour);
    }
    if (shown < chosen.size()) {
      out << "\n… and " << CountText(static_cast<std::int64_t>(chosen.size() - shown))
          << " more that did not pass (--all)\n";
    }
    return ExitCode::kPassed;
  });
}

}  // namespace

void AddExplainCommand(CLI::App& app, Context& context) {
  auto name = std::make_shared<std::string>();
  auto which = std::make_shared<std::string>();
  auto* explain = app.add_subcommand(
      "explain", "explain the verdicts of cases: the bound, the checks, the likely cause");
  explain->add_option("job", *name, "jobs/4f2k, or 4f2k")->required();
  explain->add_option("case", *which,
                      "the case: its number from 0, as assay show lists it, its name, or a part of "
                      "the name that no other case has (default: all cases that did not pass)");
  context.OnRun(explain,
                [name, which](const Context& of) { return ExplainJob(of, *name, *which); });
}

}  // namespace assay::client
