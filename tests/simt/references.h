// Shared code for the tests of the GPU references. It runs a case through GpuReferences under the
// emulator, with buffers of exactly the right size, and compares it with the plain reference.
#ifndef ASSAY_TESTS_SIMT_REFERENCES_H_
#define ASSAY_TESTS_SIMT_REFERENCES_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "kernels/ops/gpu/references_gpu.h"
#include "kernels/runtime/device.h"
#include "kernels/simt/engine.h"
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
    // σ, D, σ_α and σ_β, if the references fill them and the operator's model is known.
    std::vector<float> deviation, direction, row_offset, row_gain;
    double max_abs_score = 0;
  };
  static constexpr double kUnwritten = -12345.678;
  static constexpr double kCloseFloats = 0x1p-21;

  Result Run(const Case& c, const Plan& plan, const Tensors& tensors) {
    const std::size_t count = static_cast<std::size_t>(plan.output.extents.count());
    Result result;
    result.value.assign(count, kUnwritten);
    result.allowance.assign(count, kUnwritten);
    ReferenceBuffers out{result.value.data(), result.allowance.data()};
    AddDeviations(c, plan, result, out);
    const absl::Status status = references_.Reference(c, plan, *device_, tensors.views(), out);
    EXPECT_TRUE(status.ok()) << status;
    result.max_abs_score = out.max_abs_score;
    return result;
  }

  // What the CPU's reference fills beside r and E.
  Result RunOnCpu(const Case& c, const Plan& plan, const Tensors& tensors) {
    const std::size_t count = static_cast<std::size_t>(plan.output.extents.count());
    Result result;
    result.value.resize(count);
    result.allowance.resize(count);
    ReferenceBuffers out{result.value.data(), result.allowance.data()};
    AddDeviations(c, plan, result, out);
    const absl::Status status =
        FindOp(OpName(c.problem))->Reference(c, plan, *device_, tensors.views(), out);
    EXPECT_TRUE(status.ok()) << status;
    return result;
  }

  void AddDeviations(const Case& c, const Plan& plan, Result& result, ReferenceBuffers& out) const {
    const ResidualModel model = FindOp(OpName(c.problem))->Residuals(c, plan);
    if (!model.known || !references_.FillsDeviations(c)) return;
    const Extents& x = plan.output.extents;
    const auto add = [](std::int64_t n, std::vector<float>& to) {
      to.assign(static_cast<std::size_t>(n), static_cast<float>(kUnwritten));
      return to.data();
    };
    out.deviation = add(x.count(), result.deviation);
    if (model.direction && references_.FillsDirection(c))
      out.direction = add(x.count(), result.direction);
    if (!model.rows) return;
    out.row_offset = add(x.batch * x.rows, result.row_offset);
    out.row_gain = add(x.batch * x.rows, result.row_gain);
  }

  // Within a few units in the last place, and 0 at the same places. `each` elements at a time are
  // left out if the CPU's are all 0: of a matrix that is not all finite it may give none.
  static void ExpectCloseFloats(const std::vector<float>& gpu, const std::vector<float>& cpu,
                                const char* what, std::int64_t each = 0) {
    ASSERT_EQ(gpu.size(), cpu.size());
    for (std::size_t i = 0; i < gpu.size(); ++i) {
      if (each > 0 && static_cast<std::int64_t>(i) % each == 0) {
        const auto begin = cpu.begin() + static_cast<std::ptrdiff_t>(i);
        if (std::count(begin, begin + each, 0.0f) == each) {
          i += static_cast<std::size_t>(each) - 1;
          continue;
        }
      }
      if (cpu[i] == gpu[i] || (std::isnan(cpu[i]) && std::isnan(gpu[i]))) continue;
      EXPECT_NEAR(gpu[i], cpu[i], kCloseFloats * std::abs(static_cast<double>(cpu[i])))
          << what << " of " << i;
      if (HasFailure()) return;
    }
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
        // What only rounding makes exact comes from functions of the device's own.
        const double r = plain.value[i];
        const bool held = Quantise(r, plan.output.dtype) == r;
        ExpectClose(result.value[i], r, held ? 0 : 0x1p-40 * std::abs(r), index);
        EXPECT_EQ(result.allowance[i], kUnwritten);
      } else {
        // At least √k of the terms' magnitudes, and at most all of them.
        const double magnitude = plain.allowance[i] / (8 * plan.accumulator_roundoff);
        ExpectClose(result.value[i], plain.value[i], 1e-12 * magnitude, index);
        ExpectClose(result.allowance[i], plain.allowance[i], 1e-9 * plain.allowance[i], index);
      }
      if (HasFailure()) return;  // one failure is enough
    }
    if (!result.deviation.empty()) ExpectDeviations(c, plan, tensors, result);
  }
  // Holds what is filled beside r and E to the CPU's.
  virtual void ExpectDeviations(const Case& c, const Plan& plan, const Tensors& tensors,
                                const Result& result) {
    const Result cpu = RunOnCpu(c, plan, tensors);
    const Extents& x = plan.output.extents;
    ExpectCloseFloats(result.deviation, cpu.deviation, "deviation", x.rows * x.cols);
    // D is a difference of sums: it is held to the largest of its values.
    ASSERT_EQ(result.direction.size(), cpu.direction.size());
    double largest = 0;
    for (const float d : cpu.direction) {
      if (d == d) largest = std::max(largest, std::abs(static_cast<double>(d)));
    }
    for (std::size_t i = 0; i < cpu.direction.size(); ++i) {
      if (cpu.deviation[i] == 0) continue;  // D counts where σ does
      if (std::isnan(result.direction[i]) && std::isnan(cpu.direction[i])) continue;
      EXPECT_NEAR(result.direction[i], cpu.direction[i], kCloseFloats * largest)
          << "direction of " << i;
      if (HasFailure()) return;
    }
    ExpectCloseFloats(result.row_offset, cpu.row_offset, "row offset");
    ExpectCloseFloats(result.row_gain, cpu.row_gain, "row gain");
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
