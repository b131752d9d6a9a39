// The GPUs' planted kernels under the emulator: each is caught by the check its table names,
// and the right kernels pass on the same problems. Those that end or block their process are
// not run here, and say so: they are for a card (tests/gpu/check).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/backends/gpu_backend.h"
#include "kernels/providers/planted/planted.h"
#include "kernels/simt/engine.h"
#include "kernels/text/cat.h"
#include "tests/selftest/planted_checks.h"

namespace assay::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr std::string_view kBackend = "simt";

// Their defects are in many elements, and their sums take their time.
bool HasLongSums(const PlantedDefect& d) {
  return d.check == "structure" || (d.op == "gemm" && d.check == "precision");
}

// Defects of single elements, bits and launches sit elsewhere with every seed; few kernels
// see the wave's width.
int SeedsOf(const PlantedDefect& d, DType t, int wave) {
  if (wave != 32) return t == DType::kF16 ? 1 : 0;
  if (!IsRun(d, t)) return 0;
  if (HasLongSums(d)) return 1;
  if (d.repeats > 10) return t == DType::kF32 ? std::min(2, SeedsOr(1)) : 0;
  return t == DType::kF32 ? SeedsOr(1) : 1;
}

// A device of waves of so many lanes.
class Emulated {
 public:
  explicit Emulated(int wave) {
    simt::CurrentConfig() = simt::Config{};
    simt::CurrentConfig().wave_width = wave;
    simt::TakeFaults();
    absl::StatusOr<std::unique_ptr<Device>> made =
        GpuBackend().MakeDevice(0, ArenaOptions{.max_bytes = std::int64_t{16} << 20});
    EXPECT_TRUE(made.ok()) << made.status();
    device_ = *std::move(made);
    GpuBackend().Register(registry_);
  }
  ~Emulated() {
    for (const simt::Fault& fault : simt::TakeFaults()) ADD_FAILURE() << fault.message;
    simt::CurrentConfig() = simt::Config{};
  }
  Emulated(const Emulated&) = delete;
  Emulated& operator=(const Emulated&) = delete;

  CaseOutcome Run(const Case& c) {
    PhaseObserver observer;
    return CaseRunner(*device_, registry_, nullptr).Run(c, observer);
  }
  const Registry& registry() const { return registry_; }

 private:
  std::unique_ptr<Device> device_;
  Registry registry_;
};

std::vector<std::string> NamesOfOps() {
  std::vector<std::string> names;
  for (const Op* op : AllOps()) {
    if (!op->traits().own_reference) names.emplace_back(op->name());
  }
  return names;
}

// Of one operator.
class GpuPlantedOf : public ::testing::TestWithParam<std::tuple<int, std::string>> {
 protected:
  int wave() const { return std::get<0>(GetParam()); }
  bool Takes(const PlantedDefect& d) const { return d.op == std::get<1>(GetParam()); }

  Emulated emulated_{wave()};
};

TEST_P(GpuPlantedOf, EachIsCaughtByItsCheckAsOftenAsItMust) {
  const int rows = ExpectEachIsCaught(
      PlantedDefects(kBackend),
      [&](const PlantedDefect& d, DType t) { return Takes(d) ? SeedsOf(d, t, wave()) : 0; },
      [&](const Case& c) { return emulated_.Run(c); });
  EXPECT_GE(rows, wave() == 32 && IsLongRun() ? 20 : 4);
}

// The built-in kernel, and the control, on each problem, format and data once, as often in a
// row as some defects take to show.
TEST_P(GpuPlantedOf, RightKernelsRaiseNoAlarmWhereADefectShows) {
  std::map<std::string, Case> cases;
  for (const PlantedDefect& d : PlantedDefects(kBackend)) {
    for (const DType t : d.dtypes) {
      if (!Takes(d) || SeedsOf(d, t, wave()) == 0) continue;
      Case c = PlantedCase(d, t);
      c.provider = d.check.empty() ? std::string(PlantedProvider(d)) : "builtin";
      c.repeats = std::min(c.repeats, 3);
      c.deadline_seconds.reset();
      Case& kept = cases.try_emplace(ReproLine(c, ""), c).first->second;
      kept.repeats = std::max(kept.repeats, c.repeats);
    }
  }
  EXPECT_FALSE(cases.empty());
  for (const auto& [line, c] : cases) {
    const CaseOutcome outcome = emulated_.Run(c);
    EXPECT_EQ(outcome.verdict, Verdict::kPassed) << line << ": " << Describe(outcome);
  }
}

INSTANTIATE_TEST_SUITE_P(WavesAndOps, GpuPlantedOf,
                         ::testing::Combine(::testing::Values(32, 64),
                                            ::testing::ValuesIn(NamesOfOps())),
                         [](const auto& param) {
                           return Cat("wave", std::get<0>(param.param), "_",
                                      std::get<1>(param.param));
                         });

// The site is drawn from the seed: other seeds, other elements.
TEST(GpuPlanted, TheSiteFollowsTheSeed) {
  Emulated emulated(32);
  const PlantedDefect* nan = FindPlanted("gemm", "planted/nan", kBackend);
  ASSERT_NE(nan, nullptr);
  std::set<std::int64_t> sites;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    const CaseOutcome outcome = emulated.Run(PlantedCase(*nan, DType::kF32, seed));
    ASSERT_TRUE(outcome.compare.has_value());
    EXPECT_EQ(outcome.compare->nan_count, 1);
    sites.insert(outcome.compare->first_nan);
  }
  EXPECT_GT(sites.size(), 5u);
}

// A defect that a problem cannot show is refused, and never another's kernel.
TEST(GpuPlanted, WhatAProblemCannotShowIsUnsupported) {
  Emulated emulated(32);
  const auto reason = [&](std::string_view op, std::string_view defect, const Problem& problem,
                          DType dtype) {
    const PlantedDefect* d = FindPlanted(op, Cat("planted/", defect), kBackend);
    if (d == nullptr) return std::string("no such row");
    Case c = PlantedCase(*d, dtype);
    c.problem = problem;
    const CaseOutcome outcome = emulated.Run(c);
    EXPECT_EQ(outcome.verdict, Verdict::kUnsupported) << Describe(outcome);
    return outcome.findings.empty() ? std::string() : outcome.findings[0].message;
  };
  const GemmProblem plain{.m = 32, .n = 32, .k = 32};
  EXPECT_THAT(reason("gemm", "nan-in-tail", plain, DType::kF32),
              HasSubstr("planted/nan-in-tail gemm is wrong only with a partial tile of columns"));
  EXPECT_THAT(reason("gemm", "writes-padding", plain, DType::kF32),
              HasSubstr("a leading dimension beyond the rows of its output"));
  EXPECT_THAT(reason("gemm", "dropped-bias", plain, DType::kF32), HasSubstr("a bias"));
  EXPECT_THAT(reason("softmax", "swapped-rows", SoftmaxProblem{.rows = 1, .cols = 64}, DType::kF32),
              HasSubstr("two rows in its output"));
  EXPECT_THAT(reason("attention", "dropped-mask",
                     AttentionProblem{.heads = 1, .seq = 16, .dim = 16}, DType::kF32),
              HasSubstr("a causal mask"));
  // A bias would be scaled, too.
  EXPECT_THAT(reason("layer_norm", "sample-variance-2048",
                     LayerNormProblem{.rows = 4, .cols = 64, .affine = true}, DType::kF32),
              HasSubstr("without weight and bias"));
}

// A half of fp32's bits is more than a 16-bit output has.
TEST(GpuPlanted, DefectsOfFp32AreRefusedForOtherFormats) {
  Emulated emulated(32);
  for (const std::string_view name : {"two-bf16-inputs", "gain-1e-5", "stuck-bit"}) {
    const PlantedDefect* d = FindPlanted("gemm", Cat("planted/", name), kBackend);
    ASSERT_NE(d, nullptr) << name;
    Case c = PlantedCase(*d, DType::kF32);
    c.out_dtype = DType::kF16;
    const CaseOutcome outcome = emulated.Run(c);
    EXPECT_EQ(outcome.verdict, Verdict::kUnsupported) << name << ": " << Describe(outcome);
    ASSERT_FALSE(outcome.findings.empty());
    EXPECT_THAT(outcome.findings[0].message, HasSubstr("fp32 inputs and an fp32 output"));
  }
}

TEST(GpuPlanted, ThoseThatEndTheirProcessAreNotRunHereAndSaySo) {
  Emulated emulated(32);
  std::vector<std::string> absent;
  for (const KernelEntry& entry : emulated.registry().entries()) {
    if (!entry.provider.starts_with(kPlantedPrefix) || entry.unavailable_reason.empty()) continue;
    EXPECT_THAT(entry.unavailable_reason, HasSubstr("ends or blocks its process"));
    absent.emplace_back(entry.provider);
  }
  EXPECT_THAT(absent,
              UnorderedElementsAre("planted/crash", "planted/far-past-the-end", "planted/hang"));
  const CaseOutcome outcome =
      emulated.Run(PlantedCase(*FindPlanted("gemm", "planted/hang", kBackend), DType::kF32));
  EXPECT_EQ(outcome.verdict, Verdict::kUnsupported) << Describe(outcome);
}

}  // namespace
}  // namespace assay::testing
