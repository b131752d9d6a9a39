// Suspects: kernels in plain loops with one fault, which must be found out and named.
#include "kernels/diagnose/suspects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/unit/judge/distorted.h"

namespace assay {
namespace {

using testing::AttentionCase;
using testing::GemmCase;
using ::testing::HasSubstr;
using testing::RunDistorted;

std::vector<double> ReadAll(const Plan& plan, int operand, std::uint64_t seed = 1) {
  const RegeneratedInputs inputs(plan, seed);
  std::vector<double> all(
      static_cast<std::size_t>(plan.inputs[static_cast<std::size_t>(operand)].extents.count()));
  inputs.Read(operand, 0, static_cast<std::int64_t>(all.size()), all.data());
  return all;
}

std::string Reading(const Case& c, testing::Distort kernel) {
  const CaseOutcome outcome = RunDistorted(c, std::move(kernel));
  EXPECT_EQ(outcome.verdict, Verdict::kFailed);
  return outcome.reads_as;
}

// A product in which a[i,k]·b[k,j] is whatever `term` says.
testing::Distort Product(
    std::function<double(const std::vector<double>& a, const std::vector<double>& b, std::size_t i,
                         std::size_t j, std::size_t k)>
        term,
    std::size_t n, std::size_t depth) {
  return [=](std::vector<double>& y, const Plan& plan) {
    const std::vector<double> a = ReadAll(plan, 0), b = ReadAll(plan, 1);
    for (std::size_t at = 0; at < y.size(); ++at) {
      y[at] = 0;
      for (std::size_t k = 0; k < depth; ++k) y[at] += term(a, b, at / n, at % n, k);
    }
  };
}

TEST(GemmSuspects, NameWhatIsReadWrongly) {
  const Case c = GemmCase(DType::kF32, 24, 40, 64);
  EXPECT_THAT(Reading(c, Product([](const auto& a, const auto& b, auto i, auto j,
                                    auto k) { return a[k * 24 + i] * b[k * 40 + j]; },
                                 40, 64)),
              HasSubstr("A is read in the other order"));
  EXPECT_THAT(Reading(c, Product(
                             [](const auto& a, const auto& b, auto i, auto j, auto k) {
                               const bool twice = k >= 16 && k < 32;
                               return (twice ? 2 : 1) * a[i * 64 + k] * b[k * 40 + j];
                             },
                             40, 64)),
              HasSubstr("the terms k = 16 to 31 are counted twice"));
  EXPECT_THAT(
      Reading(c, Product([](const auto& a, const auto& b, auto i, auto j,
                            auto k) { return k < 56 ? a[i * 64 + k] * b[k * 40 + j] : 0.0; },
                         40, 64)),
      HasSubstr("the last 8 terms of each sum are left out"));
  EXPECT_THAT(Reading(c, Product(
                             [](const auto& a, const auto& b, auto i, auto j, auto k) {
                               return Quantise(a[i * 64 + k], DType::kTF32) *
                                      Quantise(b[k * 40 + j], DType::kTF32);
                             },
                             40, 64)),
              HasSubstr("rounded to tf32"));
}

// In floats padding reads as NaN, in integers as -1.
TEST(GemmSuspects, NameALeadingDimensionThatIsIgnored) {
  Case c = GemmCase(DType::kI8, 16, 16, 32);
  std::get<GemmProblem>(c.problem).ldb = 24;
  EXPECT_THAT(Reading(c,
                      [](std::vector<double>& y, const Plan& plan) {
                        const std::vector<double> a = ReadAll(plan, 0), b = ReadAll(plan, 1);
                        for (std::size_t at = 0; at < y.size(); ++at) {
                          y[at] = 0;
                          for (std::size_t k = 0; k < 32; ++k) {
                            // Storage as it lies, rows of 24; read as rows of 16.
                            const std::size_t offset = k * 16 + at % 16;
                            const std::size_t col = offset % 24;
                            const double w = col < 16 ? b[offset / 24 * 16 + col] : -1.0;
                            y[at] += a[at / 16 * 32 + k] * w;
                          }
                        }
                      }),
              HasSubstr("B's leading dimension is taken for its extent: 16 in place of 24"));
}

TEST(GemmSuspects, NameWhatTheEpilogueForgets) {
  Case c = GemmCase(DType::kF32, 24, 24, 32);
  std::get<GemmProblem>(c.problem).beta = 0.5;
  EXPECT_THAT(Reading(c,
                      [](std::vector<double>& y, const Plan& plan) {
                        const std::vector<double> addend = ReadAll(plan, 2);
                        for (std::size_t i = 0; i < y.size(); ++i) y[i] -= 0.5 * addend[i];
                      }),
              HasSubstr("beta·C is left out"));
  EXPECT_THAT(Reading(c,
                      [](std::vector<double>& y, const Plan& plan) {
                        const std::vector<double> addend = ReadAll(plan, 2);
                        for (std::size_t i = 0; i < y.size(); ++i) y[i] += 0.5 * addend[i];
                      }),
              HasSubstr("beta is taken for 1"));
}

// fp16 sums in another order than the simulated one: told by their size.
TEST(GemmSuspects, NameANarrowAccumulatorInAnyOrder) {
  const Case c = GemmCase(DType::kF32, 24, 24, 512);
  EXPECT_THAT(Reading(c,
                      [](std::vector<double>& y, const Plan& plan) {
                        const std::vector<double> a = ReadAll(plan, 0), b = ReadAll(plan, 1);
                        for (std::size_t at = 0; at < y.size(); ++at) {
                          double sum = 0;
                          for (std::size_t k = 512; k-- > 0;) {
                            sum = Quantise(sum + a[at / 24 * 512 + k] * b[k * 24 + at % 24],
                                           DType::kF16);
                          }
                          y[at] = sum;
                        }
                      }),
              HasSubstr("the sums are kept in fp16"));
}

// The size of errors alone names no format: these are no sums.
TEST(GemmSuspects, NameNoFormatBySizeAlone) {
  const std::string reading =
      Reading(GemmCase(DType::kF16, 24, 24, 512), [](std::vector<double>& y, const Plan&) {
        for (std::size_t i = 0; i < y.size(); ++i) {
          y[i] += 0.1 * std::sin(static_cast<double>(i * i * 7 + 1));
        }
      });
  EXPECT_THAT(reading, HasSubstr("the accumulator is not FP32, or the results pass through"));
}

// Elements that are only just wrong are not taken for sums in fp16 whose own errors are within the
// bounds: whatever is a little wrong would be near to them.
TEST(GemmSuspects, NameNoFormatByErrorsThatItDoesNotHave) {
  constexpr std::size_t kSide = 160, kTerms = 16;
  int changed = 0;
  const std::string reading =
      Reading(GemmCase(DType::kF16, kSide, kSide, kTerms),
              [&changed](std::vector<double>& y, const Plan& plan) {
                const std::vector<double> a = ReadAll(plan, 0), b = ReadAll(plan, 1);
                changed = 0;
                for (std::size_t at = 0; at < y.size(); ++at) {
                  double exact = 0, narrow = 0, absolute = 0;
                  for (std::size_t k = 0; k < kTerms; ++k) {
                    const double product = a[at / kSide * kTerms + k] * b[k * kSide + at % kSide];
                    exact += product;
                    absolute += std::abs(product);
                    narrow = Quantise(narrow + product, DType::kF16);
                  }
                  const double bound = Info(DType::kF16).unit_roundoff * std::abs(exact) +
                                       8 * 4 * 0x1p-24 * absolute;
                  const double off = std::copysign(1.4 * bound, narrow - exact);
                  const double wrong = Quantise(exact + off, DType::kF16);
                  if (std::abs(wrong - exact) < 1.05 * bound) continue;
                  if (std::abs(wrong - narrow) > 0.95 * bound) continue;
                  if (std::abs(narrow - exact) > 0.95 * bound) continue;
                  y[at] = wrong;
                  ++changed;
                }
              });
  EXPECT_GE(changed, 4);
  EXPECT_THAT(reading, ::testing::Not(HasSubstr("fp16")));
}

// One head's attention of a query over the keys that `sees` lets through.
struct Rows {
  std::int64_t seq, keys, dim;
};
testing::Distort Attention(Rows p, std::int64_t group, bool modulo, double scale,
                           std::function<bool(std::int64_t, std::int64_t)> sees) {
  return [=](std::vector<double>& y, const Plan& plan) {
    const std::vector<double> q = ReadAll(plan, 0), k = ReadAll(plan, 1), v = ReadAll(plan, 2);
    const std::int64_t heads = plan.inputs[0].dims[1];
    const std::int64_t kv_heads = heads / group;
    for (std::int64_t row = 0; row < heads * p.seq; ++row) {
      const std::int64_t head = row / p.seq;
      const std::int64_t kv = modulo ? head % kv_heads : head / group;
      std::vector<double> e(static_cast<std::size_t>(p.keys), 0.0);
      double max = -std::numeric_limits<double>::infinity();
      for (const bool weigh : {false, true}) {
        for (std::int64_t j = 0; j < p.keys; ++j) {
          if (!sees(row % p.seq, j)) continue;
          double s = 0;
          for (std::int64_t d = 0; d < p.dim; ++d) {
            s += q[static_cast<std::size_t>(row * p.dim + d)] *
                 k[static_cast<std::size_t>((kv * p.keys + j) * p.dim + d)];
          }
          s *= scale;
          if (weigh) {
            e[static_cast<std::size_t>(j)] = std::exp(s - max);
          } else {
            max = std::max(max, s);
          }
        }
      }
      double l = 0;
      for (const double w : e) l += w;
      for (std::int64_t d = 0; d < p.dim; ++d) {
        double o = 0;
        for (std::int64_t j = 0; j < p.keys; ++j) {
          o += e[static_cast<std::size_t>(j)] *
               v[static_cast<std::size_t>((kv * p.keys + j) * p.dim + d)];
        }
        y[static_cast<std::size_t>(row * p.dim + d)] = l > 0 ? o / l : 0.0;
      }
    }
  };
}

TEST(AttentionSuspects, NameFaultsOfTheMask) {
  const Case causal = AttentionCase(DType::kF32, 2, 48, 16, true);
  const Rows rows{48, 48, 16};
  const double scale = 0.25;
  EXPECT_THAT(Reading(causal, Attention(rows, 1, false, scale,
                                        [](auto i, auto j) { return j < i || i == 0; })),
              HasSubstr("hides the diagonal key"));
  EXPECT_THAT(
      Reading(causal, Attention(rows, 1, false, scale, [](auto i, auto j) { return j <= i + 1; })),
      HasSubstr("one key too many"));
  EXPECT_THAT(Reading(causal, Attention(rows, 1, false, scale, [](auto, auto) { return true; })),
              HasSubstr("the causal mask is not applied"));
  Case longer = AttentionCase(DType::kF32, 2, 32, 16, true);
  std::get<AttentionProblem>(longer.problem).kv_seq = 48;
  EXPECT_THAT(Reading(longer, Attention({32, 48, 16}, 1, false, scale,
                                        [](auto i, auto j) { return j <= i; })),
              HasSubstr("aligned to the first query"));
  const Case full = AttentionCase(DType::kF32, 2, 48, 16, false);
  EXPECT_THAT(
      Reading(full, Attention(rows, 1, false, scale, [](auto i, auto j) { return j <= i; })),
      HasSubstr("a causal mask is applied though none"));
  EXPECT_THAT(Reading(full, Attention(rows, 1, false, scale,
                                      [](auto, auto j) { return j < 16 || j >= 32; })),
              HasSubstr("the keys 16 to 31 are left out"));
}

TEST(AttentionSuspects, NameScalesAndHeads) {
  const Case c = AttentionCase(DType::kF32, 2, 32, 16, false);
  const auto all = [](auto, auto) { return true; };
  EXPECT_THAT(Reading(c, Attention({32, 32, 16}, 1, false, 1.0, all)),
              HasSubstr("the scores are not scaled"));
  EXPECT_THAT(Reading(c, Attention({32, 32, 16}, 1, false, 1.0 / 16, all)),
              HasSubstr("1/dim, not 1/√dim"));
  Case grouped = AttentionCase(DType::kF32, 4, 32, 16, false);
  std::get<AttentionProblem>(grouped.problem).kv_heads = 2;
  EXPECT_THAT(Reading(grouped, Attention({32, 32, 16}, 2, true, 0.25, all)),
              HasSubstr("head h mod kv_heads"));
}

// An attention of 16-bit operators that each store their result. `scores` and `weights` round.
testing::Distort Stored(Rows p, DType scores, DType weights, std::uint64_t seed = 1) {
  return [=](std::vector<double>& y, const Plan& plan) {
    const std::vector<double> q = ReadAll(plan, 0, seed), k = ReadAll(plan, 1, seed),
                              v = ReadAll(plan, 2, seed);
    const auto seq = static_cast<std::size_t>(p.seq), keys = static_cast<std::size_t>(p.keys);
    const auto dim = static_cast<std::size_t>(p.dim);
    for (std::size_t row = 0; row < y.size() / dim; ++row) {
      const std::size_t head = row / seq;
      std::vector<double> e(keys);
      for (std::size_t j = 0; j < keys; ++j) {
        double s = 0;
        for (std::size_t d = 0; d < dim; ++d)
          s += q[row * dim + d] * k[(head * keys + j) * dim + d];
        e[j] = Quantise(Quantise(s, scores) / std::sqrt(static_cast<double>(dim)), scores);
      }
      const double max = *std::max_element(e.begin(), e.end());
      double l = 0;
      for (double& w : e) l += w = std::exp(w - max);
      for (std::size_t d = 0; d < dim; ++d) {
        double o = 0;
        for (std::size_t j = 0; j < keys; ++j) {
          o += Quantise(e[j] / l, weights) * v[(head * keys + j) * dim + d];
        }
        y[row * dim + d] = o;
      }
    }
  };
}

// Values from 3/4 to 1: outputs follow the scores within one step of fp16, and all roundings depend
// on them. A right kernel was called wrong: "the scale of the scores is off by 0.08".
TEST(AttentionPrecision, NearlyEqualOutputsTellNoScale) {
  Case c = AttentionCase(DType::kF16, 1, 64, 24, false);
  std::get<AttentionProblem>(c.problem).kv_seq = 100;
  c.pattern = "uniform:0.75:1";
  for (const std::uint64_t seed : {115, 154}) {
    c.seed = seed;
    const CaseOutcome outcome =
        RunDistorted(c, Stored({64, 100, 24}, DType::kF32, DType::kF16, seed));
    EXPECT_TRUE(outcome.findings.empty())
        << seed << ": " << (outcome.findings.empty() ? "" : outcome.findings.front().message);
  }
}

TEST(AttentionSuspects, NameScoresThatAreRounded) {
  const Case c = AttentionCase(DType::kBF16, 3, 131, 37, false);
  const CaseOutcome outcome = RunDistorted(c, Stored({131, 131, 37}, DType::kBF16, DType::kBF16));
  EXPECT_EQ(outcome.verdict, Verdict::kFailed);
  EXPECT_THAT(outcome.reads_as, HasSubstr("the scores and the weights of the softmax are rounded"));
  EXPECT_THAT(outcome.next_step, HasSubstr("--intermediate-dtype bf16"));
  const CaseOutcome scores = RunDistorted(c, Stored({131, 131, 37}, DType::kBF16, DType::kF64));
  EXPECT_THAT(scores.reads_as, HasSubstr("the scores are rounded to bf16"));
  Case declared = c;
  declared.intermediate_dtype = DType::kBF16;
  EXPECT_EQ(RunDistorted(declared, Stored({131, 131, 37}, DType::kBF16, DType::kBF16)).verdict,
            Verdict::kPassed);
}

// Errors of such a size that are of another making have no name, and no tile of keys either.
TEST(AttentionSuspects, NameNoRoundingAndNoTileBySizeAlone) {
  for (const double seed : {1.0, 7.0, 13.0, 29.0}) {
    const std::string reading =
        Reading(AttentionCase(DType::kBF16, 3, 131, 37, false),
                [seed](std::vector<double>& y, const Plan&) {
                  for (std::size_t i = 0; i < y.size(); i += 97) {
                    y[i] *= 1 + 0.02 * std::sin(seed * static_cast<double>(i * i + 1));
                  }
                });
    EXPECT_THAT(reading, ::testing::Not(HasSubstr("rounded to bf16"))) << seed;
    EXPECT_THAT(reading, ::testing::Not(HasSubstr("left out"))) << seed;
    EXPECT_THAT(reading, ::testing::Not(HasSubstr("counted twice"))) << seed;
  }
}

// A norm of rows by the first `summed` columns.
testing::Distort RootMeanSquare(std::size_t cols, std::size_t summed, double eps) {
  return [=](std::vector<double>& y, const Plan& plan) {
    const std::vector<double> x = ReadAll(plan, 0);
    for (std::size_t i = 0; i < y.size(); ++i) {
      double sum = 0;
      for (std::size_t j = 0; j < summed; ++j) {
        sum += x[i / cols * cols + j] * x[i / cols * cols + j];
      }
      y[i] = x[i] / std::sqrt(sum / static_cast<double>(cols) + eps);
    }
  };
}

// A mean of squares has no mean that could be subtracted.
TEST(LayerNormSuspects, NameWhatARootMeanSquareLacks) {
  Case c;
  c.problem = LayerNormProblem{.rows = 16, .cols = 177, .rms = true};
  c.dtype = DType::kF32;
  EXPECT_THAT(Reading(c, RootMeanSquare(177, 160, 1e-5)),
              HasSubstr("the last 17 columns are left out of the sum of squares"));
  EXPECT_THAT(Reading(c, RootMeanSquare(177, 176, 1e-5)),
              HasSubstr("the last column is left out of the sum of squares"));
  EXPECT_THAT(Reading(c, RootMeanSquare(177, 177, 1e-2)),
              HasSubstr("eps is 0.01, and the case says 1e-05"));
  // Nobody knows which columns these are.
  const CaseOutcome other = RunDistorted(c, RootMeanSquare(177, 101, 1e-5));
  EXPECT_THAT(other.reads_as, HasSubstr(": its mean of squares, or eps, is wrong"));
  EXPECT_THAT(other.next_step, ::testing::Not(HasSubstr("Welford")));
  EXPECT_THAT(other.next_step, ::testing::Not(HasSubstr("mean)")));
}

TEST(LayerNormSuspects, NameWhatTheMomentsLack) {
  LayerNormProblem p;
  p.rows = 32;
  p.cols = 64;
  Case c;
  c.problem = p;
  c.dtype = DType::kF32;
  const auto norm = [](double correction, bool center) -> testing::Distort {
    return [=](std::vector<double>& y, const Plan& plan) {
      const std::vector<double> x = ReadAll(plan, 0);
      for (std::size_t row = 0; row < 32; ++row) {
        double mean = 0, variance = 0;
        for (std::size_t i = 0; i < 64; ++i) mean += x[row * 64 + i] / 64;
        if (!center) mean = 0;
        for (std::size_t i = 0; i < 64; ++i) {
          const double d = x[row * 64 + i] - mean;
          variance += d * d / (64 - correction);
        }
        for (std::size_t i = 0; i < 64; ++i) {
          y[row * 64 + i] = (x[row * 64 + i] - mean) / std::sqrt(variance + 1e-5);
        }
      }
    };
  };
  EXPECT_THAT(Reading(c, norm(1, true)), HasSubstr("divided by n - 1"));
  // In bf16 another eps moves a few elements to the next number, and so would n - 1.
  Case coarse = c;
  coarse.dtype = DType::kBF16;
  std::get<LayerNormProblem>(coarse.problem) = {.rows = 4, .cols = 256};
  EXPECT_THAT(Reading(coarse,
                      [](std::vector<double>& y, const Plan&) {
                        for (double& v : y) v *= 1 - 0.5e-3;
                      }),
              ::testing::Not(HasSubstr("n - 1")));
  EXPECT_THAT(Reading(c, norm(0, false)), HasSubstr("the mean is not subtracted"));
  c.pattern = "normal:0.003";
  EXPECT_THAT(Reading(c,
                      [](std::vector<double>& y, const Plan& plan) {
                        const std::vector<double> x = ReadAll(plan, 0);
                        for (std::size_t row = 0; row < 32; ++row) {
                          double mean = 0, variance = 0;
                          for (std::size_t i = 0; i < 64; ++i) mean += x[row * 64 + i] / 64;
                          for (std::size_t i = 0; i < 64; ++i) {
                            const double d = x[row * 64 + i] - mean;
                            variance += d * d / 64;
                          }
                          for (std::size_t i = 0; i < 64; ++i) {
                            y[row * 64 + i] = (x[row * 64 + i] - mean) / std::sqrt(variance);
                          }
                        }
                      }),
              HasSubstr("eps is left out"));
}

}  // namespace
}  // namespace assay
