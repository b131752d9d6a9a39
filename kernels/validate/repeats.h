// Launches a kernel several times on the same data. The outputs must agree bit by bit. If they do
// not, it tells which elements differ. The cause is a race, or a part of the device that computes
// wrongly now and then.
#ifndef ASSAY_KERNELS_VALIDATE_REPEATS_H_
#define ASSAY_KERNELS_VALIDATE_REPEATS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/runtime/device.h"
#include "kernels/validate/launcher.h"

namespace assay::inline kernels {

// How an output differs from that of the first launch.
struct Deviation {
  int launch = 0;  // the first that differs, counted from 1
  std::int64_t elements = 0;
  std::int64_t first = -1;           // logical index
  std::uint64_t first_bits = 0;      // as the first launch had it
  std::uint64_t deviating_bits = 0;  // as this one has it
  // The block that holds all of them: coordinates from `begin` to below `end`.
  std::vector<std::int64_t> begin, end;
};

// "launch 17 differs from the first in 64 elements, all in [0:8,128:136]; first [0,128]: 1.5
// (0x3e00) instead of 1.25 (0x3d00)".
std::string Text(const Deviation& deviation, const Plan& plan);

// Where `output` differs from `kept`, an earlier one of as many elements and the same format,
// without padding; dims are the output's. Nothing where it does not.
absl::StatusOr<std::optional<Deviation>> Locate(Device& device, const TensorView& kept,
                                                const TensorView& output,
                                                const std::vector<std::int64_t>& dims);

struct Repeated {
  std::vector<double> seconds;  // of each launch
  int variants = 1;             // distinct outputs
  int odd_launches = 0;         // whose output is not the most frequent one
  std::optional<Deviation> deviation;
};

// Launches `repeats` times, the output poisoned before each; that of the last is left. The
// first one's is kept meanwhile in the buffer for the reference, which must not be filled
// yet; where there is none (verification by checksums), a deviation is not located.
absl::StatusOr<Repeated> LaunchRepeatedly(Launcher& launcher, Device& device, const Plan& plan,
                                          int repeats);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_VALIDATE_REPEATS_H_
