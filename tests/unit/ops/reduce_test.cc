// reduce: what a problem may say, the plan, the plain reference against arithmetic by hand, the
// fast one against it, and the bound against kernels that sum in many orders.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/numerics/bound.h"
#include "kernels/numerics/convert.h"
#include "kernels/numerics/generate.h"
#include "kernels/numerics/unit_places.h"
#include "kernels/ops/common/probe_data.h"
#include "kernels/runtime/device.h"
#include "tests/unit/ops/tensors.h"

namespace assay {
namespace {

using ::testing::ElementsAre;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

ReduceProblem Of(std::string kind, IntList shape, std::int64_t axis = -1,
                 std::string ties = "first") {
  return {
      .extents = std::move(shape), .axis = axis, .kind = std::move(kind), .ties = std::move(ties)};
}

std::function<double(int, std::int64_t)> Listed(std::vector<double> values) {
  return [values = std::move(values)](int, std::int64_t i) {
    return values[static_cast<std::size_t>(i)];
  };
}

PlainResult Plain(const ReduceProblem& p, DType t, std::vector<double> values) {
  const Case c = MakeCase(p, t);
  const Plan plan = PlanOf(c);
  return PlainReference(ReduceOp(), c, plan, Tensors(plan, Listed(std::move(values))));
}

TEST(ReduceProblem, SaysWhatIsWrong) {
  const auto wrong = [](const ReduceProblem& p) {
    std::vector<std::string> fields;
    for (const FieldError& e : p.Check()) fields.push_back(e.field + ": " + e.message);
    return fields;
  };
  EXPECT_THAT(wrong(Of("sum", {4, 5, 6}, -3)), ElementsAre());
  EXPECT_THAT(wrong(Of("sum", {})), ElementsAre("extents: must have 1 to 4 extents, got 0"));
  EXPECT_THAT(wrong(Of("sum", {4, 0})), ElementsAre("extents: must be at least 1, got 0"));
  EXPECT_THAT(wrong(Of("max", {4, 5}, 2)),
              ElementsAre("axis: must be from -2 to 1 for 2 extents, got 2"));
  EXPECT_THAT(wrong(Of("", {4})), ElementsAre("kind: must be sum, max or argmax, got \"\""));
  EXPECT_THAT(wrong(Of("argmax", {4}, -1, "last")),
              ElementsAre("ties: must be first or any, got \"last\""));
  EXPECT_THAT(wrong(Of("max", {4}, -1, "any")),
              ElementsAre("ties: must be first: a max has no ties"));
}

TEST(ReduceProblem, LongSumsAndIndicesAreRefused) {
  Case c = MakeCase(Of("sum", {std::int64_t{1} << 24}), DType::kF32);
  EXPECT_EQ(Check(c).size(), 1u);
  c.dtype = DType::kF64;
  EXPECT_TRUE(Check(c).empty());
  c.dtype = DType::kI8;  // 2^24 elements of magnitude 128 sum to 2^31
  EXPECT_EQ(Check(c).size(), 1u);
  EXPECT_TRUE(Check(MakeCase(Of("max", {std::int64_t{1} << 33}), DType::kF32)).empty());
  EXPECT_EQ(Check(MakeCase(Of("argmax", {std::int64_t{1} << 33}), DType::kF32)).size(), 1u);
}

TEST(ReducePlan, OutputHasTheOtherAxesAndTheFormatOfTheKind) {
  const auto plan = [](const ReduceProblem& p, DType t) { return PlanOf(MakeCase(p, t)); };
  EXPECT_THAT(plan(Of("sum", {2, 3, 4}, 1), DType::kF16).output.dims, ElementsAre(2, 4));
  EXPECT_THAT(plan(Of("sum", {2, 3, 4}, 0), DType::kF16).output.dims, ElementsAre(3, 4));
  EXPECT_THAT(plan(Of("sum", {7}), DType::kF16).output.dims, ElementsAre(1));
  EXPECT_EQ(plan(Of("sum", {7}), DType::kF16).output.dtype, DType::kF16);
  EXPECT_EQ(plan(Of("sum", {7}), DType::kI8).output.dtype, DType::kI32);
  EXPECT_EQ(plan(Of("max", {7}), DType::kI8).output.dtype, DType::kI8);
  EXPECT_EQ(plan(Of("max", {7}), DType::kE4M3FN).output.dtype, DType::kF32);
  EXPECT_EQ(plan(Of("argmax", {7}), DType::kBF16).output.dtype, DType::kI32);
  EXPECT_FALSE(plan(Of("sum", {7}), DType::kF32).exact);
  EXPECT_TRUE(plan(Of("sum", {7}), DType::kI8).exact);
  EXPECT_TRUE(plan(Of("max", {7}), DType::kF32).exact);
  const Case c = MakeCase(Of("sum", {2, 3, 4}, 1), DType::kF32);
  EXPECT_THAT(ReduceOp().OutputAxes(c, PlanOf(c)), ElementsAre("axis 0", "axis 2"));
}

TEST(ReduceReference, ByHandAlongEveryAxis) {
  const std::vector<double> x = {1, 2, 3, 4, 5, 6, -1, 9, -3, 9, -5, 9};  // [2, 2, 3]
  const auto value = [&](std::string kind, std::int64_t axis) {
    return Plain(Of(std::move(kind), {2, 2, 3}, axis), DType::kF32, x).value;
  };
  EXPECT_THAT(value("sum", 0), ElementsAre(0, 11, 0, 13, 0, 15));
  EXPECT_THAT(value("sum", 1), ElementsAre(5, 7, 9, 8, 4, 6));
  EXPECT_THAT(value("sum", 2), ElementsAre(6, 15, 5, 13));
  EXPECT_THAT(value("max", -1), ElementsAre(3, 6, 9, 9));
  EXPECT_THAT(value("argmax", -1), ElementsAre(2, 2, 1, 0));  // 9 is there twice in the last
  EXPECT_THAT(value("argmax", 0), ElementsAre(0, 1, 0, 1, 0, 1));
}

TEST(ReduceReference, AllowanceIsThatOfASum) {
  const double u = 0x1p-24;
  const PlainResult r = Plain(Of("sum", {4}), DType::kF16, {1, -2, 3, -4});
  EXPECT_EQ(r.value[0], -2);
  const double gamma = 12 * u / (1 - 12 * u);  // below 8·√4·u
  EXPECT_NEAR(r.allowance[0], std::min(16 * u, gamma) * 10, 1e-12 * u);
  EXPECT_NEAR(Plain(Of("sum", {4}), DType::kF64, {1, -2, 3, -4}).allowance[0],
              2 * 12 * 0x1p-53 * 10, 1e-20);
}

TEST(ReduceReference, NonFiniteElements) {
  EXPECT_EQ(Plain(Of("sum", {3}), DType::kF32, {1, kInf, 2}).value[0], kInf);
  EXPECT_TRUE(std::isnan(Plain(Of("sum", {3}), DType::kF32, {-kInf, kInf, 2}).value[0]));
  EXPECT_EQ(Plain(Of("sum", {3}), DType::kF32, {-kInf, 1, 2}).allowance[0], 0);
  EXPECT_TRUE(std::isnan(Plain(Of("max", {3}), DType::kF32, {1, kNan, kInf}).value[0]));
  EXPECT_EQ(Plain(Of("max", {3}), DType::kF32, {-kInf, -kInf, -kInf}).value[0], -kInf);
  EXPECT_EQ(Plain(Of("argmax", {3}), DType::kF32, {-kInf, -kInf, -kInf}).value[0], 0);
  EXPECT_EQ(Plain(Of("argmax", {4}), DType::kF32, {kInf, 1, kNan, kNan}).value[0], 2);
  EXPECT_EQ(Plain(Of("argmax", {3}), DType::kF32, {-0.0, 0.0, -1}).value[0], 0) << "-0 equals +0";
}

// The inputs of a plan, and what the kernel wrote.
class Judged final : public HostInputs {
 public:
  Judged(const Tensors& tensors, std::vector<double> output)
      : inputs_(tensors.views()), output_(std::move(output)) {}
  void Read(int operand, std::int64_t begin, std::int64_t count, double* out) const override {
    inputs_.Read(operand, begin, count, out);
  }
  std::optional<double> Output(std::int64_t index) const override {
    return output_[static_cast<std::size_t>(index)];
  }

 private:
  const ViewInputs inputs_;
  const std::vector<double> output_;
};

TEST(ReduceReference, OfAnyTieFollowsTheOutputWhereThatIsRight) {
  const std::vector<double> x = {7, 1,    7, 7,     // 0, 2 and 3 are right
                                 1, kNan, 2, kNan,  // 1 and 3
                                 3, 2,    1, 0};    // 0
  for (const std::int64_t axis : {1, 0}) {
    const IntList shape = axis == 1 ? IntList{3, 4} : IntList{4, 3};
    std::vector<double> lying = x;
    if (axis == 0) {
      for (std::size_t i = 0; i < 12; ++i) lying[i % 4 * 3 + i / 4] = x[i];
    }
    const Case c = MakeCase(Of("argmax", shape, axis, "any"), DType::kF32);
    EXPECT_TRUE(ReduceOp().SeveralRight(c));
    EXPECT_FALSE(ReduceOp().SeveralRight(MakeCase(Of("argmax", shape, axis), DType::kF32)));
    const Plan plan = PlanOf(c);
    const Tensors tensors(plan, Listed(lying));
    const auto follows = [&](std::vector<double> output) {
      std::vector<double> plain(3), fast(3);
      ReduceOp().ReferenceAt(c, plan, Judged(tensors, output), AllIndices(3), plain.data(),
                             nullptr);
      std::vector<std::int32_t> written(output.begin(), output.end());
      ReferenceBuffers out{fast.data()};
      out.output = {written.data(), DType::kI32, plan.output.extents};
      const auto device = MakeCpuDevice(0, ArenaOptions{.max_bytes = 1 << 20});
      EXPECT_TRUE(ReduceOp().Reference(c, plan, *device, tensors.views(), out).ok());
      EXPECT_EQ(fast, plain);
      return plain;
    };
    EXPECT_THAT(follows({3, 3, 0}), ElementsAre(3, 3, 0));
    EXPECT_THAT(follows({2, 1, 1}), ElementsAre(2, 1, 0));
    EXPECT_THAT(follows({1, 2, -1}), ElementsAre(0, 1, 0));
    EXPECT_THAT(follows({4, -5, 1 << 30}), ElementsAre(0, 1, 0)) << "no indices at all";
  }
}

TEST(ReduceReference, FastIsPlainInEveryFormatAndShape) {
  const auto device = MakeCpuDevice(0, ArenaOptions{.max_bytes = 1 << 20});
  std::vector<DType> formats(std::begin(kFloatFormats), std::end(kFloatFormats));
  formats.push_back(DType::kI8);
  for (const DType t : formats) {
    for (const char* kind : {"sum", "max", "argmax"}) {
      for (const IntList& shape : {IntList{1}, {5, 7}, {3, 1030}, {2, 9, 1100}, {2, 3, 4, 5}}) {
        for (std::int64_t axis = 0; axis < static_cast<std::int64_t>(shape.size()); ++axis) {
          const Case c = MakeCase(Of(kind, shape, axis), t);
          SCOPED_TRACE(DefaultName(c));
          const Plan plan = PlanOf(c);
          const Tensors tensors(plan, RandomValues(plan));
          const PlainResult plain = PlainReference(ReduceOp(), c, plan, tensors);
          PlainResult fast{std::vector<double>(plain.value.size()),
                           std::vector<double>(plain.value.size())};
          ReferenceBuffers out{fast.value.data(), fast.allowance.data()};
          ASSERT_TRUE(ReduceOp().Reference(c, plan, *device, tensors.views(), out).ok());
          for (std::size_t i = 0; i < fast.value.size(); ++i) {
            const double share = plan.exact ? 0 : t == DType::kF64 ? 1 : 1e-6;
            ExpectClose(fast.value[i], plain.value[i], share * plain.allowance[i],
                        static_cast<std::int64_t>(i));
            if (plan.exact) continue;
            EXPECT_NEAR(fast.allowance[i], plain.allowance[i], 1e-9 * plain.allowance[i]);
          }
        }
      }
    }
  }
}

// Sums of `x` as kernels take them: in every usual order, each addition rounded to T.
template <class T>
std::vector<T> SumsInManyOrders(const std::vector<double>& values) {
  std::vector<T> x(values.begin(), values.end());
  std::vector<T> sums;
  const auto in_order = [](const std::vector<T>& v) {
    return std::accumulate(v.begin(), v.end(), T{0});
  };
  sums.push_back(in_order(x));
  sums.push_back(in_order({x.rbegin(), x.rend()}));
  for (const std::size_t lanes : {4u, 32u, 256u}) {  // partial sums a stride apart
    std::vector<T> partial(lanes, T{0});
    for (std::size_t i = 0; i < x.size(); ++i) partial[i % lanes] += x[i];
    sums.push_back(in_order(partial));
  }
  for (const std::size_t block : {8u, 100u}) {  // partial sums of neighbours
    std::vector<T> partial;
    for (std::size_t i = 0; i < x.size(); i += block) {
      partial.push_back(std::accumulate(
          x.begin() + static_cast<std::ptrdiff_t>(i),
          x.begin() + static_cast<std::ptrdiff_t>(std::min(x.size(), i + block)), T{0}));
    }
    sums.push_back(in_order(partial));
  }
  std::vector<T> tree = x;  // pairs of pairs
  while (tree.size() > 1) {
    for (std::size_t i = 0; i + 1 < tree.size(); i += 2) tree[i / 2] = tree[i] + tree[i + 1];
    if (tree.size() % 2 == 1) tree[tree.size() / 2] = tree.back();
    tree.resize((tree.size() + 1) / 2);
  }
  sums.push_back(tree[0]);
  std::sort(x.begin(), x.end(), [](T a, T b) { return std::abs(a) > std::abs(b); });
  sums.push_back(in_order(x));
  sums.push_back(in_order({x.rbegin(), x.rend()}));
  return sums;
}

// A right kernel in any order, of any format and any data, stays within the bound.
TEST(ReduceBound, HoldsForEveryOrderOfEveryFormat) {
  std::mt19937_64 engine(3);
  std::normal_distribution<double> normal;
  const std::vector<std::function<double(std::size_t)>> data = {
      [&](std::size_t) { return normal(engine); },
      [&](std::size_t) { return std::abs(normal(engine)); }, [&](std::size_t) { return 0.1; },
      [&](std::size_t i) { return (i % 2 == 0 ? 1 : -1) * (100 + normal(engine)); },
      [&](std::size_t i) { return i % 97 == 0 ? 400 : 1e-3 * normal(engine); }};
  for (const DType t : {DType::kF32, DType::kF16, DType::kBF16, DType::kE4M3FN, DType::kF64}) {
    for (const std::int64_t n : {1, 2, 100, 5000}) {
      for (std::size_t kind = 0; kind < data.size(); ++kind) {
        const Case c = MakeCase(Of("sum", {n}), t);
        const Plan plan = PlanOf(c);
        std::vector<double> x;
        for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
          x.push_back(Quantise(data[kind](i), t));
        }
        const PlainResult right = PlainReference(ReduceOp(), c, plan, Tensors(plan, Listed(x)));
        std::vector<double> sums;
        if (t == DType::kF64) {
          sums = SumsInManyOrders<double>(x);
        } else {
          for (const float sum : SumsInManyOrders<float>(x)) sums.push_back(sum);
        }
        const double allowance = plan.proven_factor * right.allowance[0];
        const double bound = TBound(OutputRoundingOf(plan.output.dtype), right.value[0], allowance);
        for (const double sum : sums) {
          EXPECT_LE(std::abs(Quantise(sum, plan.output.dtype) - right.value[0]), bound)
              << DefaultName(c) << ", data " << kind;
        }
      }
    }
  }
}

// The exact case of a sum is exact in fp32 in every order, and in 14 bits for 8-bit floats.
TEST(ReduceProbe, SumsOfItsNumbersFitTheAccumulator) {
  const std::vector<std::pair<DType, double>> limits = {
      {DType::kF32, 0x1p24}, {DType::kF16, 65504.0}, {DType::kE4M3FN, 0x1p13}};
  for (const auto& [t, most] : limits) {
    for (const std::int64_t n : {1, 1000, 1 << 20}) {
      const Case c = MakeCase(Of("sum", {2, n}), t);
      const std::vector<KernelProbe> probes = ReduceOp().Probes(c, PlanOf(c));
      ASSERT_GE(probes.size(), 1u);
      EXPECT_EQ(probes[0].name, "exact-integers");
      EXPECT_TRUE(probes[0].data.exact);
      const Pattern pattern = *ParsePattern(probes[0].data.pattern, nullptr);
      EXPECT_EQ(LargestMagnitude(pattern), 4);
      const double kept = pattern.a * static_cast<double>(n);
      EXPECT_LE(4 * (kept + (pattern.a < 1 ? 10 * std::sqrt(kept) : 0)), most) << n;
    }
  }
}

// A kernel that sums in 16 bits shows, and one that takes -128 for -127.
TEST(ReduceProbe, SumsOfBytesAreLong) {
  const Case c = MakeCase(Of("sum", {2, 1000}), DType::kI8);
  const Pattern data = *ParsePattern(ReduceOp().Probes(c, PlanOf(c))[0].data.pattern, nullptr);
  EXPECT_EQ(data, (Pattern{PatternKind::kIntegers, -128, -64}));
}

// The element keeps its last bit in every format, and a format of fewer bits changes it.
TEST(ReduceProbe, OfSignificandsHasOneFullElementInEachSlice) {
  for (const ReduceProblem& p : {Of("sum", {3, 40}), Of("sum", {2, 40, 5}, 1), Of("sum", {40})}) {
    for (const DType t : {DType::kF64, DType::kF32, DType::kTF32, DType::kF16, DType::kBF16}) {
      const Case c = MakeCase(p, t);
      const KernelProbe probe = ReduceOp().Probes(c, PlanOf(c)).back();
      ASSERT_EQ(probe.name, "exact-significand");
      const Plan plan = PlanOf(probe.data);
      EXPECT_TRUE(plan.exact);
      const Operand& x = plan.inputs[0];
      const double full = Quantise(kFullSignificand, t);
      // Smaller than fp16 holds, but in fp16 itself.
      const int exponent = t == DType::kF16 ? -14 : -27;
      EXPECT_EQ(LargestMagnitude(x.pattern), std::ldexp(kFullSignificand, exponent));
      EXPECT_LT(LargestMagnitude(x.pattern), 1e-4);
      EXPECT_EQ(std::fmod(std::ldexp(full, Info(t).mantissa_bits), 2), 1) << Name(t);
      const Extents& e = x.extents;
      const UnitPlaces places(x.pattern, e.rows, e.cols);
      const Tensors data(plan, [&](int, std::int64_t i) {
        return places.IsOne(i / e.cols, i % e.cols) ? UnitValue(x.pattern, x.dtype) : 0;
      });
      const PlainResult sums = PlainReference(ReduceOp(), probe.data, plan, data);
      for (const double sum : sums.value) EXPECT_EQ(sum, std::ldexp(full, exponent));
    }
  }
  EXPECT_EQ(ReduceOp().Probes(MakeCase(Of("sum", {4, 64}), DType::kI8), {}).back().name,
            "exact-integers");
}

// Slices without a NaN are numbers.
TEST(ReduceProbe, OfNanOverflowsNowhere) {
  for (const auto& [length, rest] : {std::pair{200, 1.0}, {70'000, 0.0}}) {
    for (const DType t : {DType::kF16, DType::kF32}) {
      const Case c = MakeCase(Of("sum", {length, 300}, 0), t);
      const std::vector<KernelProbe> probes = ReduceOp().Probes(c, PlanOf(c));
      ASSERT_EQ(probes[2].name, "nan");
      const Pattern data = *ParsePattern(probes[2].data.pattern, nullptr);
      EXPECT_TRUE(std::isnan(data.a));
      EXPECT_EQ(data.b, t == DType::kF32 ? 1 : rest);
    }
  }
}

TEST(ReduceProbe, OfAMaximumIsBelowZeroAndHasTies) {
  for (const char* kind : {"max", "argmax"}) {
    const Case c = MakeCase(Of(kind, {4, 64}), DType::kE5M2);
    const std::vector<KernelProbe> probes = ReduceOp().Probes(c, PlanOf(c));
    ASSERT_EQ(probes.size(), 4u);
    EXPECT_EQ(probes[3].name, "negative-integers");
    EXPECT_EQ(*ParsePattern(probes[3].data.pattern, nullptr),
              (Pattern{PatternKind::kIntegers, -8, -1}));
  }
}

// each-element has more slices than the case, and does not count if a kernel fails its own data in
// these extents.
TEST(ReduceProbe, OfAUsersKernelHasItsOwnExtentsToo) {
  Case c = MakeCase(Of("argmax", {1, 300}), DType::kF32);
  c.kernel_file = "kernel.so";
  const std::vector<KernelProbe> probes = ReduceOp().Probes(c, PlanOf(c));
  const auto last = std::find_if(probes.begin(), probes.end(),
                                 [](const KernelProbe& p) { return p.name == "last-column"; });
  ASSERT_NE(last, probes.end());
  EXPECT_EQ(std::get<ReduceProblem>(last->data.problem).extents, (IntList{1, 300}));
}

// Slices that are columns, longer than each-element can cover: who leaves out the last row shows.
TEST(ReduceProbe, OfAMaximumInColumnsTheLastRowIsTheLargest) {
  for (const bool ours : {true, false}) {
    for (const auto& [extents, axis] :
         {std::pair<IntList, int>{{5000, 8}, 0}, {{2, 4097, 3}, 1}, {{65537, 2}, -2}}) {
      Case c = MakeCase(Of("argmax", extents, axis), DType::kBF16);
      if (!ours) c.kernel_file = "kernel.so";
      const std::vector<KernelProbe> probes = ReduceOp().Probes(c, PlanOf(c));
      const auto last = std::find_if(probes.begin(), probes.end(),
                                     [](const KernelProbe& p) { return p.name == "last-row"; });
      ASSERT_NE(last, probes.end());
      EXPECT_EQ(std::get<ReduceProblem>(last->data.problem).extents, extents);
      const Plan plan = PlanOf(last->data);
      const Operand& x = plan.inputs[0];
      Generator numbers(x.pattern, kProbeSeed, 0, 0, x.extents.rows, x.extents.cols, x.dtype);
      const Tensors data(plan, [&](int, std::int64_t i) { return numbers.Value(i); });
      for (const double index : PlainReference(ReduceOp(), last->data, plan, data).value) {
        EXPECT_EQ(index, static_cast<double>(x.extents.rows - 1)) << DefaultName(c);
      }
    }
  }
}

// Ours have many slices in each-element.
TEST(ReduceProbe, OfAUsersMaximumInColumnsTheFirstRowIsTheLargest) {
  for (const DType t : {DType::kF32, DType::kE4M3FN, DType::kI8}) {
    Case c = MakeCase(Of("max", {3, 100, 7}, 1), t);
    c.kernel_file = "kernel.so";
    const std::vector<KernelProbe> probes = ReduceOp().Probes(c, PlanOf(c));
    const auto first = std::find_if(probes.begin(), probes.end(),
                                    [](const KernelProbe& p) { return p.name == "first-row"; });
    ASSERT_NE(first, probes.end());
    const Plan plan = PlanOf(first->data);
    const Operand& x = plan.inputs[0];
    Generator numbers(x.pattern, kProbeSeed, 0, 0, x.extents.rows, x.extents.cols, x.dtype);
    for (std::int64_t i = 0; i < 3 * 100 * 7; ++i) {
      EXPECT_EQ(numbers.Value(i), i / 7 % 100 == 0 ? 8 : 0) << i;
    }
  }
}

// A kernel that takes small numbers for 0 shows, and one that clips large ones.
TEST(ReduceProbe, OfAMaximumHasSmallAndLargeElements) {
  for (const DType t : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16, DType::kE4M3FN,
                        DType::kE5M2FNUZ, DType::kI8}) {
    for (const char* kind : {"max", "argmax"}) {
      const Case c = MakeCase(Of(kind, {4, 64}), t);
      const std::vector<KernelProbe> probes = ReduceOp().Probes(c, PlanOf(c));
      ASSERT_EQ(probes[0].name, "each-element");
      const double small = UnitValue(PlanOf(probes[0].data).inputs[0].pattern, t);
      const FormatInfo& f = Info(t);
      EXPECT_GE(Quantise(small, t), f.is_integer ? 1 : f.min_normal);
      ASSERT_EQ(probes[2].name, "close-integers");
      if (f.storage_bits <= 8) continue;
      EXPECT_LT(small, 1e-4) << Name(t);
      const Pattern close = PlanOf(probes[2].data).inputs[0].pattern;
      EXPECT_GT(close.a, f.max_finite > 1e30 ? 1e38 : 4e4) << Name(t);
    }
  }
}

// In slices along every axis: each element of a slice is the largest of one.
TEST(ReduceProbe, OfAMaximumEachElementIsTheLargestOnce) {
  const std::pair<IntList, int> cases[] = {
      {{4, 511}, -1}, {{511, 4}, 0}, {{2, 130, 3}, 1}, {{1, 1000}, -1}};
  for (const auto& [extents, axis] : cases) {
    const Case c = MakeCase(Of("argmax", extents, axis), DType::kF16);
    const KernelProbe probe = ReduceOp().Probes(c, PlanOf(c)).front();
    ASSERT_EQ(probe.name, "each-element");
    const Plan plan = PlanOf(probe.data);
    const std::int64_t length = std::get<ReduceProblem>(c.problem).Split().length;
    const Operand& x = plan.inputs[0];
    const UnitPlaces units(x.pattern, x.extents.rows, x.extents.cols);
    const Tensors data(plan, [&](int, std::int64_t i) {
      return units.IsOne(i / x.extents.cols, i % x.extents.cols) ? UnitValue(x.pattern, x.dtype)
                                                                 : 0;
    });
    const PlainResult largest = PlainReference(ReduceOp(), probe.data, plan, data);
    const std::set<double> places(largest.value.begin(), largest.value.end());
    EXPECT_EQ(places.size(), static_cast<std::size_t>(length)) << DefaultName(c);
  }
}

TEST(ReduceProbe, OfAMaximumGoesAsFarBelowZeroAsTheFormats) {
  for (const DType t : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kE4M3FN,
                        DType::kE5M2, DType::kI8}) {
    const Case c = MakeCase(Of("max", {4, 64}), t);
    const KernelProbe probe = ReduceOp().Probes(c, PlanOf(c))[1];
    ASSERT_EQ(probe.name, "far-below-0");
    const Pattern pattern = *ParsePattern(probe.data.pattern, nullptr);
    EXPECT_LT(pattern.a, -0.8 * std::min(Info(t).max_finite, Info(DType::kF32).max_finite));
    EXPECT_LE(pattern.b, pattern.a / 2);
    EXPECT_TRUE(std::isfinite(Quantise(pattern.a, t))) << Name(t);
  }
}

// The numbers differ in the last bit of their format, so one bit less takes some for equal.
TEST(ReduceProbe, OfACloseComparisonNeedsEveryBit) {
  for (const DType t : {DType::kF64, DType::kF32, DType::kTF32, DType::kF16, DType::kBF16,
                        DType::kE4M3FN, DType::kE5M2, DType::kI8}) {
    const Case c = MakeCase(Of("argmax", {4, 64}), t);
    const KernelProbe probe = ReduceOp().Probes(c, PlanOf(c))[2];
    ASSERT_EQ(probe.name, "close-integers");
    const std::optional<Pattern> parsed = ParsePattern(probe.data.pattern, nullptr);
    ASSERT_TRUE(parsed.has_value()) << Name(t) << ' ' << probe.data.pattern;
    const Pattern& pattern = *parsed;
    if (!Info(t).is_integer && Info(t).storage_bits > 8) {
      EXPECT_EQ(pattern.kind, PatternKind::kNearConstant);
      const Plan plan = PlanOf(probe.data);
      Generator x(pattern, kProbeSeed, 0, 0, 4, 64, t);
      std::set<double> values;
      for (std::int64_t i = 0; i < 256; ++i) values.insert(x.Value(i));
      EXPECT_GE(values.size(), 10u) << Name(t);
      const double last = Info(t).machine_epsilon * pattern.a / 1.75;
      EXPECT_LE(*values.rbegin() - *values.begin(), 32 * last) << Name(t);
      EXPECT_LE(*values.rbegin(), Info(t).max_finite) << Name(t);
      const auto odd = [&](double v) { return std::fmod(v / last, 2) == 1; };
      EXPECT_GE(std::count_if(values.begin(), values.end(), odd), 4) << Name(t);
      continue;
    }
    EXPECT_EQ(pattern.kind, PatternKind::kIntegers);
    EXPECT_EQ(pattern.b - pattern.a, 15) << Name(t);
    for (double v = pattern.a; v <= pattern.b; ++v) EXPECT_EQ(Quantise(v, t), v) << Name(t);
    if (Info(t).is_integer) continue;
    EXPECT_EQ(pattern.b, 2 / Info(t).machine_epsilon - 1) << Name(t);
  }
}

}  // namespace
}  // namespace assay
