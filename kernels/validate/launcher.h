// Launcher: holds the kernel under test and its operands on the device. It allocates the operands
// with guard bands, fills them, poisons the output, and launches the kernel.
//
// It owns the kernel. The operands live in the device's arena until the arena's next Reset. One
// thread.
#ifndef ASSAY_KERNELS_VALIDATE_LAUNCHER_H_
#define ASSAY_KERNELS_VALIDATE_LAUNCHER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/judge/ended.h"
#include "kernels/judge/outcome.h"
#include "kernels/judge/phase_clock.h"
#include "kernels/ops/case.h"
#include "kernels/ops/op.h"
#include "kernels/providers/provider.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/replay.h"

namespace assay::inline kernels {

// What a launch on the second poison tells of the one on the first.
struct OtherPoison {
  std::int64_t unwritten = 0;         // elements that hold either
  bool differs = false;               // elements that both wrote, and not alike
  std::vector<unsigned char> output;  // if so: the output of this launch, dense
};

class Launcher {
 public:
  // All must outlive the launcher.
  Launcher(const Case& c, Device& device, PhaseClock& clock)
      : case_(c), device_(device), clock_(clock), seed_(c.seed.value_or(1)) {}

  // Resets the arena to the first `kept` blocks, which are others', has the kernel made, allocates
  // operands and, unless checksums verify, reference buffers. `plan` must outlive the launcher;
  // what the kernel declares of its arithmetic is written into it.
  End Prepare(const KernelEntry& entry, Plan& plan, std::size_t kept = 0);
  // Allocates what the usual errors of the results take. Without room for them the precision is not
  // told, and where it would decide, the case ends.
  End PrepareDeviations(const Plan& plan);

  // Fills the inputs and remembers their fingerprint.
  End Fill();
  // Fills the inputs with the same pattern's data of another seed. All that follows is of these.
  End Draw(std::uint64_t seed) {
    seed_ = seed;
    return Fill();
  }
  std::uint64_t seed() const { return seed_; }  // of the inputs
  // Its two halves, for several cases whose inputs are filled, and read, together.
  End EnqueueFills();
  void Filled(const Fingerprint& inputs) { filled_ = inputs; }

  // One guarded launch; the seconds it took alone. Without a poison the output keeps what the last
  // launch left there. Padding and bands are those of Case::poison, whatever the output holds.
  absl::StatusOr<double> Launch(std::optional<Poison> poison);

  // `launches` of them behind one another, the output poisoned before the first; the seconds
  // they took together. `from_memory` has the operands dropped from the caches before, and
  // says afterwards whether they were. What these and the next write outside their operands
  // stays there, and is counted by RestoreInputs or the next Launch. Calls `ready` when all is
  // there, before the time begins.
  absl::StatusOr<double> LaunchTimed(
      int launches, bool& from_memory, absl::FunctionRef<void()> ready = [] {});

  // The same of launches that were recorded once and are done as one, their operands where
  // the launch before left them. UNIMPLEMENTED where the device cannot record, or not these.
  absl::StatusOr<double> LaunchReplayed(
      int launches, absl::FunctionRef<void()> ready = [] {});
  // Seconds that the host took to enqueue each of the launches that were timed last.
  double enqueue_seconds() const { return enqueue_seconds_; }

  // For formats that have no value to spare for a poison: launches with the second. The output
  // must be that of a launch with the first, and is so again afterwards (where checksums
  // verify, that of another). Equal outputs of the two prove that no element is unwritten;
  // only otherwise are they read. Uses the buffer for the reference, not filled yet.
  absl::StatusOr<OtherPoison> LaunchOnOtherPoison();
  // Writes OtherPoison::output over the output.
  absl::Status PutOutput(std::span<const unsigned char> dense);

  // Counts what launches wrote outside their operands since it was counted last; finds inputs
  // the kernel wrote into and fills them again, so that nothing is judged against what it
  // wrote.
  End RestoreInputs();

  absl::StatusOr<TensorDigest> OutputDigest() { return device_.Digest(output_); }

  const std::vector<TensorView>& inputs() const { return inputs_; }
  const TensorView& output() const { return output_; }
  ReferenceBuffers& reference() { return reference_; }
  bool has_kernel() const { return kernel_ != nullptr; }
  const Kernel& kernel() const { return *kernel_; }
  std::string_view provider() const { return provider_; }
  std::int64_t guard_hits() const { return guard_hits_; }  // [bytes], the most of any launch
  const std::set<std::string>& changed_inputs() const { return changed_inputs_; }

 private:
  End Refill();  // the output and all else stay
  absl::StatusOr<TensorView> Allocate(const Operand& operand);
  absl::StatusOr<double*> AllocateDoubles(std::int64_t count);
  absl::StatusOr<std::vector<TensorDigest>> InputDigests();
  absl::Status CountGuards();
  absl::Status Guard(std::optional<Poison> poison);
  absl::StatusOr<double> TimeGuarded(int launches);
  absl::StatusOr<double> TimeGuarded(absl::FunctionRef<absl::Status()> launch);
  absl::Status LaunchMany(int launches);

  const Case& case_;
  Device& device_;
  PhaseClock& clock_;
  const Plan* plan_ = nullptr;
  std::string_view provider_;
  std::unique_ptr<Kernel> kernel_;
  std::unique_ptr<RecordedLaunch> recorded_;
  int recorded_launches_ = 0;
  double enqueue_seconds_ = 0;
  std::vector<TensorView> inputs_;
  std::uint64_t seed_;
  Fingerprint filled_;  // of the inputs
  TensorView output_;
  ReferenceBuffers reference_;
  std::int64_t guard_hits_ = 0;
  bool uncounted_ = false;  // launches whose damage to the guards is not in guard_hits_ yet
  std::set<std::string> changed_inputs_;
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_VALIDATE_LAUNCHER_H_
