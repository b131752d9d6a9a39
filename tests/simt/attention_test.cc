// The built-in GPU attention under the emulator, held to the operator's bound against
// plain FP64 loops: shapes, causality, masks, shared heads, special values.
#include <cmath>
#include <random>
#include <string>

#include "kernels/providers/builtin/attention_builtin_gpu.h"
#include "simt/testing.h"

namespace assay::inline kernels::gpu {
namespace {

struct Variant {
  std::int64_t heads = 1;
  std::int64_t group = 1;
  std::int64_t seq = 1;
  std::int64_t kv_seq = 1;
  std::int64_t dim = 1;
  bool causal = false;
  double mask_density = 0;
  bool masked_rows_nan = false;
  double spread = 1;
  double scale = 0;  // 0: 1/sqrt(dim)
  double value_scale = 1;
};

class SimtAttention : public SimtTest {
 protected:
  // Wide waves are AMD's, whose blocks have less shared memory; fp64's widest heads take more.
  SimtAttention() {
    const bool amd = GetParam().wave == 64 && GetParam().in != DType::kF64;
    if (amd) simt::CurrentConfig().shared_bytes = 64 << 10;
  }

  void Check(const Variant& v) {
    const Form& f = GetParam();
    SCOPED_TRACE(std::to_string(v.seq) + "x" + std::to_string(v.kv_seq) + "x" +
                 std::to_string(v.dim) + (v.causal ? " causal" : ""));
    std::mt19937_64 random(static_cast<std::uint64_t>(v.seq * 31 + v.kv_seq * 7 + v.dim));
    std::normal_distribution<double> normal(0.0, v.spread);
    const auto draw = [&](std::int64_t) { return normal(random); };
    const std::int64_t kv_heads = v.heads / v.group;
    HostTensor q(f.in, v.heads * v.seq * v.dim, draw);
    HostTensor k(f.in, kv_heads * v.kv_seq * v.dim, draw);
    HostTensor values(f.in, kv_heads * v.kv_seq * v.dim, draw);
    std::uniform_real_distribution<double> uniform(0, 1);
    HostTensor mask(DType::kI8, v.seq * v.kv_seq, [&](std::int64_t i) {
      // One query that sees nothing at all.
      return i / v.kv_seq != 2 && uniform(random) < v.mask_density ? 1.0 : 0.0;
    });
    HostTensor o(f.out, v.heads * v.seq * v.dim);
    AttentionJob job;
    job.q = q.data();
    job.k = k.data();
    job.v = values.data();
    if (v.mask_density > 0) job.mask = static_cast<const std::int8_t*>(mask.data());
    job.o = o.data();
    job.in = f.in;
    job.out = f.out;
    job.heads = v.heads;
    job.group = v.group;
    job.seq = v.seq;
    job.kv_seq = v.kv_seq;
    job.dim = v.dim;
    job.causal = v.causal;
    job.masked_rows_nan = v.masked_rows_nan;
    job.scale = v.scale == 0 ? 1 / std::sqrt(static_cast<double>(v.dim)) : v.scale;
    job.value_scale = v.value_scale;
    job.shared_bytes = static_cast<std::int64_t>(simt::CurrentConfig().shared_bytes);
    ASSERT_LE(LeastAttentionSharedBytes(job), job.shared_bytes);
    ASSERT_EQ(LaunchAttention(job, nullptr), kOk);

    const bool matrix = f.in != DType::kF32 && f.in != DType::kF64;
    const double u = f.in == DType::kF64 ? 0x1p-52 : 0x1p-24;
    const FormatInfo& p_format = Info(f.in == DType::kBF16 ? f.in : DType::kF16);
    const double u_p = matrix ? p_format.unit_roundoff : 0;
    const FormatInfo& out = Info(f.out);
    for (std::int64_t h = 0; h < v.heads; ++h) {
      const std::int64_t kv = h / v.group * v.kv_seq * v.dim;
      for (std::int64_t i = 0; i < v.seq; ++i) {
        std::vector<double> s, delta;
        std::vector<std::int64_t> keys;
        double m = -HUGE_VAL, delta_max = 0;
        for (std::int64_t j = 0; j < v.kv_seq; ++j) {
          if (v.causal && j > i + v.kv_seq - v.seq) continue;
          if (job.mask != nullptr && mask[i * v.kv_seq + j] == 0) continue;
          double dot = 0, absolute = 0;
          for (std::int64_t c = 0; c < v.dim; ++c) {
            const double x = q[(h * v.seq + i) * v.dim + c] * k[kv + j * v.dim + c];
            dot += x;
            absolute += std::abs(x);
          }
          keys.push_back(j);
          s.push_back(job.scale * dot);
          delta.push_back((static_cast<double>(v.dim) + 8) * u * absolute * std::abs(job.scale) +
                          u * std::abs(s.back()));
          if (s.back() > m) {
            m = s.back();
            delta_max = delta.back();
          }
        }
        double l = 0;
        for (const double score : s) l += std::exp(score - m);
        for (std::int64_t c = 0; c < v.dim; ++c) {
          const double got = o[(h * v.seq + i) * v.dim + c];
          if (keys.empty()) {
            ASSERT_TRUE(v.masked_rows_nan ? std::isnan(got) : got == 0) << "row " << i;
            continue;
          }
          double want = 0, e = 0, lost = 0, sum = 0;
          for (std::size_t j = 0; j < keys.size(); ++j) {
            const double value = values[kv + keys[j] * v.dim + c];
            const double p = std::exp(s[j] - m) / l;
            const double relative =
                u * (static_cast<double>(keys.size()) + 16 + 4 * std::abs(s[j] - m)) + delta[j] +
                delta_max;
            want += p * value;
            e += p * (relative + u_p) * std::abs(value);
            lost += p * relative;
            sum += std::abs(value);
          }
          e += std::abs(want) * lost;
          if (matrix) e += p_format.min_subnormal / 2 * sum / l;
          want *= v.value_scale;
          e = std::abs(v.value_scale) * e + 2 * u * std::abs(want);
          const double bound = out.unit_roundoff * std::abs(want) + out.min_subnormal / 2 +
                               (1 + out.unit_roundoff) * e;
          ASSERT_LE(std::abs(got - want), bound) << h << "," << i << "," << c;
        }
      }
    }
  }
};

INSTANTIATE_TEST_SUITE_P(
    Forms, SimtAttention,
    ::testing::Values(Form{32, DType::kF16, DType::kF16}, Form{64, DType::kF16, DType::kF32},
                      Form{32, DType::kBF16, DType::kBF16}, Form{64, DType::kBF16, DType::kF32},
                      Form{32, DType::kF32, DType::kF32}, Form{64, DType::kF64, DType::kF64},
                      Form{32, DType::kE4M3FN, DType::kF32}, Form{64, DType::kE5M2, DType::kF16},
                      Form{64, DType::kE4M3FNUZ, DType::kF32},
                      Form{32, DType::kE5M2FNUZ, DType::kBF16}));

TEST_P(SimtAttention, AwkwardSizes) {
  Check({.seq = 1, .kv_seq = 1, .dim = 1});
  Check({.seq = 31, .kv_seq = 33, .dim = 63});
  Check({.seq = 33, .kv_seq = 31, .dim = 65});
  Check({.seq = 63, .kv_seq = 129, .dim = 64});
  Check({.seq = 130, .kv_seq = 65, .dim = 128});
  Check({.seq = 20, .kv_seq = 127, .dim = 200});
  Check({.seq = 5, .kv_seq = 40, .dim = 256});
  Check({.seq = 3, .kv_seq = 1000, .dim = 8});
}

// As on devices whose multiprocessors have room for two stages of keys and values.
TEST_P(SimtAttention, TwoStages) {
  simt::CurrentConfig().shared_bytes = 227 << 10;
  Check({.seq = 1, .kv_seq = 1, .dim = 1});
  Check({.seq = 130, .kv_seq = 256, .dim = 64});
  Check({.seq = 33, .kv_seq = 300, .dim = 63});
  Check({.seq = 130, .kv_seq = 192, .dim = 128});
  Check({.seq = 33, .kv_seq = 129, .dim = 100});
  Check({.seq = 65, .kv_seq = 128, .dim = 256});
  Check({.seq = 20, .kv_seq = 127, .dim = 200});
  Check({.seq = 70, .kv_seq = 200, .dim = 64, .causal = true});
  Check({.seq = 70, .kv_seq = 30, .dim = 24, .causal = true});
  Check({.heads = 2, .group = 2, .seq = 35, .kv_seq = 140, .dim = 128, .mask_density = 0.5});
  Check({.seq = 20, .kv_seq = 190, .dim = 64, .spread = 2, .scale = -0.5});
}

// Blocks that are there as a whole are copied without looking at their ends.
TEST_P(SimtAttention, WholeBlocks) {
  Check({.seq = 128, .kv_seq = 192, .dim = 64});
  Check({.seq = 128, .kv_seq = 128, .dim = 128});
  Check({.seq = 64, .kv_seq = 96, .dim = 256});
}

TEST_P(SimtAttention, CausalHeadsWithMoreOrFewerKeys) {
  Check({.seq = 65, .kv_seq = 65, .dim = 40, .causal = true});
  Check({.seq = 140, .kv_seq = 140, .dim = 16, .causal = true});
  Check({.seq = 33, .kv_seq = 100, .dim = 24, .causal = true});
  // The first 40 queries see nothing.
  for (const bool nan : {false, true}) {
    Check({.seq = 70, .kv_seq = 30, .dim = 24, .causal = true, .masked_rows_nan = nan});
  }
}

TEST_P(SimtAttention, GroupsOfHeadsShareKeys) {
  Check({.heads = 6, .group = 3, .seq = 17, .kv_seq = 33, .dim = 32});
  Check({.heads = 4, .group = 4, .seq = 33, .kv_seq = 33, .dim = 72, .causal = true});
}

TEST_P(SimtAttention, Masks) {
  for (const bool nan : {false, true}) {
    Check({.heads = 2,
           .seq = 35,
           .kv_seq = 70,
           .dim = 16,
           .mask_density = 0.5,
           .masked_rows_nan = nan});
    Check({.seq = 40,
           .kv_seq = 40,
           .dim = 16,
           .causal = true,
           .mask_density = 0.3,
           .masked_rows_nan = nan});
  }
}

TEST_P(SimtAttention, ScalesAndLargeScores) {
  Check({.seq = 20, .kv_seq = 90, .dim = 33, .spread = 3, .scale = 1});
  Check({.seq = 20, .kv_seq = 90, .dim = 33, .scale = -0.5, .value_scale = 0.25});
  Check({.seq = 70, .kv_seq = 70, .dim = 16, .causal = true, .spread = 2, .scale = -1});
}

// 0 as fp32: every key that is seen has the same weight, and no other has any.
TEST_P(SimtAttention, AScaleOfZeroStillMasks) {
  Check({.seq = 33, .kv_seq = 70, .dim = 16, .causal = true, .scale = 1e-300});
}

// One key of weight 1, which block of keys it is in, and nothing else counts.
TEST_P(SimtAttention, PicksOneKeyExactly) {
  const Form& f = GetParam();
  constexpr std::int64_t kSeq = 40, kKeys = 150, kDim = 16;
  const auto chosen = [](std::int64_t i) { return i * 61 % kKeys; };
  // Codes of keys in base 2, ±1: the chosen key's score is 16, others' at most 14.
  const auto bit = [](std::int64_t key, std::int64_t c) {
    return (key >> c & 1) != 0 ? 1.0 : -1.0;
  };
  HostTensor q(f.in, kSeq * kDim, [&](std::int64_t i) { return bit(chosen(i / kDim), i % kDim); });
  HostTensor k(f.in, kKeys * kDim, [&](std::int64_t i) { return bit(i / kDim, i % kDim); });
  HostTensor v(f.in, kKeys * kDim,
               [](std::int64_t i) { return static_cast<double>(i / kDim % 7 - i % kDim % 5); });
  HostTensor o(f.out, kSeq * kDim);
  AttentionJob job;
  job.q = q.data();
  job.k = k.data();
  job.v = v.data();
  job.o = o.data();
  job.in = f.in;
  job.out = f.out;
  job.heads = 1;
  job.seq = kSeq;
  job.kv_seq = kKeys;
  job.dim = kDim;
  job.scale = 500;
  ASSERT_EQ(LaunchAttention(job, nullptr), kOk);
  for (std::int64_t i = 0; i < kSeq * kDim; ++i) {
    ASSERT_EQ(o[i], v[chosen(i / kDim) * kDim + i % kDim]) << i;
  }
}

// A NaN or infinite score makes its row NaN, and no other.
TEST_P(SimtAttention, SpecialScoresSpoilTheirRowOnly) {
  const Form& f = GetParam();
  constexpr std::int64_t kSeq = 20, kKeys = 90, kDim = 24;
  std::vector<double> kinds = {std::nan("")};
  if (Info(f.in).has_inf) kinds.push_back(HUGE_VAL);
  for (const double kind : kinds) {
    HostTensor q(f.in, kSeq * kDim, [&](std::int64_t i) { return i == 7 * kDim + 3 ? kind : 1.0; });
    HostTensor k(f.in, kKeys * kDim, [](std::int64_t i) { return i % 3 == 0 ? 0.5 : 0.25; });
    HostTensor v(f.in, kKeys * kDim, [](std::int64_t) { return 1.0; });
    HostTensor o(f.out, kSeq * kDim);
    AttentionJob job;
    job.q = q.data();
    job.k = k.data();
    job.v = v.data();
    job.o = o.data();
    job.in = f.in;
    job.out = f.out;
    job.heads = 1;
    job.seq = kSeq;
    job.kv_seq = kKeys;
    job.dim = kDim;
    ASSERT_EQ(LaunchAttention(job, nullptr), kOk);
    for (std::int64_t i = 0; i < kSeq * kDim; ++i) {
      ASSERT_EQ(std::isnan(o[i]), i / kDim == 7) << kind << " at " << i;
    }
  }
}

TEST_P(SimtAttention, TheSameLaunchGivesTheSameBits) {
  const Form& f = GetParam();
  constexpr std::int64_t kSeq = 40, kDim = 48;
  HostTensor x(f.in, kSeq * kDim, [](std::int64_t i) { return std::sin(static_cast<double>(i)); });
  HostTensor first(f.out, kSeq * kDim);
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    simt::CurrentConfig().seed = seed;
    HostTensor o(f.out, kSeq * kDim);
    AttentionJob job;
    job.q = job.k = job.v = x.data();
    job.o = o.data();
    job.in = f.in;
    job.out = f.out;
    job.heads = 1;
    job.seq = job.kv_seq = kSeq;
    job.dim = kDim;
    job.causal = true;
    ASSERT_EQ(LaunchAttention(job, nullptr), kOk);
    if (seed == 1) first = o;
    EXPECT_TRUE(o == first);
  }
}

}  // namespace
}  // namespace assay::kernels::gpu
