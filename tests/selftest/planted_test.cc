// Each planted kernel is caught by the check its table names, as often as it says, and
// the control passes: the harness can say no. In one process, so without the kernels
// that end or block it: those are the end-to-end test's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "kernels/providers/planted/planted.h"
#include "kernels/text/cat.h"
#include "kernels/validate/runner.h"
#include "tests/selftest/planted_checks.h"

namespace assay::testing {
namespace {

// Seeds of a row: more where its defect sits in a single element, launch or bit.
int Seeds() { return IsLongRun() ? 3 : 1; }
int SeedsOfSites() { return SeedsOr(5); }

// Their defects are in every element, and long sums take their time.
bool HasLongSums(const PlantedDefect& d) {
  const auto* p = std::get_if<GemmProblem>(&d.problem);
  return p != nullptr && p->k >= 4096;
}

int SeedsOf(const PlantedDefect& d, DType t) {
  if (HasLongSums(d)) return 1;
  if (d.repeats > 10) return SeedsOfSites();
  return d.check == "exact" || RequiredRate(d, t) < 1.0 ? SeedsOfSites() : Seeds();
}

class Planted : public ::testing::Test {
 protected:
  Planted() { RegisterAll(registry_); }

  CaseOutcome Run(const Case& c) {
    PhaseObserver observer;
    return CaseRunner(*device_, registry_, nullptr).Run(c, observer);
  }

  Registry registry_;
  std::unique_ptr<Device> device_ =
      MakeCpuDevice(0, ArenaOptions{.max_bytes = std::int64_t{256} << 20});
};

TEST_F(Planted, EachIsCaughtByItsCheckAsOftenAsItMust) {
  const int rows =
      ExpectEachIsCaught(PlantedDefects(), &SeedsOf, [&](const Case& c) { return Run(c); });
  EXPECT_GT(rows, 250);
}

// The bound of a long sum hides them: the probes must not.
TEST_F(Planted, NarrowedOperandsAndResultsAreCaughtAtEveryLength) {
  for (const std::string_view name : {"long-tf32-inputs", "tf32-a", "tf32-b", "two-bf16",
                                      "output-through-fp16", "output-through-bf16", "gain"}) {
    const PlantedDefect* d = FindPlanted("gemm", Cat(kPlantedPrefix, name));
    ASSERT_NE(d, nullptr) << name;
    for (const std::int64_t k : {256, 4096, 65536}) {
      Case c = PlantedCase(*d, DType::kF32);
      c.problem = GemmProblem{.m = 32, .n = 32, .k = k};
      c.pattern = k == 4096 ? "uniform:0:1" : "";
      const CaseOutcome outcome = Run(c);
      EXPECT_TRUE(Found(outcome, "exact")) << name << " k " << k << ": " << Describe(outcome);
    }
  }
}

// A defect that hides below the bound, and what finds it in fp32 at each of three lengths:
//   e  the errors of the case's own data: bound, precision or structure
//   p  at least a probe or an identity
//   -  is not run: no statistic reaches it there, or not for certain (see below)
struct Hidden {
  std::string_view op, name, pattern, found;
  DType dtype = DType::kF32;
};

// Products of 256, 4,096 and 65,536 terms; the last with 256 outputs, the others with 1,024. The
// statistics do not reach an input that is narrowed on positive data (R = 0.2 for two bf16, 0.7 for
// tf32, of at most 2), nor a gain of 1e-5 on 65,536 positive terms, where a right kernel may have
// 1.5e-5.
constexpr Hidden kHiddenProducts[] = {
    {"gemm", "tf32-on-positive", "normal", "eee"},
    {"gemm", "tf32-on-positive", "uniform:0:1", "eep"},
    {"gemm", "two-bf16-inputs", "normal", "eep"},
    {"gemm", "two-bf16-inputs", "uniform:0:1", "epp"},
    {"gemm", "fp16-block-sums", "normal", "eee"},
    {"gemm", "fp16-block-sums", "uniform:0:1", "eep"},
    {"gemm", "bf16-block-sums", "normal", "eee"},
    {"gemm", "bf16-block-sums", "uniform:0:1", "eee"},
    {"gemm", "truncating-sums", "normal", "eee"},
    {"gemm", "truncating-sums", "uniform:0:1", "eee"},
    {"gemm", "fp16-results", "normal", "eee"},
    {"gemm", "fp16-results", "uniform:0:1", "eee"},
    {"gemm", "output-through-bf16", "normal", "eee"},
    {"gemm", "output-through-bf16", "uniform:0:1", "eee"},
    {"gemm", "gain-1e-4", "normal", "eee"},
    {"gemm", "gain-1e-4", "uniform:0:1", "eee"},
    {"gemm", "gain-1e-5", "normal", "eee"},
    {"gemm", "gain-1e-5", "uniform:0:1", "eep"},
    {"gemm", "gain", "normal", "eep"},
    {"gemm", "gain", "uniform:0:1", "eep"},
    {"gemm", "wrong-lanes", "normal", "eep"},
    {"gemm", "wrong-lanes", "uniform:0:1", "eep"},
    {"gemm", "every-4th", "normal", "eep"},
    {"gemm", "every-4th", "uniform:0:1", "eep"},
    {"gemm", "every-128th", "normal", "epp"},
    {"gemm", "every-128th", "uniform:0:1", "eep"},
    {"gemm", "bit-pattern", "normal", "ppp"},
    {"gemm", "bit-pattern", "uniform:0:1", "ppp"},
};

// Rows of 256, 8,192 and 65,536 columns. Not reached: n − 1 for n = 65,536, a relative error of
// 8e-6, with R = 0.8 of at most 12 for two rows; and 1e-6 of exp's argument on numbers from 0 to 1,
// which leaves a rest of 1.9 of at most 2.5, and whose variance of 1/12 tells no direction.
constexpr Hidden kHiddenRows[] = {
    {"softmax", "rough-exp", "normal", "eee"},
    {"softmax", "rough-exp", "uniform:0:1", "eee"},
    {"softmax", "exp-scale-1e-4", "normal", "eee"},
    {"softmax", "exp-scale-1e-4", "uniform:0:1", "eee"},
    {"softmax", "exp-scale-1e-6", "normal", "eee"},
    {"softmax", "exp-scale-1e-6", "uniform:0:1", "---"},
    {"softmax", "dropped-last", "normal", "eep"},
    {"softmax", "dropped-last", "uniform:0:1", "eep"},
    {"softmax", "sum-in-16-bits", "normal", "eee"},
    {"softmax", "sum-in-16-bits", "uniform:0:1", "eee"},
    {"softmax", "sum-in-bf16", "normal", "eee"},
    {"softmax", "sum-in-bf16", "uniform:0:1", "eee"},
    {"layer_norm", "wrong-eps", "normal:3:5", "eep"},
    {"layer_norm", "wrong-eps", "uniform:0:1", "eee"},
    {"layer_norm", "sample-variance", "normal", "ee-"},
    {"layer_norm", "sample-variance", "uniform:0:1", "ee-"},
    {"layer_norm", "dropped-last", "normal", "eep"},
    {"layer_norm", "dropped-last", "uniform:0:1", "eep"},
};

// 256, 4,096 and 65,536 keys. Not reached: in 16 bits on positive data, whose weights span too few
// steps of P's format to tell the scale of their scores; and in fp32 on positive data 1e-4 from
// 4,096 keys on, where the scale is known to 2e-5 (to 6e-4 with 65,536 keys). Not run with 65,536
// keys: 1e-3 on normal data, as 1e-4 is found there, and P in fp16.
constexpr Hidden kHiddenAttentions[] = {
    {"attention", "scale-off-1e-3", "normal", "ee-"},  // 1e-4 shows more with 65,536 keys
    {"attention", "scale-off-1e-3", "uniform:0:1", "ee-"},
    {"attention", "long-scale-off-1e-4", "normal", "eee"},
    {"attention", "long-scale-off-1e-4", "uniform:0:1", "e--"},
    {"attention", "16-bit-scale-off-1e-3", "normal", "eee", DType::kBF16},
    {"attention", "16-bit-scale-off-1e-3", "uniform:0:1", "---", DType::kBF16},
    {"attention", "scale-off-1e-4", "normal", "eee", DType::kF16},
    {"attention", "scale-off-1e-4", "uniform:0:1", "---", DType::kF16},
    {"attention", "p-in-fp16", "normal", "ee-"},
    {"attention", "p-in-fp16", "uniform:0:1", "ee-"},
};

// The problem of a row of a table above, at one of its three lengths.
Problem ProblemOf(const Hidden& h, std::size_t length) {
  constexpr std::int64_t kTerms[] = {256, 4096, 65'536}, kColumns[] = {256, 8192, 65'536};
  constexpr std::int64_t kRows[] = {16, 8, 2};
  if (h.op == "gemm") {
    const std::int64_t side = length < 2 ? 32 : 16;
    return GemmProblem{.m = side, .n = side, .k = kTerms[length]};
  }
  if (h.op == "softmax") return SoftmaxProblem{.rows = kRows[length], .cols = kColumns[length]};
  if (h.op == "layer_norm") {
    return LayerNormProblem{.rows = kRows[length], .cols = kColumns[length]};
  }
  AttentionProblem p;
  p.heads = p.kv_heads = 1;
  p.seq = length < 2 ? 64 : 32;
  p.kv_seq = kTerms[length];
  p.dim = 64;
  return p;
}

// Whether the errors of the case's own data fail it.
bool FoundInErrors(const CaseOutcome& outcome) {
  return outcome.verdict == Verdict::kFailed &&
         (Found(outcome, "precision") || Found(outcome, "structure") ||
          (Found(outcome, "bound") && outcome.compare && outcome.compare->mismatches > 0));
}

template <class Run>
void ExpectFound(const Hidden& h, char found, const Problem& problem, Run run) {
  if (found == '-') return;
  const PlantedDefect* d = FindPlanted(h.op, Cat(kPlantedPrefix, h.name));
  ASSERT_NE(d, nullptr) << h.op << " " << h.name;
  Case c = PlantedCase(*d, h.dtype);
  c.problem = problem;
  c.pattern = std::string(h.pattern);
  const CaseOutcome outcome = run(c);
  const bool is_found = found == 'e' ? FoundInErrors(outcome) : outcome.verdict == Verdict::kFailed;
  EXPECT_TRUE(is_found) << DefaultName(c) << ": " << Describe(outcome);
}

// In every run at the two shortest lengths.
TEST_F(Planted, WhatHidesIsFoundAtEveryLengthOnNormalAndOnPositiveData) {
  for (const std::span<const Hidden> table :
       {std::span<const Hidden>(kHiddenProducts), std::span<const Hidden>(kHiddenRows),
        std::span<const Hidden>(kHiddenAttentions)}) {
    for (const Hidden& h : table) {
      const std::size_t lengths =
          IsLongRun() ? h.found.size() : std::min<std::size_t>(2, h.found.size());
      for (std::size_t length = 0; length < lengths; ++length) {
        ExpectFound(h, h.found[length], ProblemOf(h, length),
                    [&](const Case& c) { return Run(c); });
      }
    }
  }
}

// The least outputs that the statistics are made for, 1,024, in 4 rows and in 1. A row counts as
// one draw of what its elements share, so these limits are wide: 6 deviations with 4 rows, 12
// with 1. Products of 256 terms, and of 16,384 and 4,096. There the statistics do not reach two
// bf16 on positive data (R = 0.2 of at most 2), nor a gain of 1e-6 with 16,384 terms, which is as
// much as its limit. In every run 256 terms.
constexpr Hidden kHiddenInFewRows[] = {
    {"gemm", "tf32-on-positive", "normal", "ee"},
    {"gemm", "tf32-on-positive", "uniform:0:1", "ee"},
    {"gemm", "two-bf16-inputs", "normal", "ee"},
    {"gemm", "two-bf16-inputs", "uniform:0:1", "ep"},
    {"gemm", "fp16-results", "normal", "ee"},
    {"gemm", "fp16-results", "uniform:0:1", "ee"},
    {"gemm", "gain-1e-4", "normal", "ee"},
    {"gemm", "gain-1e-4", "uniform:0:1", "ee"},
    {"gemm", "gain-1e-5", "normal", "ee"},
    {"gemm", "gain-1e-5", "uniform:0:1", "ee"},
    {"gemm", "gain", "normal", "ep"},
    {"gemm", "gain", "uniform:0:1", "ep"},
    {"softmax", "rough-exp", "normal", "e"},
    {"softmax", "rough-exp", "uniform:0:1", "e"},
    {"softmax", "dropped-last", "normal", "e"},
    {"softmax", "dropped-last", "uniform:0:1", "e"},
    {"layer_norm", "wrong-eps", "normal:3:5", "e"},
    {"layer_norm", "wrong-eps", "uniform:0:1", "e"},
    {"layer_norm", "sample-variance", "normal", "e"},
    {"layer_norm", "sample-variance", "uniform:0:1", "e"},
    {"layer_norm", "dropped-last", "normal", "e"},
    {"layer_norm", "dropped-last", "uniform:0:1", "e"},
};

TEST_F(Planted, WhatHidesIsFoundInFewRowsToo) {
  for (const std::int64_t rows : {4, 1}) {
    const std::int64_t columns = 1024 / rows;
    for (const Hidden& h : kHiddenInFewRows) {
      std::vector<Problem> problems;
      if (h.op == "gemm") {
        problems = {GemmProblem{.m = rows, .n = columns, .k = 256},
                    GemmProblem{.m = rows, .n = columns, .k = rows * 4096}};
      } else if (h.op == "softmax") {
        problems = {SoftmaxProblem{.rows = rows, .cols = columns}};
      } else {
        problems = {LayerNormProblem{.rows = rows, .cols = columns}};
      }
      ASSERT_EQ(h.found.size(), problems.size()) << h.name;
      if (!IsLongRun()) problems.resize(1);
      for (std::size_t i = 0; i < problems.size(); ++i) {
        ExpectFound(h, h.found[i], problems[i], [&](const Case& c) { return Run(c); });
      }
    }
  }
}

TEST_F(Planted, TheControlPassesOnEveryProblemThatShowsADefectOfGemm) {
  const PlantedDefect* control = FindPlanted("gemm", "planted/correct");
  ASSERT_NE(control, nullptr);
  for (const PlantedDefect& d : PlantedDefects()) {
    if (d.op != "gemm") continue;
    for (const DType t : d.dtypes) {
      Case c = PlantedCase(d, t);
      c.provider = "planted/correct";
      const CaseOutcome outcome = Run(c);
      EXPECT_EQ(outcome.verdict, Verdict::kPassed) << c.name << ": " << Describe(outcome);
    }
  }
}

// What a table promises its readers.
std::map<std::string_view, int> ExpectWhole(std::string_view backend) {
  std::map<std::string_view, int> defects;
  std::set<std::string> names;
  for (const PlantedDefect& d : PlantedDefects(backend)) {
    EXPECT_TRUE(names.insert(Cat(d.op, "/", d.name)).second) << d.op << " " << d.name;
    EXPECT_FALSE(d.magnitude.empty()) << d.name;
    EXPECT_EQ(OpName(d.problem), d.op) << d.name;
    EXPECT_EQ(FindPlanted(d.op, PlantedProvider(d), backend), &d);
    for (const DType t : d.dtypes) {
      const std::vector<FieldError> errors = Check(PlantedCase(d, t));
      EXPECT_TRUE(errors.empty()) << d.op << " " << d.name << " " << Name(t) << ": "
                                  << errors.front().field << " " << errors.front().message;
      EXPECT_GT(RequiredRate(d, t), 0.0);
    }
    defects[d.op] += d.check.empty() ? 0 : 1;
  }
  return defects;
}

// A copy has little that can go wrong. Of an operator of the caller's own nothing is known.
void ExpectEveryOpIn(const std::map<std::string_view, int>& defects) {
  for (const Op* op : AllOps()) {
    if (op->traits().own_reference) continue;
    const auto found = defects.find(op->name());
    EXPECT_GE(found == defects.end() ? 0 : found->second, op->name() == "copy" ? 1 : 8)
        << op->name();
  }
}

// How many defects the bound of each element hides.
std::ptrdiff_t HiddenOf(std::string_view op, std::string_view backend) {
  const std::span<const PlantedDefect> defects = PlantedDefects(backend);
  return std::count_if(defects.begin(), defects.end(), [op](const PlantedDefect& d) {
    return d.op == op && (d.check == "precision" || d.check == "structure");
  });
}

TEST(PlantedTable, IsWhole) { ExpectEveryOpIn(ExpectWhole("cpu")); }

TEST(PlantedTable, OfGpusIsWholeToo) {
  for (const std::string_view backend : {"cuda", "hip", "simt"}) {
    std::map<std::string_view, int> defects = ExpectWhole(backend);
    EXPECT_GE(defects["gemm"], 38);
    ExpectEveryOpIn(defects);
    EXPECT_GE(HiddenOf("gemm", backend), 8) << backend;
    for (const std::string_view op : {"attention", "softmax", "layer_norm"}) {
      EXPECT_GE(HiddenOf(op, backend), 2) << op << " " << backend;
    }
  }
  // A driver that tells of an illegal address, and one that ends the process.
  EXPECT_EQ(FindPlanted("gemm", "planted/crash", "cuda")->check, "fault");
  EXPECT_EQ(FindPlanted("gemm", "planted/crash", "hip")->check, "crash");
  EXPECT_EQ(FindPlanted("gemm", "planted/far-past-the-end"), nullptr) << "the CPU has none";
}

// The site is drawn from the seed: other seeds, other elements.
TEST_F(Planted, TheSiteFollowsTheSeed) {
  const PlantedDefect* nan = FindPlanted("gemm", "planted/nan");
  std::set<std::int64_t> sites;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    const CaseOutcome outcome = Run(PlantedCase(*nan, DType::kF32, seed));
    ASSERT_TRUE(outcome.compare.has_value());
    sites.insert(outcome.compare->first_nan);
  }
  EXPECT_GT(sites.size(), 5u);
}

// Those that end the process do it as the table says.
TEST(PlantedDeathTest, CrashAbortAndExit) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto launch = [](std::string_view provider) {
    Registry registry;
    RegisterAll(registry);
    const std::unique_ptr<Device> device =
        MakeCpuDevice(0, ArenaOptions{.max_bytes = std::int64_t{64} << 20});
    PhaseObserver observer;
    const PlantedDefect* d = FindPlanted("gemm", provider);
    CaseRunner(*device, registry, nullptr).Run(PlantedCase(*d, DType::kF32), observer);
  };
  EXPECT_DEATH(launch("planted/crash"), "");
  EXPECT_DEATH(launch("planted/abort"), "");
  EXPECT_EXIT(launch("planted/exit"), ::testing::ExitedWithCode(3), "");
}

}  // namespace
}  // namespace assay::testing
