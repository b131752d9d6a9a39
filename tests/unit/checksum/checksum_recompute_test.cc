// Lines of a product that are recomputed: each is compared with its own reference, and the host
// finds a device whose reference is wrong.
#include "kernels/checksum/checksum_recompute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "kernels/numerics/poison.h"
#include "kernels/text/cat.h"
#include "tests/unit/checksum/checksum_device.h"
#include "tests/unit/checksum/checksum_gemm.h"

namespace assay {
namespace {

using testing::ChecksumDevice;
using ::testing::HasSubstr;
using testing::TestGemm;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// A product and room to recompute its lines.
struct Lines {
  explicit Lines(TestGemm& gemm) : g(gemm), lines(gemm.c, GemmOp(), gemm.plan, device) {
    EXPECT_TRUE(lines.Reserve().ok());
  }
  CompareResult Compare(std::vector<LineId> ids, bool columns) {
    CompareRequest request;
    request.exact = g.plan.exact;
    request.proven_factor = g.plan.proven_factor;
    return lines.Compare(std::move(ids), columns, g.inputs, g.output, request).value();
  }
  std::string Recheck(const CompareResult& compared) {
    return lines.RecheckOnHost(g, compared, /*flushes=*/false).value();
  }
  TestGemm& g;
  ChecksumDevice device;
  LineRecompute lines;
};

struct Shaped {
  GemmProblem p;
  DType dtype;
  DType out = DType::kUnspecified;
};

std::vector<Shaped> Products() {
  const GemmProblem everything{.m = 9,
                               .n = 11,
                               .k = 5,
                               .batch = 3,
                               .trans_a = true,
                               .trans_b = true,
                               .alpha = 0.5,
                               .beta = 2.0,
                               .channel_scale = true,
                               .bias = true};
  return {
      {{.m = 9, .n = 11, .k = 5}, DType::kF32},
      {{.m = 9, .n = 11, .k = 6, .batch = 3, .trans_a = true}, DType::kF64},
      {{.m = 9,
        .n = 11,
        .k = 5,
        .batch = 2,
        .trans_b = true,
        .lda = 7,
        .ldb = 8,
        .ldc = 12,
        .stride_a = 77,
        .stride_b = 97,
        .stride_c = 131},
       DType::kF16},
      {{.m = 9, .n = 11, .k = 5, .batch = 2, .beta = 1.0, .ldc = 13}, DType::kBF16},
      {everything, DType::kF32},
      {everything, DType::kF64},
      {{.m = 9, .n = 11, .k = 5, .batch = 3}, DType::kI8},
      {{.m = 9, .n = 11, .k = 5, .batch = 2, .bias = true}, DType::kE4M3FN, DType::kE4M3FN},
      {{.m = 9, .n = 11, .k = 5, .batch = 2, .lda = 6, .ldb = 12}, DType::kE2M1},
      {{.m = 9, .n = 11, .k = 5, .trans_a = true, .trans_b = true, .lda = 10, .ldb = 6},
       DType::kE2M1},
      {{.m = 9, .n = 10, .k = 1, .trans_b = true, .lda = 2, .ldb = 2}, DType::kE2M1},
  };
}

// Two e2m1 elements share a byte: lines across the rows come in pairs.
bool InPairs(const TestGemm& g, bool columns) {
  return g.c.dtype == DType::kE2M1 && (columns ? !g.p.trans_b : g.p.trans_a);
}

TEST(LineRecompute, ComparesEveryLineWithItsReference) {
  for (const Shaped& s : Products()) {
    for (const bool columns : {false, true}) {
      SCOPED_TRACE(std::string(Name(s.dtype)) + " " + s.p.Describe() + (columns ? " columns" : ""));
      TestGemm g(s.p, s.dtype, "", s.out);
      g.Fill(0.5);
      g.Compute();
      Lines recompute(g);
      const std::int64_t extent = columns ? s.p.n : s.p.m, length = columns ? s.p.m : s.p.n;
      const std::int64_t last = s.p.batch - 1;
      // Neighbours, lines alone, both ends; not sorted, and some twice.
      const std::vector<LineId> ids = {
          {last, extent - 1}, {0, 4}, {0, 0}, {last, 3}, {0, 5}, {last, 7}, {0, 4},
          {last, extent - 1}};
      std::set<LineId> all(ids.begin(), ids.end());
      for (const LineId& id : ids) {
        const LineId other{id.batch, id.index ^ 1};
        if (InPairs(g, columns) && other.index < extent) all.insert(other);
      }
      // The second time is like the first.
      for (int run = 0; run < 2; ++run) {
        const CompareResult right = recompute.Compare(ids, columns);
        EXPECT_EQ(right.count, static_cast<std::int64_t>(all.size()) * length);
        EXPECT_EQ(right.mismatches, 0);
        EXPECT_EQ(right.digest_raw[0], 0u);
        EXPECT_EQ(recompute.Recheck(right), "");
      }
      for (const LineId& id : all) {
        for (const std::int64_t across : {std::int64_t{0}, length - 1}) {
          const std::int64_t i = columns ? across : id.index, j = columns ? id.index : across;
          const double before = g.D(id.batch, i, j);
          g.Set(g.output, id.batch, i, j, before > 0 ? before - 4 : before + 4);
          const CompareResult wrong = recompute.Compare(ids, columns);
          const std::int64_t index = (id.batch * s.p.m + i) * s.p.n + j;
          EXPECT_EQ(wrong.mismatches, 1);
          EXPECT_EQ(wrong.worst.index, index);
          ASSERT_EQ(wrong.samples.size(), 1u);
          EXPECT_EQ(wrong.samples[0].index, index);
          EXPECT_EQ(recompute.Recheck(wrong), "");
          g.Set(g.output, id.batch, i, j, before);
        }
      }
    }
  }
}

// Gathered lines are a gemm of their own, and everything says so.
TEST(LineRecompute, HandsTheOperatorASmallerGemm) {
  TestGemm g(
      {.m = 9, .n = 11, .k = 5, .batch = 3, .beta = 2.0, .channel_scale = true, .bias = true},
      DType::kF32);
  g.Fill(1);
  Lines recompute(g);
  const auto expect = [](const Extents& is, const Extents& should) {
    EXPECT_EQ(is.batch, should.batch);
    EXPECT_EQ(is.rows, should.rows);
    EXPECT_EQ(is.cols, should.cols);
    EXPECT_EQ(is.ld, should.ld);
    EXPECT_EQ(is.batch_stride, should.batch_stride);
  };
  for (const bool columns : {false, true}) {
    recompute.device.referenced.clear();
    recompute.Compare({{1, 2}, {1, 4}, {1, 7}, {2, 0}}, columns);
    ASSERT_EQ(recompute.device.referenced.size(), 2u);
    const ChecksumDevice::Referenced& r = recompute.device.referenced[0];
    const auto& p = std::get<GemmProblem>(r.c.problem);
    const std::int64_t m = columns ? 9 : 3, n = columns ? 3 : 11;
    EXPECT_EQ(p.batch, 1);
    EXPECT_EQ(p.m, m);
    EXPECT_EQ(p.n, n);
    EXPECT_EQ(p.k, 5);
    expect(r.plan.output.extents, Extents::Dense(1, m, n));
    EXPECT_EQ(r.plan.output.dims, (std::vector<std::int64_t>{m, n}));
    ASSERT_EQ(r.inputs.size(), 5u);
    for (std::size_t i = 0; i < 5; ++i) expect(r.plan.inputs[i].extents, r.inputs[i].extents);
    expect(r.inputs[0].extents, columns ? Extents{1, 9, 5, 5, 45} : Extents{1, 3, 5, 6, 18});
    expect(r.inputs[1].extents, columns ? Extents{1, 5, 3, 4, 20} : Extents{1, 5, 11, 11, 55});
    expect(r.inputs[2].extents, Extents::Dense(1, m, n));
    expect(r.inputs[3].extents, Extents::Dense(1, 1, n));
    expect(r.inputs[4].extents, Extents::Dense(1, 1, n));
    const auto* scales = r.inputs[3].as<unsigned char>();
    if (columns) {
      EXPECT_EQ(r.inputs[4].data, scales + 3 * 8) << "one behind the other";
    }
  }
}

// A comparison knows nothing of the one before it.
TEST(LineRecompute, BeginsAgainWithEveryComparison) {
  TestGemm g({.m = 6, .n = 7, .k = 3, .batch = 2}, DType::kF32);
  g.Fill(1);
  g.Compute();
  g.Add(0, 4, 3, 10);
  Lines recompute(g);
  EXPECT_EQ(recompute.Compare({{0, 1}, {1, 2}}, false).mismatches, 0);
  EXPECT_EQ(recompute.Compare({{0, 4}}, false).worst.index, 4 * 7 + 3);
}

TEST(LineRecompute, LeavesOutWhatIsTooMuch) {
  TestGemm g({.m = 150, .n = 140, .k = 3}, DType::kF32);
  g.Fill(1);
  g.Compute();
  Lines recompute(g);
  const auto lines = [](std::int64_t count, std::int64_t step) {
    std::vector<LineId> ids;
    for (std::int64_t i = 1; i <= count; ++i) ids.push_back({0, step * i});
    return ids;
  };
  EXPECT_EQ(recompute.Compare(lines(64, 2), false).count, 64 * 140);
  EXPECT_EQ(recompute.Compare(lines(65, 2), false).count, 64 * 140);
  EXPECT_EQ(recompute.Compare(lines(16, 2), true).count, 16 * 150);
  EXPECT_EQ(recompute.Compare(lines(17, 2), true).count, 16 * 150);
  EXPECT_EQ(recompute.Compare(lines(63, 2), false).count, 63 * 140);
  // In pairs half as many are enough.
  TestGemm pairs({.m = 150, .n = 140, .k = 3, .trans_a = true}, DType::kE2M1);
  pairs.Fill(1);
  pairs.Compute();
  Lines other(pairs);
  EXPECT_EQ(other.Compare(lines(32, 2), false).count, 64 * 140);
  EXPECT_EQ(other.Compare(lines(40, 2), false).count, 64 * 140);
  EXPECT_EQ(other.Compare(lines(10, 2), true).count, 16 * 150);
  EXPECT_EQ(other.Compare(lines(31, 2), false).count, 62 * 140);
}

TEST(LineRecompute, NamesThePlacesOfTheOutput) {
  TestGemm g({.m = 6, .n = 7, .k = 3, .batch = 2}, DType::kF32);
  g.Fill(1);
  g.Compute();
  Lines recompute(g);
  const auto index = [](std::int64_t b, std::int64_t i, std::int64_t j) {
    return (b * 6 + i) * 7 + j;
  };
  CompareResult none = recompute.Compare({{1, 2}, {1, 4}}, false);
  EXPECT_EQ(none.first_nan, -1);
  EXPECT_EQ(none.first_unwritten, -1);
  g.Set(g.output, 1, 2, 0, kNaN);  // the first element that is recomputed
  g.Set(g.output, 1, 2, 3, kInf);
  StoreBits(DType::kF32, g.output.data, g.At(g.output, 1, 4, 1),
            PoisonBits(DType::kF32, Poison::kFirst));
  const CompareResult c = recompute.Compare({{1, 4}, {1, 2}}, false);
  EXPECT_EQ(c.worst.index, index(1, 2, 0));
  EXPECT_EQ(c.first_nan, index(1, 2, 0));
  EXPECT_EQ(c.first_unexpected_nan, index(1, 2, 0));
  EXPECT_EQ(c.first_inf, index(1, 2, 3));
  EXPECT_EQ(c.first_unexpected_inf, index(1, 2, 3));
  EXPECT_EQ(c.first_unwritten, index(1, 4, 1));
  ASSERT_EQ(c.samples.size(), 3u);
  EXPECT_EQ(c.samples[2].index, index(1, 4, 1));
  const CompareResult by_columns = recompute.Compare({{1, 3}, {0, 5}, {1, 1}}, true);
  EXPECT_EQ(by_columns.first_inf, index(1, 2, 3));
  EXPECT_EQ(by_columns.first_unwritten, index(1, 4, 1));
}

// Both digests are left out, as the elements lie in another order.
TEST(LineRecompute, TakesRoomForItsLinesAlone) {
  const auto room = [](const GemmProblem& p, DType dtype) {
    TestGemm g(p, dtype);
    Lines recompute(g);
    std::vector<std::int64_t> bytes;
    for (const Block& block : recompute.device.arena().blocks()) {
      EXPECT_FALSE(block.guarded);
      bytes.push_back(block.bytes);
    }
    return bytes;
  };
  using Bytes = std::vector<std::int64_t>;
  // Operand, scales and biases, output, value, allowance: 64 rows of 100, or 16 columns of 200.
  EXPECT_EQ(room({.m = 200, .n = 100, .k = 7}, DType::kF32),
            (Bytes{64 * 8 * 4, 2 * 16 * 8, 6400 * 4, 6400 * 8, 6400 * 8}));
  EXPECT_EQ(room({.m = 900, .n = 100, .k = 8, .beta = 1.0}, DType::kF32),
            (Bytes{64 * 8 * 4, 14400 * 4, 2 * 16 * 8, 14400 * 4, 14400 * 8, 14400 * 8}));
  // All lines of a small one, and no allowance of what is exact.
  EXPECT_EQ(room({.m = 3, .n = 5, .k = 1, .batch = 3}, DType::kI8),
            (Bytes{16 * 2, 2 * 15 * 8, 45 * 4, 45 * 8}));
}

TEST(LineRecompute, SaysWhenThereIsNoRoom) {
  TestGemm g({.m = 2000, .n = 5000, .k = 7}, DType::kF32);
  const std::unique_ptr<Device> small = MakeCpuDevice(0, ArenaOptions{.max_bytes = 1 << 20});
  EXPECT_TRUE(absl::IsResourceExhausted(LineRecompute(g.c, GemmOp(), g.plan, *small).Reserve()));
}

// ---- the host's part

TEST(LineRecompute, TheHostFindsAReferenceThatIsOff) {
  TestGemm g({.m = 6, .n = 20, .k = 3, .batch = 2}, DType::kF32);
  g.Fill(1);
  g.Compute();
  Lines recompute(g);
  const auto fault = [&](auto spoil) {
    recompute.device.spoil = spoil;
    CompareResult compared = recompute.Compare({{0, 1}, {0, 4}, {0, 5}}, false);
    compared.worst.index = -1;
    compared.samples.clear();
    return recompute.Recheck(compared);
  };
  EXPECT_EQ(fault([](ReferenceBuffers&) {}), "");
  EXPECT_THAT(fault([](ReferenceBuffers& r) { r.value[0] += 1; }),
              HasSubstr("host and device disagree at [0,1,0]: the device's reference is "));
  EXPECT_THAT(fault([](ReferenceBuffers& r) { r.value[20] -= 1; }), HasSubstr("at [0,4,0]"));
  // The first 32 elements, and no more of those that nobody calls wrong.
  EXPECT_THAT(fault([](ReferenceBuffers& r) { r.value[31] += 1; }), HasSubstr("at [0,4,11]"));
  EXPECT_EQ(fault([](ReferenceBuffers& r) { r.value[32] += 1; }), "");
  EXPECT_THAT(fault([](ReferenceBuffers& r) { r.value[3] = kNaN; }), HasSubstr("at [0,1,3]"));
  EXPECT_THAT(fault([](ReferenceBuffers& r) { r.value[3] = kInf; }), HasSubstr("at [0,1,3]"));
  // As far as rounding may go, and no further: the host's r and E, which the message gives.
  EXPECT_EQ(fault([](ReferenceBuffers& r) { r.value[7] += 0.9 * r.allowance[7]; }), "");
  EXPECT_NE(fault([](ReferenceBuffers& r) { r.value[7] += 1e3 * r.allowance[7] + 1e-5; }), "");
  EXPECT_EQ(fault([](ReferenceBuffers& r) { r.allowance[7] *= 1.0099; }), "");
  EXPECT_THAT(fault([](ReferenceBuffers& r) { r.allowance[7] *= 1.0101; }),
              HasSubstr("at [0,1,7]"));
  EXPECT_EQ(fault([](ReferenceBuffers& r) { r.allowance[7] = 0; }), "") << "stricter with others";
}

// Sums of zeros in fp64 have next to no allowance. The device may have one of 1e-300, and no more.
TEST(LineRecompute, TheHostGrantsTheDeviceAlmostNothingBesideAnAllowanceOfZero) {
  TestGemm g({.m = 2, .n = 5, .k = 1}, DType::kF64);
  Lines recompute(g);
  const auto fault = [&](double allowance) {
    recompute.device.spoil = [=](ReferenceBuffers& r) { r.allowance[3] = allowance; };
    return recompute.Recheck(recompute.Compare({{0, 0}}, false));
  };
  EXPECT_EQ(fault(0.75e-300), "");
  EXPECT_EQ(fault(1e-300), "");
  EXPECT_THAT(fault(1.5e-300), HasSubstr("host and device disagree at [0,3]"));
}

// Terms of ±1e308 cancel: the reference is a number, and its bound is infinite.
TEST(LineRecompute, CountsElementsWithoutABound) {
  TestGemm g({.m = 4, .n = 5, .k = 2}, DType::kF64);
  g.Fill(1);
  g.Set(g.inputs[0], 0, 2, 0, 1.5e155);
  g.Set(g.inputs[0], 0, 2, 1, -1.5e155);
  for (std::int64_t k = 0; k < 2; ++k) g.Set(g.inputs[1], 0, k, 3, 1e153);
  g.Compute();
  Lines recompute(g);
  recompute.Compare({{0, 1}, {0, 3}}, false);
  EXPECT_EQ(recompute.lines.unbounded(), 0);
  recompute.Compare({{0, 1}, {0, 2}}, false);
  EXPECT_EQ(recompute.lines.unbounded(), 1);
  recompute.Compare({{0, 3}}, true);
  EXPECT_EQ(recompute.lines.unbounded(), 1);
  recompute.Compare({{0, 0}}, false);
  EXPECT_EQ(recompute.lines.unbounded(), 0) << "of the last lines";
}

TEST(LineRecompute, TheHostLooksAtWhatIsCalledWrong) {
  TestGemm g({.m = 6, .n = 20, .k = 3, .batch = 2}, DType::kF32);
  g.Fill(1);
  g.Compute();
  Lines recompute(g);
  recompute.device.spoil = [](ReferenceBuffers& r) { r.value[40] += 1; };
  CompareResult compared = recompute.Compare({{1, 1}, {1, 4}, {1, 5}}, false);
  EXPECT_EQ(compared.worst.index, (6 + 5) * 20);
  EXPECT_THAT(recompute.Recheck(compared), HasSubstr("at [1,5,0]"));
  compared.worst.index = -1;
  EXPECT_THAT(recompute.Recheck(compared), HasSubstr("at [1,5,0]")) << "as a sample";
  compared.samples.clear();
  EXPECT_EQ(recompute.Recheck(compared), "");
  // Columns lie in another order.
  recompute.device.spoil = [](ReferenceBuffers& r) { r.value[28] += 1; };  // of each matrix
  compared = recompute.Compare(
      {{0, 1}, {0, 7}, {1, 8}, {1, 15}, {1, 16}, {1, 17}, {1, 18}, {1, 19}}, true);
  EXPECT_THAT(recompute.Recheck(compared), HasSubstr("the device's reference is"));
}

TEST(LineRecompute, TheHostAllowsExactSumsNothing) {
  TestGemm g({.m = 4, .n = 5, .k = 3}, DType::kI8);
  g.Fill(1);
  g.Compute();
  Lines recompute(g);
  CompareResult compared = recompute.Compare({{0, 1}, {0, 3}}, false);
  EXPECT_EQ(compared.mismatches, 0);
  EXPECT_EQ(recompute.Recheck(compared), "");
  recompute.device.spoil = [](ReferenceBuffers& r) { r.value[4] += 0.5; };
  compared = recompute.Compare({{0, 1}, {0, 3}}, false);
  EXPECT_THAT(recompute.Recheck(compared), HasSubstr("at [1,4]"));
}

// What is not finite on both is the same.
TEST(LineRecompute, TheHostTakesAnyNumberThatIsNotFiniteForAnother) {
  TestGemm g({.m = 4, .n = 5, .k = 3}, DType::kF32);
  g.Fill(1);
  g.Set(g.inputs[0], 0, 1, 1, kInf);
  g.Compute();
  Lines recompute(g);
  const CompareResult compared = recompute.Compare({{0, 1}, {0, 3}}, false);
  EXPECT_EQ(recompute.Recheck(compared), "");
  recompute.device.spoil = [](ReferenceBuffers& r) { r.value[2] = 1; };
  EXPECT_THAT(recompute.Recheck(recompute.Compare({{0, 1}, {0, 3}}, false)), HasSubstr("[1,2]"));
}

}  // namespace
}  // namespace assay
