// Counts the deaths of a device's workers. It says when the next worker may start and when the
// device is to be quarantined.
//
// After the first death the next worker starts at once. After each further death it waits, from 1 s
// doubling to the limit. The device is quarantined after `in_a_row` deaths without an answered case
// between them, or after `in_window` deaths within `window`. Deaths that do not count against the
// device only lengthen the wait: those of planted and of users' kernels, those at a client's
// deadline, and those for want of the host's memory, or by a signal from outside, such as the
// out-of-memory killer's. So do workers that the host could not start.
//
// Not thread-safe.
#ifndef ASSAY_SERVER_WORKER_DEATH_TOLL_H_
#define ASSAY_SERVER_WORKER_DEATH_TOLL_H_

#include <deque>
#include <string>

#include "absl/time/time.h"
#include "server/worker/worker_link.h"

namespace assay::server {

struct DeathLimits {
  int in_a_row = 5;
  int in_window = 20;
  absl::Duration window = absl::Minutes(10);
  absl::Duration longest_back_off = absl::Seconds(30);
};

class DeathToll {
 public:
  explicit DeathToll(DeathLimits limits) : limits_(limits) {}

  // Notes a death. Returns why the device is to be quarantined, or an empty text if it is not.
  std::string Add(const Death& death, absl::Time now);

  // Notes an answered case. The deaths before it no longer count as in a row.
  void Answered();

  // Forgets all deaths, because the device is trusted again.
  void Forgive();

  // The time before which no worker may start.
  absl::Time next_start() const { return next_start_; }

 private:
  const DeathLimits limits_;
  int in_a_row_ = 0;
  std::deque<absl::Time> within_window_;
  absl::Duration back_off_ = absl::ZeroDuration();
  absl::Time next_start_ = absl::InfinitePast();
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_WORKER_DEATH_TOLL_H_
