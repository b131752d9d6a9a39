// What a user's kernel is told of a case is what the plan says, for every operator.
#include "kernels/providers/user/describe_problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "kernels/numerics/dtype.h"
#include "kernels/ops/op.h"
#include "kernels/runtime/arena.h"
#include "kernels/sdk/assay/kernel.h"

namespace assay {
namespace {

using ::testing::ElementsAre;

TEST(KernelHeader, HasTheNumbersOfTheFormats) {
  const std::map<std::string_view, int> numbers = {
      {"fp64", ASSAY_F64},  {"fp32", ASSAY_F32},        {"tf32", ASSAY_TF32}, {"fp16", ASSAY_F16},
      {"bf16", ASSAY_BF16}, {"fp8_e4m3", ASSAY_E4M3FN}, {"int8", ASSAY_I8},   {"int32", ASSAY_I32}};
  static_assert(ASSAY_F64 == static_cast<int>(DType::kF64));
  static_assert(ASSAY_F32 == static_cast<int>(DType::kF32));
  static_assert(ASSAY_TF32 == static_cast<int>(DType::kTF32));
  static_assert(ASSAY_F16 == static_cast<int>(DType::kF16));
  static_assert(ASSAY_BF16 == static_cast<int>(DType::kBF16));
  static_assert(ASSAY_E4M3FN == static_cast<int>(DType::kE4M3FN));
  static_assert(ASSAY_E4M3FNUZ == static_cast<int>(DType::kE4M3FNUZ));
  static_assert(ASSAY_E5M2 == static_cast<int>(DType::kE5M2));
  static_assert(ASSAY_E5M2FNUZ == static_cast<int>(DType::kE5M2FNUZ));
  static_assert(ASSAY_E2M1 == static_cast<int>(DType::kE2M1));
  static_assert(ASSAY_I8 == static_cast<int>(DType::kI8));
  static_assert(ASSAY_I32 == static_cast<int>(DType::kI32));
  static_assert(kDTypeCount == ASSAY_I32 + 1, "a new format belongs into kernel.h");
  static_assert(ASSAY_MAX_RANK == kMaxRank);
  for (const auto& [name, number] : numbers) {
    if (name == "fp8_e4m3") continue;
    EXPECT_EQ(Name(static_cast<DType>(number)), name);
  }
}

std::unique_ptr<Description> Describe(const Case& c) {
  const absl::StatusOr<Plan> plan = FindOp(OpName(c.problem))->MakePlan(c);
  EXPECT_TRUE(plan.ok()) << plan.status();
  auto description = DescribeProblem(c, *plan);
  EXPECT_TRUE(description.ok()) << description.status();
  return *std::move(description);
}

const SharedParameter* Parameter(const Description& d, std::string_view name) {
  for (std::uint32_t i = 0; i < d.parameter_count; ++i) {
    if (d.parameters[i].name == name) return &d.parameters[i];
  }
  return nullptr;
}

std::vector<std::int64_t> Shape(const SharedTensor& t) { return {t.shape, t.shape + t.rank}; }
std::vector<std::int64_t> Strides(const SharedTensor& t) { return {t.strides, t.strides + t.rank}; }

TEST(DescribeProblem, TellsFieldsAndTensors) {
  Case c;
  c.problem = GemmProblem{.m = 3,
                          .n = 5,
                          .k = 7,
                          .batch = 2,
                          .trans_a = true,
                          .alpha = 0.5,
                          .ldb = 8,
                          .activation = "relu"};
  c.dtype = DType::kBF16;
  c.out_dtype = DType::kBF16;
  const auto d = Describe(c);
  EXPECT_STREQ(d->op, "gemm");
  ASSERT_NE(Parameter(*d, "k"), nullptr);
  EXPECT_EQ(Parameter(*d, "k")->integer, 7);
  EXPECT_EQ(Parameter(*d, "k")->kind, ASSAY_INTEGER);
  EXPECT_EQ(Parameter(*d, "trans_a")->integer, 1);
  EXPECT_EQ(Parameter(*d, "trans_a")->kind, ASSAY_BOOLEAN);
  EXPECT_EQ(Parameter(*d, "alpha")->real, 0.5);
  EXPECT_STREQ(Parameter(*d, "activation")->text, "relu");
  ASSERT_EQ(d->input_count, 2u);
  EXPECT_THAT(Shape(d->inputs[0]), ElementsAre(2, 7, 3));
  EXPECT_THAT(Strides(d->inputs[0]), ElementsAre(21, 3, 1));
  EXPECT_THAT(Shape(d->inputs[1]), ElementsAre(2, 7, 5));
  EXPECT_THAT(Strides(d->inputs[1]), ElementsAre(56, 8, 1));
  EXPECT_EQ(d->output.dtype, static_cast<std::uint32_t>(ASSAY_BF16));
  EXPECT_THAT(Shape(d->output), ElementsAre(2, 3, 5));
}

// Each operator's smallest case: the strides lead from the first element to the last, bands do not
// overlap, and everything has room.
TEST(DescribeProblem, HasRoomForEveryOperator) {
  for (const Op* op : AllOps()) {
    Case c;
    c.problem = *DefaultProblem(op->name());
    const SharedParameter* const none = nullptr;
    Plan plan;
    plan.output = {"output", DType::kF32, Extents::Dense(2, 3, 4), {2, 3, 4}, {}};
    plan.inputs = {{"x", DType::kF32, {2, 3, 4, 6, 40}, {2, 3, 2, 2}, {}}};
    auto d = DescribeProblem(c, plan);
    ASSERT_TRUE(d.ok()) << op->name() << ": " << d.status();
    // The parameters of an operator of the caller's own are the caller's.
    EXPECT_EQ((*d)->parameter_count == 0u, op->traits().own_reference) << op->name();
    EXPECT_EQ(Parameter(**d, "no such field"), none);
    EXPECT_THAT(Strides((*d)->inputs[0]), ElementsAre(40, 6, 2, 1));
    EXPECT_EQ((*d)->inputs[0].bytes, 4 * (40 + 2 * 6 + 4));
    EXPECT_GE((*d)->output.offset - (*d)->inputs[0].offset,
              static_cast<std::uint64_t>((*d)->inputs[0].bytes + 2 * kGuardBytes));
    EXPECT_GE((*d)->total_bytes, (*d)->output.offset + 96 + kGuardBytes);
  }
}

}  // namespace
}  // namespace assay
