// The cases of a job that come after the one a device runs: the first of them may run beside it,
// and what came of them waits here until they are asked for.
#ifndef ASSAY_SERVER_WORKER_CASES_AHEAD_H_
#define ASSAY_SERVER_WORKER_CASES_AHEAD_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "assay/v1/case.pb.h"
#include "assay/worker/v1/worker.pb.h"

namespace assay {

// Most that are worth naming.
inline constexpr std::size_t kMostAhead = 7;

// Kept by whoever works a job's cases off, in their order, from one to the next. One thread.
struct CasesAhead {
  // In order, from the one behind the case that is asked for. Only those that may run before
  // their turn, and of which nothing is known; empty: it runs alone.
  std::vector<const v1::CaseSpec*> next;
  // What came of such cases, by index: results, and what speaks against those without.
  std::map<int, v1::CaseResult> results;
  std::map<int, std::string> suspicions;
  // Cases below run alone: one of them took the worker, or the device, with it.
  int alone_below = 0;

  bool Knows(int index) const { return results.contains(index) || suspicions.contains(index); }
  // The result of a case that has run already.
  std::optional<v1::CaseResult> Take(int index);

  // Keeps what came of the case at `index` and of `next` beside it; those with a result have
  // begun when the one before had ended, the first at `start`.
  void TakeLed(absl::Time start, int index, worker::v1::RunCaseResponse& response);
  // The worker did not come to an end with the case at `index` and those beside it, in the turn
  // of one of them, or of all, and with some suspected before (PhasePage). All run alone.
  void Suspect(int index, int turn, std::uint32_t suspects, const std::string& why);
  // A result of the case alone. What passes so, but did not beside others, proves nothing.
  void HoldAgainst(int index, v1::CaseResult& alone);
};

// Sets when it began, and how long it took.
void StampUntilNow(absl::Time start, v1::CaseResult& result);

}  // namespace assay

#endif  // ASSAY_SERVER_WORKER_CASES_AHEAD_H_
