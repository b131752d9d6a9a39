// SteadyNow: the time of a clock that nobody sets. Limits and durations are of this clock, because
// a step of the system's clock is no time that has passed. Times that others see are absl::Now().
#ifndef ASSAY_CLIENT_LIB_STEADY_H_
#define ASSAY_CLIENT_LIB_STEADY_H_

#include <chrono>

#include "absl/time/time.h"

namespace assay::client {

// The time since a fixed moment, which only differences tell of.
inline absl::Duration SteadyNow() {
  return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace assay::client

#endif  // ASSAY_CLIENT_LIB_STEADY_H_
