// No pattern makes a correct kernel fail: every kernel of this build that is not
// wrong on purpose, in every format it takes, on every kind of data, with several
// seeds. Small shapes, odd extents.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/providers/provider.h"
#include "kernels/text/cat.h"
#include "kernels/validate/runner.h"
#include "tests/sample_problems.h"

namespace assay {
namespace {

// Every kind with its defaults, and the parameters that tests of kernels name.
std::vector<std::string> AllPatterns() {
  std::vector<std::string> all;
  for (const PatternInfo& info : Patterns()) {
    if (!info.for_probes) all.emplace_back(info.name);
  }
  for (const char* more :
       {"normal:0.01", "normal:0.5", "normal:3", "normal:1:100", "uniform:-1:1", "uniform:-10:10",
        "integers:0:5", "constant:1000", "one-hot:8", "sequential:0.5:65536", "extremes:100",
        "extremes:1000", "near-constant:100:0.01", "all-positive:0.1"}) {
    all.emplace_back(more);
  }
  return all;
}

std::vector<Problem> ProblemsOf(std::string_view op) {
  if (op == "gemm") {
    return {GemmProblem{.m = 33, .n = 29, .k = 65},
            GemmProblem{.m = 17, .n = 24, .k = 40, .batch = 2, .trans_b = true, .beta = 1}};
  }
  if (op == "conv") {
    ConvProblem p;
    p.channels = 6;
    p.filters = 5;
    p.input = {9, 11};
    p.kernel = {3, 3};
    p.padding = {1};
    return {p};
  }
  if (op == "attention") {
    AttentionProblem p;
    p.heads = 4;
    p.kv_heads = 2;
    p.seq = 37;
    p.kv_seq = 45;
    p.dim = 24;
    AttentionProblem causal = p;
    causal.causal = true;
    return {p, causal};
  }
  if (op == "softmax") return {SoftmaxProblem{.rows = 5, .cols = 143}};
  if (op == "layer_norm") {
    return {LayerNormProblem{.rows = 5, .cols = 143},
            LayerNormProblem{.rows = 7, .cols = 64, .affine = true, .rms = true}};
  }
  if (op == "dequant_softmax") {
    return {DequantSoftmaxProblem{.m = 5, .n = 143, .k = 65},
            DequantSoftmaxProblem{.m = 3, .n = 40, .k = 130, .transpose_w = true}};
  }
  return SampleProblems(op);
}

TEST(Patterns, NoneMakesACorrectKernelFail) {
  Registry registry;
  RegisterAll(registry);
  const std::unique_ptr<Device> device =
      MakeCpuDevice(0, ArenaOptions{.max_bytes = std::int64_t{256} << 20});
  CaseRunner runner(*device, registry, nullptr);
  PhaseObserver observer;
  const std::vector<std::string> patterns = AllPatterns();
  std::map<Verdict, int> verdicts;
  std::map<std::string, int> passed_by_pattern;
  for (const KernelEntry& entry : registry.entries()) {
    if (entry.provider.starts_with(kPlantedPrefix) || !entry.unavailable_reason.empty()) continue;
    for (const Problem& problem : ProblemsOf(entry.op)) {
      for (const DType dtype : entry.dtypes) {
        for (const std::string& pattern : patterns) {
          for (const std::uint64_t seed : {1, 2}) {
            Case c;
            c.problem = problem;
            c.dtype = dtype;
            c.provider = std::string(entry.provider);
            c.pattern = pattern;
            c.seed = seed;
            if (!Check(c).empty()) continue;  // a format that has no such numbers
            const CaseOutcome outcome = runner.Run(c, observer);
            ++verdicts[outcome.verdict];
            if (outcome.verdict == Verdict::kPassed) ++passed_by_pattern[pattern];
            if (outcome.verdict == Verdict::kPassed || outcome.verdict == Verdict::kUnsupported) {
              continue;
            }
            const std::string reason(
                outcome.findings.empty() ? "" : ReasonWord(outcome.findings[0].reason));
            // A result of zeros proves nothing, and flushing subnormal numbers is no fault.
            const bool unproven = outcome.verdict == Verdict::kInconclusive &&
                                  (reason == "zeros" || pattern == "denormal");
            EXPECT_TRUE(unproven) << ReproLine(c, "") << "\n  " << reason << ": "
                                  << (outcome.findings.empty() ? "" : outcome.findings[0].message);
          }
        }
      }
    }
  }
  // Each kind of data proves something of some kernel.
  for (const std::string& pattern : patterns) {
    if (pattern == "zeros") continue;
    EXPECT_GT(passed_by_pattern[pattern], 0) << pattern;
  }
  EXPECT_GT(verdicts[Verdict::kPassed], 3000);
  EXPECT_LT(verdicts[Verdict::kInconclusive], verdicts[Verdict::kPassed] / 5);
}

}  // namespace
}  // namespace assay
