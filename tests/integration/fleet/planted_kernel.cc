#include "tests/integration/fleet/planted_kernel.h"

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "kernels/numerics/dtype.h"
#include "tests/integration/fleet/planted_device.h"
#include "tests/integration/fleet/planted_faults.h"

namespace assay::simulated {
namespace {

const Registry& RealKernels() {
  static const Registry* const registry = [] {
    auto* all = new Registry;
    RegisterAll(*all);
    return all;
  }();
  return *registry;
}

// The other value of one bit of one logical element, in whatever order the host stores bytes
// of a number least significant first.
void FlipBit(const TensorView& output, std::int64_t element, int bit) {
  const int bits = Info(output.dtype).storage_bits;
  if (output.count() == 0 || bits < 8) return;
  const Extents& extents = output.extents;
  const std::int64_t logical = element % output.count();
  const std::int64_t at = logical / (extents.rows * extents.cols) * extents.batch_stride +
                          logical / extents.cols % extents.rows * extents.ld +
                          logical % extents.cols;
  auto* bytes = static_cast<std::uint8_t*>(output.data) + at * (bits / 8);
  bytes[bit % bits / 8] = static_cast<std::uint8_t>(bytes[bit % bits / 8] ^ 1u << bit % 8);
}

class PlantedKernel final : public Kernel {
 public:
  PlantedKernel(std::unique_ptr<Kernel> real, const Case& c, double model_seconds,
                PlantedDevice& device)
      : real_(std::move(real)), device_(device) {
    const Faults& faults = PlantedFaults();
    if (faults.flip && faults.flip->where.Is(c)) flip_ = faults.flip;
    crashes_ = faults.crash && faults.crash->Is(c);
    device_.Begin(c.name.empty() ? DefaultName(c) : c.name, model_seconds);
  }

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    if (crashes_) std::raise(SIGSEGV);
    absl::Status status = real_->Launch(inputs, output);
    if (status.ok() && flip_) FlipBit(output, flip_->element, flip_->bit);
    device_.CountLaunch();
    return status;
  }
  double intermediate_roundoff() const override { return real_->intermediate_roundoff(); }
  double operand_roundoff() const override { return real_->operand_roundoff(); }
  bool flushes_subnormals() const override { return real_->flushes_subnormals(); }
  Accumulator accumulator() const override { return real_->accumulator(); }
  std::string implementation() const override { return real_->implementation(); }

 private:
  std::unique_ptr<Kernel> real_;
  PlantedDevice& device_;
  std::optional<Faults::Flip> flip_;
  bool crashes_ = false;
};

absl::StatusOr<std::unique_ptr<Kernel>> Make(const Case& c, const Plan& plan, Device& device) {
  const KernelEntry* real = RealKernels().Find(OpName(c.problem), c.provider, "cpu");
  if (real == nullptr) return absl::UnimplementedError("no such kernel");
  absl::StatusOr<std::unique_ptr<Kernel>> made = real->make(c, plan, device);
  if (!made.ok()) return made.status();
  const double seconds = plan.flops / kFlopsPerSecond + plan.bytes / kBytesPerSecond;
  // RegisterPlanted is of a backend that makes no other device.
  return std::make_unique<PlantedKernel>(*std::move(made), c, seconds,
                                         static_cast<PlantedDevice&>(device));
}

}  // namespace

void RegisterPlanted(Registry& registry) {
  for (KernelEntry entry : RealKernels().entries()) {
    if (!entry.provider.starts_with(kPlantedPrefix)) entry.make = &Make;
    registry.Add(std::move(entry));
  }
}

}  // namespace assay::simulated
