// Kernels of strangers: each breaks, or tries to get out, and has the outcome that the table
// states. Kernels whose names begin with try_ compute only if what they try is refused; so they
// pass. The cheats of kernels/cheats never pass, and their twins always do. uncontained_test.cc
// shows that the attempts are no duds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "kernels/cheats/cheats.h"
#include "kernels/confine/file_rights.h"
#include "kernels/judge/phase_clock.h"
#include "kernels/providers/provider.h"
#include "kernels/providers/user/runner_process.h"
#include "kernels/runtime/device.h"
#include "kernels/text/cat.h"
#include "kernels/validate/runner.h"
#include "tests/outcome_text.h"

namespace assay {
namespace {

struct Row {
  std::string kernel;
  Mode mode = Mode::kValidate;
  Verdict verdict = Verdict::kPassed;
  std::vector<Reason> reasons = {};  // one of them comes first; empty: any
  std::optional<DeathCause> death = {};
  std::string_view says = {};  // in the first finding
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
      {"passive", kValidate},
      {"random_sum", kBoth},
      {"scribble", kValidate},
      {"infinite_output", kValidate},
      {"memory_hog", kValidate},
      // Results that are not what was asked for.
      {"wrong_tile", kValidate, kFailed, {Reason::kBound}},
      {"loses_nan_of_b", kValidate, kFailed, {Reason::kExact}},
      {"keeps_workspace", kValidate, kFailed},
      {"write_before", kValidate, kFailed, {Reason::kGuard}},
      {"write_far", kValidate, kFailed, {Reason::kGuard}},
      {"past_workspace", kValidate, kFailed, {Reason::kGuard}, {}, "behind its workspace"},
      {"idle_once", kBenchmark, kFailed, {Reason::kUnwritten}},
      {"idle_once", kBoth, kFailed, {Reason::kUnwritten}},
      {"idle_thirds", kBenchmark, kFailed, {Reason::kUnwritten}},
      {"idle_thirds", kBoth, kFailed, {Reason::kUnwritten}},
      // Ends of its process.
      {"abort_in_launch", kValidate, kError, {Reason::kCrash}, DeathCause::kSignal},
      {"stack_smash", kValidate, kError, {Reason::kCrash}, DeathCause::kSignal},
      {"null_write", kValidate, kError, {Reason::kCrash}, DeathCause::kSignal},
      {"crash_in_prepare", kValidate, kError, {Reason::kCrash}, DeathCause::kSignal},
      {"endless", kValidate, kError, {Reason::kTimeout}, DeathCause::kDeadline},
      // Descriptions that are wrong, and kernels that refuse.
      {"wrong_version", kValidate, kError, {Reason::kFault}, DeathCause::kNone, "version 99"},
      {"wrong_size", kValidate, kError, {Reason::kFault}, DeathCause::kNone, "struct_size is 8"},
      {"no_launch", kValidate, kError, {Reason::kFault}, DeathCause::kNone, "no launch function"},
      {"garbage_message", kValidate, kError, {Reason::kFault}, DeathCause::kNone},
      {"other_op", kValidate, Verdict::kUnsupported, {Reason::kUnsupported}, {}, "not gemm"},
      {"unsupported", kValidate, Verdict::kUnsupported, {Reason::kUnsupported}},
      {"huge_workspace", kValidate, kInconclusive, {Reason::kMemory}, {}, "room for a workspace"},
      {"with_workspace", kBoth},
      {"refuses", kValidate, kError, {Reason::kFault}, DeathCause::kNone},
      {"no_memory", kValidate, kError, {Reason::kFault}, DeathCause::kNone, "for want of memory"},
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

Device& TheDevice() {
  static Device* const device =
      MakeCpuDevice(0, ArenaOptions{.max_bytes = std::int64_t{256} << 20}).release();
  return *device;
}

Ceilings* TheCeilings() {
  static Ceilings* const ceilings = MakeCpuCeilings(TheDevice()).release();
  return ceilings;
}

CaseOutcome RunKernel(Case c, const std::string& library, double deadline_seconds = 120) {
  static const Registry* const registry = [] {
    SetRunnerPath(RUNNER_PATH);
    setenv("OMP_WAIT_POLICY", "passive", /*replace=*/1);  // as the daemon's workers have it
    auto* all = new Registry;
    RegisterAll(*all);
    return all;
  }();
  c.out_dtype = DType::kF32;
  c.kernel_file = library;
  c.seed = 1;
  c.repeats = 1;
  c.deadline_seconds = deadline_seconds;
  PhaseObserver observer;
  Ceilings* const ceilings = c.mode == Mode::kValidate ? nullptr : TheCeilings();
  return CaseRunner(TheDevice(), *registry, ceilings).Run(c, observer);
}

CaseOutcome RunRow(const Row& row, double deadline_seconds = 120) {
  Case c;
  // Large enough for a launch to be longer than what it takes to ask for one. The output ends
  // within a page, so that behind its band the page has a rest.
  const std::int64_t n = row.mode == Mode::kValidate ? 40 : 96;
  c.problem = GemmProblem{.m = n, .n = n, .k = n};
  c.dtype = DType::kF32;
  c.provider = "user/0123456789ab";
  c.mode = row.mode;
  return RunKernel(std::move(c), Cat(ADVERSARIAL_DIR "/", row.kernel, ".so"), deadline_seconds);
}

class Adversarial : public ::testing::TestWithParam<Row> {};

TEST_P(Adversarial, HasTheOutcomeOfTheTable) {
  const Row& row = GetParam();
  std::string why;
  if (LandlockVersion(&why) == 0) GTEST_SKIP() << "users' kernels do not run here: " << why;
  const CaseOutcome outcome = RunRow(row, row.kernel == "endless" ? 8 : 120);
  ASSERT_EQ(outcome.verdict, row.verdict) << Describe(outcome);
  if (row.verdict == Verdict::kPassed) return;
  ASSERT_FALSE(outcome.findings.empty());
  const Finding& first = outcome.findings.front();
  EXPECT_NE(first.message.find(row.says), std::string::npos) << first.message;
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

// What is more than that the verdict is no pass.
const std::map<std::string_view, Row>& SharpOutcomes() {
  constexpr Mode kBoth = Mode::kBoth, kValidate = Mode::kValidate;
  static const auto* const outcomes = new std::map<std::string_view, Row>{
      {"unwritten-tail", {"", kValidate, Verdict::kFailed, {Reason::kUnwritten}}},
      {"write-behind", {"", kValidate, Verdict::kFailed, {Reason::kGuard}}},
      {"only-first", {"", kBoth, Verdict::kFailed, {Reason::kUnwritten}}},
      {"replays", {"", kBoth, Verdict::kFailed, {Reason::kStale}}},
      {"cache-by-pointer", {"", kBoth, Verdict::kFailed, {Reason::kStale}}},
      {"cache-by-content",
       {"", kBoth, Verdict::kInconclusive, {Reason::kStale, Reason::kImpossible}}},
      {"exit-in-launch", {"", kValidate, Verdict::kError, {Reason::kCrash}, DeathCause::kExit}},
      {"constructor-exit", {"", kValidate, Verdict::kError, {Reason::kCrash}, DeathCause::kExit}},
  };
  return *outcomes;
}

class Cheating : public ::testing::TestWithParam<Case> {};

TEST_P(Cheating, IsStoppedAndItsTwinIsNot) {
  const Case& c = GetParam();
  std::string why;
  if (LandlockVersion(&why) == 0) GTEST_SKIP() << "users' kernels do not run here: " << why;
  const std::optional<CheatKernel> kernel = FindCheat(c.provider);
  ASSERT_TRUE(kernel.has_value()) << c.provider;
  const CaseOutcome outcome = RunKernel(c, Cat(CHEATS_DIR "/", LibraryOf(*kernel)));
  if (kernel->twin) {
    EXPECT_EQ(outcome.verdict, Verdict::kPassed) << Describe(outcome);
    EXPECT_THAT(outcome.loaded_libraries, ::testing::IsEmpty());
    return;
  }
  if (kernel->cheat->shown && !outcome.loaded_libraries.empty()) {
    EXPECT_EQ(outcome.verdict, Verdict::kPassed) << Describe(outcome);
    EXPECT_THAT(outcome.loaded_libraries,
                ::testing::Contains(::testing::ContainsRegex("blas|mkl")));
    return;
  }
  if (kernel->cheat->shown) {  // there is no such library, or it does not fit into the process
    EXPECT_THAT(outcome.verdict, ::testing::AnyOf(Verdict::kFailed, Verdict::kError));
    ASSERT_FALSE(outcome.findings.empty());
    EXPECT_EQ(outcome.findings.front().blame, Blame::kKernel) << Describe(outcome);
    return;
  }
  const auto sharp = SharpOutcomes().find(kernel->cheat->name);
  const Row expected =
      sharp == SharpOutcomes().end() ? Row{"", Mode::kValidate, Verdict::kFailed} : sharp->second;
  ASSERT_EQ(outcome.verdict, expected.verdict) << Describe(outcome);
  ASSERT_FALSE(outcome.findings.empty());
  const Finding& first = outcome.findings.front();
  if (!expected.reasons.empty()) {
    EXPECT_THAT(expected.reasons, ::testing::Contains(first.reason)) << Describe(outcome);
  }
  if (expected.death) {
    EXPECT_EQ(first.blame, Blame::kKernel);
    ASSERT_TRUE(first.failure.has_value());
    EXPECT_EQ(first.failure->cause, *expected.death);
  }
  if (kernel->cheat->barrier == Barrier::kNone) return;
  const bool unwritten =
      std::any_of(outcome.findings.begin(), outcome.findings.end(),
                  [](const Finding& f) { return f.reason == Reason::kUnwritten; });
  EXPECT_TRUE(unwritten) << "it got what it needs\n" << Describe(outcome);
}

std::string CheatName(const ::testing::TestParamInfo<Case>& info) {
  const std::string library = LibraryOf(*FindCheat(info.param.provider));
  return library.substr(0, library.find('.'));
}

INSTANTIATE_TEST_SUITE_P(All, Cheating, ::testing::ValuesIn(CheatCases(1)), CheatName);

// Without a launch that is judged before the timed ones.
TEST(CheatingTimed, ResultsThatAreKeptAreFound) {
  std::string why;
  if (LandlockVersion(&why) == 0) GTEST_SKIP() << "users' kernels do not run here: " << why;
  for (const char* library : {"replays.so", "cache_by_pointer.so"}) {
    Case c = CheatCases(1).front();
    c.problem = GemmProblem{.m = 96, .n = 96, .k = 96};
    c.mode = Mode::kBenchmark;
    const CaseOutcome outcome = RunKernel(c, Cat(CHEATS_DIR "/", library));
    ASSERT_EQ(outcome.verdict, Verdict::kFailed) << library << Describe(outcome);
    EXPECT_EQ(outcome.findings.at(0).reason, Reason::kStale) << library << Describe(outcome);
  }
}

TEST(CheatTable, NamesEverySourceOfTheFolderOnce) {
  std::set<std::string> named, there;
  for (const Cheat& cheat : Cheats()) {
    std::string library = LibraryOf({&cheat, false});
    EXPECT_TRUE(named.insert(library.substr(0, library.find('.'))).second) << cheat.name;
    const std::optional<CheatKernel> twin = FindCheat(ProviderOf({&cheat, true}));
    ASSERT_TRUE(twin.has_value()) << cheat.name;
    EXPECT_TRUE(twin->twin);
    EXPECT_EQ(twin->cheat, &cheat);
  }
  for (const auto& entry : std::filesystem::directory_iterator(CHEATS_SOURCES)) {
    if (entry.path().extension() == ".c") there.insert(entry.path().stem());
  }
  EXPECT_EQ(named, there);
  EXPECT_FALSE(FindCheat("cheat/").has_value());
  EXPECT_FALSE(FindCheat("cheat/../zeros").has_value());
  EXPECT_FALSE(FindCheat("user/zeros").has_value());
}

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

// An exact case has a process of its own. What is fair there follows from the launches that came
// before: one that gets less than ten times as long as they took was not slow.
TEST(AdversarialDeadline, AnExactCaseIsFairToAKernelThatIsSlow) {
  std::string why;
  if (LandlockVersion(&why) == 0) GTEST_SKIP() << "users' kernels do not run here: " << why;
  const CaseOutcome outcome = RunRow({"endless_on_whole"}, 3);
  ASSERT_EQ(outcome.verdict, Verdict::kError) << Describe(outcome);
  const Finding& first = outcome.findings.at(0);
  EXPECT_EQ(first.reason, Reason::kTimeout);
  EXPECT_EQ(first.blame, Blame::kHost) << Describe(outcome);
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
  std::set<std::string> named = {"endless_on_whole"}, there;  // AdversarialDeadline has it
  for (const Row& row : Table()) named.insert(row.kernel);
  for (const Row& row : Attempts()) named.insert(row.kernel);
  for (const auto& entry : std::filesystem::directory_iterator(ADVERSARIAL_SOURCES)) {
    if (entry.path().extension() == ".c") there.insert(entry.path().stem());
  }
  EXPECT_EQ(named, there);
}

}  // namespace
}  // namespace assay
