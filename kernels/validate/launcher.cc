#include "kernels/validate/launcher.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "kernels/judge/precision_evidence.h"
#include "kernels/numerics/bound.h"
#include "kernels/numerics/convert.h"
#include "kernels/numerics/poison.h"
#include "kernels/ops/common/row_residuals.h"
#include "kernels/runtime/kernel_failure.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {

End Launcher::Prepare(const KernelEntry& entry, Plan& plan, std::size_t kept) {
  plan_ = &plan;
  provider_ = case_.provider;
  device_.arena().ResetTo(kept);
  absl::StatusOr<std::unique_ptr<Kernel>> kernel = entry.make(case_, plan, device_);
  if (!kernel.ok()) {
    Ended end = RefusedBy(kernel.status(), provider_);
    const bool own = FailureOf(kernel.status()).has_value();
    if (end.finding.reason == Reason::kFault && !own) end.finding.blame = Blame::kLibrary;
    return end;
  }
  kernel_ = *std::move(kernel);
  // No kernel may ask for more than the coarser of its formats rounds by.
  const double coarser =
      Info(plan.output.dtype).is_integer
          ? Info(DType::kF32).unit_roundoff
          : std::max(Info(case_.dtype).unit_roundoff, Info(plan.output.dtype).unit_roundoff);
  plan.intermediate_roundoff = std::min(kernel_->intermediate_roundoff(), coarser);
  if (case_.intermediate_dtype != DType::kUnspecified) {
    const FormatInfo& held = Info(case_.intermediate_dtype);
    plan.intermediate_roundoff = kDeclaredRoundings * held.unit_roundoff;
    plan.intermediate_step = held.min_subnormal;
  }
  // Arithmetic flushes; a conversion to a format of a smaller range does not.
  const bool flushed = Info(plan.output.dtype).min_normal <= Info(DType::kF32).min_normal;
  plan.flushes_subnormals = kernel_->flushes_subnormals() || (case_.flushes_subnormals && flushed);
  const Op& op = *FindOp(OpName(case_.problem));
  plan.operand_roundoff =
      std::min(case_.operand_roundoff.value_or(kernel_->operand_roundoff()),
               op.traits().most_operand_roundoff * AccumulatorRoundoff(case_.dtype));
  Accumulator accumulator = AccumulatorOf(
      case_.dtype, case_.cuts_off_sums ? CutOffAccumulator(case_.dtype) : kernel_->accumulator());
  accumulator.operands = plan.operand_roundoff;
  if (accumulator.roundoff > plan.accumulator.roundoff || accumulator.truncation.roundoff > 0 ||
      accumulator.operands > 0) {
    op.HoldTo(case_, accumulator, plan);
  }
  for (const Operand& operand : plan.inputs) {
    absl::StatusOr<TensorView> view = Allocate(operand);
    if (!view.ok()) return EndedBy(view.status(), operand.name);
    inputs_.push_back(*view);
  }
  absl::StatusOr<TensorView> output = Allocate(plan.output);
  if (!output.ok()) return EndedBy(output.status(), "output");
  output_ = *output;
  reference_.output = output_;
  // Checksums need no buffer of the output's size.
  if (case_.verify == Verification::kChecksum) return std::nullopt;
  absl::StatusOr<double*> value = AllocateDoubles(output_.count());
  if (!value.ok()) return EndedBy(value.status(), "reference");
  reference_.value = *value;
  if (plan.exact) return std::nullopt;
  absl::StatusOr<double*> allowance = AllocateDoubles(output_.count());
  if (!allowance.ok()) return EndedBy(allowance.status(), "error bounds");
  reference_.allowance = *allowance;
  return std::nullopt;
}

End Launcher::PrepareDeviations(const Plan& plan) {
  if (reference_.allowance == nullptr) return std::nullopt;
  const ResidualModel model = FindOp(OpName(case_.problem))->Residuals(case_, plan);
  const absl::Status status = AllocateDeviations(case_, model, plan, device_, reference_);
  const bool by_bound =
      case_.criterion == Criterion::kBound || case_.criterion == Criterion::kUnspecified;
  if (!status.ok() && by_bound && model.gates) return EndedBy(status, "usual errors");
  return std::nullopt;
}

absl::StatusOr<TensorView> Launcher::Allocate(const Operand& operand) {
  TensorView view{nullptr, operand.dtype, operand.extents};
  absl::StatusOr<Block> block = device_.arena().Allocate(view.bytes(), /*guarded=*/true);
  if (!block.ok()) return block.status();
  view.data = block->data;
  return view;
}

absl::StatusOr<double*> Launcher::AllocateDoubles(std::int64_t count) {
  absl::StatusOr<Block> block = device_.arena().Allocate(
      count * static_cast<std::int64_t>(sizeof(double)), /*guarded=*/false);
  if (!block.ok()) return block.status();
  return static_cast<double*>(block->data);
}

End Launcher::EnqueueFills() {
  clock_.Enter(Phase::kFill);
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const FillSpec spec{plan_->inputs[i].pattern, seed_, static_cast<std::uint32_t>(i)};
    absl::Status status = device_.Fill(spec, inputs_[i]);
    if (status.ok()) status = device_.GuardPadding(case_.poison, inputs_[i]);
    if (!status.ok()) return EndedBy(status, plan_->inputs[i].name);
  }
  return std::nullopt;
}

End Launcher::Fill() {
  // What it could find there: references of this case, and what earlier cases left. Each launch
  // writes poison and guard bands anew.
  if (kernel_->reaches_device_memory()) {
    if (absl::Status s = device_.Forget(); !s.ok()) return EndedBy(s, "arena");
  }
  return Refill();
}

End Launcher::Refill() {
  if (End end = EnqueueFills()) return end;
  absl::StatusOr<Fingerprint> filled = device_.FingerprintOf(inputs_);
  if (!filled.ok()) return EndedBy(filled.status(), "digest");
  filled_ = *filled;
  return std::nullopt;
}

absl::StatusOr<std::vector<TensorDigest>> Launcher::InputDigests() {
  std::vector<TensorDigest> digests;
  for (const TensorView& view : inputs_) {
    absl::StatusOr<TensorDigest> digest = device_.Digest(view);
    if (!digest.ok()) return digest.status();
    digests.push_back(*digest);
  }
  return digests;
}

absl::StatusOr<double> Launcher::Launch(std::optional<Poison> poison) {
  absl::Status status = Guard(poison);
  if (!status.ok()) return status;
  absl::StatusOr<double> seconds = TimeGuarded(1);
  if (!seconds.ok()) return seconds.status();
  status = CountGuards();
  if (!status.ok()) return status;
  return seconds;
}

absl::StatusOr<double> Launcher::LaunchTimed(int launches, bool& from_memory,
                                             absl::FunctionRef<void()> ready) {
  absl::Status status = Guard(Poison::kFirst);
  if (status.ok() && from_memory) {
    const absl::Status evicted =
        device_.EvictFromCaches(kernel_->OperandsInPlace(inputs_, output_));
    from_memory = evicted.ok();
    status = device_.Synchronize();
  }
  if (!status.ok()) return status;
  ready();
  return TimeGuarded(launches);
}

absl::Status Launcher::Guard(std::optional<Poison> poison) {
  clock_.Enter(Phase::kFill);
  absl::Status status;
  if (poison) status = device_.PoisonTensor(*poison, output_);
  // What launches before have done outside stays, until it is counted.
  if (status.ok() && !uncounted_) status = device_.GuardPadding(case_.poison, output_);
  if (status.ok() && !uncounted_) status = device_.WriteGuards(case_.poison);
  if (status.ok()) status = device_.Synchronize();
  if (status.ok()) status = kernel_->Bring(inputs_, output_);
  return status;
}

absl::StatusOr<double> Launcher::LaunchReplayed(int launches, absl::FunctionRef<void()> ready) {
  auto* const recorder = dynamic_cast<LaunchRecorder*>(&device_);
  if (recorder == nullptr) return absl::UnimplementedError("this device records no launches");
  if (recorded_ == nullptr || recorded_launches_ != launches) {
    clock_.Enter(Phase::kKernel);
    recorded_.reset();
    absl::StatusOr<std::unique_ptr<RecordedLaunch>> recorded =
        recorder->RecordLaunch([this, launches] { return LaunchMany(launches); });
    if (!recorded.ok()) return recorded.status();
    recorded_ = *std::move(recorded);
    recorded_launches_ = launches;
  }
  if (absl::Status status = Guard(Poison::kFirst); !status.ok()) return status;
  ready();
  return TimeGuarded([this] { return recorded_->Launch(); });
}

absl::Status Launcher::LaunchMany(int launches) {
  absl::Status status;
  for (int i = 0; i < launches && status.ok(); ++i) status = kernel_->Launch(inputs_, output_);
  return status;
}

absl::StatusOr<double> Launcher::TimeGuarded(int launches) {
  return TimeGuarded([this, launches] {
    const double begin = device_.Now();
    absl::Status status = LaunchMany(launches);
    enqueue_seconds_ = (device_.Now() - begin) / launches;
    return status;
  });
}

absl::StatusOr<double> Launcher::TimeGuarded(absl::FunctionRef<absl::Status()> launch) {
  clock_.Enter(Phase::kKernel);
  uncounted_ = true;
  kernel_->TakeOverheadSeconds();  // of what was before
  absl::StatusOr<double> seconds = device_.TimeLaunch(launch);
  const double overhead = kernel_->TakeOverheadSeconds();
  clock_.Enter(Phase::kGuards);
  if (!seconds.ok()) return seconds;
  *seconds = std::max(*seconds - overhead, 0.0);
  if (absl::Status status = kernel_->Fetch(inputs_, output_); !status.ok()) return status;
  return seconds;
}

absl::Status Launcher::CountGuards() {
  if (!uncounted_) return absl::OkStatus();
  std::vector<TensorView> views = inputs_;
  views.push_back(output_);
  const absl::StatusOr<std::int64_t> hits = device_.CountDamage(case_.poison, views);
  if (!hits.ok()) return hits.status();
  guard_hits_ = std::max(guard_hits_, *hits);
  uncounted_ = false;
  return absl::OkStatus();
}

absl::StatusOr<OtherPoison> Launcher::LaunchOnOtherPoison() {
  const Extents& e = output_.extents;
  const TensorView kept{reference_.value, output_.dtype, Extents::Dense(e.batch, e.rows, e.cols)};
  absl::StatusOr<Fingerprint> first = device_.FingerprintOf({&output_, 1});
  if (!first.ok()) return first.status();
  absl::Status status;
  if (kept.data != nullptr) status = device_.Copy(output_, kept);
  if (!status.ok()) return status;
  absl::StatusOr<double> seconds = Launch(Poison::kSecond);
  if (!seconds.ok()) return seconds.status();
  absl::StatusOr<Fingerprint> second = device_.FingerprintOf({&output_, 1});
  if (!second.ok()) return second.status();
  if (*first == *second) return OtherPoison{};

  const DType dtype = output_.dtype;
  const std::int64_t count = output_.count();
  const auto bytes = static_cast<std::size_t>(StorageBytes(dtype, count));
  std::vector<unsigned char> with_second(bytes), with_first(bytes);
  status = device_.ToHost(output_, 0, count, with_second.data());
  if (!status.ok()) return status;
  if (kept.data != nullptr) {
    status = device_.Copy(kept, output_);
  } else {
    status = Launch(Poison::kFirst).status();
  }
  if (status.ok()) status = device_.ToHost(output_, 0, count, with_first.data());
  if (!status.ok()) return status;
  OtherPoison other;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t a = LoadBits(dtype, with_first.data(), i);
    const std::uint64_t b = LoadBits(dtype, with_second.data(), i);
    const bool unwritten =
        a == PoisonBits(dtype, Poison::kFirst) && b == PoisonBits(dtype, Poison::kSecond);
    other.unwritten += unwritten ? 1 : 0;
    other.differs = other.differs || (a != b && !unwritten);
  }
  if (other.differs) other.output = std::move(with_second);
  return other;
}

absl::Status Launcher::PutOutput(std::span<const unsigned char> dense) {
  const Extents& e = output_.extents;
  const auto to = static_cast<unsigned char*>(output_.data);
  if (e.dense()) {
    return device_.FromHost(dense.data(), static_cast<std::int64_t>(dense.size()), to);
  }
  const std::int64_t row_bytes = StorageBytes(output_.dtype, e.cols);
  for (std::int64_t row = 0; row < e.batch * e.rows; ++row) {
    const std::int64_t at = row / e.rows * e.batch_stride + row % e.rows * e.ld;
    absl::Status status = device_.FromHost(dense.data() + row * row_bytes, row_bytes,
                                           to + StorageBytes(output_.dtype, at));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

End Launcher::RestoreInputs() {
  clock_.Enter(Phase::kGuards);
  if (absl::Status status = CountGuards(); !status.ok()) return EndedBy(status, "guards");
  const absl::StatusOr<Fingerprint> now = device_.FingerprintOf(inputs_);
  if (!now.ok()) return EndedBy(now.status(), "digest");
  if (*now == filled_) return std::nullopt;
  const auto changed = InputDigests();
  if (!changed.ok()) return EndedBy(changed.status(), "digest");
  if (End end = Refill()) return end;
  const auto filled = InputDigests();
  if (!filled.ok()) return EndedBy(filled.status(), "digest");
  bool any = false;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if ((*changed)[i] == (*filled)[i]) continue;
    changed_inputs_.insert(std::string(plan_->inputs[i].name));
    any = true;
  }
  if (any) return std::nullopt;
  return Ended{
      Verdict::kError,
      {Reason::kFault, "the inputs have other digests than before, and then the same again"}};
}

}  // namespace assay::kernels
