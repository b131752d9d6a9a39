// TimesAgain measures a case again if its time is longer than its baseline's, before anybody is
// told.
//
// Other programs and other guests disturb a processor for seconds at a time. A kernel that became
// slower stays slower. So a slower time is reported only if it is longer in the further runs, too.
// If all of them are as short as the baseline's time, the case passes. If some are, or are too
// noisy to tell and no longer than the threshold allows, nothing can be told. If the first
// comparison can tell nothing, one run that is as short as the baseline's is enough to pass.
//
// Nobody shares an accelerator's launches, so an accelerator's time is taken once. An accelerator
// that is slow now and then is what an operator looks for.
#ifndef ASSAY_SERVER_PASS_TIMES_AGAIN_H_
#define ASSAY_SERVER_PASS_TIMES_AGAIN_H_

#include <chrono>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "server/baselines/baseline_match.h"
#include "server/worker/executor.h"

namespace assay::server {

struct TimesAgainOptions {
  int most_runs = 3;                        // of a case, the first among them
  absl::Duration pause = absl::Seconds(2);  // before the second, and twice as long before each next
  absl::Duration most = absl::Minutes(1);   // in all: of one job on one device
};

// For one job on one device. One thread.
class TimesAgain {
 public:
  // `baseline` may be null: nothing is taken again. It must outlive this.
  TimesAgain(const TimesAgainOptions& options, std::string_view device,
             const BaselineIndex* baseline);

  struct Chosen {
    v1::CaseResult result;
    TimedRuns runs;
    bool cut_short = false;  // cancelled before all runs that it takes: no result
  };
  // Of `first` and further runs the one that counts, or the first that found something wrong.
  // `telling` is called before the pause before a run, `again` runs the case. Blocks; ends early
  // where `cancel` is set.
  Chosen Choose(v1::CaseResult first, const CancelToken& cancel,
                absl::FunctionRef<void(int run)> telling,
                absl::FunctionRef<v1::CaseResult()> again);

 private:
  const TimesAgainOptions options_;
  const BaselineIndex* const baseline_;  // null: nothing is taken again
  absl::Duration left_;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_PASS_TIMES_AGAIN_H_
