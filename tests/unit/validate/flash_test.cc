// Right kernels as GPUs compute them: online softmax by tiles, exponents of fused
// multiply-adds, approximate reciprocals. No probe and no identity accuses them. And kernels of the
// same kind with one defect, which a probe finds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/numerics/convert.h"
#include "kernels/providers/provider.h"
#include "kernels/text/cat.h"
#include "kernels/validate/runner.h"
#include "tests/outcome_text.h"

namespace assay {
namespace {

constexpr std::int64_t kTile = 32;
constexpr float kInf = std::numeric_limits<float>::infinity();

// What a kernel does wrong, or by a design that it must declare. The defaults are right.
struct Defect {
  float last_key = 1;       // what the weight of each query's last key is multiplied by
  float hidden = -kInf;     // what is added to scores that causality or the mask hides
  float first_max = -kInf;  // where the running maximum begins
  float least_weight = 0;   // weights below it are dropped
  bool knows_empty = true;  // false: tiles without a visible key give NaN
  bool knows_none = true;   // false: so do queries without one
  float most_score = kInf;  // scores are clamped to it
  DType read_through = DType::kF64;
  float least_value = 0;             // elements of V nearer to 0 are taken for 0
  float most_value = kInf;           // elements of V are clipped to it
  DType scaled_query = DType::kF64;  // what Q times scale and log2(e) is rounded to; fp64: not so
  DType score = DType::kF64;
  DType weight = DType::kUnspecified;  // the input's
  DType quotient = DType::kF64;        // what results are rounded to before the output's format
};

class FlashKernel : public Kernel {
 public:
  FlashKernel(const Case& c, const Defect& defect)
      : problem_(std::get<AttentionProblem>(c.problem)), in_(c.dtype), defect_(defect) {}

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    std::vector<float> in[3];
    for (std::size_t t = 0; t < 3; ++t) {
      for (std::int64_t i = 0; i < inputs[t].count(); ++i) {
        const double x = LoadDouble(in_, inputs[t].data, i);
        in[t].push_back(static_cast<float>(Quantise(x, defect_.read_through)));
        if (t == 2) in[t].back() = Value(in[t].back());
      }
    }
    mask_ = problem_.masked() ? inputs[3].as<std::int8_t>() : nullptr;
    for (std::int64_t row = 0; row < problem_.heads * problem_.seq; ++row) {
      Row(in[0].data(), in[1].data(), in[2].data(), row, output);
    }
    return absl::OkStatus();
  }

 private:
  float Value(float v) const {
    if (std::abs(v) < defect_.least_value) return 0;
    return std::clamp(v, -defect_.most_value, defect_.most_value);
  }

  void Row(const float* q, const float* k, const float* v, std::int64_t row,
           const TensorView& output) const {
    const std::int64_t dim = problem_.dim, keys = problem_.KvSeq();
    const std::int64_t head = row / problem_.seq, query = row % problem_.seq;
    const std::int64_t seen = problem_.causal ? query + 1 + keys - problem_.seq : keys;
    const float scale = static_cast<float>(problem_.Scale(in_));
    const bool scales_query = defect_.scaled_query != DType::kF64;
    const float of_query = scales_query ? scale * 1.44269504f : 1.0f;
    const float factor = scales_query ? 1.0f : scale * 1.44269504f;
    const DType weight_format = defect_.weight == DType::kUnspecified ? in_ : defect_.weight;
    const auto rounded = [](float x, DType format) {
      return static_cast<float>(Quantise(static_cast<double>(x), format));
    };
    float m = defect_.first_max / scale, l = 0;
    std::vector<float> o(static_cast<std::size_t>(dim), 0.0f);
    for (std::int64_t first = 0; first < keys; first += kTile) {
      const std::int64_t count = std::min(kTile, keys - first);
      float s[kTile], before = m;
      for (std::int64_t j = 0; j < count; ++j) {
        s[j] = 0;
        for (std::int64_t d = 0; d < dim; ++d) {
          const float scaled = rounded(q[row * dim + d] * of_query, defect_.scaled_query);
          s[j] = std::fma(scaled, k[(head * keys + first + j) * dim + d], s[j]);
        }
        s[j] = rounded(s[j], defect_.score);
        const bool hidden = first + j >= seen || (mask_ && mask_[query * keys + first + j] == 0);
        s[j] = std::min(s[j], defect_.most_score / scale);
        if (hidden) s[j] += defect_.hidden / scale;
        m = std::max(m, s[j]);
      }
      if (m == -kInf && defect_.knows_empty) continue;
      const float shift = m * factor;
      const float kept = std::exp2(std::fma(before, factor, -shift));
      l *= kept;
      for (float& x : o) x *= kept;
      for (std::int64_t j = 0; j < count; ++j) {
        float p = std::exp2(std::fma(s[j], factor, -shift));
        if (first + j == seen - 1) p *= defect_.last_key;
        if (p < defect_.least_weight) p = 0;
        l += p;
        // As the second product takes it.
        const float weight = rounded(p, weight_format);
        for (std::int64_t d = 0; d < dim; ++d) {
          float& sum = o[static_cast<std::size_t>(d)];
          sum = std::fma(weight, v[(head * keys + first + j) * dim + d], sum);
        }
      }
    }
    const float none = defect_.knows_none ? 0.0f : std::numeric_limits<float>::quiet_NaN();
    const float inverse = l == 0 && m == -kInf ? none : std::nextafter(1.0f / l, 0.0f);
    for (std::int64_t d = 0; d < dim; ++d) {
      const float result = rounded(o[static_cast<std::size_t>(d)] * inverse, defect_.quotient);
      StoreBits(output.dtype, output.data, row * dim + d,
                RoundToFormat(static_cast<double>(result), output.dtype));
    }
  }

  const AttentionProblem problem_;
  const DType in_;
  const Defect defect_;
  const std::int8_t* mask_ = nullptr;  // nullptr: none
};

// Of the kernels that Make() makes, which has no argument of its own.
Defect made_with;

absl::StatusOr<std::unique_ptr<Kernel>> Make(const Case& c, const Plan&, Device&) {
  return std::make_unique<FlashKernel>(c, made_with);
}

CaseOutcome RunFlash(Case c, const Defect& defect = {}) {
  made_with = defect;
  Registry registry;
  registry.Add(KernelEntry{.op = "attention",
                           .provider = "flash",
                           .backend = "cpu",
                           .dtypes = {c.dtype},
                           .make = Make,
                           .version = {},
                           .unavailable_reason = {}});
  const std::unique_ptr<Device> device =
      MakeCpuDevice(0, ArenaOptions{.max_bytes = std::int64_t{128} << 20});
  c.provider = "flash";
  c.seed = 3;
  PhaseObserver observer;
  return CaseRunner(*device, registry, nullptr).Run(c, observer);
}

const ProbeOutcome* Find(const CaseOutcome& outcome, std::string_view name) {
  for (const ProbeOutcome& p : outcome.probes) {
    if (p.name == name) return &p;
  }
  return nullptr;
}

// Few dimensions and many keys: codes of one, two and three elements, whose scores are up
// to 660, and scales whose products with three equal ones round.
std::vector<Case> Cases() {
  std::vector<Case> cases;
  const std::pair<DType, DType> formats[] = {
      {DType::kF32, DType::kF32},      {DType::kTF32, DType::kF32},   {DType::kF16, DType::kF32},
      {DType::kF16, DType::kF16},      {DType::kBF16, DType::kBF16},  {DType::kBF16, DType::kF32},
      {DType::kE4M3FN, DType::kF32},   {DType::kE4M3FN, DType::kF16}, {DType::kE5M2, DType::kBF16},
      {DType::kE4M3FN, DType::kE4M3FN}};
  for (const auto& [in, out] : formats) {
    for (const std::int64_t seq : {40, 200, 500}) {
      for (const bool causal : {false, true}) {
        Case c;
        AttentionProblem p;
        p.heads = 1;
        p.seq = seq;
        p.dim = 8;
        p.causal = causal;
        p.scale = causal ? 0.326 : 0.352;  // thrice its product with log2(e) is rounded
        c.problem = p;
        c.dtype = in;
        c.out_dtype = out;
        c.pattern = "normal:3";
        cases.push_back(c);
      }
    }
  }
  return cases;
}

TEST(Flash, RightKernelsAreNotAccused) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(DefaultName(c));
    const CaseOutcome outcome = RunFlash(c);
    EXPECT_EQ(outcome.verdict, Verdict::kPassed) << Describe(outcome);
    const ProbeOutcome* groups = Find(outcome, "key-groups");
    ASSERT_NE(groups, nullptr);
    EXPECT_EQ(groups->verdict, Verdict::kPassed) << Describe(outcome);
  }
}

// A thousandth of one weight is far below the rounding of 16-bit weights, and seen.
TEST(Flash, AThousandthOfOneWeightIsSeenInFp32) {
  for (const Case& c : Cases()) {
    // Else the last key is a group of its own, whose mean no weight changes.
    if (!std::get<AttentionProblem>(c.problem).causal) continue;
    if (OutputType(c) != DType::kF32) continue;
    SCOPED_TRACE(DefaultName(c));
    const CaseOutcome outcome = RunFlash(c, {.last_key = 0.999f});
    EXPECT_EQ(outcome.verdict, Verdict::kFailed) << Describe(outcome);
  }
}

// Weights of 8 bits hide it from all but an exact case with more bits.
TEST(Flash, AResultThatIsRoundedTwiceIsSeenIn8Bits) {
  for (const DType t : {DType::kE4M3FN, DType::kE5M2}) {
    for (const DType out : {DType::kF16, DType::kF32}) {
      Case c;
      c.problem = AttentionProblem{.heads = 1, .seq = 200, .dim = 64};
      c.dtype = t;
      c.out_dtype = out;
      SCOPED_TRACE(DefaultName(c));
      const CaseOutcome outcome = RunFlash(c, {.quotient = DType::kBF16});
      EXPECT_EQ(outcome.verdict, Verdict::kFailed) << Describe(outcome);
      EXPECT_EQ(Find(outcome, "key-groups")->verdict, Verdict::kFailed);
    }
  }
}

struct Wrong {
  std::string_view probe;
  Defect defect;
  DType dtype = DType::kBF16;
  bool causal = true, masked = false;
};

// Random data of a small range show none of them.
TEST(Flash, WrongKernelsFailTheProbesMadeForThem) {
  std::vector<Wrong> all;
  for (const DType t : {DType::kBF16, DType::kF16, DType::kF32}) {
    for (const float added : {-20.0f, -100.0f, -1e4f}) {
      all.push_back({"far-below-0", {.hidden = added}, t});
      all.push_back({"far-below-0", {.hidden = added}, t, false, true});
    }
    for (const float first : {0.0f, -1e3f, -1e4f}) {
      all.push_back({"far-below-0", {.first_max = first}, t, false});
    }
    for (const float most : {30.0f, 1000.0f}) {
      all.push_back({"far-above-0", {.most_score = most}, t, false});
      all.push_back({"far-above-0", {.most_score = most}, t});
    }
    const char* probe = t == DType::kF16 ? "exact-significand-v" : "small-weights";
    all.push_back({probe, {.least_value = 1e-4f}, t, false});
    for (const float most : {8.0f, 1000.0f}) {
      all.push_back({"far-below-0", {.most_value = most}, t, false});
    }
    all.push_back({"key-groups", {.knows_none = false}, t, false, true});
    all.push_back({"key-groups", {.knows_empty = false}, t, false, true});
    all.push_back({"key-groups", {.knows_empty = false}, t, true, true});
  }
  for (const DType t : {DType::kBF16, DType::kF32}) {
    for (const float least : {1e-6f, 1e-4f, 1e-3f}) {
      all.push_back({"small-weights", {.least_weight = least}, t, false});
    }
  }
  for (const char* probe : {"far-below-0", "key-groups", "exact-significand-v"}) {
    all.push_back({probe, {.read_through = DType::kF16}});
  }
  std::set<std::string> right;  // cases that the right kernel has run
  for (const Wrong& wrong : all) {
    Case c;
    AttentionProblem p{.heads = 1, .seq = 150, .dim = 32, .causal = wrong.causal};
    p.mask_density = wrong.masked ? 0.5 : 0;
    c.problem = p;
    c.dtype = wrong.dtype;
    SCOPED_TRACE(Cat(wrong.probe, " of ", DefaultName(c)));
    const CaseOutcome outcome = RunFlash(c, wrong.defect);
    const ProbeOutcome* probe = Find(outcome, wrong.probe);
    ASSERT_NE(probe, nullptr);
    EXPECT_EQ(probe->verdict, Verdict::kFailed) << Describe(outcome);
    if (!right.insert(DefaultName(c)).second) continue;
    EXPECT_EQ(RunFlash(c).verdict, Verdict::kPassed);
  }
}

// Triton's tutorial subtracts 1e6 from base-2 scores that causality hides.
TEST(Flash, AMaskThatSubtractsAMillionIsNotAccused) {
  for (const DType t : {DType::kBF16, DType::kF16, DType::kF32}) {
    for (const std::int64_t seq : {20, 40, 150, 300}) {
      Case c;
      c.problem = AttentionProblem{.heads = 1, .seq = seq, .dim = 32, .causal = true};
      c.dtype = t;
      SCOPED_TRACE(DefaultName(c));
      const CaseOutcome outcome = RunFlash(c, {.hidden = -1e6f / 1.44269504f});
      EXPECT_EQ(outcome.verdict, Verdict::kPassed) << Describe(outcome);
    }
  }
}

// Q times the scale is rounded to bf16. Data of a usual range do not tell, and no exact case may.
TEST(Flash, ARoundedQueryThatTheOwnDataAllowIsNotAccused) {
  for (const std::int64_t keys : {64, 100, 256}) {
    for (const std::int64_t dim : {16, 32, 128}) {
      Case c;
      c.problem = AttentionProblem{.heads = 2, .seq = 64, .kv_seq = keys, .dim = dim};
      c.dtype = DType::kBF16;
      SCOPED_TRACE(DefaultName(c));
      const CaseOutcome outcome = RunFlash(c, {.scaled_query = DType::kBF16});
      EXPECT_EQ(outcome.verdict, Verdict::kPassed) << Describe(outcome);
    }
  }
}

// Scores of tens, whose rounding to 16 bits changes weights by more than those 16 bits round by.
Case LargeScores(DType dtype, bool causal) {
  Case c;
  c.problem = AttentionProblem{.heads = 1, .seq = 130, .dim = 64, .causal = causal, .scale = 0.2};
  c.dtype = dtype;
  c.pattern = "normal:1.5";
  return c;
}

TEST(Flash, ScoresThatAreRoundedPassIfThatIsDeclared) {
  for (const DType t : {DType::kBF16, DType::kF16}) {
    for (const bool causal : {false, true}) {
      for (const Defect& design :
           {Defect{.scaled_query = t}, Defect{.score = t}, Defect{.scaled_query = t, .score = t}}) {
        if (causal && design.score != t) continue;
        Case c = LargeScores(t, causal);
        SCOPED_TRACE(DefaultName(c));
        EXPECT_EQ(RunFlash(c, design).verdict, Verdict::kFailed);
        c.intermediate_dtype = t;
        for (const char* pattern : {"normal:1.5", "normal", "uniform:-1:3", "normal:3"}) {
          c.pattern = pattern;
          const CaseOutcome outcome = RunFlash(c, design);
          EXPECT_EQ(outcome.verdict, Verdict::kPassed) << Describe(outcome);
        }
        // What is declared is no excuse for another defect.
        Defect wrong = design;
        wrong.last_key = 0.5;
        EXPECT_EQ(RunFlash(c, wrong).verdict, Verdict::kFailed);
      }
    }
  }
}

TEST(Flash, WeightsInFp16OfBf16PassIfThatIsDeclared) {
  Case c = LargeScores(DType::kBF16, false);
  std::get<AttentionProblem>(c.problem).seq = 1000;  // many weights far below 1
  c.intermediate_dtype = DType::kF16;
  for (const DType query : {DType::kF64, DType::kF16}) {
    const CaseOutcome outcome = RunFlash(c, {.scaled_query = query, .weight = DType::kF16});
    EXPECT_EQ(outcome.verdict, Verdict::kPassed) << Describe(outcome);
  }
}

TEST(Flash, TheDiagnosisOfARoundedQueryNamesTheDeclaration) {
  const Case c = LargeScores(DType::kBF16, false);
  const CaseOutcome outcome = RunFlash(c, {.scaled_query = DType::kBF16});
  EXPECT_THAT(outcome.reads_as, testing::HasSubstr("Q times scale"));
  EXPECT_THAT(outcome.next_step, testing::HasSubstr("--intermediate-dtype bf16"));
}

// Sums exponentials tile by tile, and takes them again under the last maximum.
class OnlineSoftmaxKernel : public Kernel {
 public:
  explicit OnlineSoftmaxKernel(const Case& c) : problem_(std::get<SoftmaxProblem>(c.problem)) {}

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    constexpr float kLog2e = 1.44269504f;
    const std::int64_t n = problem_.cols;
    for (std::int64_t row = 0; row < problem_.rows; ++row) {
      const float* x = inputs[0].as<float>() + row * n;
      float* y = output.as<float>() + row * n;
      float m = -std::numeric_limits<float>::infinity(), l = 0;
      for (std::int64_t first = 0; first < n; first += kTile) {
        const std::int64_t last = std::min(first + kTile, n);
        const float before = m;
        m = std::max(m, *std::max_element(x + first, x + last));
        l *= std::exp2(std::fma(before, kLog2e, -(m * kLog2e)));
        for (std::int64_t i = first; i < last; ++i) {
          l += std::exp2(std::fma(x[i], kLog2e, -(m * kLog2e)));
        }
      }
      for (std::int64_t i = 0; i < n; ++i) {
        y[i] = std::exp2(std::fma(x[i], kLog2e, -(m * kLog2e))) / l;
      }
    }
    return absl::OkStatus();
  }

 private:
  const SoftmaxProblem problem_;
};

// Under large inputs the roundings of two scaled maxima differ by many units.
TEST(Flash, OnlineSoftmaxesOfLargeInputsAreNotAccused) {
  Registry registry;
  registry.Add(KernelEntry{
      .op = "softmax",
      .provider = "online",
      .backend = "cpu",
      .dtypes = {DType::kF32},
      .make = [](const Case& c, const Plan&, Device&) -> absl::StatusOr<std::unique_ptr<Kernel>> {
        return std::make_unique<OnlineSoftmaxKernel>(c);
      },
      .version = {},
      .unavailable_reason = {}});
  const std::unique_ptr<Device> device =
      MakeCpuDevice(0, ArenaOptions{.max_bytes = std::int64_t{128} << 20});
  for (const char* pattern : {"normal", "near-constant:4000:1", "near-constant:-3e4:2"}) {
    Case c;
    c.problem = SoftmaxProblem{.rows = 200, .cols = 2 * kTile};
    c.dtype = DType::kF32;
    c.pattern = pattern;
    c.provider = "online";
    c.seed = 3;
    PhaseObserver observer;
    const CaseOutcome outcome = CaseRunner(*device, registry, nullptr).Run(c, observer);
    EXPECT_EQ(outcome.verdict, Verdict::kPassed) << pattern << ": " << Describe(outcome);
    const ProbeOutcome* sums = Find(outcome, "row-sums");
    ASSERT_NE(sums, nullptr);
    EXPECT_EQ(sums->count, 200);
  }
}

}  // namespace
}  // namespace assay
