// CasesAhead holds the cases of a job that come after the case that a device runs. The worker may
// run them in the same call: in turn, one after the other, or beside one another on a device whose
// small cases share launches. Their results wait here until the job asks for them.
#ifndef ASSAY_SERVER_WORKER_CASES_AHEAD_H_
#define ASSAY_SERVER_WORKER_CASES_AHEAD_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "assay/v1/case.pb.h"
#include "assay/worker/v1/worker.pb.h"
#include "google/protobuf/util/time_util.h"
#include "server/base/even_time.h"

namespace assay::server {

// The most cases ahead that are worth naming.
inline constexpr std::size_t kMostAhead = 7;

// In turn, a worker begins no further case after this time. The results of a call come together, so
// whoever fills CasesAhead::next names no case that may take much longer than this.
inline constexpr absl::Duration kInTurnFor = absl::Milliseconds(1);

// The owner runs the cases of a job in order and keeps this from one case to the next. One thread.
struct CasesAhead {
  // The cases that may run together with the next one, in order. Nothing is known of them yet.
  // Empty: the next case runs alone.
  std::vector<const v1::CaseSpec*> next;
  // The outcomes of such cases, by index: results, and for a case without one what speaks against
  // it.
  std::map<int, v1::CaseResult> results;
  std::map<int, std::string> suspicions;
  // Cases with a smaller index run alone, because one of them ended the worker or lost the device.
  int alone_below = 0;
  // Cases below have run once, in a worker that died in a later case's turn. Their second run says
  // nothing new about the worker. They run even if that death quarantined the device.
  int counted_below = 0;

  bool Knows(int index) const { return results.contains(index) || suspicions.contains(index); }
  // The result of a case that has run already. The result is removed.
  std::optional<v1::CaseResult> Take(int index);

  // Keeps the outcomes of the case at `index` and of the cases that ran with it. A case with a
  // result began when the one before it had ended. The first began at `start`.
  void TakeLed(absl::Time start, int index, worker::v1::RunCaseResponse& response);
  // Notes that the worker ran `next` in turn and ended during the case at `index + turn`, whose
  // result this is. The outcomes of the cases before it are lost, so they run again.
  void EndedIn(int index, int turn, v1::CaseResult result);
  // Notes that the worker ended during the case at `index` and those together with it. `turn` says
  // whose phase it was, and `suspects` which cases were suspected before (PhasePage). All of them
  // run alone now.
  void Suspect(int index, int turn, std::uint32_t suspects, const std::string& why);
  // Looks at the result of a case that ran alone. If the case passes alone but did not pass with
  // others, the result proves nothing.
  void HoldAgainst(int index, v1::CaseResult& alone);
};

// Sets when the case began, a moment of EvenTime, and how long it took.
inline void Stamp(absl::Time start, absl::Duration duration, v1::CaseResult& result) {
  using google::protobuf::util::TimeUtil;
  *result.mutable_start_time() =
      TimeUtil::NanosecondsToTimestamp(absl::ToUnixNanos(SystemTimeAt(start)));
  *result.mutable_duration() = TimeUtil::NanosecondsToDuration(absl::ToInt64Nanoseconds(duration));
}
// Sets the start time and the duration of a result that ends now.
inline void StampUntilNow(absl::Time start, v1::CaseResult& result) {
  Stamp(start, EvenTime() - start, result);
}

}  // namespace assay::server

#endif  // ASSAY_SERVER_WORKER_CASES_AHEAD_H_
