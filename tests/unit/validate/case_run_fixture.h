// A case that a test runs on a CPU whose clock, launches and damage it says itself, and a kernel
// that says of itself what the test says.
#ifndef ASSAY_TESTS_UNIT_VALIDATE_CASE_RUN_FIXTURE_H_
#define ASSAY_TESTS_UNIT_VALIDATE_CASE_RUN_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "kernels/text/cat.h"
#include "kernels/validate/case_run.h"
#include "tests/unit/judge/distorted.h"
#include "tests/unit/judge/forwarding_device.h"

namespace assay::testing {

// The CPU, of which every launch takes as long as the test says, and which a test can break.
class OwnDevice : public testing::ForwardingDevice {
 public:
  double seconds = 1;                     // of a launch
  int digests = 0, compares = 0;          // so far
  int lost_digest = 0, lost_compare = 0;  // the one that fails, from 1 on; 0: none
  std::function<TensorDigest(TensorDigest)> as_digest = [](TensorDigest d) { return d; };

  absl::StatusOr<double> TimeLaunch(absl::FunctionRef<absl::Status()> launch) override {
    absl::Status status = launch();
    if (!status.ok()) return status;
    return seconds;
  }
  absl::StatusOr<TensorDigest> Digest(const TensorView& t) override {
    if (++digests == lost_digest) return absl::DataLossError("no digest");
    absl::StatusOr<TensorDigest> digest = cpu_->Digest(t);
    if (digest.ok()) *digest = as_digest(*digest);
    return digest;
  }
  absl::StatusOr<CompareResult> Compare(const CompareRequest& request) override {
    if (++compares == lost_compare) return absl::DataLossError("no comparison");
    reference = const_cast<double*>(request.reference);
    absl::StatusOr<CompareResult> result = cpu_->Compare(request);
    if (result.ok()) {
      TensorDigest digest;
      std::ranges::copy(result->digest_raw, digest.raw);
      std::ranges::copy(as_digest(digest).raw, result->digest_raw);
    }
    return result;
  }
  absl::Status Synchronize() override {
    return lost ? absl::DataLossError("lost") : cpu_->Synchronize();
  }
  bool lost = false;
  double* reference = nullptr;  // of the last comparison

  absl::StatusOr<ChecksumSums> Checksum(const ChecksumRequest& request) override {
    return cpu_->Checksum(request);
  }
  absl::Status FromHost(const void* src, std::int64_t bytes, void* dst) override {
    return cpu_->FromHost(src, bytes, dst);
  }
  bool shares_launches() const override { return shares; }
  bool shares = false;

  absl::StatusOr<std::unique_ptr<OutputWatch>> WatchOutputs(
      const TensorView& output, const std::optional<TensorDigest>& known) override {
    if (!watched) return cpu_->WatchOutputs(output, known);
    class Watch : public OutputWatch {
     public:
      explicit Watch(WatchFindings findings) : findings_(std::move(findings)) {}
      absl::Status Look(const TensorView&) override { return absl::OkStatus(); }
      absl::StatusOr<WatchFindings> Findings() override { return findings_; }

     private:
      const WatchFindings findings_;
    };
    return std::make_unique<Watch>(*watched);
  }
  std::optional<WatchFindings> watched;  // what a watch of timed outputs finds; else the CPU's

  double Now() override { return step > 0 ? now_ += step : cpu_->Now(); }
  double step = 0;  // [s] between two readings of the clock; 0: the CPU's clock

 private:
  double now_ = 0;
};

// What a kernel says of itself, and what its launches do.
struct Said {
  bool trusted = true;
  bool reaches_device_memory = false;
  std::string implementation = {};
  std::vector<std::string> libraries = {};
  Accumulator accumulator = {};
  double operand_roundoff = 0;
  std::function<absl::Status(int)> make = [](int) { return absl::OkStatus(); };    // the n-th's end
  std::function<absl::Status(int)> launch = [](int) { return absl::OkStatus(); };  // the n-th's end
  std::function<void(float*, int)> spoil = [](float*, int) {};  // what the n-th launch copied
  bool leaves = false;                                          // one element of a copy unwritten
  bool changes = false;                                         // one of its input
  bool flushes = false;
  bool copies = false;  // what is no copy, too
};

// A kernel that was made.
struct Made {
  std::size_t blocks = 0;  // that the arena had in use
  double slowest_launch = 0;
};

inline Said g_said;
inline std::vector<Made> g_made;
inline int g_launches = 0;

class SayingKernel : public testing::DistortedKernel {
 public:
  SayingKernel(const Case& c, const Plan& plan)
      : DistortedKernel(c, plan),
        copies_(g_said.copies || std::holds_alternative<CopyProblem>(c.problem)) {}
  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    if (absl::Status end = g_said.launch(++g_launches); !end.ok()) return end;
    if (!copies_) {
      const std::int32_t left = output.as<std::int32_t>()[0];
      absl::Status status = DistortedKernel::Launch(inputs, output);
      if (g_said.leaves) output.as<std::int32_t>()[0] = left;
      return status;
    }
    std::memcpy(output.data, inputs[0].data, static_cast<std::size_t>(output.bytes()));
    g_said.spoil(output.as<float>(), g_launches);
    if (g_said.changes) inputs[0].as<float>()[1] += 1;
    return absl::OkStatus();
  }
  bool trusted() const override { return g_said.trusted; }
  bool flushes_subnormals() const override { return g_said.flushes; }
  bool reaches_device_memory() const override { return g_said.reaches_device_memory; }
  std::string implementation() const override { return g_said.implementation; }
  std::vector<std::string> loaded_libraries() const override { return g_said.libraries; }
  Accumulator accumulator() const override { return g_said.accumulator; }
  double operand_roundoff() const override { return g_said.operand_roundoff; }

 private:
  const bool copies_;
};

class CaseRunTest : public ::testing::Test {
 protected:
  CaseRunTest() {
    g_said = {};
    g_made.clear();
    g_launches = 0;
    testing::TheDistortion() = [](std::vector<double>&, const Plan&) {};
  }

  Case Gemm(DType dtype = DType::kF32) {
    Case c = GemmCase(dtype, 8, 8, 8);
    c.provider = "saying";
    c.probes = false;
    c.seed = 7;
    return c;
  }

  const Registry& Kernels(const Case& c) {
    registry_ = {};
    registry_.Add({.op = OpName(c.problem),
                   .provider = "saying",
                   .backend = "cpu",
                   .dtypes = dtypes_.empty() ? std::vector<DType>{c.dtype} : dtypes_,
                   .make = [](const Case& made, const Plan& plan,
                              Device& device) -> absl::StatusOr<std::unique_ptr<Kernel>> {
                     g_made.push_back({device.arena().blocks().size(), made.slowest_launch});
                     const auto n = static_cast<int>(g_made.size());
                     if (absl::Status end = g_said.make(n); !end.ok()) return end;
                     return std::make_unique<SayingKernel>(made, plan);
                   },
                   .version = {},
                   .unavailable_reason = unavailable_});
    return registry_;
  }

  CaseOutcome Run(const Case& c, Ceilings* ceilings = nullptr, ConditionsReader* probe = nullptr) {
    g_launches = 0;
    return CaseRunner(device_, Kernels(c), ceilings, probe).Run(c, observer_);
  }

  bool MayShare(const Case& c) {
    CaseRun run(c, device_, Kernels(c), nullptr, nullptr, nullptr, observer_);
    EXPECT_TRUE(run.Begin());
    return run.MayShare();
  }

  OwnDevice device_;
  Registry registry_;
  std::vector<DType> dtypes_;  // that the kernel takes; empty: the case's
  std::string unavailable_;
  PhaseObserver observer_;
};

inline std::string First(const CaseOutcome& outcome) {
  if (outcome.findings.empty()) return "";
  return Cat(ReasonWord(outcome.findings[0].reason), ": ", outcome.findings[0].message);
}

inline Case CopyOf(std::int64_t count) {
  Case c;
  c.problem = CopyProblem{.count = count};
  c.dtype = DType::kF32;
  c.provider = "saying";
  c.probes = false;
  c.seed = 7;
  return c;
}

}  // namespace assay::testing

#endif  // ASSAY_TESTS_UNIT_VALIDATE_CASE_RUN_FIXTURE_H_
