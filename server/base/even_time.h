// EvenTime() is the time of a clock that runs evenly. It begins as the system's time at the first
// call, and corrections of the system's clock do not change it after that. Deadlines and durations
// are of this clock: a right kernel must not fail because somebody has set the clock. Times that
// others see are of the system's clock, absl::Now().
#ifndef ASSAY_SERVER_BASE_EVEN_TIME_H_
#define ASSAY_SERVER_BASE_EVEN_TIME_H_

#include <chrono>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace assay::server {

inline absl::Time EvenTime() {
  static const absl::Time first = absl::Now();
  static const auto began = std::chrono::steady_clock::now();
  return first + absl::FromChrono(std::chrono::steady_clock::now() - began);
}

// The system's time at a moment of the even clock. The difference of the two clocks is taken in
// whole milliseconds, so that moments that follow one another keep their distance.
inline absl::Time SystemTimeAt(absl::Time even) {
  const absl::Duration ahead = absl::Now() - EvenTime() + absl::Microseconds(500);
  return even + absl::Floor(ahead, absl::Milliseconds(1));
}

}  // namespace assay::server

#endif  // ASSAY_SERVER_BASE_EVEN_TIME_H_
