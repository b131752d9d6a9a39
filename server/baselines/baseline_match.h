// Compares times with times: finds the case of a baseline that is the same as a case of a run, and
// says how the two times stand. baselines.h has what is stored.
//
// Two cases are the same if their problem, formats, provider and data pattern are. Name, seed and
// tolerances do not change a kernel's time. Short launches are timed either as one graph, without
// the host's part, or one by one. A time of one kind is not held against a time of the other: the
// finding "replay" says so.
//
// The functions are pure.
#ifndef ASSAY_SERVER_BASELINES_BASELINE_MATCH_H_
#define ASSAY_SERVER_BASELINES_BASELINE_MATCH_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "assay/v1/baseline.pb.h"
#include "assay/v1/job.pb.h"
#include "assay/v1/service.pb.h"
#include "server/baselines/baseline_times.h"

namespace assay::server {

// What is timed, as bytes that are equal for equal cases.
std::string KeyOf(const v1::CaseSpec& spec);

// The label of one that its caller did not name; no line can ask for it again.
inline constexpr std::string_view kUnnamedBaseline = "the baseline given";

// Of a case that was timed several times as it was longer than its baseline.
struct TimedRuns {
  int all = 1;
  // Beside the one that is held against the baseline: those that were as short as the baseline's
  // time, and those that were too noisy to tell and no longer than the threshold allows.
  int as_short = 0, within = 0;
};

// Whether a case ended in a failure that is not one of its speed.
bool FoundWrong(const v1::CaseResult& result);

class BaselineIndex {
 public:
  // `label` is what changes call the baseline; the results are taken over.
  BaselineIndex(v1::Baseline baseline, std::string label, double threshold);
  BaselineIndex(const BaselineIndex&) = delete;  // points into itself
  BaselineIndex& operator=(const BaselineIndex&) = delete;

  // Whether it has a time of the case.
  bool Holds(const v1::CaseSpec& spec, std::string_view device) const;
  // How the result's time stands to the same case's; nothing where the baseline does not
  // have it, or the time does not count.
  std::optional<v1::BaselineChange> Read(const v1::CaseResult& result) const;

  // Whether the result is sound and longer than the baseline's, or may be, by no more than other
  // work on the machine can make it: another run may show that the kernel takes less.
  bool MayBeShorter(const v1::CaseResult& result) const;

  // Read, set as result.bench.baseline. A slower case that PASSED, or that lacks nothing
  // but its efficiency, is FAILED with finding "slower"; one that may be so, as its noise is
  // larger than the effect or threads waited for processors, is INCONCLUSIVE with finding "noisy",
  // and so is with "replay" one that was timed the other way. What it has and is UNSUPPORTED now
  // is INCONCLUSIVE; other verdicts stay. One that is slower and in some of `runs` was not is one
  // that may be.
  void HoldAgainst(v1::CaseResult& result, const TimedRuns& runs = {}) const;

  // Both sides' cases, those of `current` in its order.
  v1::CompareBaselinesResponse Compare(const v1::Baseline& current) const;

  const v1::Baseline& baseline() const { return baseline_; }
  const std::string& label() const { return label_; }

 private:
  // `same_way`: only what was timed the same way, in a graph or not.
  const v1::CaseResult* Find(const v1::CaseResult& result, bool same_way = true) const;
  // The baseline's time of the case where it has it only the other way; else nullptr.
  const v1::CaseResult* TimedOtherwise(const v1::CaseResult& result) const;
  std::string OtherwiseMessage(const v1::CaseResult& before, const v1::CaseResult& result) const;
  void HoldOtherwise(const v1::CaseResult& before, v1::CaseResult& result) const;
  void HoldUnsupported(v1::CaseResult& result) const;
  void AddToRepro(v1::CaseResult& result) const;

  const v1::Baseline baseline_;
  const std::string label_;
  const double threshold_;
  // By what is timed, a number for each KeyOf, and by what else results of one case have alike: the
  // name, the seed, and whether they are of a graph. Of several that are alike it is the first.
  using Alike = std::tuple<std::size_t, std::optional<std::string>, std::optional<std::uint64_t>,
                           std::optional<bool>>;
  static Alike Alikeness(std::size_t timed, const v1::CaseResult& result, bool name, bool seed,
                         bool way);
  std::map<std::string, std::size_t> timed_;
  std::map<Alike, const v1::CaseResult*> cases_;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_BASELINES_BASELINE_MATCH_H_
