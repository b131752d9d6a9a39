// A device that is wrong about its own results is found by what the host recomputes: its
// reference, its error allowance and what it says of an output are each held against it.
#include "kernels/judge/recheck.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/ops/device_references.h"
#include "kernels/text/cat.h"
#include "tests/unit/judge/distorted.h"
#include "tests/unit/judge/forwarding_device.h"

namespace assay {
namespace {

using testing::DistortedKernel;
using testing::ForwardingDevice;
using testing::GemmCase;
using ::testing::HasSubstr;
using testing::TheDistortion;

// The CPU, but for what a test does to its references and to what it compares.
class WrongDevice : public ForwardingDevice, private DeviceReferences {
 public:
  std::function<void(ReferenceBuffers&)> spoil = [](ReferenceBuffers&) {};
  bool blind = false;  // finds every output right

  const DeviceReferences* references() const override { return this; }
  absl::StatusOr<CompareResult> Compare(const CompareRequest& request) override {
    absl::StatusOr<CompareResult> result = cpu_->Compare(request);
    if (blind && result.ok()) {
      result->mismatches = result->beyond_probable = result->beyond_proven = 0;
      result->class_mismatches = 0;
      result->rho = result->rho_proven = 0.5;
      result->worst = {};
      result->samples.clear();
    }
    return result;
  }

 private:
  absl::Status Reference(const Case& c, const Plan& plan, Device&,
                         std::span<const TensorView> inputs, ReferenceBuffers& out) const override {
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

CaseOutcome RunOn(WrongDevice& device, Case c, testing::Distort distort) {
  TheDistortion() = std::move(distort);
  Registry registry;
  registry.Add(KernelEntry{.op = OpName(c.problem),
                           .provider = "distorted",
                           .backend = "cpu",
                           .dtypes = {c.dtype},
                           .make = [](const Case& made, const Plan& plan,
                                      Device&) -> absl::StatusOr<std::unique_ptr<Kernel>> {
                             return std::make_unique<DistortedKernel>(made, plan);
                           },
                           .version = {},
                           .unavailable_reason = {}});
  c.provider = "distorted";
  c.probes = false;
  c.seed = 1;
  PhaseObserver observer;
  return CaseRunner(device, registry, nullptr).Run(c, observer);
}

void Right(std::vector<double>&, const Plan&) {}

std::string FaultOf(const CaseOutcome& outcome) {
  if (outcome.verdict != Verdict::kError || outcome.findings.empty()) return "no fault";
  const Finding& finding = outcome.findings.front();
  return Cat(ReasonWord(finding.reason), ": ", finding.message);
}

// [20, 30]: each element is one of those recomputed.
Case SmallGemm(DType dtype = DType::kF32) { return GemmCase(dtype, 20, 30, 40); }

TEST(Recheck, AgreesWithARightDevice) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kI8, DType::kE2M1}) {
    WrongDevice device;
    Case c = SmallGemm(dtype);
    if (dtype == DType::kE2M1) c.out_dtype = dtype;
    EXPECT_EQ(RunOn(device, c, Right).verdict, Verdict::kPassed) << Name(dtype);
  }
}

// One reference of 600 that is off, which the kernel's right output disagrees with too: it
// is the device that is to blame.
TEST(Recheck, FindsAWrongReference) {
  WrongDevice device;
  device.spoil = [](ReferenceBuffers& r) { r.value[3 * 30 + 7] += 1; };
  EXPECT_THAT(FaultOf(RunOn(device, SmallGemm(), Right)),
              HasSubstr("fault: host and device disagree at [3,7]: the device's reference is "));
  device.spoil = [](ReferenceBuffers& r) {
    r.value[599] = std::numeric_limits<double>::quiet_NaN();
    r.value[31] = std::numeric_limits<double>::infinity();
  };
  const std::string two = FaultOf(RunOn(device, SmallGemm(), Right));
  EXPECT_THAT(two, HasSubstr("disagree at [1,1]: the device's reference is inf"));
  EXPECT_THAT(two, HasSubstr("(2 of 600 sampled elements)"));
}

TEST(Recheck, FindsAWrongReferenceThatTheKernelShares) {
  WrongDevice device;
  device.spoil = [](ReferenceBuffers& r) { r.value[0] += 1; };
  const auto share = [](std::vector<double>& values, const Plan&) { values[0] += 1; };
  EXPECT_THAT(FaultOf(RunOn(device, SmallGemm(), share)),
              HasSubstr("disagree at [0,0]: the device's reference is "));
}

TEST(Recheck, FindsADeviceThatForgivesItself) {
  WrongDevice device;
  device.spoil = [](ReferenceBuffers& r) { r.allowance[100] *= 1.05; };
  EXPECT_THAT(FaultOf(RunOn(device, SmallGemm(), Right)),
              HasSubstr("disagree at [3,10]: the device's error allowance is "));
  device.spoil = [](ReferenceBuffers& r) { r.allowance[100] *= 0.5; };
  EXPECT_NE(RunOn(device, SmallGemm(), Right).verdict, Verdict::kError);
}

TEST(Recheck, FindsADeviceThatAcceptsWhatIsWrong) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kE2M1, DType::kI8}) {
    WrongDevice device;
    device.blind = true;
    Case c = SmallGemm(dtype);
    if (dtype == DType::kE2M1) c.out_dtype = dtype;
    // By more than any rounding, and not to where it saturates.
    const auto wrong = [](std::vector<double>& values, const Plan&) {
      for (const std::size_t i : {45, 46}) values[i] = values[i] > 0 ? -4 : 4;
    };
    const std::string fault = FaultOf(RunOn(device, c, wrong));
    EXPECT_THAT(fault, HasSubstr("disagree at [1,15]: the device accepted an output of"))
        << Name(dtype);
    EXPECT_THAT(fault, HasSubstr("(2 of 600 sampled elements)")) << Name(dtype);
  }
}

// One element of 5600 that is not sampled, and whose bound is infinite: any number passes there.
TEST(Recheck, OneElementWithoutABoundIsNoPass) {
  for (const DType dtype : {DType::kF64, DType::kF32}) {
    Case c = GemmCase(dtype, 70, 80, 6);
    c.seed = 1;
    const std::vector<std::int64_t> sampled =
        FindOp("gemm")->Samples(c, *FindOp("gemm")->MakePlan(c), 1, 1024);
    std::size_t at = 0;
    while (std::find(sampled.begin(), sampled.end(), static_cast<std::int64_t>(at)) !=
           sampled.end()) {
      ++at;
    }
    WrongDevice device;
    device.spoil = [&](ReferenceBuffers& r) {
      if (dtype == DType::kF64) r.allowance[at] = std::numeric_limits<double>::infinity();
    };
    const CaseOutcome outcome = RunOn(device, c, Right);
    if (dtype == DType::kF32) {
      EXPECT_EQ(outcome.verdict, Verdict::kPassed);
      continue;
    }
    EXPECT_EQ(outcome.verdict, Verdict::kInconclusive);
    ASSERT_EQ(outcome.findings.size(), 1U);
    EXPECT_THAT(outcome.findings[0].message,
                HasSubstr("at 1 of 5,600 elements the terms overflow FP64"));
    const auto wrong = [&](std::vector<double>& values, const Plan&) { values[at] = 1e300; };
    EXPECT_EQ(RunOn(device, c, wrong).verdict, Verdict::kInconclusive);
  }
}

}  // namespace
}  // namespace assay
