// The deaths of a device's workers: when the next worker may start, and how many are one
// too many.
//
// After the first death the next worker starts at once, then after a back-off that doubles
// from 1 s to the limit. `in_a_row` deaths without a case answered between, or `in_window`
// within `window`, quarantine the device; those that do not count against it (planted
// kernels, deadlines that a client set) only grow the back-off.
//
// Not thread-safe.
#ifndef ASSAY_SERVER_WORKER_DEATH_TOLL_H_
#define ASSAY_SERVER_WORKER_DEATH_TOLL_H_

#include <deque>
#include <string>

#include "absl/time/time.h"
#include "server/worker/worker_link.h"

namespace assay {

struct DeathLimits {
  int in_a_row = 5;
  int in_window = 20;
  absl::Duration window = absl::Minutes(10);
  absl::Duration longest_back_off = absl::Seconds(30);
};

class DeathToll {
 public:
  explicit DeathToll(DeathLimits limits) : limits_(limits) {}

  // A worker died. Why the device is to be quarantined; empty: it is not.
  std::string Add(const Death& death, absl::Time now);

  // A worker answered a case: those before do not count as in a row any more.
  void Answered();

  // The device is trusted again: nothing of before counts.
  void Forgive();

  // No worker may start before.
  absl::Time next_start() const { return next_start_; }

 private:
  const DeathLimits limits_;
  int in_a_row_ = 0;
  std::deque<absl::Time> within_window_;
  absl::Duration back_off_ = absl::ZeroDuration();
  absl::Time next_start_ = absl::InfinitePast();
};

}  // namespace assay

#endif  // ASSAY_SERVER_WORKER_DEATH_TOLL_H_
