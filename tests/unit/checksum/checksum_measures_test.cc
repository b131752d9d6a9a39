// Residuals, thresholds and places that are measured of a product: each held against plain sums
// over the operands, by the formulas of checksum.h.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "kernels/checksum/checksum.h"
#include "kernels/checksum/checksum_probes.h"
#include "kernels/numerics/bound.h"
#include "tests/unit/checksum/checksum_device.h"
#include "tests/unit/checksum/checksum_gemm.h"

namespace assay {
namespace {

using testing::TestGemm;
using Vector = std::vector<double>;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

ChecksumMeasures Measure(const TestGemm& g, bool flushes = false) {
  static Device* const device =
      MakeCpuDevice(0, ArenaOptions{.max_bytes = std::int64_t{64} << 20}).release();
  return MeasureChecksums(g.c, g.plan, *device, g.inputs, g.output, flushes).value();
}

std::size_t Size(std::int64_t n) { return static_cast<std::size_t>(n); }

// One side of a product as plain loops make it. A line is a row of D, or a column, and `across` its
// other coordinate.
class PlainSide {
 public:
  PlainSide(const TestGemm& g, bool columns, int probes, bool flushes)
      : g_(g),
        columns_(columns),
        lines_(columns ? g.p.n : g.p.m),
        length_(columns ? g.p.m : g.p.n),
        probes_(probes),
        rounding_(OutputRoundingOf(g.plan.output.dtype, flushes)),
        epilogue_(MakeGemmEpilogue(g.c, g.plan)),
        signs_(
            RandomSigns(g.c.seed.value_or(1), columns ? 0x63690000 : 0x63680000, probes, length_)) {
    epilogue_.factor = std::abs(epilogue_.factor);
    epilogue_.beta = std::abs(epilogue_.beta);
  }

  ChecksumSide Judge() const {
    ChecksumResiduals side(g_.p.batch, lines_, probes_);
    for (std::int64_t b = 0; b < g_.p.batch; ++b) {
      for (std::int64_t line = 0; line < lines_; ++line) {
        Thresholds(b, line, side);
        for (int p = 0; p < probes_; ++p) side.residual(b, p, line) = Residual(b, p, line);
      }
    }
    return side.Judge();
  }

 private:
  std::int64_t Row(std::int64_t line, std::int64_t across) const {
    return columns_ ? across : line;
  }
  std::int64_t Column(std::int64_t line, std::int64_t across) const {
    return columns_ ? line : across;
  }

  double Residual(std::int64_t b, int p, std::int64_t line) const {
    double sum = 0;
    for (std::int64_t at = 0; at < length_; ++at) {
      const std::int64_t i = Row(line, at), j = Column(line, at);
      sum += signs_[Size(p * length_ + at)] * (g_.D(b, i, j) - g_.Right(b, i, j));
    }
    return sum;
  }

  // ‖B_k‖ of a row of B, or of a column of A.
  double OtherNorm(std::int64_t b, std::int64_t k) const {
    double squares = 0;
    for (std::int64_t at = 0; at < length_; ++at) {
      const double v = columns_ ? g_.A(b, at, k) : g_.B(b, k, at);
      squares += v * v;
    }
    return std::sqrt(squares);
  }

  void Thresholds(std::int64_t b, std::int64_t line, ChecksumResiduals& side) const {
    double product = 0, out = 0, addend = 0, scale = 0, bias = 0;
    for (std::int64_t k = 0; k < g_.p.k; ++k) {
      product += std::abs(columns_ ? g_.B(b, k, line) : g_.A(b, line, k)) * OtherNorm(b, k);
    }
    for (std::int64_t at = 0; at < length_; ++at) {
      const std::int64_t i = Row(line, at), j = Column(line, at);
      out += g_.D(b, i, j) * g_.D(b, i, j);
      addend += g_.C(b, i, j) * g_.C(b, i, j);
      bias += g_.Bias(j) * g_.Bias(j);
      scale = std::max(scale, std::abs(g_.Scale(j)));
    }
    out = std::sqrt(out), addend = std::sqrt(addend), bias = std::sqrt(bias);
    const double root = std::sqrt(static_cast<double>(length_));
    const double rounding = rounding_.u * out + root * rounding_.half_quantum;
    const double e = epilogue_.Allowance(product, product, addend, scale, bias) +
                     (root - 1) * epilogue_.Allowance(0, 0, 0, scale, 0);
    const double own = 8 * 0x1p-53 * (root + 8 * std::sqrt(static_cast<double>(g_.p.k))) *
                       (epilogue_.factor * scale * product + epilogue_.beta * addend + bias + out);
    side.SetThreshold(
        b, line, 8 * (rounding + (g_.plan.zero_mean_random ? e : g_.plan.proven_factor * e)) + own,
        0.25 * rounding + own / 8);
  }

  const TestGemm& g_;
  const bool columns_;
  const std::int64_t lines_, length_;
  const int probes_;
  const OutputRounding rounding_;
  GemmEpilogue epilogue_;
  const Vector signs_;
};

void ExpectRatio(double is, double should, double within) {
  if (is == should) return;
  EXPECT_LE(std::abs(is - should), within * std::abs(should)) << is << " for " << should;
}

// Residuals are sums in another order; thresholds are the same formula.
void ExpectSides(const TestGemm& g, bool flushes = false) {
  const int probes = g.c.checksum_probes > 0 ? g.c.checksum_probes : kDefaultChecksumProbes;
  const ChecksumMeasures m = Measure(g, flushes);
  EXPECT_EQ(m.probes, probes);
  EXPECT_FALSE(m.exact);
  for (const bool columns : {false, true}) {
    SCOPED_TRACE(columns ? "columns" : "rows");
    const ChecksumSide plain = PlainSide(g, columns, probes, flushes).Judge();
    const ChecksumSide& side = columns ? m.columns : m.rows;
    EXPECT_EQ(side.beyond, plain.beyond);
    ExpectRatio(side.max_ratio, plain.max_ratio, 1e-9);
    ASSERT_EQ(side.lines.size(), plain.lines.size());
    ASSERT_FALSE(side.lines.empty());
    for (const ChecksumLine& should : plain.lines) {
      const auto is = std::find_if(side.lines.begin(), side.lines.end(), [&](const auto& line) {
        return line.batch == should.batch && line.index == should.index;
      });
      ASSERT_NE(is, side.lines.end()) << should.batch << " " << should.index;
      ExpectRatio(is->threshold, should.threshold, 1e-12);
      ExpectRatio(is->deviation, should.deviation, 1e-9);
      // A line that is the median along two probes has the same deviation along both.
      if (std::abs(should.deviation * 6 * 1.4826 - 1) < 1e-6) continue;
      ExpectRatio(is->residual, should.residual, 1e-9);
    }
  }
}

// Every element of D is far off, so that every line is flagged.
void SpoilAll(TestGemm& g, double scale) {
  for (std::int64_t i = 0; i < g.p.batch * g.p.m; ++i) {
    for (std::int64_t j = 0; j < g.p.n; ++j) {
      const auto at = static_cast<double>(i * g.p.n + j);
      g.Set(g.output, i / g.p.m, i % g.p.m, j, scale * (2 + std::sin(at * at)));
    }
  }
}

TEST(ChecksumMeasures, AreThoseOfTheFormulas) {
  const GemmProblem everything{.m = 7,
                               .n = 5,
                               .k = 6,
                               .batch = 2,
                               .trans_a = true,
                               .alpha = -0.75,
                               .beta = -0.5,
                               .scale_a = 0.5,
                               .channel_scale = true,
                               .bias = true};
  const GemmProblem padded{.m = 4,
                           .n = 9,
                           .k = 3,
                           .batch = 3,
                           .trans_b = true,
                           .beta = 1.0,
                           .lda = 5,
                           .ldb = 6,
                           .ldc = 11};
  const GemmProblem shifted{.m = 6, .n = 7, .k = 4, .bias = true};
  for (const DType t : {DType::kF64, DType::kF32, DType::kBF16}) {
    for (const char* const pattern : {"normal", "uniform:0:1"}) {
      for (const GemmProblem& p :
           {GemmProblem{.m = 8, .n = 11, .k = 80}, everything, padded, shifted}) {
        SCOPED_TRACE(std::string(Name(t)) + " " + pattern + " " + p.Describe());
        TestGemm g(p, t, pattern);
        EXPECT_EQ(g.plan.zero_mean_random, pattern[0] == 'n');
        g.Fill(0.5);
        SpoilAll(g, 1000);
        ExpectSides(g);
        ExpectSides(g, /*flushes=*/true);
      }
    }
  }
}

TEST(ChecksumMeasures, UseAsManyProbesAsTheCaseSays) {
  TestGemm g({.m = 8, .n = 3, .k = 5, .batch = 2}, DType::kF32);
  g.Fill(1);
  SpoilAll(g, 1000);
  for (const int probes : {1, 7}) {
    g.c.checksum_probes = probes;
    ExpectSides(g);
  }
  g.c.seed.reset();
  ExpectSides(g);
}

// Beside numbers as small as these the quanta of the accumulator and of the output decide.
TEST(ChecksumMeasures, CountUnderflowOfEveryElement) {
  for (const bool scaled : {false, true}) {
    TestGemm g({.m = 3, .n = 50, .k = 4, .channel_scale = scaled}, DType::kF32);
    if (scaled) {
      for (std::int64_t j = 0; j < g.p.n; ++j) g.Set(g.inputs[2], 0, 0, j, 1.5);
    }
    SpoilAll(g, 0x1p-125);
    ExpectSides(g);
  }
}

// Where the noise of all others is less than a rounding, the rounding decides.
TEST(ChecksumMeasures, ScreenByTheRoundingOfTheOutputAtLeast) {
  for (const DType t : {DType::kF64, DType::kF32}) {
    TestGemm g({.m = 9, .n = 8, .k = 5}, t);
    g.Fill(1);
    // Rows of B, whose sums are the same.
    for (std::int64_t i = 0; i < g.p.m; ++i) {
      for (std::int64_t k = 0; i != 2 && k < g.p.k; ++k) g.Set(g.inputs[0], 0, i, k, k == 0);
    }
    g.Compute();
    g.Add(0, 2, 3, t == DType::kF64 ? 1e-11 : 3e-6);
    const ChecksumMeasures m = Measure(g);
    ASSERT_EQ(m.rows.lines.size(), 1u);
    const ChecksumSide plain = PlainSide(g, false, 4, false).Judge();
    ASSERT_EQ(plain.lines.size(), 1u);
    ExpectRatio(m.rows.lines[0].deviation, plain.lines[0].deviation, 1e-2);
  }
}

// ---- which sums are exact

bool IsExact(TestGemm& g) { return Measure(g).exact; }

// [1, 1, 1]: a·b.
bool IsExactProduct(DType t, double a, double b, DType out = DType::kUnspecified,
                    double roundoff = 0) {
  TestGemm g({.m = 1, .n = 1, .k = 1}, t, "ones", out);
  g.Set(g.inputs[0], 0, 0, 0, a);
  g.Set(g.inputs[1], 0, 0, 0, b);
  if (roundoff > 0) g.plan.accumulator.roundoff = roundoff;
  g.Compute();
  return IsExact(g);
}

TEST(ChecksumMeasures, WholeProductsAreExactUpToWhatAllFormatsHold) {
  EXPECT_TRUE(IsExactProduct(DType::kF32, 0x1p12, 0x1p12));
  EXPECT_FALSE(IsExactProduct(DType::kF32, 0x1p12, 0x1p13));
  EXPECT_TRUE(IsExactProduct(DType::kF64, 0x1p26, 0x1p26));
  EXPECT_FALSE(IsExactProduct(DType::kF64, 0x1p26, 0x1p27)) << "the checksums' own sums";
  EXPECT_TRUE(IsExactProduct(DType::kF16, 32, 64));
  EXPECT_FALSE(IsExactProduct(DType::kF16, 64, 64)) << "the output's";
  EXPECT_TRUE(IsExactProduct(DType::kBF16, 0x1p12, 0x1p12, DType::kF32));
  EXPECT_TRUE(IsExactProduct(DType::kE4M3FN, 4, 4, DType::kE4M3FN));
  EXPECT_FALSE(IsExactProduct(DType::kE4M3FN, 4, 8, DType::kE4M3FN));
  EXPECT_TRUE(IsExactProduct(DType::kE4M3FN, 64, 128, DType::kF32, 0x1p-13));
  EXPECT_FALSE(IsExactProduct(DType::kE4M3FN, 128, 128, DType::kF32, 0x1p-13)) << "14 bits";
  EXPECT_TRUE(IsExactProduct(DType::kE4M3FN, 128, 128, DType::kF32));
}

// Sums of integers are exact if the checksums' own are. Of larger magnitude than such a case has.
TEST(ChecksumMeasures, SumsOfIntegersAreExactUpToTheChecksumsOwn) {
  const auto exact = [](std::int64_t m, std::int64_t n, double b, double c) {
    TestGemm g({.m = m, .n = n, .k = 1, .beta = c != 0 ? 1.0 : 0.0}, DType::kF64, "normal");
    g.plan.exact = true;
    g.plan.output.dtype = DType::kI32;
    for (std::int64_t i = 0; i < m; ++i) {
      g.Set(g.inputs[0], 0, i, 0, n > 1 ? 1 : b);
      for (std::int64_t j = 0; j < n; ++j) {
        g.Set(g.inputs[1], 0, 0, j, n > 1 ? b : 1);
        if (c != 0) g.Set(g.inputs[2], 0, i, j, c);
      }
    }
    return IsExact(g);
  };
  EXPECT_TRUE(exact(1, 1, 0x1p52, 0));
  EXPECT_FALSE(exact(1, 1, 0x1p53, 0));
  EXPECT_TRUE(exact(1, 1, 1, 0x1p52));
  EXPECT_FALSE(exact(1, 1, 0x1p52, 0x1p52));
  for (const auto& [m, n] : {std::pair<std::int64_t, std::int64_t>{1, 4}, {4, 1}}) {
    EXPECT_TRUE(exact(m, n, 0x1p50, 0)) << m;   // twice the norm 2^51
    EXPECT_FALSE(exact(m, n, 0x1p51, 0)) << m;  // twice the norm 2^52
    EXPECT_TRUE(exact(m, n, 1, 0x1p50)) << m;
    EXPECT_FALSE(exact(m, n, 1, 0x1p51)) << m;
  }
}

TEST(ChecksumMeasures, OnlyWholeNumbersOfPlainProductsAreExact) {
  const auto exact = [](auto change, double alpha = 1, DType out = DType::kF32) {
    TestGemm g({.m = 2, .n = 2, .k = 2, .alpha = alpha}, DType::kF32, "integers");
    g.plan.output.dtype = out;
    change(g.plan);
    return IsExact(g);
  };
  const auto pattern = [](PatternKind kind, double a = 1, double b = 0) {
    return Pattern{kind, a, b};
  };
  EXPECT_TRUE(exact([](Plan&) {}));
  EXPECT_FALSE(exact([](Plan&) {}, 2.0));
  EXPECT_FALSE(exact([](Plan& plan) { plan.operand_roundoff = 0x1p-16; }));
  for (const PatternKind kind :
       {PatternKind::kZeros, PatternKind::kOnes, PatternKind::kDiagonal, PatternKind::kCheckerboard,
        PatternKind::kBernoulli, PatternKind::kExactSparse, PatternKind::kExactInts}) {
    EXPECT_TRUE(exact([&](Plan& plan) { plan.inputs[0].pattern = pattern(kind); }));
  }
  for (const PatternKind kind :
       {PatternKind::kConstant, PatternKind::kOneHot, PatternKind::kOneLarge}) {
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_TRUE(exact([&](Plan& plan) { plan.inputs[i].pattern = pattern(kind, 2, 3); }));
      EXPECT_FALSE(exact([&](Plan& plan) { plan.inputs[i].pattern = pattern(kind, 0.5, 3); }));
      EXPECT_FALSE(exact([&](Plan& plan) { plan.inputs[i].pattern = pattern(kind, 2, 0.5); }));
    }
  }
  const auto normal = [](std::size_t i) {
    return [i](Plan& plan) { plan.inputs[i].pattern.kind = PatternKind::kNormal; };
  };
  EXPECT_FALSE(exact(normal(0)));
  EXPECT_FALSE(exact(normal(1)));
  // An integer output alone does not make a sum exact, nor does an exact plan.
  EXPECT_FALSE(exact(normal(0), 1, DType::kI32));
  EXPECT_FALSE(exact([&](Plan& plan) {
    normal(0)(plan);
    plan.exact = true;
  }));
  EXPECT_TRUE(exact([&](Plan& plan) {
    normal(0)(plan);
    plan.exact = true;
    plan.output.dtype = DType::kI32;
  }));
  // An integer output holds every whole number up to its largest.
  TestGemm integers({.m = 1, .n = 1, .k = 1}, DType::kI8, "ones");
  integers.plan.exact = false;
  integers.Set(integers.inputs[0], 0, 0, 0, 100);
  integers.Set(integers.inputs[1], 0, 0, 0, 100);
  integers.Compute();
  EXPECT_TRUE(IsExact(integers));
}

TEST(ChecksumMeasures, ExactResidualsHaveNoThreshold) {
  TestGemm g({.m = 40, .n = 30, .k = 20, .batch = 2}, DType::kI8);
  g.Fill(1);
  g.Compute();
  ChecksumMeasures m = Measure(g);
  EXPECT_TRUE(m.exact);
  EXPECT_TRUE(m.rows.lines.empty());
  EXPECT_TRUE(m.columns.lines.empty());
  g.Add(1, 17, 23, 1);
  m = Measure(g);
  EXPECT_EQ(m.rows.beyond, 1);
  EXPECT_EQ(m.columns.beyond, 1);
  EXPECT_EQ(m.rows.max_ratio, kInf);
  EXPECT_EQ(m.located, (std::vector<std::int64_t>{1, 17, 23}));
}

// ---- where row and column meet

// Errors of two elements in each of `pairs` rows, or columns, and a smaller one of one element at
// [20, 40], or [40, 20].
std::vector<std::int64_t> Meeting(int pairs, bool columns, double scale) {
  TestGemm g({.m = 64, .n = 64, .k = 8}, DType::kF32);
  g.c.checksum_probes = 8;
  g.Fill(std::sqrt(scale));
  g.Compute();
  const auto add = [&](std::int64_t line, std::int64_t across, double error) {
    columns ? g.Add(0, across, line, error * scale) : g.Add(0, line, across, error * scale);
  };
  for (int i = 0; i < pairs; ++i) {
    add(i, 3, 100 + 10 * i);
    add(i, 5, 100 + 10 * i);
  }
  add(20, 40, 50);
  return Measure(g).located;
}

TEST(ChecksumMeasures, MeetInTheElementAmongTheEightWorst) {
  for (const double scale : {1.0, 0x1p-40}) {
    EXPECT_EQ(Meeting(7, false, scale), (std::vector<std::int64_t>{20, 40}));
    EXPECT_EQ(Meeting(7, true, scale), (std::vector<std::int64_t>{40, 20}));
    EXPECT_EQ(Meeting(8, false, scale), std::vector<std::int64_t>());
    EXPECT_EQ(Meeting(8, true, scale), std::vector<std::int64_t>());
  }
}

// The noise of a long line is not that of a short one.
TEST(ChecksumMeasures, MeetAcrossLinesOfOtherLengths) {
  for (const auto& [m, n] : {std::pair<std::int64_t, std::int64_t>{4, 3000}, {3000, 4}}) {
    for (std::int64_t place = 0; place < 4; ++place) {
      TestGemm g({.m = m, .n = n, .k = 2}, DType::kF32);
      g.c.checksum_probes = 8;
      g.Fill(1);
      g.Compute();
      const std::vector<std::int64_t> at = {place * (m - 1) / 3, place * (n - 1) / 3};
      g.Add(0, at[0], at[1], 1.0 / 64);
      EXPECT_EQ(Measure(g).located, at);
    }
  }
}

// With one probe, too: the largest errors of a row and of a column are not those of one element.
TEST(ChecksumMeasures, MeetAlongTheOnlyProbe) {
  TestGemm g({.m = 32, .n = 32, .k = 8}, DType::kF32);
  g.c.checksum_probes = 1;
  g.Fill(1);
  g.Compute();
  const Vector w = RandomSigns(*g.c.seed, 0x63690000, 1, 32);
  std::int64_t other = 10;  // errs in its column as row 9 does
  while (w[Size(other)] != w[9]) ++other;
  g.Add(0, 5, 6, 100);
  g.Add(0, 9, 11, 80);
  g.Add(0, other, 11, 80);
  EXPECT_EQ(Measure(g).located, (std::vector<std::int64_t>{5, 6}));
}

TEST(ChecksumMeasures, HandOnWhatTheDeviceSays) {
  TestGemm g({.m = 8, .n = 9, .k = 4, .channel_scale = true, .bias = true}, DType::kF32);
  g.Fill(1);
  g.Compute();
  for (const std::size_t operand : {2u, 3u}) {
    testing::ChecksumDevice device;
    device.lost = g.inputs[operand].data;
    EXPECT_EQ(MeasureChecksums(g.c, g.plan, device, g.inputs, g.output, false).status(),
              absl::InternalError("lost"));
  }
}

TEST(ChecksumMeasures, MeetInOneMatrixOnly) {
  TestGemm g({.m = 32, .n = 32, .k = 8, .batch = 2}, DType::kF32);
  g.c.checksum_probes = 8;
  g.Fill(1);
  g.Compute();
  g.Add(0, 5, 3, 200);
  g.Add(0, 5, 7, 200);
  g.Add(1, 9, 11, 100);
  EXPECT_EQ(Measure(g).located, (std::vector<std::int64_t>{1, 9, 11}));
  // A row of the first matrix and a column of the second would meet, but not in one matrix.
  TestGemm h({.m = 32, .n = 32, .k = 8, .batch = 2}, DType::kF32);
  h.c.checksum_probes = 8;
  h.Fill(1);
  h.Compute();
  h.Add(0, 5, 3, 100);
  h.Add(0, 8, 3, 100);
  h.Add(1, 5, 3, 100);
  h.Add(1, 5, 9, 100);
  EXPECT_TRUE(Measure(h).located.empty());
}

TEST(ChecksumMeasures, MeetNowhereInNaN) {
  TestGemm g({.m = 16, .n = 16, .k = 8}, DType::kF32);
  g.Fill(1);
  g.Compute();
  g.Set(g.output, 0, 3, 4, kNaN);
  const ChecksumMeasures m = Measure(g);
  EXPECT_TRUE(m.located.empty());
  ASSERT_EQ(m.rows.lines.size(), 1u);
  EXPECT_EQ(m.rows.lines[0].index, 3);
  ASSERT_EQ(m.columns.lines.size(), 1u);
  EXPECT_EQ(m.columns.lines[0].index, 4);
}

// ---- counts

TEST(ChecksumMeasures, CountTheOutputAndKeepNoVectors) {
  TestGemm g({.m = 6, .n = 7, .k = 8}, DType::kF32);
  g.Fill(1);
  g.Compute();
  g.Set(g.output, 0, 1, 2, kNaN);
  g.Set(g.output, 0, 2, 2, kInf);
  g.Set(g.output, 0, 3, 0, 0);
  g.Set(g.output, 0, 3, 1, 0);
  const ChecksumMeasures m = Measure(g);
  EXPECT_EQ(m.output.nan_count, 1);
  EXPECT_EQ(m.output.inf_count, 1);
  EXPECT_EQ(m.output.zero_count, 2);
  EXPECT_EQ(m.output.first_nan, 9);
  EXPECT_EQ(m.output.first_inf, 16);
  EXPECT_TRUE(m.output.row_products.empty());
  EXPECT_TRUE(m.output.col_products.empty());
  EXPECT_TRUE(m.output.row_squares.empty());
  EXPECT_TRUE(m.output.col_squares.empty());
  EXPECT_EQ(m.input_non_finite, 0);
}

TEST(ChecksumMeasures, CountWhatIsNotFiniteInTheMatrices) {
  for (const bool addend : {false, true}) {
    TestGemm g({.m = 6, .n = 7, .k = 8, .beta = addend ? 1.0 : 0.0, .bias = true}, DType::kF32);
    g.Fill(1);
    g.Compute();
    EXPECT_EQ(Measure(g).input_non_finite, 0);
    if (addend) {
      g.Set(g.inputs[2], 0, 1, 1, kNaN);
      EXPECT_EQ(Measure(g).input_non_finite, 1) << "of C alone";
      g.Set(g.inputs[2], 0, 1, 1, 1);
    }
    g.Set(g.inputs[1], 0, 1, 1, kInf);
    EXPECT_EQ(Measure(g).input_non_finite, 1) << "of B alone";
    g.Set(g.inputs[0], 0, 1, 1, kInf);
    g.Set(g.inputs[0], 0, 2, 1, kNaN);
    g.Set(g.inputs[0], 0, 3, 1, kNaN);
    g.Set(g.inputs.back(), 0, 0, 1, kNaN);  // the bias is no matrix
    EXPECT_EQ(Measure(g).input_non_finite, 4);
    EXPECT_FALSE(Measure(g).exact);
    if (addend) {
      g.Set(g.inputs[2], 0, 1, 1, -kInf);
      EXPECT_EQ(Measure(g).input_non_finite, 5);
    }
  }
}

TEST(ChecksumMeasures, OperandsThatAreNotFiniteAreNotExact) {
  TestGemm g({.m = 2, .n = 2, .k = 2}, DType::kF32, "ones");
  g.Fill(1);
  g.Set(g.inputs[0], 0, 0, 0, kNaN);
  g.Compute();
  const ChecksumMeasures m = Measure(g);
  EXPECT_FALSE(m.exact);
  ASSERT_FALSE(m.rows.lines.empty());
  EXPECT_TRUE(std::isnan(m.rows.lines[0].threshold));
}

// ---- refusals

TEST(ChecksumRefusal, SaysWhy) {
  TestGemm g({.m = 4, .n = 6, .k = 8}, DType::kE2M1);
  EXPECT_EQ(ChecksumRefusal(g.c, g.plan), "");
  Case other = g.c;
  other.problem = SoftmaxProblem{};
  EXPECT_EQ(ChecksumRefusal(other, g.plan), "checksums verify gemm only");
  std::get<GemmProblem>(other.problem = g.c.problem).activation = "gelu";
  EXPECT_EQ(ChecksumRefusal(other, g.plan),
            "checksums verify what is linear: an activation (gelu) is not");
  for (const DType out : {DType::kE5M2, DType::kE5M2FNUZ, DType::kE2M1}) {
    Plan plan = g.plan;
    plan.output.dtype = out;
    EXPECT_EQ(ChecksumRefusal(g.c, plan), "checksums see nothing through the roundings of " +
                                              std::string(Name(out)) + " outputs");
  }
  Plan subnormal = g.plan;
  subnormal.inputs[1].pattern.kind = PatternKind::kDenormal;
  EXPECT_EQ(ChecksumRefusal(g.c, subnormal),
            "checksums cannot tell a subnormal of b that was flushed from a fault");
}

TEST(ChecksumRefusal, NeedsWholeBytesOfE2m1) {
  TestGemm g({.m = 4, .n = 6, .k = 8}, DType::kE2M1);
  const auto refusal = [&](std::size_t i, std::int64_t ld, std::int64_t stride, DType t) {
    Plan plan = g.plan;
    plan.inputs[i].extents.ld = ld;
    plan.inputs[i].extents.batch_stride = stride;
    plan.inputs[i].dtype = t;
    return ChecksumRefusal(g.c, plan);
  };
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(refusal(i, 10, 44, DType::kE2M1), "");
    EXPECT_EQ(refusal(i, 8, 40, DType::kE2M1), "");
    EXPECT_EQ(refusal(i, 9, 44, DType::kE2M1),
              std::string("checksums need even leading dimensions and strides of e2m1 operands; ") +
                  (i == 0 ? "a" : "b") + " has 9 and 44");
    EXPECT_NE(refusal(i, 10, 45, DType::kE2M1), "");
    EXPECT_EQ(refusal(i, 9, 45, DType::kE4M3FN), "");
  }
}

}  // namespace
}  // namespace assay
