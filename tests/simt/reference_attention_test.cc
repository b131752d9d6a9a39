// The attention reference for GPUs under the emulator, held to the plain one.
#include "kernels/numerics/key_groups.h"
#include "kernels/ops/attention/attention_probes.h"
#include "kernels/ops/attention/attention_reference.h"
#include "kernels/ops/attention/attention_reference_cpu.h"
#include "kernels/ops/attention/attention_reference_gpu.h"
#include "simt/references.h"

#include <tuple>

namespace assay {
namespace {

// σ and D of every element by plain loops, with the margins of blocks of as many queries as the
// GPU's have.
struct PlainSpread {
  static constexpr std::int64_t kBlock = 64;
  std::vector<double> deviation, direction;

  PlainSpread(const Case& c, const Plan& plan, const Tensors& tensors) {
    const auto& p = std::get<AttentionProblem>(c.problem);
    const auto count = static_cast<std::size_t>(plan.output.extents.count());
    deviation.assign(count, 0.0);
    direction.assign(count, 0.0);
    for (std::int64_t head = 0; head < p.batch * p.heads; ++head) {
      for (std::int64_t first = 0; first < p.seq; first += kBlock) {
        Block(c, plan, tensors, head, first, std::min(kBlock, p.seq - first));
      }
    }
  }

 private:
  void Block(const Case& c, const Plan& plan, const Tensors& tensors, std::int64_t head,
             std::int64_t first, std::int64_t rows) {
    const auto& p = std::get<AttentionProblem>(c.problem);
    const AttentionDeviation model = MakeAttentionDeviation(c, plan);
    const AttentionBound bound = MakeAttentionBound(c, plan);
    const std::int64_t keys = p.KvSeq(), dim = p.dim;
    const std::int64_t kv = head / p.heads * p.KvHeads() + head % p.heads / (p.heads / p.KvHeads());
    const auto at = [&](int operand, std::int64_t i) {
      return LoadDouble(c.dtype, tensors.views()[static_cast<std::size_t>(operand)].data, i);
    };
    const auto width = static_cast<std::size_t>(dim);
    struct Query {
      double visible = 0, p2 = 0, squares = 0, mean = 0, shift = 0, most = 0, lost = 0;
      std::vector<double> r, directed;
    };
    std::vector<Query> queries(static_cast<std::size_t>(rows));
    std::vector<double> columns(width);
    double total = 0;
    for (std::int64_t i = 0; i < rows; ++i) {
      Query& of = queries[static_cast<std::size_t>(i)];
      of.r.assign(width, 0.0);
      of.directed.assign(width, 0.0);
      const std::int64_t query = first + i, line = (head * p.seq + query) * dim;
      std::vector<double> score(static_cast<std::size_t>(keys), -HUGE_VAL);
      std::vector<bool> seen(score.size());
      double max = -HUGE_VAL, l = 0, q4 = 0;
      for (std::int64_t d = 0; d < dim; ++d) q4 += std::pow(at(0, line + d), 4);
      for (std::int64_t j = 0; j < VisibleKeys(p, query); ++j) {
        const auto key = static_cast<std::size_t>(j);
        if (p.masked() && LoadDouble(DType::kI8, tensors.views()[3].data, query * keys + j) == 0) {
          continue;
        }
        double s = 0;
        for (std::int64_t d = 0; d < dim; ++d) {
          s += at(0, line + d) * at(1, (kv * keys + j) * dim + d);
        }
        seen[key] = true;
        score[key] = bound.scale * s;
        max = std::max(max, score[key]);
        ++of.visible;
      }
      for (std::size_t j = 0; j < score.size(); ++j) l += seen[j] ? std::exp(score[j] - max) : 0;
      for (std::int64_t j = 0; j < keys; ++j) {
        const auto key = static_cast<std::size_t>(j);
        if (!seen[key]) continue;
        const double s = score[key], w = std::exp(s - max) / l;
        double k4 = 0, v2 = 0;
        for (std::int64_t d = 0; d < dim; ++d) {
          const auto column = static_cast<std::size_t>(d);
          const double v = at(2, (kv * keys + j) * dim + d);
          k4 += std::pow(at(1, (kv * keys + j) * dim + d), 4);
          v2 += v * v;
          of.r[column] += w * v;
          of.directed[column] += w > 0 ? w * (s - max) * v : 0;
          columns[column] += w * w * v * v;
          total += w * w * v * v;
        }
        of.p2 += w * w;
        of.most = std::max(of.most, w);
        if (s - max < std::log(kLostBelow)) of.lost += w;
        of.squares += w * w * v2;
        of.shift += w > 0 ? w * (s - max) : 0;
        const double squares = bound.scale * bound.scale * std::sqrt(q4) * std::sqrt(k4);
        if (w > 0) of.mean += w * w * v2 * model.Score(s, s - max, squares);
      }
      if (of.squares > 0) of.mean /= of.squares;
    }
    for (std::int64_t i = 0; i < rows; ++i) {
      const Query& of = queries[static_cast<std::size_t>(i)];
      if (of.visible == 0) continue;
      std::vector<double> along(width / kSteepColumns + 1), steps(along.size());
      for (std::size_t d = 0; d < width; ++d) {
        along[d / kSteepColumns] +=
            std::pow(bound.value_scale * (of.directed[d] - of.r[d] * of.shift), 2);
        steps[d / kSteepColumns] += model.steps.Variance(bound.value_scale * of.r[d]);
      }
      const bool tells = i < kDirectedQueries && model.Tells(of.visible, of.p2);
      for (std::size_t d = 0; d < width; ++d) {
        const auto to = static_cast<std::size_t>((head * p.seq + first + i) * dim) + d;
        const double qv = total > 0 ? of.squares * columns[d] / total : 0;
        if (!model.Silent(of.visible, of.p2, of.most, of.lost)) {
          deviation[to] = model.Of(of.r[d], of.visible, qv, of.p2, of.mean);
        }
        const std::size_t part = d / kSteepColumns;
        if (!tells || !AttentionDeviation::Steep(along[part], steps[part])) continue;
        direction[to] = bound.value_scale * (of.directed[d] - of.r[d] * of.shift);
      }
    }
  }
};

class SimtAttentionReference : public SimtReference {
 protected:
  // The CPU's are those of its own blocks of queries: they are the same if there is one block.
  void ExpectDeviations(const Case& c, const Plan& plan, const Tensors& tensors,
                        const Result& result) override {
    if (std::get<AttentionProblem>(c.problem).seq > PlainSpread::kBlock) return;
    // A NaN in one query says nothing of any query of the block there, and of that query here.
    const Result cpu = RunOnCpu(c, plan, tensors);
    Result known = result;
    for (std::size_t i = 0; i < cpu.deviation.size(); ++i) {
      if (std::isnan(cpu.deviation[i])) known.deviation[i] = cpu.deviation[i];
      // The CPU makes the direction of more queries.
      if (known.direction[i] == 0 || std::isnan(cpu.direction[i])) {
        known.direction[i] = cpu.direction[i];
      }
    }
    SimtReference::ExpectDeviations(c, plan, tensors, known);
  }
  // Holds the deviations to the plain ones, for any number of blocks.
  void ExpectSpread(const Case& c) {
    const Plan plan = PlanOf(c);
    ExpectSpread(c, plan, RandomValues(plan));
  }
  void ExpectSpread(const Case& c, const Plan& plan,
                    const std::function<double(int, std::int64_t)>& values) {
    SCOPED_TRACE(DefaultName(c));
    const Tensors tensors(plan, values);
    const Result result = Run(c, plan, tensors);
    const PlainSpread plain(c, plan, tensors);
    ASSERT_EQ(result.deviation.size(), plain.deviation.size());
    ASSERT_EQ(result.direction.size(), plain.direction.size());
    double largest = 0;
    for (const double d : plain.direction) largest = std::max(largest, std::abs(d));
    for (std::size_t i = 0; i < plain.deviation.size(); ++i) {
      EXPECT_NEAR(result.deviation[i], plain.deviation[i], kCloseFloats * plain.deviation[i])
          << "deviation of " << i;
      EXPECT_NEAR(result.direction[i], plain.direction[i],
                  kCloseFloats * std::abs(plain.direction[i]) + 1e-13 * largest)
          << "direction of " << i;
      if (HasFailure()) return;
    }
  }

  void ExpectKeyGroupsToTheBit(bool causal, double density, bool single);
};
INSTANTIATE_TEST_SUITE_P(Waves, SimtAttentionReference, ::testing::Values(32, 64));

AttentionProblem Problem(std::int64_t queries, std::int64_t keys, std::int64_t dim) {
  AttentionProblem p;
  p.heads = 2;
  p.seq = queries;
  p.kv_seq = keys;
  p.dim = dim;
  return p;
}

TEST_P(SimtAttentionReference, FormatsAtAwkwardSizes) {
  for (const DType t : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kE4M3FN}) {
    ExpectPlain(MakeCase(Problem(67, 37, 18), t));
    ExpectPlain(MakeCase(Problem(3, 70, 65), t));
    ExpectPlain(MakeCase(Problem(1, 1, 1), t));
  }
}

TEST_P(SimtAttentionReference, DeviationsArePlain) {
  for (const DType t : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const auto& [queries, keys, dim] :
         {std::tuple(67, 37, 18), {130, 70, 65}, {5, 65, 16}, {1, 1, 1}, {1, 300, 4}, {70, 1, 3}}) {
      AttentionProblem p = Problem(queries, keys, dim);
      ExpectSpread(MakeCase(p, t));
      p.causal = true;
      p.mask_density = 0.5;
      ExpectSpread(MakeCase(p, t));
      if (HasFailure()) return;
    }
  }
  AttentionProblem p = Problem(80, 90, 20);
  p.batch = 2;
  p.heads = 6;
  p.kv_heads = 2;
  p.scale_q = 0.25;
  p.scale_v = -0.5;
  p.scale = 4;
  ExpectSpread(MakeCase(p, DType::kF32));
}

TEST_P(SimtAttentionReference, HeadsThatShareKeys) {
  AttentionProblem p = Problem(20, 33, 7);
  p.batch = 2;
  p.heads = 6;
  p.kv_heads = 2;
  ExpectPlain(MakeCase(p, DType::kF16));
}

// Fewer keys than queries leave queries without any.
TEST_P(SimtAttentionReference, CausalAndMasked) {
  for (const char* empty : {"zero", "nan"}) {
    for (const std::int64_t keys : {40, 66, 130}) {
      AttentionProblem p = Problem(66, keys, 20);
      p.causal = true;
      p.masked_rows = empty;
      ExpectPlain(MakeCase(p, DType::kBF16));
      p.mask_density = 0.5;
      const Case c = MakeCase(p, DType::kF32);
      ExpectPlain(c);
      const Plan plan = PlanOf(c);
      const auto random = RandomValues(plan);
      // Whole rows masked, too.
      ExpectPlain(c, plan, [&](int operand, std::int64_t i) {
        return operand == 3 && i / keys % 3 == 0 ? 0.0 : random(operand, i);
      });
    }
  }
}

TEST_P(SimtAttentionReference, ScalesAndWhatTheKernelDeclares) {
  AttentionProblem p = Problem(10, 70, 33);
  p.scale_q = 0.25;
  p.scale_k = 1.5;
  p.scale_v = -0.5;
  p.scale = 0.4;
  const Case c = MakeCase(p, DType::kE4M3FN);
  ExpectPlain(c);
  Plan plan = PlanOf(c);
  FindOp("attention")->HoldTo(c, Accumulator{0x1p-14, 32}, plan);
  plan.flushes_subnormals = true;
  ExpectPlain(c, plan, RandomValues(plan));
}

// Scores that drive weights to 0, equal largest ones with different errors.
TEST_P(SimtAttentionReference, LargeAndEqualScores) {
  AttentionProblem p = Problem(5, 65, 16);
  p.scale = 1;
  for (const double size : {1.0, 16.0, 64.0}) {
    const auto values = [&](int operand, std::int64_t i) {
      return (operand == 2 ? 0.7 : size) * static_cast<double>((i * 7 + i / 16) % 5 - 2);
    };
    const Case c = MakeCase(p, DType::kF32);
    ExpectPlain(c, values);
    ExpectSpread(c, PlanOf(c), values);
    const Case narrow = MakeCase(p, DType::kE4M3FN);
    ExpectSpread(narrow, PlanOf(narrow), values);
  }
}

TEST_P(SimtAttentionReference, NonFiniteElements) {
  for (const double x : {HUGE_VAL, -HUGE_VAL, std::nan("")}) {
    for (int where = 0; where < 3; ++where) {
      AttentionProblem p = Problem(40, 40, 5);
      p.causal = true;  // a value that a query does not see is nothing to it
      const Case c = MakeCase(p, DType::kF32);
      ExpectPlain(c, [&](int operand, std::int64_t i) {
        if (operand == where && i == 33 * 5 + 2) return x;
        return std::sin(static_cast<double>(i + operand)) + 0.01;
      });
    }
  }
}

// They say nothing of themselves, and leave the queries alone that do not see them.
TEST_P(SimtAttentionReference, NonFiniteElementsLeaveOtherDeviations) {
  AttentionProblem p = Problem(40, 40, 5);
  p.causal = true;
  const Case c = MakeCase(p, DType::kF32);
  const Plan plan = PlanOf(c);
  for (const double x : {HUGE_VAL, std::nan("")}) {
    for (int where = 0; where < 3; ++where) {
      const Tensors tensors(plan, [&](int operand, std::int64_t i) {
        if (operand == where && i == 33 * 5 + 2) return x;
        return std::sin(static_cast<double>(i + operand)) + 0.01;
      });
      const Result result = Run(c, plan, tensors);
      for (std::int64_t i = 0; i < 2 * 40 * 5; ++i) {
        const std::int64_t query = i / 5 % 40;
        const bool of_first_head = i < 40 * 5;
        const bool sees = of_first_head && (where == 0 ? query == 33 : query >= 33);
        const float sigma = result.deviation[static_cast<std::size_t>(i)];
        const double r = result.value[static_cast<std::size_t>(i)];
        if (sees && !std::isfinite(r)) {
          EXPECT_EQ(sigma, 0) << i;
        } else if (!sees) {
          EXPECT_TRUE(sigma > 0 && std::isfinite(sigma)) << i << " with " << x << " in " << where;
        }
      }
    }
  }
}

// A key whose scores are -inf has no weight, wherever it stands.
TEST_P(SimtAttentionReference, DeviationsBesideKeysWithoutWeight) {
  const Case c = MakeCase(Problem(20, 40, 5), DType::kF32);
  for (const std::int64_t key : {0, 7, 39}) {
    ExpectSpread(c, PlanOf(c), [&](int operand, std::int64_t i) {
      if (operand == 1 && i % 200 / 5 == key) return i % 5 == 2 ? -HUGE_VAL : 0.0;
      return std::sin(static_cast<double>(i + operand)) + 1.01;
    });
  }
}

TEST_P(SimtAttentionReference, LargestScoreOfVisiblePairs) {
  AttentionProblem p = Problem(66, 70, 9);
  p.causal = true;
  const Case c = MakeCase(p, DType::kF32);
  const Plan plan = PlanOf(c);
  const Tensors tensors(plan, RandomValues(plan));
  const Result result = Run(c, plan, tensors);
  std::vector<double> value(result.value.size()), allowance(result.value.size());
  const double largest =
      AttentionReferenceCpu(c, plan, tensors.views(), value.data(), allowance.data());
  EXPECT_NEAR(result.max_abs_score, largest, 1e-12 * largest);
  EXPECT_GT(largest, 0.0);
}

TEST_P(SimtAttentionReference, TheSameLaunchGivesTheSameBits) {
  const Case c = MakeCase(Problem(70, 90, 70), DType::kF16);
  const Plan plan = PlanOf(c);
  const Tensors tensors(plan, RandomValues(plan));
  const Result first = Run(c, plan, tensors);
  simt::CurrentConfig().seed = 99;
  const Result second = Run(c, plan, tensors);
  EXPECT_EQ(first.value, second.value);
  EXPECT_EQ(first.allowance, second.allowance);
  EXPECT_EQ(first.max_abs_score, second.max_abs_score);
  EXPECT_EQ(first.deviation, second.deviation);
  EXPECT_EQ(first.direction, second.direction);
}

// What keys have by themselves may fit the scratch memory for some heads of K and V alone.
TEST_P(SimtAttentionReference, HeadsInGroupsHaveTheSameDeviations) {
  AttentionProblem p = Problem(20, 33, 7);
  p.batch = 2;
  p.heads = 6;
  p.kv_heads = 3;
  const Case c = MakeCase(p, DType::kF32);
  const Plan plan = PlanOf(c);
  const Tensors tensors(plan, RandomValues(plan));
  const Result all = Run(c, plan, tensors);
  for (const std::int64_t heads : {1, 4}) {
    Result result = all;
    result.deviation.assign(all.deviation.size(), -1);
    result.direction.assign(all.direction.size(), -1);
    std::vector<double> squares(static_cast<std::size_t>(2 * 33 * heads));
    unsigned long long largest = 0;
    gpu::AttentionReference a;
    a.operands.q = tensors.views()[0].data;
    a.operands.k = tensors.views()[1].data;
    a.operands.v = tensors.views()[2].data;
    a.operands.input = c.dtype;
    a.operands.batch = p.batch;
    a.operands.heads = p.heads;
    a.operands.kv_heads = p.kv_heads;
    a.operands.queries = p.seq;
    a.operands.keys = p.KvSeq();
    a.operands.dim = p.dim;
    a.bound = MakeAttentionBound(c, plan);
    a.value = result.value.data();
    a.allowance = result.allowance.data();
    a.largest = &largest;
    a.model = MakeAttentionDeviation(c, plan);
    a.deviation = result.deviation.data();
    a.direction = result.direction.data();
    a.key_squares = squares.data();
    a.key_squares_bytes = heads * gpu::KeySquareBytes(33) + 8;
    ASSERT_EQ(gpu::LaunchAttentionReference(a, nullptr), gpu::kOk);
    EXPECT_EQ(result.deviation, all.deviation);
    EXPECT_EQ(result.direction, all.direction);
    EXPECT_EQ(result.value, all.value);
    EXPECT_EQ(gpu::LargestScore(largest), all.max_abs_score);
  }
}

TEST_P(SimtAttentionReference, DeviationsAreOfKeysThatFitTheScratchMemory) {
  constexpr std::int64_t kMost = GpuReferences::kScratchBytes / 16 - 1;
  EXPECT_TRUE(references_.FillsDeviations(MakeCase(Problem(1, kMost, 1), DType::kF32)));
  EXPECT_FALSE(references_.FillsDeviations(MakeCase(Problem(1, kMost + 1, 1), DType::kF32)));
}

void SimtAttentionReference::ExpectKeyGroupsToTheBit(bool causal, double density, bool single) {
  AttentionProblem p = Problem(75, 83, 17);
  p.batch = 2;
  p.heads = 4;
  p.kv_heads = 2;
  p.causal = causal;
  p.mask_density = density;
  p.scale_v = 0.5;
  Case c = MakeCase(p, DType::kF16);
  c.exact = true;
  if (single) c.significand = 2;
  const Plan plan = PlanOf(c);
  const KeyGroups groups(p.seq, p.KvSeq(), causal);
  const Tensors tensors(plan, [&](int operand, std::int64_t i) {
    if (operand == 3) return single || groups.Keeps(i / 83, i % 83) ? 1.0 : 0.0;
    return static_cast<double>(i * 11 % 8 + 1);
  });
  const Result result = Run(c, plan, tensors);
  std::vector<double> plain(result.value.size());
  AttentionKeyGroupsCpu(c, tensors.views(), plain.data());
  EXPECT_EQ(result.value, plain);
  for (const double e : result.allowance) EXPECT_EQ(e, kUnwritten);
}

TEST_P(SimtAttentionReference, KeyGroupsToTheBit) {
  for (const bool causal : {false, true}) {
    for (const double density : {0.0, 0.5}) {
      for (const bool single : {false, true}) ExpectKeyGroupsToTheBit(causal, density, single);
    }
  }
}

TEST_P(SimtAttentionReference, FirstRowsAreLookedAt) {
  for (const std::int64_t dim : {8, 300}) {
    AttentionProblem p = Problem(20, 15, dim);
    p.heads = 4;
    p.kv_heads = 2;
    p.causal = true;
    const Case c = MakeCase(p, DType::kF16);
    const Plan plan = PlanOf(c);
    const Tensors tensors(plan, RandomValues(plan));
    Result right = Run(c, plan, tensors);
    const ReferenceBuffers reference{right.value.data(), right.allowance.data()};
    for (const bool wrong : {false, true}) {
      Plan outputs = plan;
      outputs.inputs = {plan.output};
      const Tensors o(outputs, [&](int, std::int64_t i) {
        const bool here = wrong && i == (20 + 5) * dim + dim - 1;  // head 1, query 5
        return right.value[static_cast<std::size_t>(i)] + (here ? 1.0 : 0.0);
      });
      const auto found =
          references_.CheckIdentities(c, plan, *device_, tensors.views(), o.views()[0], reference);
      ASSERT_TRUE(found.ok()) << found.status();
      ASSERT_EQ(found->size(), 1U);
      EXPECT_EQ(found->front().name, "first-row");
      EXPECT_EQ(found->front().count, 4 * dim);
      EXPECT_EQ(found->front().broken, wrong ? 1 : 0);
      if (wrong) {
        EXPECT_EQ(found->front().message.substr(0, 14), "head 1 query 5");
      }
    }
  }
}

}  // namespace
}  // namespace assay
