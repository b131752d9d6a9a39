// Kernels of strangers: each cheats, breaks, or tries to get out, and has the outcome that the
// table states. Kernels whose names begin with try_ compute only if what they try is refused; so
// they pass.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "kernels/confine/file_rights.h"
#include "kernels/judge/phase_clock.h"
#include "kernels/providers/provider.h"
#include "kernels/providers/user/runner_process.h"
#include "kernels/runtime/device.h"
#include "kernels/text/cat.h"
#include "kernels/validate/runner.h"

namespace assay {
namespace {

struct Row {
  std::string kernel;
  Mode mode = Mode::kValidate;
  Verdict verdict = Verdict::kPassed;
  std::vector<Reason> reasons = {};  // one of them comes first; empty: any
  std::optional<DeathCause> death = {};
};

std::ostream& operator<<(std::ostream& out, const Row& row) { return out << row.kernel; }

const std::vector<Row>& Table() {
  constexpr Mode kValidate = Mode::kValidate, kBenchmark = Mode::kBenchmark, kBoth = Mode::kBoth;
  constexpr Verdict kFailed = Verdict::kFailed, kError = Verdict::kError;
  constexpr Verdict kInconclusive = Verdict::kInconclusive;
  static const auto* const table = new std::vector<Row>{
      {"honest", kBoth},
      {"honest", kBenchmark},
      {"threaded", kBoth},
      {"random_sum", kBoth},
      {"patched_clock", kBoth},
      {"only_if_poisoned", kBoth},
      {"scribble", kValidate},
      {"infinite_output", kValidate},
      {"memory_hog", kValidate},
      // Results that are not what was asked for.
      {"zeros", kValidate, kFailed},
      {"constant", kValidate, kFailed},
      {"copies_input", kValidate, kFailed},
      {"wrong_tile", kValidate, kFailed, {Reason::kBound}},
      {"unwritten_tail", kValidate, kFailed, {Reason::kUnwritten}},
      {"write_behind", kValidate, kFailed, {Reason::kGuard}},
      {"write_before", kValidate, kFailed, {Reason::kGuard}},
      {"changes_input", kValidate, kFailed},
      {"bf16_inside", kValidate, kFailed},
      // Work that is done late, seldom or once.
      {"late_write", kValidate, kFailed},
      {"late_tail", kValidate, kFailed},
      {"done_early", kValidate, kFailed},
      {"watches_operands", kBoth},
      {"every_other", kValidate, kFailed},
      {"replays", kValidate, kFailed, {Reason::kStale}},
      {"replays", kBoth, kFailed, {Reason::kStale}},
      {"replays", kBenchmark, kFailed, {Reason::kStale}},
      {"only_first", kBoth, kFailed, {Reason::kUnwritten}},
      {"cache_by_pointer", kBoth, kFailed, {Reason::kStale}},
      {"cache_by_pointer", kBenchmark, kFailed, {Reason::kStale}},
      {"cache_by_content", kBoth, kInconclusive, {Reason::kStale, Reason::kImpossible}},
      // Ends of its process.
      {"exit_in_launch", kValidate, kError, {Reason::kCrash}, DeathCause::kExit},
      {"abort_in_launch", kValidate, kError, {Reason::kCrash}, DeathCause::kSignal},
      {"stack_smash", kValidate, kError, {Reason::kCrash}, DeathCause::kSignal},
      {"null_write", kValidate, kError, {Reason::kCrash}, DeathCause::kSignal},
      {"crash_in_prepare", kValidate, kError, {Reason::kCrash}, DeathCause::kSignal},
      {"constructor_exit", kValidate, kError, {Reason::kCrash}, DeathCause::kExit},
      {"endless", kValidate, kError, {Reason::kTimeout}, DeathCause::kDeadline},
      // Descriptions that are wrong, and kernels that refuse.
      {"wrong_version", kValidate, kError, {Reason::kFault}, DeathCause::kNone},
      {"wrong_size", kValidate, kError, {Reason::kFault}, DeathCause::kNone},
      {"no_launch", kValidate, kError, {Reason::kFault}, DeathCause::kNone},
      {"garbage_message", kValidate, kError, {Reason::kFault}, DeathCause::kNone},
      {"other_op", kValidate, Verdict::kUnsupported, {Reason::kUnsupported}},
      {"unsupported", kValidate, Verdict::kUnsupported, {Reason::kUnsupported}},
      {"huge_workspace", kValidate, kInconclusive, {Reason::kMemory}},
      {"with_workspace", kBoth},
      {"refuses", kValidate, kError, {Reason::kFault}, DeathCause::kNone},
  };
  return *table;
}

std::vector<Row> Attempts() {
  std::vector<Row> rows;
  for (const auto& entry : std::filesystem::directory_iterator(ADVERSARIAL_SOURCES)) {
    const std::string name = entry.path().stem();
    if (name.starts_with("try_")) rows.push_back({name});
  }
  std::sort(rows.begin(), rows.end(),
            [](const Row& a, const Row& b) { return a.kernel < b.kernel; });
  return rows;
}

class Silent : public PhaseObserver {
 public:
  void Enter(Phase) override {}
};

Device& TheDevice() {
  static Device* const device =
      MakeCpuDevice(0, ArenaOptions{.max_bytes = std::int64_t{256} << 20}).release();
  return *device;
}

Ceilings* TheCeilings() {
  static Ceilings* const ceilings = MakeCpuCeilings(TheDevice()).release();
  return ceilings;
}

CaseOutcome RunRow(const Row& row, double deadline_seconds = 120) {
  static const Registry* const registry = [] {
    SetRunnerPath(RUNNER_PATH);
    auto* all = new Registry;
    RegisterAll(*all);
    return all;
  }();
  Case c;
  // Large enough for a launch to be longer than what it takes to ask for one.
  const bool timed = row.mode != Mode::kValidate;
  const std::int64_t n = timed ? 96 : 32;
  c.problem = GemmProblem{.m = n, .n = n, .k = n};
  c.dtype = DType::kF32;
  c.out_dtype = DType::kF32;
  c.provider = "user/0123456789ab";
  c.kernel_file = Cat(ADVERSARIAL_DIR "/", row.kernel, ".so");
  c.mode = row.mode;
  c.seed = 1;
  c.repeats = 1;
  c.deadline_seconds = deadline_seconds;
  Silent observer;
  return CaseRunner(TheDevice(), *registry, timed ? TheCeilings() : nullptr).Run(c, observer);
}

std::string Describe(const CaseOutcome& outcome) {
  std::string text = Cat("verdict ", static_cast<int>(outcome.verdict));
  for (const Finding& f : outcome.findings) {
    Append(&text, "\n  ", ReasonWord(f.reason), ": ", f.message);
  }
  return text;
}

class Adversarial : public ::testing::TestWithParam<Row> {};

TEST_P(Adversarial, HasTheOutcomeOfTheTable) {
  const Row& row = GetParam();
  std::string why;
  if (LandlockVersion(&why) == 0) GTEST_SKIP() << "users' kernels do not run here: " << why;
  const CaseOutcome outcome = RunRow(row, row.kernel == "endless" ? 20 : 120);
  ASSERT_EQ(outcome.verdict, row.verdict) << Describe(outcome);
  if (row.verdict == Verdict::kPassed) return;
  ASSERT_FALSE(outcome.findings.empty());
  const Finding& first = outcome.findings.front();
  if (!row.reasons.empty()) {
    EXPECT_NE(std::find(row.reasons.begin(), row.reasons.end(), first.reason), row.reasons.end())
        << Describe(outcome);
  }
  if (row.verdict == Verdict::kError) {
    EXPECT_EQ(first.blame, Blame::kKernel);
    ASSERT_TRUE(first.failure.has_value());
    EXPECT_EQ(first.failure->cause, *row.death);
  }
  // What a stranger's kernel did is nobody else's: the next case is right.
  if (row.verdict == Verdict::kError) {
    const CaseOutcome next = RunRow({"honest"});
    EXPECT_EQ(next.verdict, Verdict::kPassed) << Describe(next);
  }
}

std::string TestName(const ::testing::TestParamInfo<Row>& info) {
  const char* const kModes[] = {"", "", "_timed", "_both"};
  return info.param.kernel + kModes[static_cast<int>(info.param.mode)];
}

INSTANTIATE_TEST_SUITE_P(Cheats, Adversarial, ::testing::ValuesIn(Table()), TestName);
INSTANTIATE_TEST_SUITE_P(Attempts, Adversarial, ::testing::ValuesIn(Attempts()), TestName);

// A deadline that leaves less than a fair time to a launch says nothing of the kernel.
TEST(AdversarialDeadline, TooShortIsNoTimeoutOfTheKernel) {
  std::string why;
  if (LandlockVersion(&why) == 0) GTEST_SKIP() << "users' kernels do not run here: " << why;
  const CaseOutcome outcome = RunRow({"endless"}, 1);
  ASSERT_EQ(outcome.verdict, Verdict::kError) << Describe(outcome);
  const Finding& first = outcome.findings.at(0);
  EXPECT_EQ(first.reason, Reason::kTimeout);
  EXPECT_EQ(first.blame, Blame::kHost);
  ASSERT_TRUE(first.failure.has_value());
  EXPECT_EQ(first.failure->error, KernelError::kNoTime);
}

TEST(AdversarialPlatform, RunsNoKernelThatItCannotContain) {
  std::string why;
  if (LandlockVersion(&why) > 0) GTEST_SKIP() << "this platform contains kernels";
  const CaseOutcome outcome = RunRow({"exit_in_launch"});
  EXPECT_EQ(outcome.verdict, Verdict::kUnsupported) << Describe(outcome);
}

TEST(AdversarialTable, NamesEveryKernelOfTheFolder) {
  std::set<std::string> named, there;
  for (const Row& row : Table()) named.insert(row.kernel);
  for (const Row& row : Attempts()) named.insert(row.kernel);
  for (const auto& entry : std::filesystem::directory_iterator(ADVERSARIAL_SOURCES)) {
    if (entry.path().extension() == ".c") there.insert(entry.path().stem());
  }
  EXPECT_EQ(named, there);
}

}  // namespace
}  // namespace assay
