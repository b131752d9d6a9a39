// The self-test: a suite that the daemon makes of the planted kernels that its workers have, and
// the score of a job that ran it.
//
// Every defect runs with several seeds, which choose where the defect sits, and every criterion
// judges it. Every right kernel runs on the same problems, formats and data. The job's verdict is
// not worked out from its cases: a planted kernel is there to fail.
#ifndef ASSAY_SERVER_PLAN_SELFTEST_H_
#define ASSAY_SERVER_PLAN_SELFTEST_H_

#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "assay/v1/job.pb.h"
#include "kernels/suites/suite.h"
#include "server/worker/executor.h"

namespace assay::server {

inline constexpr std::string_view kSelftestSuite = "selftest";
inline constexpr std::string_view kSelftestTitle =
    "kernels wrong on purpose must be found, right ones must pass";
// The self-test of the judge: the cheats of kernels/cheats and their honest twins.
inline constexpr std::string_view kAdversarialSuite = "adversarial";
inline constexpr std::string_view kAdversarialTitle =
    "kernels that cheat must not pass, their honest twins must";
inline constexpr int kSelftestTrials = 2;  // of a job that does not say
inline constexpr int kMaxSelftestTrials = 100;

// Whether a job of this suite's name is a self-test.
inline bool IsSelftest(std::string_view suite) {
  return suite == kSelftestSuite || suite == kAdversarialSuite;
}

// The cases of the suite "adversarial" for a backend. Users' kernels run on a CPU alone.
Suite AdversarialSuite(std::string_view backend, std::uint64_t seed);

// The cases for a device with these kernels, on its backend; `trials` seeds from `seed`
// up, one for defects that end their process. Those come last.
Suite SelftestSuite(std::span<const v1::Kernel> kernels, std::string_view backend,
                    std::uint64_t seed, int trials);

// Whether somebody outside ended the worker of the run, such as what frees the memory of a host
// that has none left. Such a run says nothing of verdicts. A cheat may have ended it itself, which
// counts.
bool EndedFromOutside(const v1::CaseResult& result);

// Adds a result to the score. Results may come in any order, a device's in one report.
class SelftestScore {
 public:
  explicit SelftestScore(std::vector<v1::Kernel> kernels) : kernels_(std::move(kernels)) {}

  void Add(const v1::CaseResult& result);
  // Rows in the table's order; caught is decided here.
  v1::SelftestReport Report() const;

 private:
  void AddCheat(const v1::CaseResult& result);

  std::vector<v1::Kernel> kernels_;
  v1::SelftestReport report_;
};

// PASSED: everything that was to be found was, and no right kernel failed; FAILED:
// not so; INCONCLUSIVE: nothing was run, or a cheat or its twin proved nothing.
v1::Verdict SelftestVerdict(const v1::SelftestReport& report);

// Whether `detected` of `trials` is as many as the rate asks for: so few or fewer would
// come of a detector of that rate less than once in 1,000 times otherwise. A rate of 1
// allows no miss; no trials are no detection.
bool ReachesRate(int detected, int trials, double rate);

}  // namespace assay::server

#endif  // ASSAY_SERVER_PLAN_SELFTEST_H_
