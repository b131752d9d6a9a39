// Operands of a plan in host memory, filled without the runtime, so that a test of
// the references stands on nothing but the number formats.
#ifndef ASSAY_TESTS_UNIT_OPS_TENSORS_H_
#define ASSAY_TESTS_UNIT_OPS_TENSORS_H_

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/numerics/convert.h"
#include "kernels/numerics/generate.h"
#include "kernels/ops/case.h"
#include "kernels/ops/common/sampling.h"
#include "kernels/ops/common/view_inputs.h"
#include "kernels/ops/op.h"

namespace assay {

// Floating-point formats that every operator but copy takes.
inline constexpr DType kFloatFormats[] = {DType::kF64,      DType::kF32,  DType::kTF32,
                                          DType::kF16,      DType::kBF16, DType::kE4M3FN,
                                          DType::kE4M3FNUZ, DType::kE5M2, DType::kE5M2FNUZ};

class Tensors {
 public:
  // value(operand, logical index); padding holds NaN (or -128), which a reference
  // that reads it cannot hide.
  Tensors(const Plan& plan, const std::function<double(int, std::int64_t)>& value) {
    for (std::size_t n = 0; n < plan.inputs.size(); ++n) {
      const Operand& operand = plan.inputs[n];
      const Extents& e = operand.extents;
      storage_.emplace_back(
          static_cast<std::size_t>(StorageBytes(operand.dtype, e.span()) + 16) / 8 + 1, ~0ull);
      void* data = storage_.back().data();
      for (std::int64_t i = 0; i < e.count(); ++i) {
        const std::int64_t row = i / e.cols;
        const std::int64_t at = row / e.rows * e.batch_stride + row % e.rows * e.ld + i % e.cols;
        StoreBits(operand.dtype, data, at,
                  RoundToFormat(value(static_cast<int>(n), i), operand.dtype));
      }
      views_.push_back({data, operand.dtype, e});
    }
  }

  const std::vector<TensorView>& views() const { return views_; }

 private:
  std::vector<std::vector<std::uint64_t>> storage_;
  std::vector<TensorView> views_;
};

// Normal numbers, whole ones for integers; a mask keeps two keys of three.
inline std::function<double(int, std::int64_t)> RandomValues(const Plan& plan,
                                                             std::uint64_t seed = 1) {
  auto engine = std::make_shared<std::mt19937_64>(seed);
  std::vector<bool> mask;
  for (const Operand& operand : plan.inputs) mask.push_back(operand.name == "mask");
  const bool integers = plan.inputs[0].dtype == DType::kI8;
  return [=](int operand, std::int64_t) -> double {
    if (mask[static_cast<std::size_t>(operand)]) return (*engine)() % 3 != 0 ? 1 : 0;
    if (integers) return static_cast<double>((*engine)() % 17) - 8;
    return std::normal_distribution<double>()(*engine);
  };
}

// What the patterns of a plan hold.
inline std::function<double(int, std::int64_t)> PatternValues(const Plan& plan) {
  return [inputs = plan.inputs](int operand, std::int64_t i) {
    const Operand& o = inputs[static_cast<std::size_t>(operand)];
    return ToDouble(o.dtype, GenerateElement(o.pattern, 1, static_cast<std::uint32_t>(operand), 0,
                                             i, o.extents.rows, o.extents.cols, o.dtype));
  };
}

// r and E of every element by the operator's plain loops.
struct PlainResult {
  std::vector<double> value, allowance;
};

inline PlainResult PlainReference(const Op& op, const Case& c, const Plan& plan,
                                  const Tensors& tensors) {
  const std::size_t count = static_cast<std::size_t>(plan.output.extents.count());
  PlainResult result{std::vector<double>(count), std::vector<double>(count)};
  const ViewInputs inputs(tensors.views());
  op.ReferenceAt(c, plan, inputs, AllIndices(plan.output.extents.count()), result.value.data(),
                 result.allowance.data());
  return result;
}

// The plan of a case that Check accepts.
inline Plan PlanOf(const Case& c) {
  for (const FieldError& e : Check(c)) ADD_FAILURE() << e.field << ": " << e.message;
  auto plan = FindOp(OpName(c.problem))->MakePlan(c);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *plan;
}

inline Case MakeCase(const Problem& problem, DType dtype) {
  Case c;
  c.problem = problem;
  c.dtype = dtype;
  return c;
}

// Non-finite values agree by class; finite ones within tolerance·scale.
inline void ExpectClose(double fast, double plain, double tolerance, std::int64_t index) {
  if (std::isnan(plain) || std::isinf(plain)) {
    EXPECT_TRUE(std::isnan(plain) ? std::isnan(fast) : fast == plain)
        << "element " << index << ": " << fast << ", plain " << plain;
    return;
  }
  EXPECT_TRUE(std::abs(fast - plain) <= tolerance)
      << "element " << index << ": " << fast << ", plain " << plain;
}

}  // namespace assay

#endif  // ASSAY_TESTS_UNIT_OPS_TENSORS_H_
