// The planted kernels as a user's library (planted_library.cc), run by assay-runner: each defect is
// caught by the check that its table names, as when the kernel is one of Assay's.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "kernels/confine/file_rights.h"
#include "kernels/providers/planted/planted.h"
#include "kernels/providers/provider.h"
#include "kernels/providers/user/runner_process.h"
#include "kernels/runtime/device.h"
#include "kernels/text/cat.h"
#include "kernels/validate/runner.h"
#include "tests/selftest/planted_checks.h"

namespace assay::testing {
namespace {

namespace fs = std::filesystem;

// A row whose defect is not in every element, launch or bit is missed now and then.
int SeedsOf(const PlantedDefect& d, DType t) {
  if (!IsRun(d, t)) return 0;
  return RequiredRate(d, t) < 1.0 ? SeedsOr(2) : 1;
}

class PlantedLibrary : public ::testing::Test {
 protected:
  PlantedLibrary() {
    SetRunnerPath(RUNNER_PATH);
    RegisterAll(registry_);
    fs::create_directories(folder_);
  }
  ~PlantedLibrary() override { fs::remove_all(folder_); }

  void SetUp() override {
    std::string why;
    if (LandlockVersion(&why) == 0) GTEST_SKIP() << "users' kernels do not run here: " << why;
  }

  // The case with the planted kernel of its provider as a user's library. The file's name tells the
  // library which one it is.
  CaseOutcome Run(Case c) {
    const std::string defect = c.provider.substr(kPlantedPrefix.size());
    const fs::path file = folder_ / Cat(defect, ".", *c.seed, ".so");
    if (!fs::exists(file)) fs::create_hard_link(LIBRARY, file);
    c.provider = "user/0123456789ab";
    c.kernel_file = file;
    PhaseObserver observer;
    return CaseRunner(*device_, registry_, nullptr).Run(c, observer);
  }

  // On the library's file system, so that it can be linked.
  const fs::path folder_ = fs::path(LIBRARY).parent_path() / Cat("planted.", getpid());
  Registry registry_;
  std::unique_ptr<Device> device_ =
      MakeCpuDevice(0, ArenaOptions{.max_bytes = std::int64_t{256} << 20});
};

TEST_F(PlantedLibrary, EachDefectIsCaughtByItsCheckAsOftenAsItMust) {
  const int rows =
      ExpectEachIsCaught(PlantedDefects(), &SeedsOf, [&](const Case& c) { return Run(c); });
  EXPECT_GT(rows, IsLongRun() ? 250 : 100);
}

TEST_F(PlantedLibrary, TheControlsPass) {
  for (const PlantedDefect& d : PlantedDefects()) {
    if (!d.check.empty()) continue;
    for (const DType t : d.dtypes) {
      const CaseOutcome outcome = Run(PlantedCase(d, t));
      EXPECT_EQ(outcome.verdict, Verdict::kPassed) << d.op << " " << Name(t) << Describe(outcome);
    }
  }
}

}  // namespace
}  // namespace assay::testing
