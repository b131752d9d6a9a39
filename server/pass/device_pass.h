// DevicePass is what one device does with its part of a job: it runs the cases, one after the
// other, and records their results.
//
// It owns what the cases of the part share: the time budget, the baseline that their times are
// held against, the patience with other processes, the further runs of slow times, the results
// that came ahead, and the profiler.
//
// One thread: that of the device's runner.
#ifndef ASSAY_SERVER_PASS_DEVICE_PASS_H_
#define ASSAY_SERVER_PASS_DEVICE_PASS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "assay/v1/case.pb.h"
#include "server/baselines/baseline_match.h"
#include "server/pass/active_job.h"
#include "server/pass/budget.h"
#include "server/pass/device_runner.h"
#include "server/pass/job_recorder.h"
#include "server/pass/others_wait.h"
#include "server/pass/times_again.h"
#include "server/plan/coverage.h"
#include "server/store/store.h"
#include "server/worker/cases_ahead.h"

namespace assay::server {

struct PassOptions {
  TimesAgainOptions times_again{};  // of times longer than a baseline's
  OthersBytes others_bytes{};       // for jobs that wait for other processes; empty: none waits
};

class DevicePass {
 public:
  // What a pass works with; all of it must outlive the pass.
  struct Means {
    Store& store;
    JobRecorder& recorder;
    DeviceRunner& runner;
    const PassOptions& options;
  };

  // `done`: indices of cases that have a result. `baseline` may be null.
  DevicePass(const Means& means, std::shared_ptr<ActiveJob> job, const DevicePlan& plan,
             const std::set<std::int32_t>& done, const BaselineIndex* baseline);

  // Runs every case that has no result. When the job ends early, the rest is SKIPPED, or has no
  // result if the job may go on later.
  void Run();

 private:
  // A case of the plan, in its turn.
  struct Turn {
    std::size_t n;
    std::int32_t index;
    const v1::CaseSpec& spec;
    double begin;  // seconds of the budget that have gone
  };

  // Runs the case and records its result. False: the job ends, and the case has no result.
  bool RunCase(const Turn& turn);
  // The case's result, or nothing if the job ends.
  std::optional<v1::CaseResult> Execute(const Turn& turn);
  // The same for a timed case, after the further runs that it takes.
  std::optional<v1::CaseResult> Retime(const Turn& turn, v1::CaseResult first, TimedRuns& runs);
  // Records that the case does not run, because of the budget.
  void LeaveOut(const Turn& turn, const std::string& why);
  // Blocks while other processes hold the device.
  void WaitForOthers(const Turn& turn);
  // Tells watchers, and nobody else, that a case is about to run, or what it waits for.
  void TellProgress(const Turn& turn, std::string phase);
  // Chooses the cases behind that may run in the same call. It ends at the first case that is
  // timed, dies on purpose, may yet be left out, or has a result. On a device that runs them in
  // turn it also ends at the first case that may take long.
  void ChooseAhead(const Turn& turn);
  // Learns from what the case took.
  void Learn(const Turn& turn, const v1::CaseResult& result);

  // Takes up the budget where an earlier daemon left it: what its results took is spent.
  void TakeUpBudget();
  void TakeUp(const v1::CaseResult& result);
  // Says of which kernels no case ran, because of the budget or of a deadline.
  void NameUnreached();
  void SkipFrom(std::size_t n);

  std::int32_t IndexOf(std::size_t n) const {
    return plan_.first_index + static_cast<std::int32_t>(n);
  }
  double Elapsed() const {  // [s]
    return spent_ +
           std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
  }
  bool cancelled() const { return job_->cancel.cancelled(); }

  const Means means_;
  const std::shared_ptr<ActiveJob> job_;
  const DevicePlan& plan_;
  const std::set<std::int32_t>& done_;
  const BaselineIndex* const baseline_;
  CaseExecutor& device_;

  Budget budget_;
  double spent_ = 0;  // of the budget, by an earlier daemon [s]
  Coverage coverage_;
  OthersWait others_;
  TimesAgain times_again_;
  CasesAhead ahead_;
  bool quick_ = false;  // the case before took less time than a worker has for cases in turn
  std::chrono::steady_clock::time_point began_;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_PASS_DEVICE_PASS_H_
