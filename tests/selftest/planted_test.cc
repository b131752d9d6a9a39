// Each planted kernel is caught by the check its table names, as often as it says, and
// the control passes: the harness can say no. In one process, so without the kernels
// that end or block it: those are the end-to-end test's.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
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
constexpr int kSeeds = 3;
constexpr int kSeedsOfSites = 20;

// Their defects are in every element, and long sums take their time.
bool HasLongSums(const PlantedDefect& d) {
  const auto* p = std::get_if<GemmProblem>(&d.problem);
  return p != nullptr && p->k >= 4096;
}

int SeedsOf(const PlantedDefect& d, DType t) {
  if (HasLongSums(d)) return 1;
  if (d.repeats > 10) return kSeedsOfSites;
  return d.check == "exact" || RequiredRate(d, t) < 1.0 ? kSeedsOfSites : kSeeds;
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

TEST(PlantedTable, IsWhole) { ExpectEveryOpIn(ExpectWhole("cpu")); }

TEST(PlantedTable, OfGpusIsWholeToo) {
  for (const std::string_view backend : {"cuda", "hip", "simt"}) {
    std::map<std::string_view, int> defects = ExpectWhole(backend);
    EXPECT_GE(defects["gemm"], 25);
    ExpectEveryOpIn(defects);
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
