// Shared code for the tests of the GPU references. It runs a case through GpuReferences under the
// emulator, with buffers of exactly the right size, and compares it with the plain reference.
#ifndef ASSAY_TESTS_SIMT_REFERENCES_H_
#define ASSAY_TESTS_SIMT_REFERENCES_H_

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "kernels/ops/gpu/references_gpu.h"
#include "kernels/runtime/device.h"
#include "simt/engine.h"
#include "tests/unit/ops/tensors.h"

namespace assay {

// The parameter of the test is the width of a wave.
class SimtReference : public ::testing::TestWithParam<int> {
 protected:
  SimtReference()
      : device_(MakeCpuDevice(0, ArenaOptions{.max_bytes = 1 << 20})),
        references_([](Device&) -> absl::StatusOr<gpu::Stream> { return nullptr; },
                    [this](Device&) -> absl::StatusOr<void*> { return scratch_.data(); }) {
    simt::CurrentConfig() = simt::Config{};
    simt::CurrentConfig().wave_width = GetParam();
    simt::TakeFaults();
  }
  ~SimtReference() override {
    for (const simt::Fault& fault : simt::TakeFaults()) ADD_FAILURE() << fault.message;
    simt::CurrentConfig() = simt::Config{};
  }

  // The reference r, the allowance E, and the largest score of an attention. Elements that are not
  // written stay kUnwritten.
  struct Result {
    std::vector<double> value, allowance;
    double max_abs_score = 0;
  };
  static constexpr double kUnwritten = -12345.678;

  Result Run(const Case& c, const Plan& plan, const Tensors& tensors) {
    const std::size_t count = static_cast<std::size_t>(plan.output.extents.count());
    Result result{std::vector<double>(count, kUnwritten), std::vector<double>(count, kUnwritten)};
    ReferenceBuffers out{result.value.data(), result.allowance.data()};
    const absl::Status status = references_.Reference(c, plan, *device_, tensors.views(), out);
    EXPECT_TRUE(status.ok()) << status;
    result.max_abs_score = out.max_abs_score;
    return result;
  }

  // Compares every element with the plain reference: r must be within 1e-12 of its terms'
  // magnitudes, and E within 1e-9 of itself. If the plan is exact, the bits of r must be equal, and
  // E must not be written.
  void ExpectPlain(const Case& c, const std::function<double(int, std::int64_t)>& values = {}) {
    const Plan plan = PlanOf(c);
    ExpectPlain(c, plan, values ? values : RandomValues(plan));
  }
  void ExpectPlain(const Case& c, const Plan& plan,
                   const std::function<double(int, std::int64_t)>& values) {
    SCOPED_TRACE(DefaultName(c));
    const Tensors tensors(plan, values);
    const PlainResult plain = PlainReference(*FindOp(OpName(c.problem)), c, plan, tensors);
    const Result result = Run(c, plan, tensors);
    for (std::size_t i = 0; i < plain.value.size(); ++i) {
      const auto index = static_cast<std::int64_t>(i);
      if (plan.exact) {
        ExpectClose(result.value[i], plain.value[i], 0, index);
        EXPECT_EQ(result.allowance[i], kUnwritten);
      } else {
        // At least √k of the terms' magnitudes, and at most all of them.
        const double magnitude = plain.allowance[i] / (8 * plan.accumulator_roundoff);
        ExpectClose(result.value[i], plain.value[i], 1e-12 * magnitude, index);
        ExpectClose(result.allowance[i], plain.allowance[i], 1e-9 * plain.allowance[i], index);
      }
      if (HasFailure()) return;  // one failure is enough
    }
  }

  std::vector<std::uint64_t> scratch_ =
      std::vector<std::uint64_t>(GpuReferences::kScratchBytes / sizeof(std::uint64_t));
  std::unique_ptr<Device> device_;
  GpuReferences references_;
};

// The formats of matrix products.
inline constexpr DType kProductFormats[] = {DType::kF64,    DType::kF32,  DType::kF16, DType::kBF16,
                                            DType::kE4M3FN, DType::kE5M2, DType::kI8};

}  // namespace assay

#endif  // ASSAY_TESTS_SIMT_REFERENCES_H_
