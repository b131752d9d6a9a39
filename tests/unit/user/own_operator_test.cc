// An operator of one's own: a right kernel passes in every format, every wrong one is caught, and a
// wrong reference is the caller's error and no kernel's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <string_view>

#include "kernels/confine/file_rights.h"
#include "kernels/judge/phase_clock.h"
#include "kernels/providers/provider.h"
#include "kernels/providers/user/runner_process.h"
#include "kernels/providers/user/runner_reference.h"
#include "kernels/runtime/device.h"
#include "kernels/text/cat.h"
#include "kernels/validate/runner.h"

namespace assay {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Library(std::string_view defect) { return Cat(OWN_OPERATOR_DIR "/lib", defect, ".so"); }

class OwnOperator : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    SetRunnerPath(RUNNER_PATH);
    device_ = MakeCpuDevice(0, ArenaOptions{.max_bytes = std::int64_t{256} << 20}).release();
    registry_ = new Registry;
    RegisterAll(*registry_);
  }
  void SetUp() override {
    std::string why;
    if (LandlockVersion(&why) == 0) GTEST_SKIP() << "users' kernels do not run here: " << why;
    case_.problem = CustomProblem{
        .input = {"x=64x1000", "w=1000"}, .out = {"y=64x1000"}, .scalar = {"eps=1e-5"}};
    case_.dtype = DType::kF32;
    case_.provider = "user/0123456789ab";
    case_.reference = "user/ba9876543210";
    case_.accumulations = 1000;
    case_.seed = 1;
    case_.deadline_seconds = 120;
  }

  CaseOutcome Run(std::string_view kernel, std::string_view reference = "own_none") {
    EXPECT_TRUE(Check(case_).empty()) << Check(case_).front().field << Check(case_).front().message;
    Case c = case_;
    c.kernel_file = Library(kernel);
    RunnerReference own(Library(reference), *device_);
    c.own_reference = &own;
    PhaseObserver observer;
    CaseOutcome outcome = CaseRunner(*device_, *registry_, nullptr).Run(c, observer);
    said_ = Cat("verdict ", static_cast<int>(outcome.verdict));
    for (const Finding& f : outcome.findings) {
      Append(&said_, "\n  ", ReasonWord(f.reason), ": ", f.message);
    }
    return outcome;
  }

  void ExpectFailed(std::string_view kernel, Reason reason) {
    const CaseOutcome outcome = Run(kernel);
    EXPECT_EQ(outcome.verdict, Verdict::kFailed) << kernel << " " << Name(case_.dtype) << said_;
    ASSERT_FALSE(outcome.findings.empty());
    EXPECT_EQ(outcome.findings.front().reason, reason) << said_;
    EXPECT_EQ(outcome.findings.front().blame, Blame::kKernel) << said_;
  }

  void ExpectReferenceToBlame(std::string_view reference, Reason reason, std::string_view words) {
    const CaseOutcome outcome = Run("own_none", reference);
    EXPECT_EQ(outcome.verdict, Verdict::kError) << reference << " " << said_;
    ASSERT_FALSE(outcome.findings.empty());
    const Finding& first = outcome.findings.front();
    EXPECT_EQ(first.reason, reason) << said_;
    EXPECT_EQ(first.blame, Blame::kCaller) << said_;
    EXPECT_THAT(first.message, HasSubstr(std::string(words)));
    ASSERT_TRUE(first.failure.has_value());
    EXPECT_TRUE(first.failure->reference);
  }

  static Device* device_;
  static Registry* registry_;
  Case case_;
  std::string said_;
};

Device* OwnOperator::device_ = nullptr;
Registry* OwnOperator::registry_ = nullptr;

constexpr DType kFormats[] = {DType::kF32, DType::kF16, DType::kBF16};

TEST_F(OwnOperator, ARightKernelPassesInEveryFormat) {
  for (const DType dtype : kFormats) {
    case_.dtype = dtype;
    for (const char* pattern : {"", "uniform:0:1", "constant"}) {
      case_.pattern = pattern;
      case_.repeats = 3;
      const CaseOutcome outcome = Run("own_none");
      EXPECT_EQ(outcome.verdict, Verdict::kPassed) << Name(dtype) << " " << pattern << said_;
      ASSERT_TRUE(outcome.compare.has_value());
      EXPECT_EQ(outcome.compare->count, 64000);
      EXPECT_GT(outcome.compare->rho, 0);
      EXPECT_FALSE(outcome.precision.has_value());
    }
  }
}

TEST_F(OwnOperator, TheResultSaysThatThereAreNoExactCases) {
  const CaseOutcome outcome = Run("own_none");
  ASSERT_EQ(outcome.probes.size(), 1u);
  EXPECT_EQ(outcome.probes[0].verdict, Verdict::kSkipped);
  EXPECT_THAT(outcome.probes[0].message, HasSubstr("has no exact cases"));
}

TEST_F(OwnOperator, TimesHaveNoRoof) {
  case_.mode = Mode::kBoth;
  const CaseOutcome outcome = Run("own_none");
  // On a busy machine the times may be in doubt. The kernel is right all the same.
  EXPECT_NE(outcome.verdict, Verdict::kFailed) << said_;
  EXPECT_NE(outcome.verdict, Verdict::kError) << said_;
  ASSERT_TRUE(outcome.bench.has_value());
  EXPECT_TRUE(outcome.bench->median_seconds.has_value());
  EXPECT_FALSE(outcome.bench->efficiency.has_value());
  EXPECT_FALSE(outcome.bench->bytes_per_second.has_value());
}

TEST_F(OwnOperator, EveryDefectIsCaughtInEveryFormat) {
  for (const DType dtype : kFormats) {
    case_.dtype = dtype;
    ExpectFailed("own_tile", Reason::kBound);
    ExpectFailed("own_gain", Reason::kBound);
    ExpectFailed("own_tail", Reason::kUnwritten);
    ExpectFailed("own_nan", Reason::kClass);
    ExpectFailed("own_narrow", Reason::kBound);
    ExpectFailed("own_inputs", Reason::kGuard);
  }
}

TEST_F(OwnOperator, ACrashIsTheKernels) {
  const CaseOutcome outcome = Run("own_crash");
  EXPECT_EQ(outcome.verdict, Verdict::kError) << said_;
  EXPECT_EQ(outcome.findings.front().blame, Blame::kKernel) << said_;
}

// Each wrong reference, with a right kernel.
TEST_F(OwnOperator, AWrongReferenceIsTheCallersError) {
  ExpectReferenceToBlame("own_tail", Reason::kUnwritten, "left 5 of 64000 elements");
  ExpectReferenceToBlame("own_half", Reason::kUnwritten, "32000 of 64000 magnitudes");
  ExpectReferenceToBlame("own_small", Reason::kFault, "a sum is at most");
  ExpectReferenceToBlame("own_varies", Reason::kNondeterministic, "element 17");
  ExpectReferenceToBlame("own_nan", Reason::kClass, "NaN at element 9");
  ExpectReferenceToBlame("own_refuses", Reason::kFault, "needs x, w and the scalar eps");
  ExpectReferenceToBlame("own_no_eps", Reason::kFault, "needs x, w and the scalar eps");
  ExpectReferenceToBlame("own_crash", Reason::kCrash, "SIGABRT");
  const CaseOutcome adds = Run("own_none", "own_adds");
  EXPECT_EQ(adds.verdict, Verdict::kError) << said_;
  EXPECT_EQ(adds.findings.front().blame, Blame::kCaller) << said_;
}

// They differ behind the sixth digit.
TEST_F(OwnOperator, TheTwoResultsOfAReferenceThatVariesAreToldApart) {
  const CaseOutcome outcome = Run("own_none", "own_varies");
  ASSERT_FALSE(outcome.findings.empty());
  const std::string& message = outcome.findings.front().message;
  std::smatch found;
  ASSERT_TRUE(std::regex_search(message, found, std::regex(" as (\\S+), and as (\\S+) when ")))
      << message;
  EXPECT_NE(found[1], found[2]) << message;
}

// K alone: right kernels pass, and what it cannot see is said.
TEST_F(OwnOperator, WithoutMagnitudesTheBoundSaysWhatItRestsOn) {
  for (const DType dtype : kFormats) {
    case_.dtype = dtype;
    const CaseOutcome right = Run("own_none", "own_plain");
    EXPECT_EQ(right.verdict, Verdict::kPassed) << Name(dtype) << said_;
    ASSERT_EQ(right.probes.size(), 2u);
    EXPECT_THAT(right.probes[1].message, HasSubstr("the reference gives no magnitudes"));
    // In 16 bits a factor of 1.001 is below what this bound sees.
    for (const char* wrong : {"own_tile", "own_gain"}) {
      if (wrong == std::string_view("own_gain") && dtype != DType::kF32) continue;
      const CaseOutcome outcome = Run(wrong, "own_plain");
      EXPECT_NE(outcome.verdict, Verdict::kPassed) << wrong << " " << Name(dtype);
      EXPECT_THAT(outcome.findings.front().message, HasSubstr("it holds if the terms"));
    }
  }
  // Nothing follows from so many terms alone.
  case_.accumulations = 1'000'000;
  const CaseOutcome vague = Run("own_none", "own_plain");
  EXPECT_EQ(vague.verdict, Verdict::kError);
  EXPECT_THAT(vague.findings.front().message, HasSubstr("nothing follows from"));
}

// A bound of the caller's own instead of K.
TEST_F(OwnOperator, TolerancesNeedNoAccumulations) {
  case_.accumulations = 0;
  case_.criterion = Criterion::kAllClose;
  case_.rtol = 1e-5;
  EXPECT_EQ(Run("own_none").verdict, Verdict::kPassed) << said_;
  EXPECT_EQ(Run("own_gain").verdict, Verdict::kFailed) << said_;
}

TEST_F(OwnOperator, AnInputMayHaveAFormatOfItsOwn) {
  case_.problem = CustomProblem{
      .input = {"x=64x1000", "w=1000:fp32"}, .out = {"y=64x1000"}, .scalar = {"eps=1e-5"}};
  case_.dtype = DType::kF16;
  // The kernel takes all inputs for fp16. It reads the fp32 weights wrongly, and is found out.
  EXPECT_EQ(Run("own_none").verdict, Verdict::kFailed) << said_;
}

TEST_F(OwnOperator, TheDebugBufferComesBackByItsBits) {
  case_.slices = {"debug[0:10]", "actual[0,0]"};
  case_.repeats = 3;
  CaseOutcome outcome = Run("own_none");
  EXPECT_EQ(outcome.verdict, Verdict::kPassed) << said_;
  ASSERT_THAT(outcome.slices, ::testing::SizeIs(2));
  // Each launch found zeros there, and counted to 1.
  EXPECT_THAT(outcome.slices[0].bits,
              ::testing::ElementsAre("0x01", "0x00", "0xa0", "0x7f", "0x01", "0x00", "0x00", "0x00",
                                     "0x00", "0x00"));
  case_.slices = {"actual[0,0]"};
  outcome = Run("own_none");  // without a buffer the kernel has none
  EXPECT_EQ(outcome.verdict, Verdict::kPassed) << said_;
  ASSERT_THAT(outcome.slices, ::testing::SizeIs(1));
}

TEST_F(OwnOperator, TheReproducingLineNamesEverything) {
  EXPECT_EQ(ReproLine(case_, "cpu:0"),
            "assay run custom --input x=64x1000,w=1000 --out y=64x1000 --scalar eps=1e-5 --dtype "
            "fp32 --kernel user/0123456789ab --reference user/ba9876543210 --device cpu:0 --seed 1 "
            "--accumulations 1000");
  EXPECT_EQ(DefaultName(case_),
            "custom x=64x1000 w=1000 y=64x1000 eps=1e-5 fp32 user/0123456789ab");
}

// What is wrong with a request, by its field and the beginning of the message.
TEST_F(OwnOperator, BadRequestsAreRefusedByTheirField) {
  const auto expect = [this](std::string_view field, std::string_view words, auto change) {
    Case c = case_;
    change(c, std::get<CustomProblem>(c.problem));
    std::string all;
    for (const FieldError& e : Check(c)) Append(&all, e.field, ": ", e.message, "\n");
    EXPECT_THAT(all, HasSubstr(Cat(field, ": "))) << words;
    EXPECT_THAT(all, HasSubstr(std::string(words)));
  };
  using P = CustomProblem;
  expect("reference", "is required", [](Case& c, P&) { c.reference.clear(); });
  expect("reference", "user/HASH", [](Case& c, P&) { c.reference = "ref.c"; });
  expect("reference", "got \"external\"", [](Case& c, P&) { c.reference = "external"; });
  expect("reference", "or \"external\", which your process computes", [](Case& c, P&) {
    c.provider = "external";
    c.reference.clear();
  });
  expect("provider", "must be a kernel of yours", [](Case& c, P&) { c.provider = "onednn"; });
  expect("provider", "must be a kernel of yours", [](Case& c, P&) { c.provider = "all"; });
  expect("accumulations", "is required", [](Case& c, P&) { c.accumulations = 0; });
  expect("accumulations", "at least 0", [](Case& c, P&) { c.accumulations = -1; });
  expect("custom.input", "is required", [](Case&, P& p) { p.input.clear(); });
  expect("custom.input", "at most 12 inputs", [](Case&, P& p) {
    for (int i = 0; i < 12; ++i) p.input.push_back(Cat("x", i, "=4"));
  });
  expect("custom.input", "must be a name", [](Case&, P& p) { p.input[0] = "x"; });
  expect("custom.input", "must be a name", [](Case&, P& p) { p.input[0] = "x=64x"; });
  expect("custom.input", "must be a name", [](Case&, P& p) { p.input[0] = "x=64,000"; });
  expect("custom.input", "extent of 0", [](Case&, P& p) { p.input[0] = "x=64x0"; });
  expect("custom.input", "extent of -4", [](Case&, P& p) { p.input[0] = "x=-4"; });
  expect("custom.input", "larger than",
         [](Case&, P& p) { p.input[0] = "x=1000000000000x1000000000000"; });
  expect("custom.input", "9 axes", [](Case&, P& p) { p.input[0] = "x=1x1x1x1x1x1x1x1x1"; });
  expect("custom.input", "is no name", [](Case&, P& p) { p.input[0] = "1x=64"; });
  expect("custom.input", "is there twice", [](Case&, P& p) { p.input[1] = "x=64"; });
  expect("custom.input", "name of a result", [](Case&, P& p) { p.input[1] = "bound=64"; });
  expect("custom.input", "no known format", [](Case&, P& p) { p.input[1] = "w=64:fp99"; });
  expect("custom.input", "is fp64", [](Case&, P& p) { p.input[1] = "w=64:fp64"; });
  expect("custom.out", "is required", [](Case&, P& p) { p.out.clear(); });
  expect("custom.out", "at most 1 output, got 2", [](Case&, P& p) { p.out.emplace_back("z=4"); });
  expect("custom.out", "from out_dtype", [](Case&, P& p) { p.out[0] = "y=4:fp32"; });
  expect("custom.scalar", "finite number", [](Case&, P& p) { p.scalar[0] = "eps=small"; });
  expect("custom.scalar", "finite number", [](Case&, P& p) { p.scalar[0] = "eps=inf"; });
  expect("custom.scalar", "is there twice", [](Case&, P& p) { p.scalar[0] = "x=1"; });
  expect("reference", "gemm has a reference", [](Case& c, P&) {
    Case gemm = c;
    gemm.problem = GemmProblem{.m = 4, .n = 4, .k = 4};
    gemm.accumulations = 0;
    c = gemm;
  });
}

}  // namespace
}  // namespace assay
