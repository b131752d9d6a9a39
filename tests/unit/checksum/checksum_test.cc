// Verification by checksums: it says no to what is wrong and where, and never to a
// correct kernel.
#include "kernels/checksum/checksum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/checksum/checksum_verifier.h"
#include "kernels/numerics/convert.h"
#include "kernels/text/cat.h"
#include "kernels/validate/runner.h"
#include "tests/outcome_text.h"

namespace assay {
namespace {

// What a kernel of the registry below does to the output of a correct one.
struct Damage {
  std::int64_t batch = 0, row = 0, col = 0;
  std::int64_t rows = 1;   // so many rows from `row` on
  double add = 0;          // to each element
  std::uint64_t flip = 0;  // bits of each element
  bool nan = false;
  bool unwritten = false;
};
Damage damage;

class DamagedKernel : public Kernel {
 public:
  DamagedKernel(std::unique_ptr<Kernel> right, Device& device)
      : right_(std::move(right)), device_(device) {}

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    const Extents& e = output.extents;
    const std::int64_t first = damage.batch * e.batch_stride + damage.row * e.ld + damage.col;
    const std::uint64_t before = LoadBits(output.dtype, output.data, first);
    if (absl::Status s = right_->Launch(inputs, output); !s.ok()) return s;
    if (absl::Status s = device_.Synchronize(); !s.ok()) return s;
    for (std::int64_t i = 0; i < damage.rows; ++i) {
      const std::int64_t at = first + i * e.ld;
      std::uint64_t bits = LoadBits(output.dtype, output.data, at) ^ damage.flip;
      if (damage.add != 0) {
        bits = RoundToFormat(ToDouble(output.dtype, bits) + damage.add, output.dtype);
      }
      if (damage.nan) bits = RoundToFormat(std::nan(""), output.dtype);
      if (damage.unwritten) bits = before;
      StoreBits(output.dtype, output.data, at, bits);
    }
    return absl::OkStatus();
  }

 private:
  std::unique_ptr<Kernel> right_;
  Device& device_;
};

absl::StatusOr<std::unique_ptr<Kernel>> MakeDamaged(const Case& c, const Plan& plan,
                                                    Device& device);

const Registry& Kernels() {
  static const Registry* const registry = [] {
    auto* r = new Registry;
    RegisterAll(*r);
    KernelEntry entry = *r->Find("gemm", "builtin", "cpu");
    entry.provider = "damaged";
    entry.make = MakeDamaged;
    r->Add(std::move(entry));
    return r;
  }();
  return *registry;
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeDamaged(const Case& c, const Plan& plan,
                                                    Device& device) {
  auto right = Kernels().Find("gemm", "builtin", "cpu")->make(c, plan, device);
  if (!right.ok()) return right.status();
  return std::make_unique<DamagedKernel>(*std::move(right), device);
}

Device& TestDevice() {
  static Device* const device =
      MakeCpuDevice(0, ArenaOptions{.max_bytes = std::int64_t{256} << 20}).release();
  return *device;
}

Case ChecksumCase(const GemmProblem& p, DType dtype, std::string provider, std::uint64_t seed = 1) {
  Case c;
  c.problem = p;
  c.dtype = dtype;
  c.out_dtype = DefaultOutput(dtype);
  c.provider = std::move(provider);
  c.seed = seed;
  c.verify = Verification::kChecksum;
  c.probes = false;
  c.mode = Mode::kValidate;
  return c;
}

CaseOutcome RunCase(const Case& c, Device& device = TestDevice()) {
  for (const FieldError& e : Check(c)) ADD_FAILURE() << e.field << ": " << e.message;
  PhaseObserver observer;
  return CaseRunner(device, Kernels(), nullptr).Run(c, observer);
}

bool Has(const CaseOutcome& outcome, std::string_view reason) {
  return std::any_of(outcome.findings.begin(), outcome.findings.end(),
                     [&](const Finding& f) { return ReasonWord(f.reason) == reason; });
}

constexpr DType kFormats[] = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kI8};

// Transposes, batches, leading dimensions, scalars, wide and tall.
std::vector<GemmProblem> Problems(DType dtype) {
  const bool integer = dtype == DType::kI8;
  std::vector<GemmProblem> problems = {
      {.m = 64, .n = 64, .k = 64},
      {.m = 3, .n = 257, .k = 40, .trans_b = true},
      {.m = 300, .n = 5, .k = 17, .trans_a = true},
      {.m = 33, .n = 40, .k = 50, .batch = 3, .trans_a = true, .trans_b = true},
      {.m = 40, .n = 24, .k = 30, .batch = 2, .beta = 1.0, .lda = 37, .ldb = 29, .ldc = 31},
      {.m = 1, .n = 1, .k = 1},
  };
  if (!integer) problems.push_back({.m = 65, .n = 66, .k = 67, .alpha = -0.75, .beta = 0.5});
  return problems;
}

TEST(ChecksumVerification, PassesEveryCorrectKernel) {
  int runs = 0, refused = 0;
  for (const KernelEntry& entry : Kernels().entries()) {
    if (entry.op != "gemm" || entry.backend != "cpu" || !entry.unavailable_reason.empty()) continue;
    if (entry.provider.starts_with(kPlantedPrefix) || entry.provider == "damaged") continue;
    for (const DType t : kFormats) {
      if (std::find(entry.dtypes.begin(), entry.dtypes.end(), t) == entry.dtypes.end()) continue;
      for (const GemmProblem& p : Problems(t)) {
        for (std::uint64_t seed = 1; seed <= 6; ++seed) {
          Case c = ChecksumCase(p, t, std::string(entry.provider), seed);
          if (seed == 5 && t != DType::kI8) c.pattern = "uniform:0:1";
          if (seed == 6) c.pattern = "exact-sparse:0.1";
          const CaseOutcome outcome = RunCase(c);
          const std::string where = Cat(DefaultName(c), " seed ", seed, ": ", Describe(outcome));
          if (outcome.verdict == Verdict::kUnsupported) {
            ++refused;
            continue;
          }
          // Products of sparse operands may be 0 nearly everywhere, which proves nothing;
          // so may be one product of small integers.
          if (Has(outcome, "zeros") && (seed == 6 || p.m * p.n == 1)) continue;
          EXPECT_EQ(outcome.verdict, Verdict::kPassed) << where;
          ASSERT_TRUE(outcome.checksum.has_value()) << where;
          EXPECT_LE(*outcome.checksum->max_row_ratio, 1.0) << where;
          EXPECT_LE(*outcome.checksum->max_column_ratio, 1.0) << where;
          ++runs;
        }
      }
    }
  }
  EXPECT_GT(runs, 200);
  EXPECT_LT(refused, runs);
}

TEST(ChecksumVerification, PassesEpiloguesThatAreLinear) {
  int runs = 0;
  for (const KernelEntry& entry : Kernels().entries()) {
    if (entry.op != "gemm" || entry.backend != "cpu" || !entry.unavailable_reason.empty()) continue;
    if (entry.provider.starts_with(kPlantedPrefix) || entry.provider == "damaged") continue;
    for (const DType t : {DType::kF32, DType::kBF16}) {
      GemmProblem p{.m = 48, .n = 80, .k = 64, .batch = 2};
      p.scale_a = 0.5;
      p.channel_scale = p.bias = true;
      const CaseOutcome outcome = RunCase(ChecksumCase(p, t, std::string(entry.provider)));
      if (outcome.verdict == Verdict::kUnsupported) continue;
      EXPECT_EQ(outcome.verdict, Verdict::kPassed) << entry.provider << ": " << Describe(outcome);
      ++runs;
    }
  }
  EXPECT_GT(runs, 0);
}

TEST(ChecksumVerification, FindsOneWrongElementAndWhere) {
  const double k = 96;
  for (const DType t : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
    for (const GemmProblem& p :
         {GemmProblem{.m = 70, .n = 90, .k = 96},
          GemmProblem{.m = 70, .n = 90, .k = 96, .batch = 3, .trans_a = true},
          GemmProblem{.m = 70, .n = 90, .k = 96, .trans_b = true, .alpha = 2, .beta = 1}}) {
      for (std::uint64_t seed = 1; seed <= 4; ++seed) {
        damage = {};
        damage.batch = p.batch == 1 ? 0 : static_cast<std::int64_t>(seed) % p.batch;
        damage.row = static_cast<std::int64_t>(seed * 31) % p.m;
        damage.col = static_cast<std::int64_t>(seed * 47) % p.n;
        damage.add = 8 * std::sqrt(k);  // 8 times the spread of an element
        const Case c = ChecksumCase(p, t, "damaged", seed);
        const CaseOutcome outcome = RunCase(c);
        const std::string where = Cat(DefaultName(c), " seed ", seed, ": ", Describe(outcome));
        EXPECT_EQ(outcome.verdict, Verdict::kFailed) << where;
        ASSERT_FALSE(outcome.findings.empty()) << where;
        EXPECT_EQ(ReasonWord(outcome.findings[0].reason), "bound") << where;
        EXPECT_NE(outcome.findings[0].message.find(Cat("row ", damage.row)), std::string::npos)
            << where;
        EXPECT_NE(outcome.findings[0].message.find(Cat("column ", damage.col)), std::string::npos)
            << where;
        std::vector<std::int64_t> place = {damage.row, damage.col};
        if (p.batch > 1) place.insert(place.begin(), damage.batch);
        ASSERT_TRUE(outcome.checksum.has_value());
        EXPECT_EQ(outcome.checksum->located, place) << where;
        EXPECT_EQ(outcome.checksum->screened_rows, 1) << where;
        EXPECT_EQ(outcome.checksum->wrong_elements, 1) << where;
        EXPECT_GT(*outcome.checksum->max_row_ratio, 1.0) << where;
        // The recomputed row is what was compared, and its worst element the wrong one.
        EXPECT_EQ(outcome.compare->count, p.n) << where;
        EXPECT_EQ(outcome.compare->worst.index,
                  (damage.batch * p.m + damage.row) * p.n + damage.col)
            << where;
      }
    }
  }
}

// An error that the rigorous threshold lets through is screened, and its row recomputed.
TEST(ChecksumVerification, RecomputesSuspiciousRows) {
  const GemmProblem p{.m = 256, .n = 256, .k = 256};
  damage = {};
  damage.row = 100;
  damage.col = 7;
  damage.add = 0.004 * 16;  // of an element's spread
  const CaseOutcome outcome = RunCase(ChecksumCase(p, DType::kF32, "damaged"));
  EXPECT_EQ(outcome.verdict, Verdict::kFailed) << Describe(outcome);
  EXPECT_LT(*outcome.checksum->max_row_ratio, 1.0);
  EXPECT_EQ(outcome.checksum->screened_rows, 1);
  EXPECT_EQ(outcome.checksum->wrong_elements, 1);
  EXPECT_EQ(outcome.checksum->located, (std::vector<std::int64_t>{100, 7}));
  EXPECT_TRUE(Has(outcome, "bound"));
}

// Errors too small for every row add up in their column.
TEST(ChecksumVerification, FindsAFaintColumn) {
  const GemmProblem p{.m = 1024, .n = 1024, .k = 64};
  damage = {};
  damage.rows = p.m;
  damage.col = 600;
  damage.add = 6e-4;
  const CaseOutcome outcome = RunCase(ChecksumCase(p, DType::kF32, "damaged"));
  EXPECT_EQ(outcome.verdict, Verdict::kFailed) << Describe(outcome);
  EXPECT_EQ(outcome.checksum->screened_rows, 0) << Describe(outcome);
  EXPECT_GT(outcome.checksum->wrong_elements, p.m / 2);
}

TEST(ChecksumVerification, RejectsNaN) {
  for (const DType t : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
    damage = {};
    damage.row = 11;
    damage.col = 22;
    damage.nan = true;
    const CaseOutcome outcome = RunCase(ChecksumCase({.m = 40, .n = 50, .k = 60}, t, "damaged"));
    EXPECT_EQ(outcome.verdict, Verdict::kFailed) << Describe(outcome);
    EXPECT_TRUE(Has(outcome, "class")) << Describe(outcome);
    EXPECT_EQ(outcome.checksum->screened_rows, 1);
    EXPECT_EQ(outcome.compare->nan_count, 1);
    ASSERT_FALSE(outcome.provenance.empty());
    EXPECT_EQ(outcome.provenance[0].origin, "kernel");
    EXPECT_EQ(outcome.provenance[0].first, 11 * 50 + 22);
  }
}

TEST(ChecksumVerification, RejectsUnwrittenElements) {
  for (const DType t : {DType::kF32, DType::kI8}) {
    damage = {};
    damage.row = 3;
    damage.rows = 5;
    damage.col = 49;
    damage.unwritten = true;
    const CaseOutcome outcome = RunCase(ChecksumCase({.m = 40, .n = 50, .k = 60}, t, "damaged"));
    EXPECT_EQ(outcome.verdict, Verdict::kFailed) << Describe(outcome);
    EXPECT_TRUE(Has(outcome, "unwritten")) << Describe(outcome);
    EXPECT_EQ(outcome.unwritten, 5);
  }
}

// Of exact sums the last bit of one element shows.
TEST(ChecksumVerification, FindsTheLastBitOfExactSums) {
  for (const auto& [t, pattern] : {std::pair{DType::kI8, ""},
                                   {DType::kF32, "exact-sparse:0.1"},
                                   {DType::kF64, "integers:-4:4"},
                                   {DType::kBF16, "exact-sparse:0.02"}}) {
    Case c = ChecksumCase({.m = 128, .n = 160, .k = 512}, t, "damaged");
    c.pattern = pattern;
    damage = {};
    damage.row = 127;
    damage.col = 159;
    CaseOutcome outcome = RunCase(c);
    EXPECT_NE(outcome.verdict, Verdict::kFailed) << Describe(outcome);
    EXPECT_EQ(*outcome.checksum->max_row_ratio, 0.0) << Describe(outcome);
    // Most sums of bf16 are 0 here: one of them becomes 1. In fp64 the sums round off
    // what is far below their own last bit.
    damage.flip = t == DType::kBF16 ? 0x3f80 : t == DType::kF64 ? 1 << 16 : 1;
    outcome = RunCase(c);
    EXPECT_EQ(outcome.verdict, Verdict::kFailed) << Describe(outcome);
    ASSERT_FALSE(outcome.findings.empty());
    EXPECT_EQ(ReasonWord(outcome.findings[0].reason), "exact") << Describe(outcome);
    EXPECT_EQ(outcome.checksum->located, (std::vector<std::int64_t>{127, 159})) << Name(t);
    EXPECT_EQ(outcome.checksum->wrong_elements, 1) << Name(t);
  }
}

TEST(ChecksumVerification, FractionsBesideOneHotAreNoExactSums) {
  Case c = ChecksumCase({.m = 128, .n = 160, .k = 512}, DType::kF32, "builtin");
  c.pattern = "one-hot:2:0.3";
  const CaseOutcome outcome = RunCase(c);
  EXPECT_NE(outcome.verdict, Verdict::kFailed) << Describe(outcome);
}

TEST(ChecksumVerification, CatchesPlantedKernels) {
  for (const DType t : {DType::kF32, DType::kBF16}) {
    for (const auto& [defect, reason] : {std::pair{"wrong-tile", "bound"},
                                         {"dropped-k", "bound"},
                                         {"transposed-b", "bound"},
                                         {"zero-output", "bound"},
                                         {"nan", "class"},
                                         {"unwritten-tail", "unwritten"},
                                         {"past-the-end", "guard"},
                                         {"changes-input", "guard"}}) {
      const CaseOutcome outcome =
          RunCase(ChecksumCase({.m = 96, .n = 128, .k = 64}, t, Cat("planted/", defect)));
      EXPECT_EQ(outcome.verdict, Verdict::kFailed) << defect << ": " << Describe(outcome);
      EXPECT_TRUE(Has(outcome, reason)) << defect << ": " << Describe(outcome);
    }
    const CaseOutcome outcome =
        RunCase(ChecksumCase({.m = 96, .n = 128, .k = 64}, t, "planted/correct"));
    EXPECT_EQ(outcome.verdict, Verdict::kPassed) << Describe(outcome);
  }
}

TEST(ChecksumVerification, NothingButZerosProvesNothing) {
  Case c = ChecksumCase({.m = 32, .n = 32, .k = 32}, DType::kF32, "builtin");
  c.pattern = "zeros";
  const CaseOutcome outcome = RunCase(c);
  EXPECT_EQ(outcome.verdict, Verdict::kInconclusive) << Describe(outcome);
  EXPECT_TRUE(Has(outcome, "zeros")) << Describe(outcome);
}

TEST(ChecksumVerification, RefusesWhatItCannotJudge) {
  GemmProblem activated{.m = 32, .n = 32, .k = 32};
  activated.activation = "relu";
  CaseOutcome outcome = RunCase(ChecksumCase(activated, DType::kF32, "onednn"));
  EXPECT_EQ(outcome.verdict, Verdict::kUnsupported) << Describe(outcome);

  Case c = ChecksumCase({.m = 32, .n = 32, .k = 32}, DType::kF32, "builtin");
  c.pattern = "denormal";
  outcome = RunCase(c);
  EXPECT_EQ(outcome.verdict, Verdict::kUnsupported) << Describe(outcome);
  EXPECT_NE(Describe(outcome).find("subnormal"), std::string::npos) << Describe(outcome);

  c = ChecksumCase({.m = 100, .n = 100, .k = 32}, DType::kF32, "builtin");
  c.pattern = "normal/all-inf";
  outcome = RunCase(c);
  EXPECT_EQ(outcome.verdict, Verdict::kUnsupported) << Describe(outcome);
  EXPECT_NE(Describe(outcome).find("infinities"), std::string::npos) << Describe(outcome);

  Plan plan;
  plan.output.dtype = DType::kE5M2;
  plan.inputs.resize(2);
  EXPECT_NE(ChecksumRefusal(c, plan).find("e5m2"), std::string::npos);
  plan.output.dtype = DType::kE2M1;
  EXPECT_NE(ChecksumRefusal(c, plan).find("e2m1"), std::string::npos);
}

// A saturated result is right, and no sum of what went into it.
TEST(ChecksumVerification, FailsNoOutputThatSaturates) {
  for (const std::int64_t size : {48, 200}) {
    for (const char* const pattern : {"uniform:-10:10", "normal:3", "normal:2", "uniform:-1:1"}) {
      Case c = ChecksumCase({.m = size, .n = size, .k = 256}, DType::kE4M3FN, "builtin");
      c.out_dtype = DType::kE4M3FN;
      c.pattern = pattern;
      const CaseOutcome outcome = RunCase(c);
      // A few that saturate may hide in the rounding of the others.
      const std::string_view data = pattern;
      if (data == "uniform:-1:1" || outcome.verdict != Verdict::kUnsupported) {
        EXPECT_EQ(outcome.verdict, Verdict::kPassed) << pattern << ": " << Describe(outcome);
      }
      EXPECT_TRUE(data != "uniform:-10:10" || outcome.verdict == Verdict::kUnsupported)
          << Describe(outcome);
      c.verify = Verification::kFull;
      EXPECT_EQ(RunCase(c).verdict, Verdict::kPassed) << pattern;
    }
  }
}

TEST(ChecksumVerification, AsksNothingOfEveryElement) {
  Case c = ChecksumCase({.m = 32, .n = 32, .k = 32}, DType::kF32, "builtin");
  EXPECT_TRUE(Check(c).empty());
  c.criterion = Criterion::kUlp;
  c.max_ulp = 1;
  c.checksum_probes = kMaxChecksumProbes + 1;
  std::vector<std::string> fields;
  for (const FieldError& e : Check(c)) fields.push_back(e.field);
  EXPECT_EQ(fields, (std::vector<std::string>{"checksum_probes", "criterion", "max_ulp"}));
}

// An output whose reference would not fit is verified.
TEST(ChecksumVerification, TakesNoMemoryOfTheOutputsSize) {
  const std::unique_ptr<Device> small =
      MakeCpuDevice(0, ArenaOptions{.max_bytes = std::int64_t{12} << 20});
  Case c = ChecksumCase({.m = 1024, .n = 1024, .k = 64}, DType::kF32, "builtin");
  EXPECT_EQ(RunCase(c, *small).verdict, Verdict::kPassed);
  c.verify = Verification::kFull;
  const CaseOutcome full = RunCase(c, *small);
  EXPECT_EQ(full.verdict, Verdict::kInconclusive) << Describe(full);
  EXPECT_TRUE(Has(full, "memory"));
}

TEST(ChecksumVerification, MoreProbesAreUsed) {
  Case c = ChecksumCase({.m = 64, .n = 64, .k = 64}, DType::kBF16, "builtin");
  EXPECT_EQ(RunCase(c).checksum->probes, kDefaultChecksumProbes);
  c.checksum_probes = 20;
  const CaseOutcome outcome = RunCase(c);
  EXPECT_EQ(outcome.checksum->probes, 20);
  EXPECT_EQ(outcome.verdict, Verdict::kPassed) << Describe(outcome);
}

TEST(ChecksumResiduals, FlagsByEitherThresholdAndNaN) {
  constexpr std::int64_t kLines = 1000;
  ChecksumResiduals r(1, kLines, 2);
  for (std::int64_t i = 0; i < kLines; ++i) {
    r.SetThreshold(0, i, 100.0, 1e-3);
    // Within ±1, alternating signs; the median magnitude is 1/2.
    for (int p = 0; p < 2; ++p) {
      r.residual(0, p, i) = (i % 2 == 0 ? 1.0 : -1.0) * static_cast<double>(i) / kLines;
    }
  }
  EXPECT_TRUE(r.Judge().lines.empty());
  EXPECT_LT(r.Judge().max_ratio, 0.011);
  r.residual(0, 1, 10) = 6.0;    // 6·1.4826/2 = 4.4
  r.residual(0, 0, 20) = 101.0;  // beyond
  r.residual(0, 0, 30) = std::nan("");
  r.residual(0, 1, 40) = -std::numeric_limits<double>::infinity();
  r.SetThreshold(0, 50, std::numeric_limits<double>::infinity(), 1e-3);
  const ChecksumSide side = r.Judge();
  std::vector<std::int64_t> found;
  for (const ChecksumLine& line : side.lines) found.push_back(line.index);
  EXPECT_EQ(side.beyond, 1);
  EXPECT_EQ(found.front(), 20);
  EXPECT_EQ(found.back(), 10);
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, (std::vector<std::int64_t>{10, 20, 30, 40, 50}));
}

TEST(ChecksumResiduals, ExactResidualsMustBeZero) {
  ChecksumResiduals r(2, 3, 1);
  EXPECT_TRUE(r.Judge().lines.empty());
  r.residual(1, 0, 2) = 1e-300;
  const ChecksumSide side = r.Judge();
  ASSERT_EQ(side.lines.size(), 1u);
  EXPECT_EQ(side.lines[0].batch, 1);
  EXPECT_EQ(side.lines[0].index, 2);
  EXPECT_TRUE(side.lines[0].beyond);
}

}  // namespace
}  // namespace assay
