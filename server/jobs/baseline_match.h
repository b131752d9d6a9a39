// Times against times: what of a job's results is a baseline, which case of a baseline
// is which case of a run, and how the two stand. Pure; what is stored is baselines.h's.
//
// A time counts where it was taken to be one (a validation times a launch or two in
// passing), the output held (PASSED, or nothing found but that it was slow) and no other work
// is in it, which is what a finding "noisy" says. Two cases are the same where problem, formats,
// provider and data pattern are; name, seed and tolerances do not change a kernel's time.
#ifndef ASSAY_SERVER_JOBS_BASELINE_MATCH_H_
#define ASSAY_SERVER_JOBS_BASELINE_MATCH_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "assay/v1/baseline.pb.h"
#include "assay/v1/job.pb.h"
#include "assay/v1/service.pb.h"

namespace assay {

// Whether the result has a time that was taken to be one.
bool WasTimed(const v1::CaseResult& result);

// Whether that may be held against others.
bool TimeCounts(const v1::CaseResult& result);

// What a baseline keeps of a result: what ran, where, and its times.
v1::CaseResult Timing(const v1::CaseResult& result);

// The baseline of a job as far as the job itself tells: all but name, create_time and
// results. The device is the job's first.
v1::Baseline Describe(const v1::Job& job);

// A result that was to be timed, and has no time that counts; what is needed to say so.
bool LacksItsTime(const v1::CaseResult& result);
v1::CaseResult Untimed(const v1::CaseResult& result);

// Why times of `current` may not be held against `baseline`, a clause each: another
// device model, kind of device, driver or version of the same suite. Empty: they may. Only fields
// of the two themselves are looked at, not their results. Other versions of libraries are what a
// comparison is for, and refuse nothing.
std::vector<std::string> Differences(const v1::Baseline& baseline, const v1::Baseline& current);

// What a change must exceed where nobody says: more on another device of the model, since
// healthy ones differ, too.
double DefaultThreshold(const v1::Baseline& baseline, const v1::Baseline& current);

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

  // Read, set as result.bench.baseline. A slower case that PASSED, or that lacks nothing
  // but its efficiency, is FAILED with finding "slower"; one that may be so, as its noise is
  // larger than the effect, is INCONCLUSIVE with finding "noisy"; other verdicts stay.
  void HoldAgainst(v1::CaseResult& result) const;

  // Both sides' cases, those of `current` in its order.
  v1::CompareBaselinesResponse Compare(const v1::Baseline& current) const;

 private:
  const v1::CaseResult* Find(const v1::CaseResult& result) const;

  const v1::Baseline baseline_;
  const std::string label_;
  const double threshold_;
  std::multimap<std::string, const v1::CaseResult*> cases_;  // by what is timed
};

}  // namespace assay

#endif  // ASSAY_SERVER_JOBS_BASELINE_MATCH_H_
