// The CPU device behind an interface of its own: a test overrides what its device does otherwise.
#ifndef ASSAY_TESTS_UNIT_JUDGE_FORWARDING_DEVICE_H_
#define ASSAY_TESTS_UNIT_JUDGE_FORWARDING_DEVICE_H_

#include <memory>

#include "kernels/runtime/device.h"

namespace assay::testing {

class ForwardingDevice : public Device {
 public:
  const DeviceInfo& info() const override { return cpu_->info(); }
  Arena& arena() override { return cpu_->arena(); }
  absl::Status Fill(const FillSpec& f, const TensorView& t) override { return cpu_->Fill(f, t); }
  absl::Status PoisonTensor(Poison p, const TensorView& t) override {
    return cpu_->PoisonTensor(p, t);
  }
  absl::Status GuardPadding(Poison p, const TensorView& t) override {
    return cpu_->GuardPadding(p, t);
  }
  absl::StatusOr<std::int64_t> CheckPadding(Poison p, const TensorView& t) override {
    return cpu_->CheckPadding(p, t);
  }
  absl::Status WriteGuards(Poison p) override { return cpu_->WriteGuards(p); }
  absl::StatusOr<std::int64_t> CheckGuards(Poison p) override { return cpu_->CheckGuards(p); }
  absl::StatusOr<CompareResult> Compare(const CompareRequest& request) override {
    return cpu_->Compare(request);
  }
  absl::StatusOr<TensorDigest> Digest(const TensorView& t) override { return cpu_->Digest(t); }
  absl::Status Copy(const TensorView& s, const TensorView& d) override { return cpu_->Copy(s, d); }
  absl::Status ToHost(const TensorView& t, std::int64_t b, std::int64_t n, void* d) override {
    return cpu_->ToHost(t, b, n, d);
  }
  absl::Status Synchronize() override { return cpu_->Synchronize(); }
  double Now() override { return cpu_->Now(); }

 protected:
  const std::unique_ptr<Device> cpu_ = MakeCpuDevice(0, ArenaOptions{.max_bytes = 64 << 20});
};

}  // namespace assay::testing

#endif  // ASSAY_TESTS_UNIT_JUDGE_FORWARDING_DEVICE_H_
