// A kernel whose sums of 8-bit floats are those of a matrix unit with 14 bits: wrong by an
// fp32 accumulator's bound, right by what it declares, and exact where probes ask for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "kernels/numerics/convert.h"
#include "kernels/providers/provider.h"
#include "kernels/text/cat.h"
#include "kernels/validate/runner.h"
#include "tests/outcome_text.h"

namespace assay {
namespace {

using ::testing::HasSubstr;

constexpr int kFractionBits = 13;
constexpr std::int64_t kBlock = 32;

// How a kernel sums, and what it declares.
enum class Sums {
  kBlocks,        // 32 products at once, then one rounding; declared so
  kBlocksSilent,  // the same, not declared
  kAligned,       // each product cut to the largest's last bit; declared as a rounding each
  kCut,           // 8 products, each cut to fp32's last bit of the largest; declared so
  kCutSilent,     // the same, not declared
};

double Cut(double v, double largest, int bits = kFractionBits) {
  if (largest == 0) return 0;
  if (!std::isfinite(largest)) return v;  // data of the exact case nan
  const double unit = std::exp2(std::ilogb(largest) - bits);
  return std::trunc(v / unit) * unit;
}

bool IsCut(Sums sums) { return sums == Sums::kCut || sums == Sums::kCutSilent; }
int BitsOf(Sums sums) { return IsCut(sums) ? 23 : kFractionBits; }

double AddBlock(Sums sums, double sum, const double* products, std::int64_t count) {
  double largest = std::abs(sum), total = sum;
  const int bits = BitsOf(sums);
  if (sums != Sums::kBlocks && sums != Sums::kBlocksSilent) {
    for (std::int64_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(products[i]));
    total = Cut(sum, largest, bits);
    for (std::int64_t i = 0; i < count; ++i) total += Cut(products[i], largest, bits);
  } else {
    for (std::int64_t i = 0; i < count; ++i) total += products[i];
  }
  return Cut(total, total, bits);
}

class NarrowKernel : public Kernel {
 public:
  NarrowKernel(const Case& c, Sums sums)
      : problem_(std::get<GemmProblem>(c.problem)), sums_(sums) {}

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    const GemmProblem& p = problem_;
    std::vector<double> products(static_cast<std::size_t>(p.k));
    for (std::int64_t i = 0; i < p.m; ++i) {
      for (std::int64_t j = 0; j < p.n; ++j) {
        for (std::int64_t k = 0; k < p.k; ++k) {
          products[static_cast<std::size_t>(k)] =
              LoadDouble(inputs[0].dtype, inputs[0].data, i * p.k + k) *
              LoadDouble(inputs[1].dtype, inputs[1].data, k * p.n + j);
        }
        double sum = 0;
        const std::int64_t block = IsCut(sums_) ? 8 : kBlock;
        for (std::int64_t k = 0; k < p.k; k += block) {
          sum = AddBlock(sums_, sum, products.data() + k, std::min(block, p.k - k));
        }
        StoreBits(output.dtype, output.data, i * p.n + j, RoundToFormat(sum, output.dtype));
      }
    }
    return absl::OkStatus();
  }
  Accumulator accumulator() const override {
    if (sums_ == Sums::kBlocksSilent || sums_ == Sums::kCutSilent) return {};
    if (sums_ == Sums::kCut) return {.truncation = {.roundoff = kTruncatedRoundoff}};
    return {0x1p-13, sums_ == Sums::kBlocks ? kBlock : 1};
  }
  std::string implementation() const override { return "narrow"; }

 private:
  const GemmProblem problem_;
  const Sums sums_;
};

template <Sums kSums>
absl::StatusOr<std::unique_ptr<Kernel>> Make(const Case& c, const Plan&, Device&) {
  return std::make_unique<NarrowKernel>(c, kSums);
}

CaseOutcome RunNarrow(Case c, Sums sums) {
  Registry registry;
  registry.Add(KernelEntry{.op = "gemm",
                           .provider = "narrow",
                           .backend = "cpu",
                           .dtypes = {DType::kE4M3FN, DType::kE5M2, DType::kE2M1, DType::kBF16},
                           .make = sums == Sums::kBlocks      ? Make<Sums::kBlocks>
                                   : sums == Sums::kAligned   ? Make<Sums::kAligned>
                                   : sums == Sums::kCut       ? Make<Sums::kCut>
                                   : sums == Sums::kCutSilent ? Make<Sums::kCutSilent>
                                                              : Make<Sums::kBlocksSilent>,
                           .version = {},
                           .unavailable_reason = {}});
  const std::unique_ptr<Device> device =
      MakeCpuDevice(0, ArenaOptions{.max_bytes = std::int64_t{128} << 20});
  c.provider = "narrow";
  c.seed = 3;
  PhaseObserver observer;
  return CaseRunner(*device, registry, nullptr).Run(c, observer);
}

Case CaseOf(DType t, std::int64_t k, std::string pattern) {
  Case c;
  c.problem = GemmProblem{.m = 8, .n = 20, .k = k};
  c.dtype = t;
  c.pattern = std::move(pattern);
  return c;
}

TEST(Accumulator, DeclaredIsJudgedByItsOwnBound) {
  for (const DType t : {DType::kE4M3FN, DType::kE5M2}) {
    for (const char* pattern : {"normal", "all-positive", "uniform:-10:10"}) {
      for (const std::int64_t k : {64, 1000, 4096}) {
        const Case c = CaseOf(t, k, pattern);
        SCOPED_TRACE(DefaultName(c));
        const CaseOutcome declared = RunNarrow(c, Sums::kBlocks);
        EXPECT_EQ(declared.verdict, Verdict::kPassed) << Describe(declared);
        EXPECT_THAT(declared.implementation, HasSubstr("narrow, sums 32 products"));
        EXPECT_THAT(declared.implementation, HasSubstr("2^-13"));
        const CaseOutcome silent = RunNarrow(c, Sums::kBlocksSilent);
        EXPECT_EQ(silent.verdict, Verdict::kFailed) << Describe(silent);
        EXPECT_EQ(silent.implementation, "narrow");
        if (k > 1000) continue;
        const CaseOutcome aligned = RunNarrow(c, Sums::kAligned);
        EXPECT_EQ(aligned.verdict, Verdict::kPassed) << Describe(aligned);
      }
    }
  }
}

// Nothing is widened for formats that no hardware sums so.
TEST(Accumulator, WiderFormatsMayNotDeclareOne) {
  Case c = CaseOf(DType::kBF16, 1000, "all-positive");
  c.out_dtype = DType::kF32;
  const CaseOutcome outcome = RunNarrow(c, Sums::kBlocks);
  EXPECT_EQ(outcome.verdict, Verdict::kFailed) << Describe(outcome);
  EXPECT_EQ(outcome.implementation, "narrow");
}

// fp16 products on positive data, in a unit like those of GPUs: right by what it declares, and not
// by an fp32 accumulator's bound.
TEST(Accumulator, DeclaredTruncationIsJudgedByItsOwnBound) {
  Case c = CaseOf(DType::kBF16, 65536, "uniform:0:1");
  c.problem = GemmProblem{.m = 2, .n = 4, .k = 65536};
  c.out_dtype = DType::kF32;
  const CaseOutcome declared = RunNarrow(c, Sums::kCut);
  EXPECT_EQ(declared.verdict, Verdict::kPassed) << Describe(declared);
  EXPECT_EQ(declared.implementation, "narrow, cuts sums off at a relative 2^-23");
  const CaseOutcome silent = RunNarrow(c, Sums::kCutSilent);
  EXPECT_NE(silent.verdict, Verdict::kPassed) << Describe(silent);
  EXPECT_EQ(silent.implementation, "narrow");
}

// One digest serves this kernel and those with fp32 accumulators.
TEST(Accumulator, ProbesOfNarrowFloatsAreExactInIt) {
  for (const DType t : {DType::kE4M3FN, DType::kE5M2, DType::kE2M1}) {
    for (const std::int64_t k : {500, 1000, 5000}) {
      const Case c = CaseOf(t, k, "normal");
      SCOPED_TRACE(DefaultName(c));
      const CaseOutcome outcome = RunNarrow(c, Sums::kAligned);
      ASSERT_EQ(outcome.probes.size(), t == DType::kE2M1 ? 2u : 4u);
      for (const ProbeOutcome& p : outcome.probes) {
        EXPECT_EQ(p.verdict, Verdict::kPassed) << Describe(outcome);
      }
    }
  }
}

// Checksums take whole numbers for exact as far as the accumulator holds them.
TEST(Accumulator, ChecksumsOfLongIntegerSumsAreNotTakenForExact) {
  Case c = CaseOf(DType::kE4M3FN, 4096, "integers:1:4");
  c.verify = Verification::kChecksum;
  EXPECT_EQ(RunNarrow(c, Sums::kBlocks).verdict, Verdict::kPassed)
      << Describe(RunNarrow(c, Sums::kBlocks));
  EXPECT_EQ(RunNarrow(c, Sums::kBlocksSilent).verdict, Verdict::kFailed)
      << Describe(RunNarrow(c, Sums::kBlocksSilent));
}

}  // namespace
}  // namespace assay
