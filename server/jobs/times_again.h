// Taking a time again that is longer than its baseline's, before anybody is told.
//
// What disturbs a processor's launches (neighbours on its cores, other guests, other programs)
// comes and goes in seconds, and only makes them longer; so the shortest of several runs tells
// more of the kernel than any other, and a kernel that became slower is slower in each of them.
// Of accelerators, whose launches nobody shares, a time is taken once: one that is slow now
// and then is what an operator looks for.
#ifndef ASSAY_SERVER_JOBS_TIMES_AGAIN_H_
#define ASSAY_SERVER_JOBS_TIMES_AGAIN_H_

#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "server/jobs/baseline_match.h"
#include "server/worker/executor.h"

namespace assay {

struct TimesAgainOptions {
  int most_runs = 3;                        // of a case, the first among them
  absl::Duration pause = absl::Seconds(2);  // before the second, and twice as long before each next
  absl::Duration most = absl::Minutes(1);   // in all: of one job on one device
};

// For one job on one device. One thread.
class TimesAgain {
 public:
  // `baseline` may be null: nothing is taken again. Both must outlive it.
  TimesAgain(const TimesAgainOptions& options, std::string_view device,
             const BaselineIndex* baseline);

  // Of `result` and further runs, as long as all may be slower than the baseline: the one with
  // the shortest median, or the first that found something wrong with the output. `again` is told
  // which run comes, runs the case and returns its result. Blocks; ends early where `cancel` is
  // set, with what there is.
  v1::CaseResult Shortest(v1::CaseResult result, const CancelToken& cancel,
                          absl::FunctionRef<v1::CaseResult(int run)> again);
  // That the last result was chosen from.
  int runs() const { return runs_; }

 private:
  const TimesAgainOptions options_;
  const BaselineIndex* const baseline_;  // null: nothing is taken again
  absl::Duration left_;
  int runs_ = 1;
};

}  // namespace assay

#endif  // ASSAY_SERVER_JOBS_TIMES_AGAIN_H_
