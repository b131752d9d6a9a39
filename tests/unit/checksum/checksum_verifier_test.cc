// What a verification makes of checksums, samples and recomputed lines: each alone, on a device
// that is blind to the others where that is needed.
#include "kernels/checksum/checksum_verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/judge/recheck.h"
#include "kernels/numerics/bound.h"
#include "kernels/numerics/poison.h"
#include "kernels/text/cat.h"
#include "tests/unit/checksum/checksum_device.h"
#include "tests/unit/checksum/checksum_gemm.h"

namespace assay {
namespace {

using testing::ChecksumDevice;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing::TestGemm;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

class Phases : public PhaseObserver {
 public:
  void Enter(Phase phase) override { seen.push_back(phase); }
  std::vector<Phase> seen;
};

struct Verifying {
  explicit Verifying(TestGemm& gemm) : g(gemm), clock(device, phases) {}

  End Verify(bool flushes = false) {
    device.compared.clear();
    ChecksumVerifier verifier(g.c, device, clock);
    if (End end = verifier.Prepare(GemmOp(), g.plan); end.has_value()) return end;
    End end = verifier.Verify(g.inputs, g.output, g, flushes, f);
    device.arena().Reset();
    return end;
  }
  // Checksums that say nothing, so that the samples alone speak.
  void SampleAlone() {
    device.disturb = [](const ChecksumRequest&, ChecksumSums& sums) {
      for (auto* v : {&sums.row_products, &sums.col_products, &sums.row_absolute,
                      &sums.col_absolute, &sums.row_squares, &sums.col_squares}) {
        std::fill(v->begin(), v->end(), 0.0);
      }
    };
    device.blind = true;
  }
  // Adds to the residuals of rows and of columns.
  void Disturb(std::vector<double> rows, std::vector<double> columns) {
    device.disturb = [this, rows, columns](const ChecksumRequest& r, ChecksumSums& sums) {
      if (r.matrix.data != g.output.data) return;
      for (std::size_t i = 0; i < rows.size(); ++i) sums.row_products[i] += rows[i];
      for (std::size_t j = 0; j < columns.size(); ++j) sums.col_products[j] += columns[j];
    };
  }
  TestGemm& g;
  ChecksumDevice device;
  Phases phases;
  PhaseClock clock;
  ChecksumFindings f;
};

std::string Text(const End& end) {
  return end.has_value() ? Cat(static_cast<int>(end->verdict), " ", ReasonWord(end->finding.reason),
                               ": ", end->finding.message)
                         : "";
}

TEST(ChecksumVerifier, SaysWhatTheErrorsOfTheSamplesAre) {
  TestGemm g({.m = 6, .n = 7, .k = 4, .batch = 2}, DType::kF32);
  g.Fill(0.25);
  for (std::int64_t k = 0; k < 4; ++k) {
    g.Set(g.inputs[0], 0, 0, k, 0);                 // values of 0
    g.Set(g.inputs[0], 0, 1, k, k == 0 ? 0.5 : 0);  // and one of 1/2
  }
  g.Set(g.inputs[1], 0, 0, 3, 1);
  g.Compute();
  g.Set(g.output, 0, 0, 2, 0x1p-149);  // as far as the quanta allow
  g.Set(g.output, 0, 1, 3, 0.5 + 0x1p-23);
  Verifying v(g);
  v.SampleAlone();
  EXPECT_EQ(Text(v.Verify()), "");
  EXPECT_TRUE(v.device.compared.empty());

  std::vector<std::int64_t> all(84);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
  std::vector<double> value(84), allowance(84);
  GemmOp().ReferenceAt(g.c, g.plan, g, all, value.data(), allowance.data());
  CompareResult should;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double actual = g.D(all[i] / 42, all[i] / 7 % 6, all[i] % 7);
    const double error = std::abs(actual - value[i]);
    const OutputRounding rounding = OutputRoundingOf(DType::kF32);
    should.max_abs_expected = std::max(should.max_abs_expected, std::abs(value[i]));
    should.max_abs_error = std::max(should.max_abs_error, error);
    should.sum_abs_error += error;
    should.sum_squared_error += error * error;
    if (value[i] != 0) {
      should.max_rel_error = std::max(should.max_rel_error, error / std::abs(value[i]));
    }
    should.dot += actual * value[i];
    should.sum_squared_actual += actual * actual;
    should.sum_squared_expected += value[i] * value[i];
    should.rho = std::max(should.rho, error / TBound(rounding, value[i], allowance[i]));
    should.rho_proven = std::max(
        should.rho_proven, error / TBound(rounding, value[i], g.plan.proven_factor * allowance[i]));
  }
  const CompareResult& is = v.f.compared;
  EXPECT_EQ(v.f.rechecked, 84);
  EXPECT_EQ(is.count, 84);
  EXPECT_EQ(is.finite_pairs, 84);
  EXPECT_EQ(is.unexpected_nan, 0);
  EXPECT_EQ(is.unexpected_inf, 0);
  EXPECT_EQ(is.first_unexpected_nan, -1);
  for (const auto member :
       {&CompareTotals::max_abs_expected, &CompareTotals::max_abs_error,
        &CompareTotals::sum_abs_error, &CompareTotals::sum_squared_error,
        &CompareTotals::max_rel_error, &CompareTotals::dot, &CompareTotals::sum_squared_actual,
        &CompareTotals::sum_squared_expected, &CompareTotals::rho, &CompareTotals::rho_proven}) {
    EXPECT_DOUBLE_EQ(is.*member, should.*member);
  }
  EXPECT_EQ(should.max_rel_error, 0x1p-22);
}

// A row whose terms overflow has no threshold. It is recomputed, and has no bound there either.
TEST(ChecksumVerifier, SaysHowManyElementsHaveNoBound) {
  TestGemm g({.m = 6, .n = 5, .k = 2}, DType::kF64);
  g.Fill(1);
  g.Set(g.inputs[0], 0, 2, 0, 1.5e155);
  g.Set(g.inputs[0], 0, 2, 1, -1.5e155);
  for (std::int64_t k = 0; k < 2; ++k) g.Set(g.inputs[1], 0, k, 3, 1e153);
  g.Compute();
  g.Set(g.output, 0, 2, 3, 1e300);
  Verifying v(g);
  EXPECT_EQ(Text(v.Verify()), "");
  EXPECT_EQ(v.f.wrong + v.f.fault, "");
  EXPECT_GE(v.f.unbounded, 1);
}

TEST(ChecksumVerifier, SaysWhatTheChecksumsSay) {
  TestGemm g({.m = 20, .n = 30, .k = 4, .batch = 2}, DType::kF32);
  g.Fill(1);
  g.Compute();
  Verifying v(g);
  EXPECT_EQ(Text(v.Verify()), "");
  EXPECT_EQ(v.f.outcome.probes, kDefaultChecksumProbes);
  EXPECT_GT(*v.f.outcome.max_row_ratio, 0);
  EXPECT_LE(*v.f.outcome.max_row_ratio, 1);
  EXPECT_GT(*v.f.outcome.max_column_ratio, 0);
  EXPECT_LE(*v.f.outcome.max_column_ratio, 1);
  EXPECT_EQ(v.f.outcome.screened_rows, 0);
  EXPECT_EQ(v.f.outcome.wrong_elements, 0);
  EXPECT_FALSE(v.f.exact);
  EXPECT_EQ(v.f.wrong + v.f.suspicious + v.f.fault, "");
  EXPECT_THAT(v.phases.seen, ElementsAre(Phase::kCompare, Phase::kRecheck, Phase::kReference));
}

// Elements of a large output: as many as a recheck takes, by the case's seed.
TEST(ChecksumVerifier, SamplesTheSameElementsForTheSameSeed) {
  for (const std::optional<std::uint64_t> seed : {std::optional<std::uint64_t>(), {5}}) {
    TestGemm g({.m = 70, .n = 80, .k = 2}, DType::kF64);
    g.c.seed = seed;
    g.Fill(1);
    g.Compute();
    Verifying v(g);
    EXPECT_EQ(Text(v.Verify()), "");
    EXPECT_EQ(v.device.fetched, GemmOp().Samples(g.c, g.plan, seed.value_or(1), 1024));
    EXPECT_EQ(v.f.rechecked, static_cast<std::int64_t>(v.device.fetched.size()));
    EXPECT_LT(v.f.rechecked, 5600);
  }
}

// The samples' verdict of an element of [1, 1, 1] that should be a·b.
std::string SampleSays(DType t, double a, double b, double actual, const char* pattern = "normal",
                       DType out = DType::kUnspecified, bool flushes = false) {
  TestGemm g({.m = 1, .n = 1, .k = 1}, t, pattern, out);
  g.Set(g.inputs[0], 0, 0, 0, a);
  g.Set(g.inputs[1], 0, 0, 0, b);
  g.Set(g.output, 0, 0, 0, actual);
  Verifying v(g);
  v.SampleAlone();
  const std::string end = Text(v.Verify(flushes));
  if (end.empty() && v.f.fault.empty()) return "right";
  if (v.f.fault ==
      "the host finds 1 of 1 sampled elements beyond their bound, the device none in "
      "their rows") {
    return "wrong";
  }
  return end + v.f.fault;
}

TEST(ChecksumVerifier, SamplesAreRightUpToTheirBound) {
  // T = u + 8·u of 1, and 10·u proven: see bound.h.
  const double u = 0x1p-24;
  EXPECT_EQ(SampleSays(DType::kF32, 1, 1, 1), "right");
  EXPECT_EQ(SampleSays(DType::kF32, 1, 1, 1 + 8 * u), "right");
  EXPECT_EQ(SampleSays(DType::kF32, 1, 1, 1 + 10 * u), "wrong");
  EXPECT_EQ(SampleSays(DType::kF32, 1, 1, 1 - 8 * u), "right");
  EXPECT_EQ(SampleSays(DType::kF32, 1, 1, 1 + 10 * u, "uniform:0:1"), "right");
  EXPECT_EQ(SampleSays(DType::kF32, 1, 1, 1 + 12 * u, "uniform:0:1"), "wrong");
  EXPECT_EQ(SampleSays(DType::kF32, 1, 1, 1 + 2 * u, "ones"), "wrong") << "an exact sum";
  EXPECT_EQ(SampleSays(DType::kF32, 1, 1, 1, "ones"), "right");
  EXPECT_EQ(SampleSays(DType::kF32, 1, 1, 1e30), "wrong");
  EXPECT_EQ(SampleSays(DType::kI8, 3, 5, 15), "right");
  EXPECT_EQ(SampleSays(DType::kI8, 3, 5, 16), "wrong");
  // A subnormal result may be 0 where the device flushes.
  EXPECT_EQ(SampleSays(DType::kF32, 0x1p-100, 0x1p-30, 0), "wrong");
  EXPECT_EQ(SampleSays(DType::kF32, 0x1p-100, 0x1p-30, 0, "normal", DType::kUnspecified, true),
            "right");
}

TEST(ChecksumVerifier, SamplesAreOfTheClassTheyShouldBe) {
  EXPECT_EQ(SampleSays(DType::kF32, 1, 1, kNaN), "wrong");
  EXPECT_EQ(SampleSays(DType::kF32, 1, 1, kInf), "wrong");
  EXPECT_EQ(SampleSays(DType::kF32, kNaN, 1, kNaN), "right");
  EXPECT_EQ(SampleSays(DType::kF32, kNaN, 1, 1), "wrong");
  EXPECT_EQ(SampleSays(DType::kF32, kNaN, 1, kInf), "wrong");
  EXPECT_EQ(SampleSays(DType::kF32, kInf, 1, kInf), "right");
  EXPECT_EQ(SampleSays(DType::kF32, kInf, 1, kNaN), "wrong");
  // Next to the largest number a right kernel may overflow, and not to NaN, where there is Inf.
  EXPECT_EQ(SampleSays(DType::kF16, 255.5, 256, kInf), "wrong");
  EXPECT_EQ(SampleSays(DType::kF16, 255.875, 256, kInf), "right");
  EXPECT_EQ(SampleSays(DType::kF16, 255.875, 256, kNaN), "wrong");
  EXPECT_EQ(SampleSays(DType::kE4M3FN, 224, 2, kNaN, "normal", DType::kE4M3FN), "right");
  EXPECT_EQ(SampleSays(DType::kE4M3FN, 208, 2, kNaN, "normal", DType::kE4M3FN), "wrong");
}

// A sample that should not be finite adds nothing to what is said of the others.
TEST(ChecksumVerifier, SamplesThatAreNotFiniteHaveNoError) {
  TestGemm g({.m = 4, .n = 3, .k = 1}, DType::kF32);
  g.Fill(0.25);
  g.Set(g.inputs[0], 0, 0, 0, kInf);
  g.Set(g.inputs[0], 0, 1, 0, kNaN);
  g.Set(g.inputs[0], 0, 3, 0, 0);
  g.Compute();
  for (const std::int64_t at : {4, 5}) {
    StoreBits(DType::kF32, g.output.data, at, PoisonBits(DType::kF32, Poison::kFirst));
  }
  for (const std::int64_t j : {0, 2}) g.Set(g.output, 0, 0, j, 1);
  Verifying v(g);
  v.SampleAlone();
  EXPECT_EQ(Text(v.Verify()), "");
  EXPECT_EQ(v.f.compared.count, 12);
  EXPECT_EQ(v.f.compared.finite_pairs, 6);
  // The counts are the whole output's.
  EXPECT_EQ(v.f.compared.nan_count, 3);
  EXPECT_EQ(v.f.compared.inf_count, 1);
  EXPECT_EQ(v.f.compared.zero_count, 3);
  EXPECT_EQ(v.f.compared.unwritten, 2);
  EXPECT_EQ(v.f.compared.first_nan, 3);
  EXPECT_EQ(v.f.compared.first_inf, 1);
  EXPECT_EQ(v.f.compared.first_unwritten, 4);
  EXPECT_EQ(v.f.compared.unexpected_nan, 1);
  EXPECT_EQ(v.f.compared.unexpected_inf, 1);
  EXPECT_EQ(v.f.compared.first_unexpected_nan, 3);
  EXPECT_EQ(v.f.compared.first_unexpected_inf, 1);
  EXPECT_LT(v.f.compared.max_abs_expected, 0.1);
  EXPECT_GT(v.f.compared.max_abs_expected, 0);
  EXPECT_LT(v.f.compared.max_abs_error, 1e-8);
}

TEST(ChecksumVerifier, RecomputesTheRowsOfWhatTheHostFindsWrong) {
  TestGemm g({.m = 5, .n = 80, .k = 3, .batch = 2}, DType::kF32, "uniform:0:1");
  g.Fill(1);
  g.Compute();
  for (std::int64_t j = 0; j < 70; ++j) g.Add(1, 3, j, 2e-5);
  Verifying v(g);
  v.SampleAlone();
  v.device.blind = false;
  EXPECT_EQ(Text(v.Verify()), "");
  EXPECT_THAT(v.device.compared, ElementsAre(80)) << "one row";
  EXPECT_EQ(v.f.outcome.wrong_elements, 70);
  EXPECT_EQ(v.f.compared.mismatches, 70);
  EXPECT_EQ(v.f.compared.worst.index / 80, 8);
  EXPECT_EQ(v.f.suspicious + v.f.fault, "") << "many elements of one row are one row";
  v.device.blind = true;
  EXPECT_EQ(Text(v.Verify()), "");
  EXPECT_EQ(v.f.suspicious, "");
  EXPECT_EQ(v.f.fault,
            "the host finds 70 of 800 sampled elements beyond their bound, the device none in "
            "their rows");
}

// By the rules of the case: its proven factor, its gate, exactness, flushing.
TEST(ChecksumVerifier, RecomputesByTheRulesOfTheCase) {
  const auto wrong = [](const char* pattern, double a, double actual, bool flushes) {
    TestGemm g({.m = 1, .n = 1, .k = 1}, DType::kF32, pattern);
    g.Set(g.inputs[0], 0, 0, 0, a);
    g.Set(g.inputs[1], 0, 0, 0, 1);
    g.Set(g.output, 0, 0, 0, actual);
    Verifying v(g);
    v.device.disturb = [](const ChecksumRequest&, ChecksumSums& sums) {
      for (double& d : sums.row_products) d = kNaN;  // one that is looked at, and proves nothing
    };
    EXPECT_EQ(Text(v.Verify(flushes)), "");
    EXPECT_FALSE(v.device.compared.empty());
    EXPECT_EQ(v.f.compared.mismatches, v.f.outcome.wrong_elements);
    return v.f.outcome.wrong_elements;
  };
  const double u = 0x1p-24;
  EXPECT_EQ(wrong("normal", 1, 1 + 8 * u, false), 0);
  EXPECT_EQ(wrong("normal", 1, 1 + 10 * u, false), 1);
  EXPECT_EQ(wrong("uniform:0:1", 1, 1 + 10 * u, false), 0);
  EXPECT_EQ(wrong("uniform:0:1", 1, 1 + 12 * u, false), 1);
  EXPECT_EQ(wrong("ones", 1, 1 + 2 * u, false), 1);
  EXPECT_EQ(wrong("ones", 1, 1, false), 0);
  EXPECT_EQ(wrong("normal", 0x1p-130, 0, false), 1);
  EXPECT_EQ(wrong("normal", 0x1p-130, 0, true), 0);
}

// Lines that are suspicious, and right when they are recomputed. `beyond` of them are beyond the
// bound of their checksums.
struct Suspicious {
  Suspicious(std::int64_t m, std::int64_t n, std::size_t rows, std::size_t columns,
             std::size_t beyond)
      : g({.m = m, .n = n, .k = 2}, DType::kF32), v(g) {
    for (const TensorView& view : g.inputs) {
      for (std::int64_t at = 0; at < view.count(); ++at) {
        StoreBits(DType::kF32, view.data, at,
                  RoundToFormat(1 + 0.25 * std::sin(static_cast<double>(at * at)), DType::kF32));
      }
    }
    g.Compute();
    // The thresholds are about 2e-4 and 6e-6.
    std::vector<double> of_rows(rows, 3e-5), of_columns(columns, 3e-5);
    for (std::size_t i = 0; i < beyond; ++i) {
      if (i < rows) of_rows[i] = 1e3;
      if (i < columns) of_columns[i] = 1e3;
    }
    v.Disturb(of_rows, of_columns);
    end = Text(v.Verify());
  }
  TestGemm g;
  Verifying v;
  std::string end;
};

TEST(ChecksumVerifier, LooksAtEveryLineThatIsSuspicious) {
  Suspicious none(400, 400, 0, 0, 0);
  EXPECT_EQ(none.end, "");
  EXPECT_TRUE(none.v.device.compared.empty());
  Suspicious rows(400, 400, 64, 0, 0);
  EXPECT_EQ(rows.v.f.outcome.screened_rows, 64);
  EXPECT_THAT(rows.v.device.compared, ElementsAre(64 * 400));
  EXPECT_EQ(rows.end + rows.v.f.wrong + rows.v.f.suspicious + rows.v.f.fault, "");
  Suspicious more(400, 400, 65, 0, 0);
  EXPECT_EQ(more.v.f.suspicious,
            "65 rows have suspicious checksums, of which the 64 worst were recomputed and are "
            "right");
  EXPECT_EQ(more.end + more.v.f.wrong + more.v.f.fault, "");
  Suspicious columns(400, 400, 0, 16, 0);
  EXPECT_THAT(columns.v.device.compared, ElementsAre(16 * 400));
  EXPECT_EQ(columns.end + columns.v.f.suspicious + columns.v.f.fault, "");
  Suspicious both(400, 400, 65, 17, 0);
  EXPECT_THAT(both.v.device.compared, ElementsAre(64 * 400, 16 * 400));
  EXPECT_EQ(both.v.f.suspicious,
            "65 rows have suspicious checksums, of which the 64 worst were recomputed and are "
            "right; 17 columns have suspicious checksums, of which the 16 worst were recomputed "
            "and are right");
}

TEST(ChecksumVerifier, BlamesTheDeviceForLinesThatAreBeyondAndRight) {
  Suspicious row(400, 400, 2, 2, 1);
  EXPECT_THAT(row.v.f.fault,
              StartsWith("1 row beyond the bound of its checksum: row 0 (residual "));
  EXPECT_THAT(row.v.f.fault,
              ::testing::EndsWith("; the device's own reference finds nothing wrong there"));
  EXPECT_THAT(row.v.device.compared, ElementsAre(2 * 400)) << "and looks no further";
  Suspicious column(400, 400, 0, 2, 1);
  EXPECT_THAT(column.v.f.fault, StartsWith("1 column beyond the bound of its checksum: column 0"));
  // Of more lines than are recomputed, the others may be the wrong ones.
  Suspicious many(400, 400, 65, 0, 3);
  EXPECT_EQ(many.v.f.fault, "");
  EXPECT_THAT(many.v.f.wrong, StartsWith("3 rows beyond"));
  EXPECT_THAT(many.v.f.wrong, ::testing::Not(HasSubstr("meet")));
  EXPECT_NE(many.v.f.suspicious, "");
  // Nothing of it is left for the next verification.
  for (Suspicious* before : {&row, &many}) {
    before->v.Disturb({}, {});
    EXPECT_EQ(Text(before->v.Verify()), "");
    EXPECT_EQ(before->v.f.wrong + before->v.f.suspicious + before->v.f.fault, "");
  }
}

// Rows that the samples reject are among those that are suspicious: they count once.
TEST(ChecksumVerifier, CountsARowOnce) {
  TestGemm g({.m = 60, .n = 3, .k = 2}, DType::kF32);
  g.Fill(1);
  g.Compute();
  // One and a half of its bound.
  for (std::int64_t i = 0; i < 40; ++i) {
    const std::int64_t at[] = {3 * i + 1};
    double value = 0, allowance = 0;
    GemmOp().ReferenceAt(g.c, g.plan, g, at, &value, &allowance);
    g.Add(0, i, 1, 1.5 * TBound(OutputRoundingOf(DType::kF32), value, allowance));
  }
  Verifying v(g);
  std::vector<double> rows(60, 0);
  for (std::size_t i = 0; i < 40; ++i) rows[i] = kNaN;
  v.Disturb(rows, {});
  v.device.blind = true;
  EXPECT_EQ(Text(v.Verify()), "");
  EXPECT_THAT(v.device.compared, ElementsAre(40 * 3));
  EXPECT_EQ(v.f.suspicious, "");
  EXPECT_THAT(v.f.fault, StartsWith("the host finds 40 of 180 sampled elements"));
}

TEST(ChecksumVerifier, StopsAtTheRowsThatAreWrong) {
  TestGemm g({.m = 30, .n = 40, .k = 3}, DType::kF32);
  g.Fill(1);
  g.Compute();
  g.Add(0, 5, 6, 100);
  Verifying v(g);
  EXPECT_EQ(Text(v.Verify()), "");
  EXPECT_THAT(v.device.compared, ElementsAre(40));
  EXPECT_EQ(v.f.outcome.wrong_elements, 1);
  EXPECT_EQ(v.f.outcome.screened_rows, 1);
  EXPECT_THAT(v.f.outcome.located, ElementsAre(5, 6));
  EXPECT_THAT(v.f.wrong, StartsWith("1 row beyond the bound of its checksum: row 5 (residual "));
  EXPECT_THAT(v.f.wrong, HasSubstr("; 1 column beyond the bound of its checksum: column 6 ("));
  EXPECT_THAT(v.f.wrong, ::testing::EndsWith("; they meet in the element [5,6]"));
  // A device whose reference is wrong is told so, and nothing else is looked at.
  v.device.spoil = [](ReferenceBuffers& r) { r.value[0] += 1; };
  EXPECT_EQ(Text(v.Verify()), "");
  EXPECT_THAT(v.f.fault, StartsWith("host and device disagree at [5,0]"));
  EXPECT_THAT(v.device.compared, ElementsAre(40));
}

TEST(ChecksumVerifier, NamesThreeLines) {
  const auto wrong = [](std::int64_t rows, std::int64_t batch, bool nan) {
    TestGemm g({.m = 30, .n = 40, .k = 3, .batch = batch}, DType::kF32);
    g.Fill(1);
    g.Compute();
    for (std::int64_t i = 0; i < rows; ++i)
      g.Add(batch - 1, 5 + i, 6, 1000.0 * static_cast<double>(rows - i));
    if (nan) g.Set(g.output, batch - 1, 20, 7, kNaN);
    Verifying v(g);
    EXPECT_EQ(Text(v.Verify()), "");
    return v.f.wrong.substr(0, v.f.wrong.find("; "));
  };
  using ::testing::MatchesRegex;
  const std::string number = " .residual [-0-9.e+]+, at most [-0-9.e+]+.";
  EXPECT_THAT(wrong(1, 1, false),
              MatchesRegex("1 row beyond the bound of its checksum: row [567]" + number));
  EXPECT_THAT(wrong(1, 1, true),
              MatchesRegex("1 row beyond the bound of its checksum: row [567]" + number));
  EXPECT_THAT(wrong(3, 1, false),
              MatchesRegex("3 rows beyond the bound of their checksums: row [567]" + number +
                           ", row [567]" + number + ", row [567]" + number));
  EXPECT_THAT(wrong(4, 2, false),
              MatchesRegex("4 rows beyond the bound of their checksums: row [567] of matrix 1" +
                           number + ", row [567] of matrix 1" + number + ", row [567] of matrix 1" +
                           number + ", …"));
}

// Counts are the whole output's; what was seen to be right is not unexpected.
TEST(ChecksumVerifier, CountsOfTheWholeOutput) {
  TestGemm g({.m = 7, .n = 5, .k = 1}, DType::kF32);
  g.Fill(1);
  g.Set(g.inputs[0], 0, 0, 0, kNaN);  // five expected NaN
  g.Set(g.inputs[0], 0, 5, 0, kInf);  // five expected infinities
  g.Compute();
  g.Set(g.output, 0, 1, 2, kNaN);
  g.Set(g.output, 0, 2, 3, -kInf);
  StoreBits(DType::kF32, g.output.data, 3 * 5 + 1, PoisonBits(DType::kF32, Poison::kFirst));
  g.Set(g.output, 0, 6, 0, 0);
  Verifying v(g);
  EXPECT_EQ(Text(v.Verify()), "");
  const CompareResult& c = v.f.compared;
  EXPECT_EQ(c.nan_count, 7);
  EXPECT_EQ(c.inf_count, 6);
  EXPECT_EQ(c.zero_count, 1);
  EXPECT_EQ(c.unwritten, 1);
  EXPECT_EQ(c.unexpected_nan, 1);
  EXPECT_EQ(c.unexpected_inf, 1);
  EXPECT_EQ(c.first_nan, 0);
  EXPECT_EQ(c.first_inf, 13);
  EXPECT_EQ(c.first_unwritten, 16);
  EXPECT_EQ(c.first_unexpected_nan, 7);
  EXPECT_EQ(c.first_unexpected_inf, 13);
}

// Of elements that were not recomputed nothing is known, so that they are unexpected.
TEST(ChecksumVerifier, WhatNobodyLookedAtIsUnexpected) {
  TestGemm g({.m = 80, .n = 90, .k = 1}, DType::kF32);
  g.Fill(1);
  for (std::int64_t i = 0; i < 64; ++i) g.Set(g.inputs[0], 0, i, 0, i % 2 == 0 ? kNaN : kInf);
  g.Compute();
  const std::vector<std::int64_t> samples = GemmOp().Samples(g.c, g.plan, *g.c.seed, 1024);
  std::vector<std::int64_t> hidden;
  for (std::int64_t at = 70 * 90 + 50; hidden.size() < 3; ++at) {
    if (!std::binary_search(samples.begin(), samples.end(), at)) hidden.push_back(at);
  }
  g.Set(g.output, 0, hidden[0] / 90, hidden[0] % 90, kNaN);
  g.Set(g.output, 0, hidden[1] / 90, hidden[1] % 90, kInf);
  g.Set(g.output, 0, hidden[2] / 90, hidden[2] % 90, kInf);
  Verifying v(g);
  EXPECT_THAT(Text(v.Verify()), StartsWith("4 unsupported: the inputs hold 64 NaN and infinities"));
  const CompareResult& c = v.f.compared;
  // Of 90 columns, 16 were recomputed.
  EXPECT_EQ(c.unexpected_nan, 32 * (90 - 16) + 1);
  EXPECT_EQ(c.unexpected_inf, 32 * (90 - 16) + 2);
  EXPECT_EQ(c.first_unexpected_nan, c.first_nan);
  EXPECT_EQ(c.first_unexpected_inf, c.first_inf);
  EXPECT_EQ(c.first_nan, 0);
}

TEST(ChecksumVerifier, NothingUnexpectedHasNoPlace) {
  TestGemm g({.m = 4, .n = 5, .k = 1}, DType::kF32);
  g.Fill(1);
  g.Set(g.inputs[0], 0, 1, 0, kNaN);
  g.Set(g.inputs[0], 0, 2, 0, kInf);
  g.Compute();
  Verifying v(g);
  v.Verify();
  EXPECT_EQ(v.f.compared.nan_count, 5);
  EXPECT_EQ(v.f.compared.inf_count, 5);
  EXPECT_EQ(v.f.compared.unexpected_nan, 0);
  EXPECT_EQ(v.f.compared.unexpected_inf, 0);
  EXPECT_EQ(v.f.compared.first_nan, 5);
  EXPECT_EQ(v.f.compared.first_inf, 10);
  EXPECT_EQ(v.f.compared.first_unexpected_nan, -1);
  EXPECT_EQ(v.f.compared.first_unexpected_inf, -1);
}

// ---- what ends a case

TEST(ChecksumVerifier, SaturationIsNotFollowed) {
  const auto end = [](DType t, DType out, double a, double actual, double error,
                      bool disturbed = false) {
    TestGemm g({.m = 8, .n = 8, .k = 1}, t, "normal", out);
    g.Fill(1);
    for (std::int64_t j = 0; j < 8; ++j) g.Set(g.inputs[1], 0, 0, j, 2);
    g.Set(g.inputs[0], 0, 3, 0, a);
    g.Compute();
    for (std::int64_t j = 0; j < 8; ++j) g.Set(g.output, 0, 3, j, actual);
    if (error != 0) g.Set(g.output, 0, 3, 4, error);
    Verifying v(g);
    if (disturbed) v.Disturb({0, 0, 0, 1e4}, {});
    return Text(v.Verify()) + v.f.fault;
  };
  EXPECT_THAT(end(DType::kE4M3FN, DType::kE4M3FN, 224, 448, 0, true), StartsWith("1 row beyond"))
      << "the largest number itself";
  EXPECT_EQ(end(DType::kE4M3FN, DType::kE4M3FN, 448, 448, 0),
            "4 unsupported: some results are beyond e4m3fn's largest number and saturate, which "
            "checksums do not follow; verify in full");
  EXPECT_EQ(end(DType::kE4M3FN, DType::kE4M3FN, 448, 448, -100), "") << "wrong all the same";
  EXPECT_THAT(end(DType::kE4M3FNUZ, DType::kE4M3FNUZ, 120, 240, 0, true),
              StartsWith("1 row beyond"));
  EXPECT_THAT(end(DType::kE4M3FNUZ, DType::kE4M3FNUZ, 240, 240, 0),
              StartsWith("4 unsupported: some results are beyond e4m3fnuz's largest number"));
  EXPECT_EQ(end(DType::kE4M3FNUZ, DType::kE4M3FNUZ, 240, 240, -50), "");
  EXPECT_EQ(end(DType::kF16, DType::kF16, 60000, kInf, 0), "") << "is infinite, and right";
}

// A result beyond the largest number that rounds to it is not told from one that saturates. The
// last number that rounds to it is half a step beyond.
TEST(ChecksumVerifier, WhatRoundsToTheLargestNumberCountsAsSaturated) {
  const auto end = [](DType t, double beyond, double largest) {
    TestGemm g({.m = 8, .n = 8, .k = 2}, t, "normal", t);
    g.Fill(1);
    for (std::int64_t j = 0; j < 8; ++j) {
      g.Set(g.inputs[1], 0, 0, j, 2);
      g.Set(g.inputs[1], 0, 1, j, 1);
    }
    g.Set(g.inputs[0], 0, 3, 0, largest / 2);
    g.Set(g.inputs[0], 0, 3, 1, beyond);
    g.Compute();
    for (std::int64_t j = 0; j < 8; ++j) g.Set(g.output, 0, 3, j, largest);
    Verifying v(g);
    v.Disturb({0, 0, 0, 1e4}, {});
    return Text(v.Verify()) + v.f.fault;
  };
  struct {
    DType format;
    double largest, half_a_step;
  } const formats[] = {{DType::kE4M3FN, 448, 16}, {DType::kE4M3FNUZ, 240, 8}};
  for (const auto& [format, largest, half_a_step] : formats) {
    const std::string saturated =
        Cat("4 unsupported: some results are beyond ", Name(format), "'s largest number");
    EXPECT_THAT(end(format, 0, largest), StartsWith("1 row beyond")) << Name(format);
    for (const double beyond : {half_a_step / 4, half_a_step, 2 * half_a_step}) {
      EXPECT_THAT(end(format, beyond, largest), StartsWith(saturated)) << beyond;
    }
  }
}

TEST(ChecksumVerifier, EndsWithWhatTheDeviceRefuses) {
  TestGemm g({.m = 30, .n = 40, .k = 3}, DType::kF32);
  g.Fill(1);
  g.Compute();
  {
    Verifying v(g);
    v.device.synchronizes = absl::InternalError("lost");
    EXPECT_EQ(Text(v.Verify()), Text(RefusedBy(absl::InternalError("lost"), "reference")));
  }
  g.Add(0, 3, 3, 100);
  {
    Verifying v(g);
    v.device.compares = absl::InternalError("no comparison");
    EXPECT_EQ(Text(v.Verify()), Text(RefusedBy(absl::InternalError("no comparison"), "reference")));
  }
  {
    Verifying v(g);
    v.g.c.problem = GemmProblem{.m = 30, .n = 40, .k = 3, .activation = "relu"};
    EXPECT_EQ(Text(v.Verify()),
              "4 unsupported: checksums verify what is linear: an activation (relu) is not");
  }
  TestGemm large({.m = 64, .n = 200'000, .k = 1}, DType::kI8);
  Verifying v(large);
  EXPECT_THAT(Text(v.Verify()), StartsWith("3 memory: checksums: "));
}

}  // namespace
}  // namespace assay
