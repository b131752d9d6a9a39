// PlantedDevice: the CPU as a device of another pace. Only the time of its launches is not the
// CPU's own.
//
// 32 daemons on two cores cannot be timed. Their kernels run, and each launch moves a clock of the
// device's own. The clock moves by the time that a made-up model of 12 million operations and 4
// million bytes a second needs. The pace of the node, the deviation of the case on this node and
// the noise of the sample change that time. All of them are drawn from the node's seed, so that a
// night can be repeated.
#ifndef ASSAY_TESTS_INTEGRATION_FLEET_PLANTED_DEVICE_H_
#define ASSAY_TESTS_INTEGRATION_FLEET_PLANTED_DEVICE_H_

#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string_view>
#include <utility>

#include "kernels/bench/ceilings.h"
#include "kernels/runtime/device.h"
#include "tests/integration/fleet/planted_faults.h"

namespace assay::simulated {

inline constexpr double kFlopsPerSecond = 12e6;
inline constexpr double kBytesPerSecond = 4e6;

class PlantedDevice final : public Device {
 public:
  PlantedDevice(std::unique_ptr<Device> cpu, const Faults& faults)
      : cpu_(std::move(cpu)), faults_(faults) {}

  // The next launches are of this case, and take a device of the model so long [seconds].
  void Begin(std::string_view case_name, double model_seconds);
  // One was made.
  void CountLaunch();

  absl::StatusOr<double> TimeLaunch(absl::FunctionRef<absl::Status()> launch) override;

  const DeviceInfo& info() const override { return cpu_->info(); }
  const DeviceReferences* references() const override { return cpu_->references(); }
  Arena& arena() override { return cpu_->arena(); }
  absl::Status Fill(const FillSpec& spec, const TensorView& dst) override {
    return cpu_->Fill(spec, dst);
  }
  absl::Status PoisonTensor(Poison poison, const TensorView& dst) override {
    return cpu_->PoisonTensor(poison, dst);
  }
  absl::Status GuardPadding(Poison p, const TensorView& dst) override {
    return cpu_->GuardPadding(p, dst);
  }
  absl::StatusOr<std::int64_t> CheckPadding(Poison p, const TensorView& dst) override {
    return cpu_->CheckPadding(p, dst);
  }
  absl::Status WriteGuards(Poison p) override { return cpu_->WriteGuards(p); }
  absl::StatusOr<std::int64_t> CheckGuards(Poison p) override { return cpu_->CheckGuards(p); }
  absl::StatusOr<CompareResult> Compare(const CompareRequest& request) override {
    return cpu_->Compare(request);
  }
  absl::StatusOr<ChecksumSums> Checksum(const ChecksumRequest& request) override {
    return cpu_->Checksum(request);
  }
  absl::StatusOr<TensorDigest> Digest(const TensorView& view) override {
    return cpu_->Digest(view);
  }
  absl::Status Copy(const TensorView& src, const TensorView& dst) override {
    return cpu_->Copy(src, dst);
  }
  absl::Status ToHost(const TensorView& src, std::int64_t begin, std::int64_t count,
                      void* dst) override {
    return cpu_->ToHost(src, begin, count, dst);
  }
  absl::Status FromHost(const void* src, std::int64_t bytes, void* dst) override {
    return cpu_->FromHost(src, bytes, dst);
  }
  absl::Status health() const override { return cpu_->health(); }
  absl::Status Synchronize() override { return cpu_->Synchronize(); }
  absl::Status EvictFromCaches(std::span<const TensorView> views) override {
    return cpu_->EvictFromCaches(views);
  }
  double Now() override { return cpu_->Now(); }

 private:
  std::unique_ptr<Device> cpu_;
  const Faults& faults_;
  std::mt19937_64 noise_;
  double seconds_of_launch_ = 0;
  double elapsed_ = 0;  // [seconds]
};

// Twice what the made-up model reaches with any case.
std::unique_ptr<Ceilings> MakePlantedCeilings();

}  // namespace assay::simulated

#endif  // ASSAY_TESTS_INTEGRATION_FLEET_PLANTED_DEVICE_H_
