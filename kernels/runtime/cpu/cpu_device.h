// Implements Device (kernels/runtime/device.h) for the CPU. All work is done before a call returns,
// so there is nothing to wait for.
//
// Threads: one thread drives the device. The work of a call is spread over the shared OpenMP pool;
// small tensors stay on the calling thread.
#ifndef ASSAY_KERNELS_RUNTIME_CPU_CPU_DEVICE_H_
#define ASSAY_KERNELS_RUNTIME_CPU_CPU_DEVICE_H_

#include "kernels/runtime/cpu/arena_cpu.h"
#include "kernels/runtime/device.h"

namespace assay::inline kernels {

class CpuDevice final : public Device {
 public:
  CpuDevice(DeviceInfo info, const ArenaOptions& options);

  const DeviceInfo& info() const override { return info_; }
  Arena& arena() override { return arena_; }
  absl::Status Fill(const FillSpec& spec, const TensorView& dst) override;
  absl::Status PoisonTensor(Poison poison, const TensorView& dst) override;
  absl::Status GuardPadding(Poison poison, const TensorView& dst) override;
  absl::StatusOr<std::int64_t> CheckPadding(Poison poison, const TensorView& dst) override;
  absl::Status WriteGuards(Poison poison) override;
  absl::StatusOr<std::int64_t> CheckGuards(Poison poison) override;
  absl::StatusOr<CompareResult> Compare(const CompareRequest& request) override;
  absl::StatusOr<ResidualSums> Residuals(const ResidualRequest& request) override;
  bool tells_precision() const override { return true; }
  absl::StatusOr<ChecksumSums> Checksum(const ChecksumRequest& request) override;
  absl::StatusOr<TensorDigest> Digest(const TensorView& view) override;
  absl::Status Copy(const TensorView& src, const TensorView& dst) override;
  absl::Status ToHost(const TensorView& src, std::int64_t begin, std::int64_t count,
                      void* dst) override;
  absl::Status FromHost(const void* src, std::int64_t bytes, void* dst) override;
  absl::Status EvictFromCaches(std::span<const TensorView> views) override;
  absl::Status Synchronize() override;
  double Now() override;

 private:
  DeviceInfo info_;
  CpuArena arena_;
};

// The memory of this machine as the device simt:0, whose kernels run under the SIMT emulator.
std::unique_ptr<Device> MakeEmulatedDevice(const ArenaOptions& options);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_RUNTIME_CPU_CPU_DEVICE_H_
