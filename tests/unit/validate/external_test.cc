// A kernel of another process, behind a stand-in for the way there: what is sent and when, what
// comes back, and how a launch that fails ends the case.
#include "kernels/providers/external/external.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "kernels/numerics/convert.h"
#include "kernels/ops/op.h"
#include "kernels/providers/external/external_reference.h"
#include "kernels/runtime/kernel_failure.h"
#include "kernels/validate/runner.h"

namespace assay {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Another process: keeps the inputs, and has `function` make the pieces that come back.
class Process : public Elsewhere {
 public:
  struct Back {
    int tensor;
    std::string bytes;
  };
  using Function = std::function<std::vector<Back>(const std::vector<std::vector<float>>&)>;

  Function function;
  // In place of `function`: gets the inputs in FP64, whatever their format is.
  std::function<std::vector<Back>(const std::vector<std::vector<double>>&)> wide;
  absl::Status end;  // of each launch
  int kernels = 0, launches = 0, pieces_sent = 0;
  std::set<std::uint64_t> poisons;

  absl::Status Launch(std::uint64_t bits) override {
    ++launches;
    poisons.insert(bits);
    back_ = !end.ok() ? std::vector<Back>{} : wide ? wide(Widened()) : function(inputs_);
    next_ = 0;
    return absl::OkStatus();
  }
  absl::StatusOr<Piece> Await() override {
    if (!end.ok()) return end;
    if (next_ == back_.size()) return Piece{.end = true, .tensor = 0, .bytes = {}};
    const Back& b = back_[next_++];
    return Piece{.end = false, .tensor = b.tensor, .bytes = b.bytes};
  }

  absl::Status LaunchReference() override {
    ++references;
    back_ = end.ok() ? reference(inputs_) : std::vector<Back>{};
    next_ = 0;
    return absl::OkStatus();
  }

  Function reference;
  int references = 0;
  std::vector<std::int64_t> dims;  // of the output

 private:
  absl::Status Describe(const Case&, const Plan& plan) override {
    ++kernels;
    inputs_.assign(plan.inputs.size(), {});
    raw_.assign(plan.inputs.size(), {});
    formats_.clear();
    for (const Operand& input : plan.inputs) formats_.push_back(input.dtype);
    dims = plan.output.dims;
    return absl::OkStatus();
  }
  absl::Status Send(int tensor, std::string_view bytes) override {
    ++pieces_sent;
    EXPECT_GE(bytes.size(), 1u);
    EXPECT_LE(static_cast<std::int64_t>(bytes.size()), kMostExternalBytes);
    raw_[static_cast<std::size_t>(tensor)].append(bytes);
    std::vector<float>& input = inputs_[static_cast<std::size_t>(tensor)];
    const std::size_t at = input.size();
    input.resize(at + bytes.size() / sizeof(float));
    std::memcpy(input.data() + at, bytes.data(), bytes.size());
    return absl::OkStatus();
  }

  std::vector<std::vector<double>> Widened() const {
    std::vector<std::vector<double>> inputs;
    for (std::size_t i = 0; i < raw_.size(); ++i) {
      const auto bytes = static_cast<std::size_t>(StorageBytes(formats_[i], 1));
      std::vector<double>& values = inputs.emplace_back(raw_[i].size() / bytes);
      for (std::size_t j = 0; j < values.size(); ++j) {
        values[j] = LoadDouble(formats_[i], raw_[i].data(), static_cast<std::int64_t>(j));
      }
    }
    return inputs;
  }

  std::vector<std::vector<float>> inputs_;
  std::vector<std::string> raw_;  // the same, as bytes
  std::vector<DType> formats_;
  std::vector<Back> back_;
  std::size_t next_ = 0;
};

std::string Bytes(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

// The product of a right kernel.
std::vector<float> Product(const std::vector<std::vector<float>>& in, std::int64_t m,
                           std::int64_t n) {
  const auto rows = static_cast<std::size_t>(m), cols = static_cast<std::size_t>(n);
  const std::size_t k = in[0].size() / rows;
  std::vector<float> out(rows * cols);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < cols; ++j) {
      double sum = 0;
      for (std::size_t l = 0; l < k; ++l) sum += double{in[0][i * k + l]} * in[1][l * cols + j];
      out[i * cols + j] = static_cast<float>(sum);
    }
  }
  return out;
}

class ExternalTest : public ::testing::Test {
 protected:
  ExternalTest() : device_(MakeCpuDevice(0, {})) {
    GemmProblem p;
    p.m = 9;
    p.n = 7;
    p.k = 33;
    case_.problem = p;
    case_.dtype = DType::kF32;
    case_.provider = "external";
    case_.seed = 1;
    case_.elsewhere = &process_;
    process_.function = [this](const auto& in) {
      const auto& d = process_.dims;
      return std::vector<Process::Back>{{2, Bytes(Product(in, d[d.size() - 2], d[d.size() - 1]))}};
    };
  }

  CaseOutcome Run() {
    Registry registry;
    registry.Add(ExternalEntry(OpName(case_.problem), "cpu"));
    struct : PhaseObserver {
      void Enter(Phase) override {}
    } observer;
    return CaseRunner(*device_, registry, nullptr).Run(case_, observer);
  }

  Process process_;
  std::unique_ptr<Device> device_;
  Case case_;
};

TEST_F(ExternalTest, ARightFunctionPassesAndUnchangedInputsAreSentOnce) {
  case_.probes = false;
  const CaseOutcome outcome = Run();
  EXPECT_EQ(outcome.verdict, Verdict::kPassed);
  EXPECT_EQ(process_.kernels, 1);
  EXPECT_GT(process_.launches, 1);
  EXPECT_EQ(process_.pieces_sent, 2);  // A and B
  EXPECT_THAT(process_.poisons, ElementsAre(0x77777777, 0x7fa5a5a5, 0xf7f7f7f7));
}

TEST_F(ExternalTest, ProbesGoTheSameWay) {
  const CaseOutcome outcome = Run();
  EXPECT_EQ(outcome.verdict, Verdict::kPassed);
  EXPECT_GT(process_.kernels, 1);
  for (const ProbeOutcome& probe : outcome.probes) {
    EXPECT_NE(probe.verdict, Verdict::kFailed) << probe.name << ": " << probe.message;
  }
}

TEST_F(ExternalTest, PaddingIsLeftAlone) {
  GemmProblem p = std::get<GemmProblem>(case_.problem);
  p.lda = 40;
  p.ldc = 11;
  case_.problem = p;
  const CaseOutcome outcome = Run();
  EXPECT_EQ(outcome.verdict, Verdict::kPassed);
  EXPECT_EQ(outcome.guard_hits, 0);
}

TEST_F(ExternalTest, AnInputThatItChangedIsFoundAndSentAgain) {
  case_.probes = false;
  const auto right = process_.function;
  process_.function = [right](const auto& in) {
    std::vector<Process::Back> back = right(in);
    std::vector<float> changed = in[1];
    changed[3] += 1;
    back.push_back({1, Bytes(changed)});
    return back;
  };
  const CaseOutcome outcome = Run();
  EXPECT_EQ(outcome.verdict, Verdict::kFailed);
  ASSERT_THAT(outcome.findings, SizeIs(1));
  EXPECT_EQ(outcome.findings[0].reason, Reason::kGuard);
  EXPECT_EQ(outcome.findings[0].operand, "b");
}

TEST_F(ExternalTest, ALaunchThatFailsEndsTheCaseAsItSays) {
  struct {
    KernelError error;
    Verdict verdict;
    Reason reason;
    Blame blame;
  } const rows[] = {
      {KernelError::kRaised, Verdict::kError, Reason::kCrash, Blame::kKernel},
      {KernelError::kUnusable, Verdict::kError, Reason::kFault, Blame::kKernel},
      {KernelError::kProtocol, Verdict::kError, Reason::kFault, Blame::kCaller},
      {KernelError::kUnsupported, Verdict::kUnsupported, Reason::kUnsupported, Blame::kLibrary},
      {KernelError::kLost, Verdict::kError, Reason::kCancelled, Blame::kCaller},
      {KernelError::kNoTime, Verdict::kError, Reason::kTimeout, Blame::kHost},
      {KernelError::kNotStarted, Verdict::kError, Reason::kFault, Blame::kHost},
      {KernelError::kWroteOutside, Verdict::kFailed, Reason::kGuard, Blame::kKernel},
      {KernelError::kVaries, Verdict::kFailed, Reason::kNondeterministic, Blame::kKernel},
  };
  for (const auto& row : rows) {
    process_.end = FailedKernel({.error = row.error}, "what happened");
    const CaseOutcome outcome = Run();
    EXPECT_EQ(outcome.verdict, row.verdict);
    ASSERT_THAT(outcome.findings, SizeIs(1));
    EXPECT_EQ(outcome.findings[0].reason, row.reason);
    EXPECT_EQ(outcome.findings[0].blame, row.blame);
    EXPECT_EQ(outcome.findings[0].message, "what happened");
  }
}

TEST_F(ExternalTest, AProcessThatOthersKilledIsNoFaultOfTheKernel) {
  process_.end = FailedKernel({.cause = DeathCause::kKilled, .signal = SIGKILL}, "killed");
  const CaseOutcome outcome = Run();
  EXPECT_EQ(outcome.verdict, Verdict::kError);
  ASSERT_THAT(outcome.findings, SizeIs(1));
  EXPECT_EQ(outcome.findings[0].reason, Reason::kCrash);
  EXPECT_EQ(outcome.findings[0].blame, Blame::kHost);
}

TEST_F(ExternalTest, BytesThatAreNotTheTensorsAreRefused) {
  const std::string whole = Bytes(std::vector<float>(63));
  struct {
    std::vector<Process::Back> back;
    const char* message;
  } const rows[] = {
      {{}, "tensor 2 has 252 bytes, got 0"},
      {{{2, whole.substr(0, 100)}}, "tensor 2 has 252 bytes, got 100"},
      {{{2, whole}, {2, "x"}}, "tensor 2 has 252 bytes, got at least 253"},
      {{{2, whole}, {0, "abcd"}}, "tensor 0 has 1188 bytes, got 4"},
      {{{3, whole}}, "tensors 0 to 2, got bytes of 3"},
      {{{-1, whole}}, "tensors 0 to 2, got bytes of -1"},
  };
  for (const auto& row : rows) {
    process_.function = [&row](const auto&) { return row.back; };
    const CaseOutcome outcome = Run();
    EXPECT_EQ(outcome.verdict, Verdict::kError);
    ASSERT_THAT(outcome.findings, SizeIs(1));
    EXPECT_EQ(outcome.findings[0].blame, Blame::kCaller);
    EXPECT_THAT(outcome.findings[0].message, HasSubstr(row.message));
  }
}

TEST_F(ExternalTest, RowsOfFourBitsThatShareBytesAreUnsupported) {
  case_.dtype = DType::kE2M1;  // k is odd
  const CaseOutcome outcome = Run();
  EXPECT_EQ(outcome.verdict, Verdict::kUnsupported);
  ASSERT_THAT(outcome.findings, SizeIs(1));
  EXPECT_THAT(outcome.findings[0].message, HasSubstr("only if the innermost extent is even"));
  EXPECT_EQ(process_.kernels, 0);
}

// As matrix units do that keep 13 bits behind the point of the largest term.
TEST_F(ExternalTest, NarrowSumsOfEightBitFloatsAreDoubtedAndNothingWiderIs) {
  GemmProblem p = std::get<GemmProblem>(case_.problem);
  p.k = 200;
  case_.problem = p;
  case_.probes = false;
  case_.out_dtype = DType::kF32;
  for (const DType dtype : {DType::kE4M3FN, DType::kF32}) {
    case_.dtype = dtype;
    for (const double error : {0.0, 1e-4, 0.05}) {
      process_.wide = [error, dtype](const std::vector<std::vector<double>>& in) {
        std::vector<float> out(63);
        for (std::size_t i = 0; i < 9; ++i) {
          for (std::size_t j = 0; j < 7; ++j) {
            double sum = 0, magnitude = 0;
            for (std::size_t l = 0; l < 200; ++l) {
              sum += in[0][i * 200 + l] * in[1][l * 7 + j];
              magnitude += std::abs(in[0][i * 200 + l] * in[1][l * 7 + j]);
            }
            out[i * 7 + j] = static_cast<float>(sum + error * magnitude);
          }
        }
        return std::vector<Process::Back>{{2, Bytes(out)}};
      };
      const Verdict expected = error == 0                                ? Verdict::kPassed
                               : error < 1e-3 && dtype == DType::kE4M3FN ? Verdict::kInconclusive
                                                                         : Verdict::kFailed;
      EXPECT_EQ(Run().verdict, expected) << Name(dtype) << " " << error;
    }
  }
}

// As matrix units do that add eight products exactly, and cut the sum off.
TEST_F(ExternalTest, SumsOfNarrowInputsThatAreCutOffAreDoubtedAndNothingElseIs) {
  constexpr std::size_t kRows = 16, kTerms = 1024;
  GemmProblem p = std::get<GemmProblem>(case_.problem);
  p.m = p.n = kRows;
  p.k = kTerms;
  case_.problem = p;
  case_.probes = false;
  case_.out_dtype = DType::kF32;
  const auto run = [&](DType dtype, double gain) {
    case_.dtype = dtype;
    process_.wide = [gain](const std::vector<std::vector<double>>& in) {
      std::vector<float> out(kRows * kRows);
      for (std::size_t at = 0; at < out.size(); ++at) {
        float total = 0;
        for (std::size_t l = 0; l < kTerms; l += 8) {
          double sum = double{total};
          for (std::size_t i = l; i < l + 8; ++i) {
            sum += in[0][at / kRows * kTerms + i] * in[1][i * kRows + at % kRows];
          }
          total = static_cast<float>(sum);
          if (std::abs(double{total}) > std::abs(sum)) total = std::nextafter(total, 0.0F);
        }
        out[at] = static_cast<float>(double{total} * (1 + gain));
      }
      return std::vector<Process::Back>{{2, Bytes(out)}};
    };
    return Run();
  };
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kTF32}) {
    case_.cuts_off_sums = true;
    const CaseOutcome declared = run(dtype, 0);
    EXPECT_EQ(declared.verdict, Verdict::kPassed) << Name(dtype);
    EXPECT_THAT(declared.implementation, HasSubstr("cuts sums off at a relative 2^-23"));
    EXPECT_EQ(run(dtype, 1e-3).verdict, Verdict::kFailed) << Name(dtype);
    case_.cuts_off_sums = false;
    const CaseOutcome doubted = run(dtype, 0);
    EXPECT_EQ(doubted.verdict, Verdict::kInconclusive) << Name(dtype);
    ASSERT_FALSE(doubted.findings.empty());
    EXPECT_EQ(doubted.findings[0].reason, Reason::kSuspect);
    EXPECT_THAT(doubted.findings[0].message, HasSubstr("cut off, not rounded, explain it"));
    EXPECT_THAT(doubted.findings[0].message, HasSubstr("declare it: cuts_off_sums"));
    ASSERT_TRUE(doubted.precision.has_value());
    EXPECT_GT(doubted.precision->rms, 1.5) << "as its arithmetic is declared";
    EXPECT_EQ(doubted.plan->accumulator.truncation.roundoff, 0);
    EXPECT_EQ(run(dtype, 1e-3).verdict, Verdict::kFailed) << Name(dtype);
  }
  EXPECT_EQ(run(DType::kF32, 0).verdict, Verdict::kFailed) << "plain arithmetic rounds";
  // Beyond the usual bound, too.
  case_.pattern = "uniform:0:1";
  EXPECT_EQ(run(DType::kF16, -3e-5).verdict, Verdict::kInconclusive);
  EXPECT_EQ(run(DType::kF16, -3e-4).verdict, Verdict::kFailed);
}

// Within the bound, and beyond what cutting off at fp32's digits loses.
TEST_F(ExternalTest, ErrorsOfAllSumsOfEightBitFloatsMayBeThoseOfFourteenBits) {
  constexpr std::size_t kRows = 16, kTerms = 1024;
  GemmProblem p = std::get<GemmProblem>(case_.problem);
  p.m = p.n = kRows;
  p.k = kTerms;
  case_.problem = p;
  case_.probes = false;
  case_.out_dtype = DType::kF32;
  process_.wide = [](const std::vector<std::vector<double>>& in) {
    std::vector<float> out(kRows * kRows);
    for (std::size_t at = 0; at < out.size(); ++at) {
      double sum = at % 2 == 0 ? 4e-3 : -4e-3;
      for (std::size_t l = 0; l < kTerms; ++l) {
        sum += in[0][at / kRows * kTerms + l] * in[1][l * kRows + at % kRows];
      }
      out[at] = static_cast<float>(sum);
    }
    return std::vector<Process::Back>{{2, Bytes(out)}};
  };
  case_.dtype = DType::kE4M3FN;
  const CaseOutcome doubted = Run();
  EXPECT_EQ(doubted.verdict, Verdict::kInconclusive);
  ASSERT_FALSE(doubted.findings.empty());
  EXPECT_THAT(doubted.findings[0].message, HasSubstr("cut off, not rounded, explain it"));
  EXPECT_THAT(doubted.findings[0].message, ::testing::Not(HasSubstr("declare it")));
  case_.dtype = DType::kF16;
  EXPECT_EQ(Run().verdict, Verdict::kFailed) << "no hardware sums these so";
}

TEST_F(ExternalTest, WithoutAWayItIsUnsupported) {
  case_.elsewhere = nullptr;
  EXPECT_EQ(Run().verdict, Verdict::kUnsupported);
}

// An operator of the caller's own, of which the caller computes the reference, too.
class ExternalReferenceTest : public ExternalTest {
 protected:
  ExternalReferenceTest() {
    CustomProblem p;
    p.input = {"x=5x9"};
    p.out = {"y=5x9"};
    case_.problem = p;
    case_.reference = "external";
    case_.accumulations = 1;
    case_.own_reference = &reference_;
    process_.function = [](const auto& in) {
      std::vector<float> out = in[0];
      for (float& v : out) v *= 2;
      return std::vector<Process::Back>{{1, Bytes(out)}};
    };
    process_.reference = [this](const auto& in) {
      std::vector<double> out(in[0].begin(), in[0].end());
      for (double& v : out) v *= 2;
      whole_ = {reinterpret_cast<const char*>(out.data()), out.size() * sizeof(double)};
      return std::vector<Process::Back>{{2, whole_}};
    };
  }

  ExternalReference reference_{process_, *device_};
  std::string whole_;  // the bytes of the right reference
};

TEST_F(ExternalReferenceTest, ItRunsTwiceOnTheInputsThatTheCallerHasAlready) {
  EXPECT_EQ(Run().verdict, Verdict::kPassed);
  EXPECT_EQ(process_.references, 2);
  EXPECT_EQ(process_.pieces_sent, 1);
  process_.function = [](const auto& in) { return std::vector<Process::Back>{{1, Bytes(in[0])}}; };
  EXPECT_EQ(Run().verdict, Verdict::kFailed);
}

TEST_F(ExternalReferenceTest, WhatIsNoResultIsTheCallersError) {
  const auto right = process_.reference;
  const auto change = [this, &right](const std::function<void(std::vector<Process::Back>&)>& how) {
    process_.reference = [&right, how](const auto& in) {
      std::vector<Process::Back> back = right(in);
      how(back);
      return back;
    };
    return Run();
  };
  struct {
    std::function<void(std::vector<Process::Back>&)> how;
    const char* message;
  } const rows[] = {
      {[](auto& back) { back.clear(); }, "has 360 bytes of FP64, got 0 of its result"},
      {[](auto& back) { back[0].bytes.resize(8); }, "got 8 of its result and 0 of the magnitudes"},
      {[](auto& back) {
         back.push_back({3, "12345678"});
       },
       "and 8 of the magnitudes"},
      {[](auto& back) {
         back.push_back({2, "x"});
       },
       "360 bytes of FP64 in tensor 2, got more"},
      {[](auto& back) { back[0].tensor = 1; }, "has tensor 2 for its result"},
      {[](auto& back) { back[0].tensor = -2; }, "got bytes of -2"},
  };
  for (const auto& row : rows) {
    const CaseOutcome outcome = change(row.how);
    EXPECT_EQ(outcome.verdict, Verdict::kError);
    ASSERT_THAT(outcome.findings, SizeIs(1));
    EXPECT_EQ(outcome.findings[0].blame, Blame::kCaller);
    EXPECT_THAT(outcome.findings[0].message, HasSubstr(row.message));
  }
}

TEST_F(ExternalReferenceTest, AReferenceThatVariesIsTheCallersError) {
  const auto right = process_.reference;
  process_.reference = [this, &right](const auto& in) {
    std::vector<Process::Back> back = right(in);
    if (process_.references > 1) back[0].bytes[20] ^= 1;
    return back;
  };
  const CaseOutcome outcome = Run();
  EXPECT_EQ(outcome.verdict, Verdict::kError);
  ASSERT_THAT(outcome.findings, SizeIs(1));
  EXPECT_EQ(outcome.findings[0].reason, Reason::kNondeterministic);
  EXPECT_EQ(outcome.findings[0].blame, Blame::kCaller);
}

TEST_F(ExternalReferenceTest, ItNeverMakesAKernelFail) {
  process_.reference = [this](const auto&) {
    process_.end = FailedKernel({.error = KernelError::kWroteOutside}, "wrote outside");
    return std::vector<Process::Back>{};
  };
  const CaseOutcome outcome = Run();
  EXPECT_EQ(outcome.verdict, Verdict::kError);
  ASSERT_THAT(outcome.findings, SizeIs(1));
  EXPECT_EQ(outcome.findings[0].blame, Blame::kCaller);
}

}  // namespace
}  // namespace assay
