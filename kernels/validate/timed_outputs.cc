#include "kernels/validate/timed_outputs.h"

#include <algorithm>

namespace assay::inline kernels {

absl::Status TimedOutputs::Begin(const std::optional<TensorDigest>& judged) {
  blocks_ = device_.arena().blocks().size();
  absl::StatusOr<std::unique_ptr<OutputWatch>> watch =
      device_.WatchOutputs(launcher_.output(), judged);
  if (!watch.ok()) return watch.status();
  watch_ = *std::move(watch);
  left_ = device_.Now();
  return absl::OkStatus();
}

absl::Status TimedOutputs::After(double /*seconds*/) {
  rest_ += device_.Now() - left_;
  ++samples_;
  looked_ = Chosen();
  absl::Status status = looked_ ? Look() : absl::OkStatus();
  left_ = device_.Now();
  return status;
}

bool TimedOutputs::Chosen() {
  if (launcher_.output().bytes() <= kAlwaysBytes || samples_ <= kFirst) return true;
  const double most = kMostShare * rest_ / samples_;  // for one look
  return std::uniform_real_distribution<double>(0, 1)(random_) * least_look_ <= most;
}

absl::Status TimedOutputs::Look() {
  const double begin = device_.Now();
  absl::Status status = watch_->Look(launcher_.output());
  if (status.ok()) status = device_.Synchronize();
  const double seconds = device_.Now() - begin;
  least_look_ = least_look_ > 0 ? std::min(least_look_, seconds) : seconds;
  return status;
}

absl::StatusOr<WatchFindings> TimedOutputs::Finish() {
  if (!looked_) {
    if (absl::Status status = Look(); !status.ok()) return status;
  }
  absl::StatusOr<WatchFindings> findings = watch_->Findings();
  if (!findings.ok() || findings->others > 0) return findings;
  findings->kept.clear();
  watch_.reset();
  device_.arena().ResetTo(blocks_);
  return findings;
}

}  // namespace assay::kernels
