// Waits for what no callback tells a test.
#ifndef ASSAY_TESTS_UNIT_SERVER_EVENTUALLY_H_
#define ASSAY_TESTS_UNIT_SERVER_EVENTUALLY_H_

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace assay::server {

// Whether `holds` does, now or within two minutes.
template <class Holds>
bool Eventually(Holds holds) {
  const absl::Time end = absl::Now() + absl::Seconds(120);
  while (!holds()) {
    if (absl::Now() > end) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return true;
}

}  // namespace assay::server

#endif  // ASSAY_TESTS_UNIT_SERVER_EVENTUALLY_H_
