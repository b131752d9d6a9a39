// Each planted kernel is caught for the reason its table names, and the control
// passes: the harness can say no. In one process, so without the kernels that end or
// block it: those are the end-to-end test's.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "kernels/numerics/cat.h"
#include "kernels/providers/planted/planted.h"
#include "kernels/validate/runner.h"

namespace assay {
namespace {

class NoObserver : public PhaseObserver {
 public:
  void Enter(Phase) override {}
};

bool EndsTheProcess(const PlantedDefect& d) {
  return d.reason == "timeout" || d.reason == "crash" || d.reason == "memory";
}

std::string Describe(const CaseOutcome& outcome) {
  std::string text = Cat("verdict ", static_cast<int>(outcome.verdict));
  for (const Finding& f : outcome.findings) text += Cat("; ", f.reason, ": ", f.message);
  return text;
}

TEST(Planted, EachIsCaughtForItsReason) {
  Registry registry;
  RegisterAll(registry);
  const std::unique_ptr<Device> device =
      MakeCpuDevice(0, ArenaOptions{.max_bytes = std::int64_t{256} << 20});
  CaseRunner runner(*device, registry, nullptr);
  NoObserver observer;
  int caught = 0;
  int skipped = 0;
  for (const PlantedDefect& d : PlantedDefects()) {
    if (EndsTheProcess(d)) {
      ++skipped;
      continue;
    }
    for (const DType t : d.dtypes) {
      const CaseOutcome outcome = runner.Run(PlantedCase(d, t), observer);
      const std::string text = Cat(d.op, " ", d.name, " ", Name(t), ": ", Describe(outcome));
      if (d.reason.empty()) {
        EXPECT_EQ(outcome.verdict, Verdict::kPassed) << text;
        continue;
      }
      EXPECT_EQ(outcome.verdict, Verdict::kFailed) << text;
      const std::string_view expected = ExpectedReason(d, t);
      EXPECT_TRUE(std::any_of(outcome.findings.begin(), outcome.findings.end(),
                              [&](const Finding& f) { return f.reason == expected; }))
          << "expected " << expected << "; " << text;
      ++caught;
    }
  }
  EXPECT_GT(caught, 60);
  EXPECT_EQ(skipped, 5) << "hang, crash, abort, exit, alloc";
}

// Those that end the process do it as the table says.
TEST(PlantedDeathTest, CrashAbortAndExit) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto launch = [](std::string_view name) {
    Registry registry;
    RegisterAll(registry);
    const std::unique_ptr<Device> device =
        MakeCpuDevice(0, ArenaOptions{.max_bytes = std::int64_t{64} << 20});
    for (const PlantedDefect& d : PlantedDefects()) {
      if (d.name != name) continue;
      NoObserver observer;
      CaseRunner(*device, registry, nullptr).Run(PlantedCase(d, DType::kF32), observer);
    }
  };
  EXPECT_DEATH(launch("crash"), "");
  EXPECT_DEATH(launch("abort"), "");
  EXPECT_EXIT(launch("exit"), ::testing::ExitedWithCode(3), "");
}

}  // namespace
}  // namespace assay
