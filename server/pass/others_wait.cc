#include "server/pass/others_wait.h"

#include <algorithm>

#include "absl/time/clock.h"

namespace assay::server {
namespace {

// Telemetry has a sample a second; a cancelled job does not wait that long.
constexpr absl::Duration kLook = absl::Milliseconds(100);

}  // namespace

void OthersWait::Wait(std::string_view device, const CancelToken& cancel,
                      const std::function<void(std::int64_t held)>& waiting) {
  if (!others_) return;
  for (bool told = false; left_ > absl::ZeroDuration() && !cancel.cancelled(); told = true) {
    const std::int64_t held = others_(device).value_or(0);
    if (held <= 0) return;
    if (!told) waiting(held);
    const absl::Duration nap = std::min(left_, kLook);
    absl::SleepFor(nap);
    left_ -= nap;
  }
}

}  // namespace assay::server
