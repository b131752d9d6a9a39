// The CPU device, whose references and checksums a test can spoil.
#ifndef ASSAY_TESTS_UNIT_CHECKSUM_CHECKSUM_DEVICE_H_
#define ASSAY_TESTS_UNIT_CHECKSUM_CHECKSUM_DEVICE_H_

#include <functional>
#include <span>
#include <vector>

#include "kernels/ops/device_references.h"
#include "kernels/ops/op.h"
#include "tests/unit/judge/forwarding_device.h"

namespace assay::testing {

class ChecksumDevice : public ForwardingDevice, private DeviceReferences {
 public:
  // Changes what the device says of the lines that it recomputes, and of a matrix.
  std::function<void(ReferenceBuffers&)> spoil = [](ReferenceBuffers&) {};
  std::function<void(const ChecksumRequest&, ChecksumSums&)> disturb = [](const ChecksumRequest&,
                                                                          ChecksumSums&) {};
  // What the operator was asked for.
  struct Referenced {
    Case c;
    Plan plan;
    std::vector<TensorView> inputs;
  };
  mutable std::vector<Referenced> referenced;
  bool blind = false;  // finds every line right
  absl::Status compares, synchronizes;
  const void* lost = nullptr;          // a tensor that cannot be read
  std::vector<std::int64_t> compared;  // elements of each comparison
  std::vector<std::int64_t> fetched;   // elements that came to the host, one at a time

  const DeviceReferences* references() const override { return this; }
  absl::StatusOr<ChecksumSums> Checksum(const ChecksumRequest& request) override {
    absl::StatusOr<ChecksumSums> sums = cpu_->Checksum(request);
    if (sums.ok()) disturb(request, *sums);
    return sums;
  }
  absl::StatusOr<CompareResult> Compare(const CompareRequest& request) override {
    compared.push_back(request.output.count());
    if (!compares.ok()) return compares;
    absl::StatusOr<CompareResult> result = cpu_->Compare(request);
    if (blind && result.ok()) {
      result->mismatches = result->beyond_probable = result->beyond_proven = 0;
      result->class_mismatches = 0;
      result->samples.clear();
    }
    return result;
  }

  absl::Status ToHost(const TensorView& t, std::int64_t b, std::int64_t n, void* d) override {
    if (t.data == lost) return absl::InternalError("lost");
    if (n == 1) fetched.push_back(b);
    return cpu_->ToHost(t, b, n, d);
  }
  absl::Status Synchronize() override { return synchronizes; }

 private:
  absl::Status Reference(const Case& c, const Plan& plan, Device&,
                         std::span<const TensorView> inputs, ReferenceBuffers& out) const override {
    referenced.push_back({c, plan, {inputs.begin(), inputs.end()}});
    absl::Status status = FindOp(OpName(c.problem))->Reference(c, plan, *cpu_, inputs, out);
    spoil(out);
    return status;
  }
  absl::StatusOr<std::vector<Identity>> CheckIdentities(const Case&, const Plan&, Device&,
                                                        std::span<const TensorView>,
                                                        const TensorView&,
                                                        const ReferenceBuffers&) const override {
    return absl::UnimplementedError("not looked at");
  }
};

}  // namespace assay::testing

#endif  // ASSAY_TESTS_UNIT_CHECKSUM_CHECKSUM_DEVICE_H_
