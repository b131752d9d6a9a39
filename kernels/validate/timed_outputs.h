// Looks at the outputs of timed launches, between the launches. All are on the same data, so the
// outputs of a deterministic kernel are alike. One that differs is kept on the device, to be
// judged.
//
// Each sample's output is looked at: the last one's, if a sample has several launches. Large
// outputs (above kAlwaysBytes) may cost more: looks take at most a share kMostShare of the time
// that all else of a sample takes. If a look takes longer, only a share p of the samples, drawn at
// random by a seed that nobody knows, is looked at. So one wrong launch is missed with a chance of
// 1 − p, and n of them with (1 − p)^n. The first kFirst samples are always looked at.
//
// At most kMostKeptOutputs outputs that differ are kept. Of a kernel whose outputs vary, further
// ones are not judged.
#ifndef ASSAY_KERNELS_VALIDATE_TIMED_OUTPUTS_H_
#define ASSAY_KERNELS_VALIDATE_TIMED_OUTPUTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "kernels/runtime/device.h"
#include "kernels/runtime/output_watch.h"
#include "kernels/validate/launcher.h"
#include "kernels/validate/timing.h"

namespace assay::inline kernels {

class TimedOutputs final : public TimedLaunches {
 public:
  static constexpr std::int64_t kAlwaysBytes = 1 << 20;
  static constexpr double kMostShare = 0.25;
  static constexpr int kFirst = 4;

  TimedOutputs(Launcher& launcher, Device& device) : launcher_(launcher), device_(device) {}

  // `judged`: the digest of the output that others should be like. Empty: none is judged yet.
  absl::Status Begin(const std::optional<TensorDigest>& judged);
  absl::Status After(double seconds) override;
  // Of all timed launches, the last among them. If the outputs are alike, none is kept any longer.
  absl::StatusOr<WatchFindings> Finish();
  int samples() const { return samples_; }

 private:
  bool Chosen();
  absl::Status Look();

  Launcher& launcher_;
  Device& device_;
  std::unique_ptr<OutputWatch> watch_;
  std::mt19937_64 random_{std::random_device{}()};
  std::size_t blocks_ = 0;  // of the arena, before the watch
  int samples_ = 0;
  bool looked_ = false;    // at the last sample
  double rest_ = 0;        // [seconds] of all samples, without the looks
  double least_look_ = 0;  // [seconds] the shortest look
  double left_ = 0;        // [seconds] of the device's clock, when the last look was done
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_VALIDATE_TIMED_OUTPUTS_H_
