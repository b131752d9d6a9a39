// Decides which of a job's results belong to a baseline, and with which jobs a baseline may be
// compared.
//
// A result's time counts under three conditions:
//   - the time was measured for its own sake (a validation times a launch or two in passing),
//   - the output was right (PASSED, or nothing was found but that it was slow),
//   - no other work is in the time (the finding "noisy" says that there is).
//
// The functions are pure.
#ifndef ASSAY_SERVER_BASELINES_BASELINE_TIMES_H_
#define ASSAY_SERVER_BASELINES_BASELINE_TIMES_H_

#include <string>
#include <string_view>
#include <vector>

#include "assay/v1/baseline.pb.h"
#include "assay/v1/job.pb.h"
#include "proto/timing.h"

namespace assay::server {

// The word of REASON_REPLAY: the case was timed in a graph and its baseline was not, or the other
// way around.
inline constexpr std::string_view kReplayWord = "replay";

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

// Adds what a comparison needs of a result: its time, or that it lacks it.
void AddTiming(const v1::CaseResult& result, v1::Baseline& baseline);

// Whether nothing ran: UNSUPPORTED, or INCONCLUSIVE only since a baseline has it.
bool IsUnsupported(const v1::CaseResult& result);

// Whether a baseline had the case, and the result says so.
bool WasHeld(const v1::CaseResult& result);

// Why times of `current` may not be held against `baseline`, a clause each: another
// device model, kind of device, driver or version of the same suite. Empty: they may. Only fields
// of the two themselves are looked at, not their results. Other versions of libraries are what a
// comparison is for, and refuse nothing.
std::vector<std::string> Differences(const v1::Baseline& baseline, const v1::Baseline& current);

// What a change must exceed where nobody says: more on another device of the model, since
// healthy ones differ, too.
double DefaultThreshold(const v1::Baseline& baseline, const v1::Baseline& current);

}  // namespace assay::server

#endif  // ASSAY_SERVER_BASELINES_BASELINE_TIMES_H_
